/**
 * Core of a device: requests in, reports out, and no byte that was not charged.
 *
 * Theory of operation. A device is a state machine; the ledger is its only durable state. The
 * requests of one message pass three steps, in a `Turn`, alone on the device:
 *
 *     settled      `begin`: requests, ledger, policy and clock decide on each request: a refusal,
 *                  the stored report, a repetition within the message (charged once), or an answer
 *                  that is due. Neither the record nor coins are known to this module.
 *     worked       by the caller, within times that follow from the requests: of `Turn.asked` the
 *                  record is evaluated, and symbols are drawn (`record_work`).
 *     committed    `Turn.finish`, given the symbols: the owner's consent is asked again, each
 *                  charge is committed together with its report, and only then are reports returned.
 *
 * From each step a turn may be closed: the device is as before it, and the same requests decide the
 * same again. The device is held from `begin` to `finish` or `close`, so that what was decided stays
 * true until it is committed; the ledger checks its limits once more, and its answer is final.
 *
 * Besides the ledger a device keeps what may be lost: accepted studies, the count of refusals,
 * studies for which there is no room, and the class of weights of which a draw was missed this hour.
 */

import { decodeReport, encodeReport } from "../codec/index.js";
import { fromHex, toHex } from "../integers.js";
import type { Ledger } from "../ledger/contract.js";
import { Reason, Refusal, type SignedStudy } from "../messages.js";
import type { Schema } from "../queries/index.js";
import type { ExaminedStudy, Examiner } from "./examination.js";
import type { Policy } from "./policy.js";
import {
  MAX_WEIGHT,
  RefusalCounts,
  SECONDS_PER_HOUR,
  Settling,
  objectionOfOwner,
  over,
  uncharged,
  type Due,
  type Settlement,
} from "./settling.js";

const MAX_STUDIES = 256; // known at a time; an analyst could sign studies without end
const LIGHT = 1 << 12; // weight: a draw of less is late for no cost of its own

/** Finished symbols, by their requests' digests, and the least weight of a draw that was missed. */
export interface Worked {
  readonly symbols: ReadonlyMap<string, Uint8Array>;
  readonly missed: number; // 0: none
}

/** The parts of a device; `nowS` is the time in whole seconds since 1970, UTC. */
export interface DeviceParts {
  readonly schema: Schema;
  readonly policy: Policy;
  readonly ledger: Ledger;
  readonly nowS: () => number;
  readonly examiner: Examiner;
}

/**
 * Device of one user.
 *
 * Privacy: pure eps-LDP towards every reader of its reports, replace-one in the record, with eps
 * the sum of the charges in its ledger and at most the policy's lifetime budget. Charges, refusals,
 * and the fact that the record is read and coins are drawn, are functions of the history of
 * requests.
 */
export class Device {
  readonly #parts: DeviceParts;
  readonly #studies = new Map<string, ExaminedStudy>();
  readonly #full = new Set<string>();
  readonly #refusals = new RefusalCounts();
  #heavy = { hour: 0, weight: MAX_WEIGHT + 1 }; // the weight that is refused in an hour
  #last: Promise<void> = Promise.resolve();

  constructor(parts: DeviceParts) {
    this.#parts = parts;
  }

  /** The device's own account. */
  get ledger(): Ledger {
    return this.#parts.ledger;
  }

