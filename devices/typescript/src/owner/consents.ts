/**
 * Decisions of an owner on studies, durable, and the studies that wait for one.
 *
 * A decision is bound to the SHA-256 of a study's bytes together with the analyst's key. A study
 * with any other byte, or the same bytes signed by another key, is another study, which waits again.
 */

import type { ExaminedStudy } from "../device/examination.js";
import { InvalidParameter, expect } from "../errors.js";
import { sameBytes } from "../integers.js";
import { SECONDS_PER_DAY } from "../ledger/contract.js";
import { Reason, Refusal } from "../messages.js";
import { printable } from "../printable.js";

export const MAX_WAITING = 64; // undecided studies that are kept
export const MAX_QUESTIONS = 8; // requests that are kept per study, for the owner to read
export const MAX_QUESTION_BYTES = 64 << 10;
export const MAX_DAYS = 3_660; // of an approval, ten years
const LEAST_DIGITS = 8; // of a digest that names a study

/** Rule for a study on which the owner has not decided: answered, or held. */
export type ConsentRule = "pinned" | "ask";

/** Decision on one study. An approval holds before `untilS`; a denial until another decision. */
export interface ConsentDecision {
  readonly verdict: "approved" | "denied";
  readonly atS: number;
  readonly untilS: number;
}

/** Study that a device was asked about, with the payloads of its first requests. */
export interface KnownStudy {
  readonly key: string; // digest and analyst's public key, 128 hexadecimal digits
  readonly study: Uint8Array;
  readonly firstS: number;
  readonly expiresS: number;
  readonly questions: readonly Uint8Array[];
  readonly decision: ConsentDecision | null;
}

/** A durable place for known studies, by their keys. */
export interface ConsentStorage {
  readStudies(): Promise<readonly KnownStudy[]>;
  writeStudy(study: KnownStudy): Promise<void>;
  removeStudy(key: string): Promise<void>;
}

/**
 * The decisions in a storage; `consent` is that of a device's policy.
 *
 * Privacy: a decision is a function of the study's bytes and key, the clock and what the owner
 * decided. Without a decision nothing leaves and nothing is evaluated or charged. A denial leaves
 * as a reason code and an approval as an answer, at the next check-in, whose time does not follow
 * the decision; both say what the owner decided, which no epsilon bounds.
 */
