/** Values that pass between an aggregator and a device. `codec` turns these into bytes and back. */

import { InvalidParameter } from "./errors.js";
import {
  Reason,
  type Report as ReportMessage,
  type Request as RequestMessage,
} from "./protos/askance_protos/v1/exchange_pb.js";
import type { Study } from "./protos/askance_protos/v1/study_pb.js";
import { QueryKind, type Query, type Schema } from "./queries/index.js";
import type { Randomizer } from "./randomizers/index.js";

/** Reasons of refusals, and statuses of delivered reports; `Reason.WAITING` stays on the device. */
export { Reason, Status as AckStatus } from "./protos/askance_protos/v1/exchange_pb.js";
/** A study's bytes and the analyst's Ed25519 signature over them. */
export type { SignedStudy } from "./protos/askance_protos/v1/study_pb.js";

export const MAX_WAVES = 16;
export const MAX_EVERY_DAYS = 3_660; // ten years
export const MAX_EPOCHS = 1_024;
export const DEFAULT_ANSWERS = 4_096; // of a study that signs no number

/** A device's ordinary 'no': a function of the history of requests, never of the record. */
export class Refusal {
  /**
   * @param reason all that leaves the device.
   * @param message one line for the owner; '' in a refusal that came over the wire.
   */
  constructor(
    readonly reason: Reason,
    readonly message = "",
  ) {}
}

/** Epochs of a study; each is a collection of its own. */
export class Repeat {
  /**
   * @param everyDays days of an epoch, 1 or more.
   * @param epochs their number, 1 or more.
   * @param first index of the first, 1 or more. The index of a day since 1970, UTC, is
   * floor(day / everyDays).
   */
  constructor(
    readonly everyDays: number,
    readonly epochs: number,
    readonly first: number,
  ) {
    const ranges: [number, number][] = [
      [everyDays, MAX_EVERY_DAYS],
      [epochs, MAX_EPOCHS],
      [first, 2 ** 31],
    ];
    if (ranges.some(([value, most]) => value < 1 || value > most)) {
      throw new InvalidParameter("repeat: expected days, epochs and a first index in their ranges");
    }
  }

  /** The index of a day. */
  index(day: number): number {
    return Math.floor(day / this.everyDays);
  }

  /** True if an index is one of the study's epochs. */
  has(index: number): boolean {
    return index >= this.first && index < this.first + this.epochs;
  }
}

/**
 * The terms that an analyst signs and a device holds the aggregator to.
 *
 * `fields` are the names of the schema's fields that queries may use, sorted, none twice. The budget
 * holds per epoch; without a `repeat` the study collects once. `mostAnswers` of a device, all rounds
 * and epochs together, is 1 or more. `conduct` is the aggregator's business.
 */
export interface StudyTerms extends Omit<Study, "schema" | "repeat"> {
  readonly schema: Schema;
  readonly repeat: Repeat | undefined;
}

/**
 * Question to one device: the query to evaluate and the randomizer of its answer. The epoch is an
 * index; 0: the study collects once.
 */
export interface Request extends Omit<RequestMessage, "query" | "randomizer"> {
  readonly query: Query;
  readonly randomizer: Randomizer;
  /** Number of 64-bit coins that an answer takes, whatever the record. */
  readonly coins: number;
}

/** Number of an answer's coins, the last ones, that round. */
export function roundingCoins(query: Query, randomizer: Randomizer): number {
  if (query.kind === QueryKind.VECTOR) {
    return randomizer.vectorCoins;
  }
  return query.kind === QueryKind.REAL ? 1 : 0;
}

/**
 * A device's answer to one request: the randomized symbol's bytes or a refusal; its charge, and the
 * charges of the study so far (of a repeated study: of its epoch), in nano-nats; and the number of
 * this charged answer in the device's ledger, from 1, or 0 if nothing was charged.
 */
export interface Report extends Omit<ReportMessage, "outcome"> {
  readonly outcome: Uint8Array | Refusal;
}
