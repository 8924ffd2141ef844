/** The contract of a ledger, and the limits that every charge is held to. */

import type { Posting } from "./postings.js";

/** The most charged answers of one member, ever. */
export const MAX_ANSWERS = 1 << 16;

export const SECONDS_PER_DAY = 86_400;

/** A limit on the charges from a Unix second on, later ones than the present included. */
export interface Span {
  readonly fromS: number;
  readonly nanoNats: bigint;
}

/**
 * The most that may be spent, in nano-nats, and otherwise.
 *
 * `answers` is the number of answers to the study, ever; `work` the weight of the answers to the
 * study on one UTC day.
 */
export interface Limits {
  readonly study: bigint;
  readonly day: bigint;
  readonly life: bigint;
  readonly window: Span | null;
  readonly epoch: Span | null;
  readonly answers: number;
  readonly work: number;
}

/**
 * Sums of charges in nano-nats.
 *
 * `lastS` is the latest time of a charge; 0 when nothing was charged. `studyAnswers` and `work`
 * are of the study, the latter of the day.
 */
export interface Totals {
  readonly study: bigint;
  readonly day: bigint;
  readonly life: bigint;
  readonly window: bigint;
  readonly epoch: bigint;
  readonly lastS: number;
  readonly answers: number;
  readonly studyAnswers: number;
  readonly work: number;
}

/** The sums after a charge of the same day, of the same study if it is `own`. */
export function totalsAfter(totals: Totals, nanoNats: bigint, weight: number, own: boolean): Totals {
  const ofStudy = own ? nanoNats : 0n;
  return {
    study: totals.study + ofStudy,
    day: totals.day + nanoNats,
    life: totals.life + nanoNats,
    window: totals.window + nanoNats,
    epoch: totals.epoch + ofStudy,
    lastS: totals.lastS,
    answers: totals.answers + 1,
    studyAnswers: totals.studyAnswers + (own ? 1 : 0),
    work: totals.work + (own ? weight : 0),
  };
}

/**
 * The charge of one answer that is about to be given. Digests are 64 hexadecimal digits.
 *
 * `question` is the key under which the symbol is frozen; `payload` is kept once per request, and
 * `studyBytes` once per study.
 */
export interface Charge extends Pick<Posting, Charged> {
  readonly payload: Uint8Array;
  readonly studyBytes: Uint8Array;
}

type Charged = "request" | "study" | "question" | "atS" | "nanoNats" | "symbol" | "weight";

/** All that a ledger knows that bears on one request; null: there is none. */
export interface Standing {
  readonly report: Uint8Array | null;
  readonly frozen: Uint8Array | null;
  readonly totals: Totals;
}

/** The limit that a charge would pass. Nothing was spent and nothing stored. */
export type Overrun =
  "life" | "answers" | "window" | "day" | "study" | "epoch" | "study answers" | "work" | "space";

/** (symbol, charged, spent by the study so far, sequence) -> the report's bytes. */
export type Compose = (
  symbol: Uint8Array,
  charged: bigint,
  spent: bigint,
  sequence: number,
) => Uint8Array;

/** A device's account of its own privacy. Reading is of durable rows only. */
export interface Ledger {
  /** The highest sequence number of this member and enrolment; 0 before the first charge. */
  readonly sequence: number;

  /** The report that a request was charged for, if it was. */
  stored(request: string): Uint8Array | null;

  /** All that bears on one request. */
  standing(request: string, question: string, study: string, day: number, limits: Limits): Standing;

  /**
   * Charge and store an answer, durably, and return the report to send.
   *
   * A request that was charged already returns its stored report. A question that was answered
   * before returns a report of its frozen symbol, composed with zeros; nothing is stored. Otherwise
   * the charge is spent, or, past a limit, nothing is.
   *
   * @throws StoreError: it could not be made durable; nothing may be sent.
   */
  commit(charge: Charge, limits: Limits, compose: Compose): Promise<Uint8Array | Overrun>;
}

/** The limit, the widest first, that a charge would pass; null: none. */
export function overrun(
  totals: Totals,
  nanoNats: bigint,
  limits: Limits,
  weight: number,
): Overrun | null {
  const { window, epoch } = limits;
  const passed: readonly [Overrun, boolean][] = [
    ["answers", totals.answers >= MAX_ANSWERS],
    ["life", totals.life + nanoNats > limits.life],
    ["window", window !== null && totals.window + nanoNats > window.nanoNats],
    ["day", totals.day + nanoNats > limits.day],
    ["study", totals.study + nanoNats > limits.study],
    ["epoch", epoch !== null && totals.epoch + nanoNats > epoch.nanoNats],
    ["study answers", totals.studyAnswers >= limits.answers],
    ["work", totals.work + weight > limits.work],
  ];
  return passed.find(([, past]) => past)?.[0] ?? null;
}