  /** The digests of the studies that this device has accepted. */
  get knownStudies(): readonly string[] {
    return [...this.#studies.keys()];
  }

  /** Meet a study; a refusal says why none of its requests will be answered. */
  async introduce(signed: SignedStudy): Promise<Refusal | null> {
    // First, because it is cheap: an untrusted study is not worth a look.
    if (!this.#parts.policy.analysts.has(toHex(signed.publicKey))) {
      const message = "expected a study signed by a pinned analyst key";
      return new Refusal(Reason.UNTRUSTED_KEY, message);
    }
    const study = await this.#parts.examiner.study(signed);
    if (study instanceof Refusal) {
      return study;
    }
    const [own, its] = [await this.#parts.schema.digest(), await study.terms.schema.digest()];
    if (toHex(own) !== toHex(its)) {
      return new Refusal(Reason.SCHEMA_MISMATCH, `expected the schema "${this.#parts.schema.name}"`);
    }
    let known = this.#studies.get(study.digest) ?? study;
    const keys = [known, ...known.copies].map(({ publicKey }) => publicKey);
    if (!keys.includes(study.publicKey)) {
      known = { ...known, copies: [...known.copies, study] };
    }
    this.#studies.set(study.digest, known);
    while (this.#studies.size > MAX_STUDIES) {
      const oldest = this.knownStudies[0]!; // its aggregator may send it again
      this.#studies.delete(oldest);
      this.#full.delete(oldest);
    }
    return null;
  }

  /**
   * Settle the requests of one message, without the record, and hold the device for them.
   *
   * An equal payload is answered once. Those whose weights do not fit one turn are left for the
   * next (`Turn.left`).
   *
   * @throws StoreError: the ledger cannot be read; nothing was settled.
   */
  async begin(payloads: readonly Uint8Array[]): Promise<Turn> {
    const before = this.#last;
    let release!: () => void;
    this.#last = new Promise((resolve) => (release = resolve));
    await before;
    try {
      return await this.#settled(payloads, release);
    } catch (error) {
      release();
      throw error;
    }
  }

  async #settled(payloads: readonly Uint8Array[], release: () => void): Promise<Turn> {
    const nowS = this.#parts.nowS();
    const { hour, weight } = this.#heavy;
    const most = hour === Math.floor(nowS / SECONDS_PER_HOUR) ? weight - 1 : MAX_WEIGHT;
    const { ledger, policy, examiner } = this.#parts;
    const settling = new Settling(ledger, policy, examiner, this.#studies, this.#full, nowS, most);
    const settled = new Map<string, Settlement>();
    const refusals: Refusal[] = [];
    const left: Uint8Array[] = [];
    const seen = new Set<string>();
    for (const payload of payloads) {
      const known = await examiner.known(payload);
      if (seen.has(known.digest)) {
        continue;
      }
      seen.add(known.digest);
      const { study, settlement } = await settling.settle(payload, known);
      if (settlement === null) {
        left.push(payload);
        continue;
      }
      if (settlement.kind === "refused") {
        refusals.push(settlement.refusal);
        const waits = settlement.refusal.reason === Reason.WAITING;
        if (waits || !this.#refusals.admit(study, nowS)) {
          continue;
        }
      }
      settled.set(known.digest, settlement);
    }
    return new Turn(settled, refusals, left, {
      objection: ({ study, payload, atS }) => objectionOfOwner(policy, study, payload, atS),
      spend: (due, symbol) => this.#spend(due, symbol),
      refuseHeavy: (missed) => this.#refuseHeavy(missed),
      release,
    });
  }

  /** Refuse, until the hour is over, the class of weights of which a draw was missed. */
  #refuseHeavy(missed: number): void {
    if (missed) {
      const weight = Math.max(LIGHT, 2 ** Math.floor(Math.log2(missed)));
      this.#heavy = { hour: Math.floor(this.#parts.nowS() / SECONDS_PER_HOUR), weight };
    }
  }

  /**
   * Charge an answer, make it durable, and return its report. The ledger's own check is the
   * authority: the report may be a refusal all the same.
   */
  async #spend({ asked, study, limits, payload, atS }: Due, symbol: Uint8Array): Promise<Uint8Array> {
    const { digest, question, nanoNats, weight } = asked;
    const outcome = await this.ledger.commit(
      {
        request: digest,
        study: study.digest,
        question,
        atS,
        nanoNats,
        symbol,
        weight,
        payload,
        studyBytes: study.study,
      },
      limits,
      (outcome, chargedNanoNats, spentNanoNats, sequence) =>
        encodeReport({
          requestDigest: fromHex(digest),
          outcome,
          chargedNanoNats,
          spentNanoNats,
          sequence: BigInt(sequence),
        }),
    );
    if (typeof outcome !== "string") {
      return outcome;
    }
    if (outcome === "space") {
      this.#full.add(study.digest);
    }
    return uncharged(digest, over(outcome, nanoNats));
  }
}

interface Held {
  objection(due: Due): Promise<Refusal | null>;
  spend(due: Due, symbol: Uint8Array): Promise<Uint8Array>;
  refuseHeavy(missed: number): void;
  release(): void;
}

/** The requests of one message between decision and commit (see `Device.begin`). */
export class Turn {
  readonly #settled: ReadonlyMap<string, Settlement>;
  readonly #held: Held;

  /**
   * @param refusals all, those that leave and those that do not.
   * @param left requests for a turn of their own, in order.
   */
  constructor(
    settled: ReadonlyMap<string, Settlement>,
    readonly refusals: readonly Refusal[],
    readonly left: readonly Uint8Array[],
    held: Held,
  ) {
    this.#settled = settled;
    this.#held = held;
  }

  /** Answers that are to be evaluated; a function of the history of requests. */
  get due(): readonly Due[] {
    return [...this.#settled.values()].filter((one): one is Due => one.kind === "due");
  }

  /**
   * Commit the symbols, and let the device go.
   *
   * @returns the reports that may be sent, by their requests' digests.
   * @throws StoreError: the ledger could not make an answer durable. Those before it are; they are
   * sent when they are asked for again.
   */
  async finish({ symbols, missed }: Worked): Promise<Map<string, Uint8Array>> {
    try {
      this.#held.refuseHeavy(missed);
      return await this.#reports(symbols);
    } finally {
      this.close();
    }
  }

  /** Let the device go; again is no harm. */
  close(): void {
    this.#held.release();
  }

  async #reports(symbols: ReadonlyMap<string, Uint8Array>): Promise<Map<string, Uint8Array>> {
    const reports = new Map<string, Uint8Array>();
    const charged = new Map<string, Uint8Array>(); // the reports that were charged, by question
    for (const [digest, settlement] of this.#settled) {
      switch (settlement.kind) {
        case "stored":
          reports.set(digest, settlement.report);
          break;
        case "refused":
          reports.set(digest, uncharged(digest, settlement.refusal));
          break;
        case "repeated": {
          const report = charged.get(settlement.question);
          if (report !== undefined) {
            reports.set(digest, uncharged(digest, decodeReport(report).outcome));
          }
          break;
        }
        case "due": {
          // The owner may have denied the study since the turn began.
          const objection = await this.#held.objection(settlement);
          if (objection?.reason === Reason.WAITING) {
            break;
          }
          const report =
            objection === null
              ? await this.#held.spend(settlement, symbolOf(symbols, digest))
              : uncharged(digest, objection);
          charged.set(settlement.asked.question, report);
          reports.set(digest, report);
        }
      }
    }
    return reports;
  }
}

function symbolOf(symbols: ReadonlyMap<string, Uint8Array>, digest: string): Uint8Array {
  const symbol = symbols.get(digest);
  if (symbol === undefined) {
    throw new Error("turn: expected a symbol of every answer that is due, got none");
  }
  return symbol;
}
