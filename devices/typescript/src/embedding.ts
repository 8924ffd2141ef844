/** A device within an application, in a page or in Node: its parts put together. */

import { Device } from "./device/core.js";
import { Examiner } from "./device/examination.js";
import { Policy, type PolicyChoices } from "./device/policy.js";
import type { RawRecord } from "./device/record_work.js";
import { expect } from "./errors.js";
import { toHex } from "./integers.js";
import { LedgerFile, type LedgerStorage } from "./ledger/ledger_file.js";
import type { Posting } from "./ledger/postings.js";
import { Consents, type ConsentRule, type ConsentStorage } from "./owner/consents.js";
import type { Schema } from "./queries/index.js";
import { SystemCoins } from "./randomizers/index.js";
import type { Aggregator } from "./service/connect.js";
import { Enrolment } from "./service/enrolment.js";
import { type StartThread, TimedEvaluation } from "./service/evaluation.js";
import type { Identity, Secret } from "./service/identity.js";
import { LEAST_WAIT_MS, ordered, systemClock, systemJitter } from "./service/observable.js";
import { DeviceRunner, type RunnerChoices } from "./service/runtime.js";

const ENROLLED = "enrolled";
const EXAMINED = 64; // payloads that are remembered
const RELEASE_MS = 1000;

/** The parts of a device. The platform gives storage, secret and threads. */
export interface ClientParts {
  readonly storage: LedgerStorage;
  readonly consentStorage: ConsentStorage;
  readonly secret: Secret;
  readonly startThread: StartThread;
  /** Starts the thread that evaluates, where it reads records itself; else `setRecord` gives them. */
  readonly startReading?: StartThread;
  readonly aggregator: Aggregator;
  readonly schema: Schema;
  readonly policy: Omit<PolicyChoices, "consent">;
  readonly consent: ConsentRule;
  /** Members of a folder, by the column that names them; null: one device. */
  readonly members?: { readonly key: string; readonly names: readonly string[] } | null;
  readonly choices?: RunnerChoices;
  readonly nowS?: () => number;
}

interface Member {
  readonly name: string;
  readonly identity: Identity;
  readonly deviceId: string;
  readonly runner: DeviceRunner;
}

/** A device, or the members of a folder that share its ledger file, secret and owner. */
export class DeviceClient {
  readonly #members: readonly Member[];
  readonly #enrolment: Enrolment;
  readonly #parts: ClientParts;

  private constructor(
    parts: ClientParts,
    private readonly file: LedgerFile,
    private readonly evaluation: TimedEvaluation,
    private readonly nowS: () => number,
    /** The owner's decisions. */
    readonly consents: Consents,
    members: readonly Member[],
  ) {
    this.#parts = parts;
    this.#members = ordered(members);
    const identities = this.#members.map(({ identity }) => identity);
    this.#enrolment = new Enrolment(parts.aggregator, identities, {
      read: () => file.fact(ENROLLED),
      write: (text) => file.record(ENROLLED, text),
    });
  }

  /**
   * Open a device: check its ledger, and start the threads that work on records.
   *
   * @throws StoreError: the ledger cannot be trusted; the storage is closed.
   */
  static async open(parts: ClientParts): Promise<DeviceClient> {
    try {
      return await DeviceClient.#open(parts);
    } catch (error) {
      await parts.storage.close();
      throw error;
    }
  }

  static async #open(parts: ClientParts): Promise<DeviceClient> {
    const { storage, secret, schema, members = null } = parts;
    const file = await LedgerFile.open(storage);
    await file.bind({
      schema: toHex(await schema.digest()),
      // Members who are named in another way would have ledgers without a charge.
      members: members === null ? "one" : `key ${members.key}`,
    });
    const consents = await Consents.open(parts.consentStorage, parts.consent);
    const policy = new Policy({ ...parts.policy, consent: consents.consent });
    const releaseMs = parts.choices?.releaseMs ?? RELEASE_MS;
    const clock = parts.choices?.clock ?? systemClock;
    const nowS = parts.nowS ?? (() => Math.floor(Date.now() / 1000));
    const identities = await Promise.all(
      (members?.names ?? [""]).map(async (name) => {
        const identity = await (members === null ? secret.device() : secret.member(name));
        return { name, identity, ledger: file.ledger(name, identity.deviceId) };
      }),
    );
    // Last: threads would keep a process alive whose device was not opened.
    const evaluation = new TimedEvaluation(parts.startThread, releaseMs, clock, parts.startReading);
    const examiner = new Examiner(EXAMINED);
    const made = identities.map(({ name, identity, ledger }) => {
      const { deviceId } = identity;
      const device = new Device({ schema, policy, ledger, nowS, examiner });
      const own = evaluation.of(name, new SystemCoins());
      const runner = new DeviceRunner(device, identity, parts.aggregator, own, parts.choices);
      return { name, identity, deviceId, runner };
    });
    return new DeviceClient(parts, file, evaluation, nowS, consents, made);
  }

  /** The device's id, in hexadecimal digits; of a folder its members' ids, in order. */
  get deviceIds(): readonly string[] {
    return this.#members.map(({ deviceId }) => deviceId);
  }

  /** All rows of the ledger, oldest first. */
  get history(): readonly Posting[] {
    return this.file.postings;
  }

  /** Give a member's record to the thread that evaluates; until then the defaults are answered. */
  setRecord(record: RawRecord, name = ""): void {
    const isMember = this.#members.some((one) => one.name === name);
    expect(isMember, "record: expected one of a member of this folder");
    this.evaluation.setRecord(name, record);
  }

  /** True if the aggregator was told of this device. */
  async isEnrolled(): Promise<boolean> {
    return this.#enrolment.isRemembered();
  }

  /** Enrol with the operator's token; again is no harm. */
  async enrol(token: string): Promise<void> {
    await this.#enrolment.enrol(token);
  }

  /** Check in once, all members in turn. */
  async checkInOnce(): Promise<void> {
    for (const { runner } of this.#members) {
      await runner.checkInOnce();
    }
  }

  /** Check in until the signal ends it; members begin at random times. */
  async run(signal: AbortSignal): Promise<void> {
    const { jitter = systemJitter, leastWaitMs = LEAST_WAIT_MS } = this.#parts.choices ?? {};
    const spreadMs = this.#members.length > 1 ? leastWaitMs : 0;
    await Promise.all(
      this.#members.map(({ runner }) => runner.keepCheckingIn(signal, jitter(spreadMs))),
    );
  }

  /**
   * Go on after the ledger was put back to an earlier state: charge what is left of the life
   * budget of every member, and skip the numbers that an aggregator may have.
   */
  async acceptLoss(): Promise<void> {
    for (const { name, deviceId } of this.#members) {
      await this.file.acceptLoss(name, deviceId, this.nowS(), this.#parts.policy.lifeNanoNats);
    }
  }

  /** Go on with a clock that was ahead when something was charged, for the members concerned. */
  async repairClock(): Promise<void> {
    for (const { name, deviceId } of this.#members) {
      await this.file.repairClock(name, deviceId, this.nowS());
    }
  }

  /** End the threads, and let the next process or tab have the ledger. */
  async close(): Promise<void> {
    this.evaluation.close();
    await this.file.close();
  }
}