export class Consents {
  readonly #studies: Map<string, KnownStudy>;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly storage: ConsentStorage,
    private readonly rule: ConsentRule,
    studies: readonly KnownStudy[],
  ) {
    this.#studies = new Map(studies.map((known) => [known.key, known]));
  }

  /** Read the decisions of a storage; `rule` is what holds for a study without one. */
  static async open(storage: ConsentStorage, rule: ConsentRule): Promise<Consents> {
    const studies = [...(await storage.readStudies())];
    studies.sort((a, b) => a.firstS - b.firstS || (a.key < b.key ? -1 : 1));
    return new Consents(storage, rule, studies);
  }

  /** Null if a study may be answered, else a refusal: denied, or waiting. */
  readonly consent = async (
    study: ExaminedStudy,
    payload: Uint8Array,
    atS: number,
  ): Promise<Refusal | null> => {
    const key = study.digest + study.publicKey;
    await this.#alone(() => this.#keep(key, study, payload, atS));
    const decision = this.#studies.get(key)?.decision ?? null;
    const name = study.digest.slice(0, 16);
    if (decision !== null && holds(decision, atS)) {
      return decision.verdict === "approved"
        ? null
        : new Refusal(Reason.NOT_APPROVED, `study ${name}: expected one that is not denied`);
    }
    return this.rule === "pinned"
      ? null
      : new Refusal(Reason.WAITING, `study ${name} waits for its owner`);
  };

  /** All known studies, in the order in which they came. */
  get studies(): readonly KnownStudy[] {
    return [...this.#studies.values()];
  }

  /** The state of a study; "pinned": answered undecided. */
  state(known: KnownStudy, nowS: number): "approved" | "denied" | "expired" | "waiting" | "pinned" {
    if (known.decision !== null && holds(known.decision, nowS)) {
      return known.decision.verdict;
    }
    if (!waits(known, nowS)) {
      return "expired";
    }
    return this.rule === "ask" ? "waiting" : "pinned";
  }

  /** The study of a digest, or of its first eight hexadecimal digits or more. */
  named(name: string): KnownStudy {
    const found = this.studies.filter(({ key }) => key.startsWith(name.toLowerCase()));
    if (name.length < LEAST_DIGITS || found.length !== 1) {
      const several = found.length > 1 ? `, which begins ${found.length} of them` : "";
      throw new InvalidParameter(
        `study: expected the first ${LEAST_DIGITS} digits or more of one study that this device` +
          ` was asked about, got ${printable(name)}${several}`,
      );
    }
    return found[0]!;
  }

  /** Approve a study, durably when this returns; for `days`, and never past its own expiry. */
  async approve(known: KnownStudy, nowS: number, days: number | null = null): Promise<KnownStudy> {
    expect(nowS < known.expiresS, "study: expected one that has not expired, got an expired one");
    if (days !== null && !(Number.isInteger(days) && 1 <= days && days <= MAX_DAYS)) {
      throw new InvalidParameter(`days: expected 1 to ${MAX_DAYS}, got ${days}`);
    }
    const endS = days === null ? known.expiresS : nowS + days * SECONDS_PER_DAY;
    const untilS = Math.min(known.expiresS, endS);
    return this.#decide(known, { verdict: "approved", atS: nowS, untilS });
  }

  /** Deny a study, durably when this returns; what was answered before stays charged. */
  async deny(known: KnownStudy, nowS: number): Promise<KnownStudy> {
    return this.#decide(known, { verdict: "denied", atS: nowS, untilS: 0 });
  }

  #decide(known: KnownStudy, decision: ConsentDecision): Promise<KnownStudy> {
    return this.#alone(() => this.#write({ ...(this.#studies.get(known.key) ?? known), decision }));
  }

  /** Keep a study that was asked about, and its first questions, if there is room. */
  async #keep(
    key: string,
    { study, terms }: ExaminedStudy,
    payload: Uint8Array,
    atS: number,
  ): Promise<void> {
    const before = this.#studies.get(key);
    const questions = before?.questions ?? [];
    const isNew = questions.length < MAX_QUESTIONS && payload.length <= MAX_QUESTION_BYTES;
    if (before !== undefined && (!isNew || questions.some((one) => sameBytes(one, payload)))) {
      return;
    }
    if (before === undefined && !(await this.#makeRoom(atS))) {
      return;
    }
    const expiresS = Number(terms.expiresUnixS);
    const first = { key, study, firstS: atS, expiresS, questions, decision: null };
    await this.#write({
      ...(before ?? first),
      questions: isNew ? [...questions, payload] : questions,
    });
  }

  /** Make room for one more study, of the oldest that no decision is waited for; false: none. */
  async #makeRoom(atS: number): Promise<boolean> {
    const undecided = this.studies.filter(({ decision }) => decision === null);
    if (undecided.length < MAX_WAITING) {
      return true;
    }
    const out = undecided.find((known) => this.rule === "pinned" || !waits(known, atS));
    if (out === undefined) {
      return false;
    }
    await this.storage.removeStudy(out.key);
    this.#studies.delete(out.key);
    return true;
  }

  async #write(known: KnownStudy): Promise<KnownStudy> {
    await this.storage.writeStudy(known);
    this.#studies.set(known.key, known); // after the write: what is in force is durable
    return known;
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }
}

function holds({ verdict, untilS }: ConsentDecision, atS: number): boolean {
  return verdict === "denied" || atS < untilS;
}

function waits({ decision, expiresS }: KnownStudy, nowS: number): boolean {
  return nowS < expiresS && !(decision !== null && holds(decision, nowS));
}
