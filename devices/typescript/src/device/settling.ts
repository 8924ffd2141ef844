/**
 * Decisions about requests, made before a record is read: reuse, refuse, or charge and answer.
 *
 * A decision is a function of the history of requests, the clock and the owner's policy. No
 * function here has access to a record or to coins.
 */

import { encodeReport } from "../codec/index.js";
import { fromHex } from "../integers.js";
import type { Ledger, Limits, Overrun, Totals } from "../ledger/contract.js";
import { SECONDS_PER_DAY, overrun, totalsAfter } from "../ledger/contract.js";
import { Reason, Refusal, type Repeat } from "../messages.js";
import type { ExaminedRequest, ExaminedStudy, Examiner, Known } from "./examination.js";
import type { Policy } from "./policy.js";

export const MAX_REFUSALS = 256; // that leave, per study and hour: four full messages
export const MAX_WEIGHT = 5 * 2 ** 18; // of the answers of one turn: the heaviest question, and a little more
export const SECONDS_PER_HOUR = 3_600;
const MAX_COUNTED = 256; // studies with a count of their own; requests of others share one
const CLOCK_SLACK_S = 60; // a clock that is corrected by so little is taken to stand still

export const OVERRUNS: Readonly<Record<Overrun, Reason>> = {
  study: Reason.OVER_STUDY_BUDGET,
  epoch: Reason.OVER_STUDY_BUDGET,
  day: Reason.OVER_DAY_BUDGET,
  window: Reason.OVER_WINDOW_BUDGET,
  life: Reason.OVER_LIFE_BUDGET,
  answers: Reason.OVER_LIFE_BUDGET,
  "study answers": Reason.OVER_STUDY_BUDGET,
  work: Reason.OVER_DAY_BUDGET,
  space: Reason.OVER_LIFE_BUDGET,
};

/** An answer that is to be evaluated, charged at the time `atS` and sent. */
export interface Due {
  readonly kind: "due";
  readonly payload: Uint8Array;
  readonly asked: ExaminedRequest;
  readonly study: ExaminedStudy;
  readonly limits: Limits;
  readonly atS: number;
}

/**
 * A report that needs no evaluation, an answer to be charged, a question that another request of
 * the same message is charged for, or a refusal.
 */
export type Settlement =
  | { readonly kind: "stored"; readonly report: Uint8Array }
  | Due
  | { readonly kind: "repeated"; readonly question: string }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** The settlement of a request; null: it is left for the next turn. `study` is null if unknown. */
export interface Settled {
  readonly study: string | null;
  readonly settlement: Settlement | null;
}

/** Settle the requests of one message in order, each as if those before it were committed. */
export class Settling {
  #weight = 0; // of what is due so far
  readonly #due = new Map<string, Due>(); // of the message so far, by question

  /**
   * @param studies the accepted studies, by digest.
   * @param full digests of those for whose payloads the ledger has no more room.
   * @param nowS one reading of the clock for the whole message.
   * @param most weight of one request above which it is refused.
   */
  constructor(
    private readonly ledger: Ledger,
    private readonly policy: Policy,
    private readonly examiner: Examiner,
    private readonly studies: ReadonlyMap<string, ExaminedStudy>,
    private readonly full: ReadonlySet<string>,
    private readonly nowS: number,
    private readonly most: number,
  ) {}

  /** Decide on a request. */
  async settle(payload: Uint8Array, known: Known): Promise<Settled> {
    const { digest, named } = known;
    const study = typeof named === "string" ? this.studies.get(named) : undefined;
    if (study === undefined) {
      const unknown = new Refusal(Reason.UNKNOWN_STUDY, "expected a request of an accepted study");
      const objection = typeof named === "string" ? unknown : named;
      return { study: null, settlement: await this.#storedOr(digest, objection, null, payload) };
    }
    const asked = known.asked ?? (await this.examiner.request(payload, study));
    const settlement = asked instanceof Refusal
      ? await this.#storedOr(digest, asked, study, payload)
      : await this.#decide(payload, asked, study);
    return { study: study.digest, settlement };
  }

  /**
   * The report of a request that was answered before, also if it is refused now. It may never have
   * arrived, so the owner's consent holds for it as for a new one.
   */
  async #storedOr(
    digest: string,
    refused: Refusal,
    study: ExaminedStudy | null,
    payload: Uint8Array,
  ): Promise<Settlement> {
    const report = this.ledger.stored(digest);
    if (report === null || (study === null && this.policy.consent !== null)) {
      return no(refused);
    }
    const objection = study && (await objectionOfOwner(this.policy, study, payload, this.nowS));
    return objection === null ? { kind: "stored", report } : no(objection);
  }

