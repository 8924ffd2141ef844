/** Policy of a device's owner. */

import { InvalidParameter, expect } from "../errors.js";
import { SECONDS_PER_DAY, type Limits } from "../ledger/contract.js";
import { DEFAULT_ANSWERS, Reason, Refusal, type Repeat, type StudyTerms } from "../messages.js";
import type { ExaminedStudy } from "./examination.js";

/**
 * Weight of answers that a slow machine's processor does per second; the same as of every device,
 * since the times of record work follow from it.
 */
export const WEIGHT_PER_S = 256_000;
export const STUDY_SECONDS = 600; // of such a processor, per study and day

/**
 * The owner's decision on a study: null if it may be answered. A refusal for `Reason.WAITING` holds
 * the request: no report leaves for it. It is a function of the study, the clock and the owner's
 * decisions; nothing that it is given depends on a record.
 */
export type Consent = (
  study: ExaminedStudy,
  payload: Uint8Array,
  atS: number,
) => Promise<Refusal | null>;

/** Limits that an owner sets. Keys are 64 hexadecimal digits; null: no limit but the life's. */
export interface PolicyChoices {
  readonly analysts: readonly string[];
  readonly lifeNanoNats: bigint;
  readonly dayNanoNats?: bigint | null;
  readonly studyNanoNats?: bigint | null;
  readonly fields?: readonly string[] | null; // null: all of the schema
  readonly refreshDays?: number | null; // the shortest epoch of a repeated study; null: none
  readonly windowNanoNats?: bigint | null;
  readonly windowDays?: number;
  readonly studyAnswers?: number;
  readonly studyWork?: number;
  readonly consent?: Consent | null; // null: all that the analysts sign is answered
}

/** Permissions of a device's owner: analysts, questions and spending. */
export class Policy {
  readonly analysts: ReadonlySet<string>;
  readonly consent: Consent | null;
  readonly #choices: PolicyChoices;

  constructor(choices: PolicyChoices) {
    const { lifeNanoNats, dayNanoNats, studyNanoNats, windowNanoNats } = choices;
    if (!choices.analysts.every((key) => /^[0-9a-f]{64}$/.test(key))) {
      throw new InvalidParameter("policy: expected analysts' keys of 64 hexadecimal digits");
    }
    const budgets = [lifeNanoNats, dayNanoNats ?? 0n, studyNanoNats ?? 0n, windowNanoNats ?? 0n];
    if (budgets.some((budget) => budget < 0n)) {
      throw new InvalidParameter("policy: expected budgets of 0 nano-nats or more");
    }
    const { refreshDays, windowDays, studyAnswers, studyWork } = choices;
    const counts = [refreshDays ?? 1, windowDays ?? 1, studyAnswers ?? 1, studyWork ?? 1];
    const areCounts = counts.every((count) => Number.isSafeInteger(count) && count >= 1);
    expect(areCounts, "policy: expected days, answers and work of 1 or more");
    this.analysts = new Set(choices.analysts);
    this.consent = choices.consent ?? null;
    this.#choices = choices;
  }

  /**
   * The limits for one study on a day since 1970: the owner's and the study's own promise,
   * whichever is less. The promise holds per epoch; the owner's limit over all of them.
   */
  limits(terms: StudyTerms, day: number): Limits {
    const { lifeNanoNats: life, windowNanoNats = null, windowDays = 30 } = this.#choices;
    const { repeat, budgetNanoNats } = terms;
    const from = repeat === undefined ? 0 : repeat.index(day) * repeat.everyDays;
    const promise = budgetNanoNats * BigInt(repeat === undefined ? 1 : repeat.epochs);
    const study = this.#choices.studyNanoNats ?? life;
    return {
      study: study < promise ? study : promise,
      day: this.#choices.dayNanoNats ?? life,
      life,
      window:
        windowNanoNats === null
          ? null
          : { fromS: (day - windowDays + 1) * SECONDS_PER_DAY, nanoNats: windowNanoNats },
      epoch:
        repeat === undefined ? null : { fromS: from * SECONDS_PER_DAY, nanoNats: budgetNanoNats },
      answers: Math.min(this.#choices.studyAnswers ?? DEFAULT_ANSWERS, terms.mostAnswers),
      work: this.#choices.studyWork ?? STUDY_SECONDS * WEIGHT_PER_S,
    };
  }

  /** A refusal when a study would refresh answers more often than the owner allows. */
  tooEarly(repeat: Repeat | undefined): Refusal | null {
    const refresh = this.#choices.refreshDays ?? null;
    if (repeat === undefined || (refresh !== null && refresh <= repeat.everyDays)) {
      return null;
    }
    const message = `expected ${refresh ?? "no"} days or more, got epochs of ${repeat.everyDays}`;
    return new Refusal(Reason.REFRESH_TOO_EARLY, message);
  }

  /** A refusal when a query asks about fields that the owner keeps out of it. */
  objection(asked: Iterable<string>): Refusal | null {
    const { fields = null } = this.#choices;
    const field = fields === null ? undefined : [...asked].find((name) => !fields.includes(name));
    return field === undefined
      ? null
      : new Refusal(Reason.FIELD_NOT_ALLOWED, `expected fields that may be asked, found "${field}"`);
  }
}
