/** Making devices known to their aggregator, once. */

import { encode, parse } from "../codec/index.js";
import { RemoteProtocolError, expect } from "../errors.js";
import { sha256 } from "../queries/index.js";
import { fromHex, toHex } from "../integers.js";
import { EnrolRequestSchema, EnrolResponseSchema } from "../protos/askance_protos/v1/exchange_pb.js";
import { type Aggregator, enrolmentCredentials } from "./connect.js";
import { type Identity, enrolmentOf } from "./identity.js";
import { ordered } from "./observable.js";

const MAX_ENROLMENTS = 512; // devices in one message: a body has at most 64 KiB
const TOKEN = /^[\x21-\x7e]{1,1024}$/;

/** A place for one text that says which devices are enrolled. */
export interface Remembered {
  read(): string | null;
  write(text: string): Promise<void>;
}

/**
 * Enrolment of a storage's devices, remembered beside their ledger.
 *
 * Asked for by the owner alone, with the operator's token: a storage that was emptied is a new
 * device, and whether it gets a second budget is decided by the site that gives out tokens. A device
 * that its aggregator does not know never enrols by itself.
 */
export class Enrolment {
  constructor(
    private readonly aggregator: Aggregator,
    private readonly identities: readonly Identity[],
    private readonly remembered: Remembered,
  ) {}

  /** True if these devices were enrolled. */
  async isRemembered(): Promise<boolean> {
    return this.remembered.read() === (await this.#digest());
  }

  /**
   * Enrol the devices, a message's worth at a time, and remember it. Again is no harm.
   *
   * @throws InvalidParameter: no token that an aggregator makes.
   * @throws CallFailed: refused or not reached; those of messages before it are enrolled.
   */
  async enrol(token: string): Promise<void> {
    expect(TOKEN.test(token.trim()), "enrolment token: expected one line of ASCII characters");
    const credentials = enrolmentCredentials(token.trim());
    const devices = ordered(this.identities);
    for (let start = 0; start < devices.length; start += MAX_ENROLMENTS) {
      const batch = await Promise.all(devices.slice(start, start + MAX_ENROLMENTS).map(enrolmentOf));
      const answer = await this.aggregator.call("Enrol", encode(EnrolRequestSchema, { devices: batch }), credentials);
      const { enrolled, known } = parse(EnrolResponseSchema, answer);
      if (enrolled + known !== BigInt(batch.length)) {
        throw new RemoteProtocolError(
          `enrolment: expected ${batch.length} devices to be known, found ${enrolled + known}`,
        );
      }
    }
    await this.remembered.write(await this.#digest());
  }

  async #digest(): Promise<string> {
    const ids = ordered(this.identities).map(({ deviceId }) => fromHex(deviceId));
    return toHex(await sha256(...ids));
  }
}