  async #decide(
    payload: Uint8Array,
    asked: ExaminedRequest,
    study: ExaminedStudy,
  ): Promise<Settlement | null> {
    const { digest, question, request, weight, nanoNats } = asked;
    const { repeat } = study.terms;
    const day = Math.floor(this.nowS / SECONDS_PER_DAY);
    const limits = this.policy.limits(study.terms, day);
    const standing = this.ledger.standing(digest, question, study.digest, day, limits);
    const { lastS } = standing.totals;
    const atS = this.#time(lastS);
    const owner = () => objectionOfOwner(this.policy, study, payload, atS);
    if (standing.report !== null) {
      const objection = await owner();
      return objection === null ? { kind: "stored", report: standing.report } : no(objection);
    }
    const objection =
      this.policy.objection(request.query.fieldsUsed) ??
      this.policy.tooEarly(repeat) ??
      untimely(study, atS, this.nowS, lastS) ??
      offEpoch(repeat, request.epoch, day) ??
      (await owner());
    if (objection !== null) {
      return no(objection);
    }
    if (standing.frozen !== null) {
      return { kind: "stored", report: uncharged(digest, standing.frozen) };
    }
    if (this.#due.has(question)) {
      return { kind: "repeated", question };
    }
    if (weight > this.most) {
      const text = `weight: expected at most ${this.most} this hour, got ${weight}`;
      return no(new Refusal(Reason.INVALID_RANDOMIZER, text));
    }
    if (this.#weight && this.#weight + weight > MAX_WEIGHT) {
      return null;
    }
    const due: Due = { kind: "due", payload, asked, study, limits, atS };
    const past = this.#past(standing.totals, due);
    if (past !== null) {
      return no(over(past, nanoNats));
    }
    this.#due.set(question, due);
    this.#weight += weight;
    return due;
  }

  /** The time of a charge: a clock that went back a little, within a day, stands still. */
  #time(lastS: number): number {
    const back = lastS - this.nowS;
    const sameDay = Math.floor(lastS / SECONDS_PER_DAY) === Math.floor(this.nowS / SECONDS_PER_DAY);
    return 0 < back && back <= CLOCK_SLACK_S && sameDay ? lastS : this.nowS;
  }

  /** The limit that a charge would pass, those of the message before it included. */
  #past(totals: Totals, due: Due): Overrun | null {
    if (this.full.has(due.study.digest)) {
      return "space";
    }
    for (const { asked, study } of this.#due.values()) {
      const own = study.digest === due.study.digest;
      totals = totalsAfter(totals, asked.nanoNats, asked.weight, own);
    }
    return overrun(totals, due.asked.nanoNats, due.limits, due.asked.weight);
  }
}

/**
 * Refusals of the present hour, counted per study in memory. Past `MAX_REFUSALS` no report leaves
 * for a request that would be refused, until the hour is over.
 */
export class RefusalCounts {
  readonly #counts = new Map<string | null, number>();
  #hour = 0;

  /** Count one more refusal; true if it may leave. `study` is null if none was named. */
  admit(study: string | null, nowS: number): boolean {
    const hour = Math.floor(nowS / SECONDS_PER_HOUR);
    if (hour !== this.#hour) {
      this.#counts.clear();
      this.#hour = hour;
    }
    const own = this.#counts.size - (this.#counts.has(null) ? 1 : 0);
    const counted = this.#counts.has(study) || own < MAX_COUNTED ? study : null;
    const count = (this.#counts.get(counted) ?? 0) + 1;
    this.#counts.set(counted, count);
    return count <= MAX_REFUSALS;
  }
}

/**
 * The report of a refusal (its reason, and no sum that was spent) or of a frozen answer: the same
 * bytes at every retry, without a charge or a row.
 */
export function uncharged(digest: string, outcome: Uint8Array | Refusal): Uint8Array {
  const nothing = { chargedNanoNats: 0n, spentNanoNats: 0n, sequence: 0n };
  return encodeReport({ requestDigest: fromHex(digest), outcome, ...nothing });
}

/** The refusal of a charge that would pass a limit. */
export function over(past: Overrun, nanoNats: bigint): Refusal {
  return new Refusal(OVERRUNS[past], `expected a charge within the limit (${past}), got ${nanoNats}`);
}

/** The owner's objection to a study; null if one of its analysts' copies is agreed to. */
export async function objectionOfOwner(
  policy: Policy,
  study: ExaminedStudy,
  payload: Uint8Array,
  atS: number,
): Promise<Refusal | null> {
  if (policy.consent === null) {
    return null;
  }
  const objections: Refusal[] = [];
  for (const copy of [study, ...study.copies]) {
    const objection = await policy.consent(copy, payload, atS);
    if (objection === null) {
      return null;
    }
    objections.push(objection);
  }
  return objections.find(({ reason }) => reason === Reason.WAITING) ?? objections[0]!;
}

function no(refusal: Refusal): Settlement {
  return { kind: "refused", refusal };
}

/** A refusal when a request is of another epoch than the device's day. */
function offEpoch(repeat: Repeat | undefined, epoch: number, day: number): Refusal | null {
  if (repeat === undefined || epoch === repeat.index(day)) {
    return null;
  }
  return new Refusal(Reason.WRONG_EPOCH, `epoch: expected ${repeat.index(day)}, got ${epoch}`);
}

/** A refusal when the clock cannot be right, or the study has expired. */
function untimely(study: ExaminedStudy, atS: number, nowS: number, lastS: number): Refusal | null {
  if (atS < lastS) {
    // A clock set back would revive expired studies: wait until it passes the last charge.
    return new Refusal(
      Reason.CLOCK_MOVED_BACK,
      `clock: expected ${lastS} s since 1970 or later, the time of the last charge, got ${nowS} s`,
    );
  }
  if (BigInt(atS) >= study.terms.expiresUnixS) {
    return new Refusal(Reason.EXPIRED, "expected a study that has not expired");
  }
  return null;
}
