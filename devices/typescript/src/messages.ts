/** Values that pass between an aggregator and a device. `codec` turns these into bytes and back. */

import { InvalidParameter } from "./errors.js";
import { Reason } from "./protos/askance_protos/v1/exchange_pb.js";
import { QueryKind, type Query, type Schema } from "./queries/index.js";
import type { Randomizer } from "./randomizers/index.js";

/** Reasons of refusals, and statuses of delivered reports; `Reason.WAITING` stays on the device. */
export { Reason, Status as AckStatus } from "./protos/askance_protos/v1/exchange_pb.js";

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

/** A study's bytes and the analyst's Ed25519 signature over them. */
export interface SignedStudy {
  readonly study: Uint8Array;
  readonly publicKey: Uint8Array;
  readonly signature: Uint8Array;
}

/** An exact fraction in lowest terms. */
export interface Fraction {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

/** Conduct of a study by the aggregator; a device passes it on unread, as signed. */
export interface Conduct {
  readonly beta: Fraction;
  readonly confidence: Fraction;
  readonly roundDeadlineS: number;
  readonly leastAnswers: bigint;
  readonly waves: number;
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

/** The terms that an analyst signs and a device holds the aggregator to. */
export interface StudyTerms {
  readonly nonce: Uint8Array;
  readonly learner: string;
  readonly learnerVersion: number;
  readonly parameters: readonly (readonly [string, string])[];
  readonly schema: Schema;
  readonly budgetNanoNats: bigint;
  readonly expiresUnixS: bigint;
  readonly purpose: string;
  readonly conduct: Conduct;
  /** Names of the schema's fields that the study's queries may use; sorted, none twice. */
  readonly fields: readonly string[];
  /** "name==version" of the installed distribution that has the learner; empty: a built-in one. */
  readonly distribution: string;
  /** The study's epochs; undefined: it collects once. The budget holds per epoch. */
  readonly repeat: Repeat | undefined;
  /** Most answers of a device, all rounds and epochs together; 1 or more. */
  readonly mostAnswers: number;
}

/** Question to one device: the query to evaluate and the randomizer of its answer. */
export interface Request {
  readonly studyDigest: Uint8Array;
  readonly round: number;
  readonly group: number;
  readonly query: Query;
  readonly randomizer: Randomizer;
  /** Index of the epoch; 0: the study collects once. */
  readonly epoch: number;
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

/** A device's answer to one request. */
export interface Report {
  readonly requestDigest: Uint8Array;
  /** The randomized symbol's bytes or a refusal. */
  readonly outcome: Uint8Array | Refusal;
  readonly chargedNanoNats: bigint;
  /** Charges of the study so far (of a repeated study: of its epoch). */
  readonly spentNanoNats: bigint;
  /** Number of this charged answer in the device's ledger, from 1; 0: nothing was charged. */
  readonly sequence: bigint;
}
