/** The kind of cases about the ledger's rules: scripts of steps. */

import { decodeReport, digestOf, parse } from "../src/codec/index.js";
import { Device } from "../src/device/core.js";
import { Examiner } from "../src/device/examination.js";
import { Policy } from "../src/device/policy.js";
import { fromHex, toHex } from "../src/integers.js";
import type { Ledger } from "../src/ledger/contract.js";
import { LedgerFile, type LedgerStorage } from "../src/ledger/ledger_file.js";
import { Reason, Refusal } from "../src/messages.js";
import { SignedStudySchema } from "../src/protos/askance_protos/v1/study_pb.js";
import type { Coins, Words } from "../src/randomizers/index.js";
import { bytesIn, schemaIn, type Json } from "./adapter.js";
import { answer } from "./answering.js";

/** A ledger's place on a platform, new for each script. */
export interface Place {
  /** Open the storage; the first time makes it. */
  open(): Promise<LedgerStorage>;
  remove(): Promise<void>;
}

/** Answer a script, with its ledger in a new place. */
export async function answerScript(given: Json, place: Place): Promise<Json> {
  try {
    return await new Script(given, place).run();
  } finally {
    await place.remove();
  }
}

/** Words of a script's step, by the request's digest. */
class GivenCoins implements Coins {
  given = new Map<string, Words>();

  words(request: Uint8Array, count: number): Words {
    const words = this.given.get(toHex(request));
    if (words?.length !== count) {
      throw new Error(`coins: expected ${count} words, got ${words?.length}`);
    }
    return words;
  }
}

/** A device with a stored ledger, led through the steps of a case. */
class Script {
  readonly #coins = new GivenCoins();
  #nowS = 0;
  #file!: LedgerFile;
  #ledger!: Ledger;
  #device!: Device;

  constructor(
    private readonly given: Json,
    private readonly place: Place,
  ) {}

  /** The answers to all steps. */
  async run(): Promise<Json> {
    await this.#start();
    const steps: Json[] = [];
    for (const step of this.given.steps) {
      steps.push(await this.#step(step));
    }
    await this.#file.close();
    return { steps };
  }

  async #start(): Promise<void> {
    const { policy } = this.given;
    const [day, study] = [policy.day, policy.study].map((limit) => limit && BigInt(limit));
    this.#file = await LedgerFile.open(await this.place.open());
    this.#ledger = this.#file.ledger("", "");
    this.#device = new Device({
      schema: schemaIn(this.given),
      policy: new Policy({
        analysts: policy.analysts,
        lifeNanoNats: BigInt(policy.life),
        dayNanoNats: day,
        studyNanoNats: study,
        fields: policy.fields,
      }),
      ledger: this.#ledger,
      nowS: () => this.#nowS,
      examiner: new Examiner(),
    });
  }

  async #step(step: Json): Promise<Json> {
    switch (step.do) {
      case "introduce": {
        const refusal = await this.#device.introduce(parse(SignedStudySchema, bytesIn(step, "study")));
        return { refused: refusal === null ? "" : Reason[refusal.reason] };
      }
      case "ask":
        return this.#ask(step);
      case "restart":
        await this.#file.close();
        await this.#start();
        return {};
      case "sequence":
        return { sequence: this.#ledger.sequence };
      default:
        throw new Error(`step: expected a known one, got ${step.do}`);
    }
  }

  async #ask(step: Json): Promise<Json> {
    this.#nowS = Number(step.at_s);
    const payloads: Uint8Array[] = step.requests.map(fromHex);
    const digests = (await Promise.all(payloads.map(digestOf))).map(toHex);
    this.#coins.given.clear();
    digests.forEach((digest, at) => {
      if (!this.#coins.given.has(digest)) {
        this.#coins.given.set(digest, BigUint64Array.from(step.coins[at].map(BigInt)));
      }
    });
    const before = new Set(digests.filter((digest) => this.#ledger.stored(digest) !== null));
    const reports = new Map<string, Uint8Array>();
    const record = () => schemaIn(this.given).encode(this.given.record);
    for (let left: readonly Uint8Array[] = payloads; left.length; ) {
      const turn = await this.#device.begin(left);
      const asked = turn.due.map((due) => due.asked);
      const worked = await answer(record, this.#coins, asked);
      for (const [digest, report] of await turn.finish(worked)) {
        reports.set(digest, report);
      }
      left = turn.left;
    }
    return { reports: digests.map((digest) => outcome(reports.get(digest), before.has(digest))) };
  }
}

/** The word and the bytes of a report. */
function outcome(data: Uint8Array | undefined, resent: boolean): [string, string | null] {
  if (data === undefined) {
    return ["silent", null];
  }
  const report = decodeReport(data);
  if (report.outcome instanceof Refusal) {
    return [Reason[report.outcome.reason]!, toHex(data)];
  }
  return [resent ? "resent" : report.sequence ? "charged" : "reused", toHex(data)];
}
