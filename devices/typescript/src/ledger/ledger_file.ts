/**
 * Ledgers of one or many members over one storage, and the rules by which they are charged.
 *
 * Theory of operation. Only rows are ever added: totals, frozen answers and sequence numbers are
 * read from them. A charge goes through these states, and none is skipped or left backwards:
 *
 *     checked      limits and totals are read, alone, from durable rows
 *     committed    the storage has made the row durable (charge, report, hash of the row before)
 *     visible      the row is among those that are read, and the report may leave
 *
 * A process that dies before `committed` has charged nothing. One that dies after it has charged
 * and maybe shown nothing: the next start reads the row, and the request gets its stored report.
 * After a failed commit it is not known which of the two is true, so that the ledger ends; opened
 * anew it reads what is.
 *
 * The storage admits one writer. What it lacks (a row, a hash, its id) is refused when it is
 * opened. A storage that was put back whole, to an earlier state, shows nothing of it: the
 * aggregator's echo of the highest sequence number finds it (`service/runtime.ts`).
 */

import { StoreError, expect } from "../errors.js";
import type { Charge, Compose, Ledger, Limits, Overrun, Standing, Totals } from "./contract.js";
import { SECONDS_PER_DAY, overrun } from "./contract.js";
import { NO_HASH, postingHash, type Posting, type PostingKind } from "./postings.js";
import { utf8 } from "../queries/canonical.js";

/** Bytes of payloads that are kept: of one study, and in all. */
export const MAX_STUDY_PAYLOADS = 64 << 20;
export const MAX_PAYLOADS = 2 ** 30;

/** Sequence numbers that an accepted loss skips: more than an enrolment can ever have had. */
export const LOSS_STEP = 2 ** 32;

const MAX_MEMBER_BYTES = 256;
const MAX_ENROLMENT_BYTES = 64;

/** A request's payload that is kept, by its digest. */
export interface KeptPayload {
  readonly digest: string;
  readonly study: string;
  readonly size: number;
}

/** All that a storage holds of a ledger; `facts` are single texts about it, by name. */
export interface Stored {
  readonly facts: ReadonlyMap<string, string>;
  readonly postings: readonly Posting[];
  readonly payloads: readonly KeptPayload[];
}

/** Bytes that a row makes worth keeping, each once. */
export interface Kept {
  readonly payload?: Uint8Array;
  readonly study?: Uint8Array;
}

/** A durable place for rows, held by one writer from `read` to `close`. */
export interface LedgerStorage {
  /**
   * Read everything.
   *
   * @throws StoreError: a part of it is missing or damaged.
   */
  read(): Promise<Stored>;

  /**
   * Make a row durable, with what is kept of its charge, all or nothing.
   *
   * @throws StoreError: it could not, or another writer has been there.
   */
  append(row: Posting, kept: Kept): Promise<void>;

  /** Make a fact durable. */
  record(name: string, value: string): Promise<void>;

  /** Let the next writer in. */
  close(): Promise<void>;
}

/** A ledger that is not whole, or not its own: charges may be forgotten. */
export class LedgerDamaged extends StoreError {}

/** The names of facts. */
export const ID = "id";
const BOUND = "bound.";

/** The ledgers of a storage. */
export class LedgerFile {
  readonly #storage: LedgerStorage;
  readonly #facts: Map<string, string>;
  readonly #members = new Map<string, MemberRows>();
  readonly #payloads = new Set<string>(); // digests of requests
  readonly #sizes = new Map<string, number>(); // of payloads, by study
  #place = 0;
  #failure: Error | null = null;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(storage: LedgerStorage, stored: Stored) {
    this.#storage = storage;
    this.#facts = new Map(stored.facts);
    stored.payloads.forEach((kept) => this.#keep(kept));
  }

  /**
   * Open the ledgers of a storage, and check every row and chain.
   *
   * @throws LedgerDamaged: rows are missing, changed or in another order.
   */
  static async open(storage: LedgerStorage): Promise<LedgerFile> {
    const stored = await storage.read();
    if (!stored.facts.has(ID)) {
      throw new LedgerDamaged("ledger: expected the id of its file, got none");
    }
    const file = new LedgerFile(storage, stored);
    for (const row of stored.postings) {
      await file.#check(row);
      file.#add(row);
    }
    return file;
  }

  /** The ledger's random id. */
  get id(): string {
    return this.#facts.get(ID)!;
  }

  /**
   * A member's ledger, empty if there is no charge of theirs.
   *
   * Budgets are the member's, whatever the enrolment is; sequence numbers are the enrolment's.
   */
  ledger(member: string, enrolment: string): Ledger {
    const size = utf8(member).length;
    const isShort = size <= MAX_MEMBER_BYTES && enrolment.length <= 2 * MAX_ENROLMENT_BYTES;
    expect(isShort, "ledger: expected a short name and enrolment, got a longer one");
    const file = this;
    return {
      get sequence() {
        return file.#readable(member).chain(enrolment).sequence;
      },
      stored: (request) => file.#readable(member).answers.get(request)?.report ?? null,
      standing: (...asked) => file.#readable(member).standing(...asked),
      commit: (charge, limits, compose) =>
        file.#alone(() => file.#charge(member, enrolment, charge, limits, compose)),
    };
  }

  /** All rows of all members, oldest first. */
  get postings(): readonly Posting[] {
    return [...this.#members.values()]
      .flatMap((member) => member.rows)
      .sort((a, b) => a.place - b.place);
  }

  /** A fact about the ledger; null: it is not known. */
  fact(name: string): string | null {
    return this.#facts.get(name) ?? null;
  }

  /** Make a fact durable. */
  async record(name: string, value: string): Promise<void> {
    await this.#alone(async () => {
      await this.#storage.record(name, value);
      this.#facts.set(name, value);
    });
  }

  /**
   * Bind the ledger to texts, by name, unless it is bound already.
   *
   * @throws StoreError: it is bound to others, or has charges and no binding.
   */
  async bind(texts: Readonly<Record<string, string>>): Promise<void> {
    const bound = [...this.#facts.keys()].some((name) => name.startsWith(BOUND));
    if (!bound && this.#place) {
      throw new LedgerDamaged("ledger: expected a binding to its schema, got charges without it");
    }
    for (const [name, text] of Object.entries(texts)) {
      const known = this.#facts.get(BOUND + name);
      if (bound && known !== text && (known !== undefined || this.#place)) {
        throw new StoreError(`ledger: expected ${name} as when it was first used, got another`);
      }
      if (known === undefined) {
        await this.record(BOUND + name, text);
      }
    }
  }

  /**
   * Charge what is left of a member's life budget, and skip numbers that an aggregator may have:
   * what the owner does after a storage was put back.
   */
  async acceptLoss(member: string, enrolment: string, atS: number, life: bigint): Promise<void> {
    await this.#alone(async () => {
      const { rows } = this.#member(member);
      const left = rows.reduce((rest, row) => rest - row.nanoNats, life);
      const nanoNats = left > 0n ? left : 0n;
      await this.#append(member, enrolment, "loss", LOSS_STEP, event(atS, nanoNats), {});
    });
  }

  /** Record in the chain that a time after `atS` is not believed any more, if there is one. */
  async repairClock(member: string, enrolment: string, atS: number): Promise<void> {
    await this.#alone(async () => {
      if (this.#member(member).lastS > atS) {
        await this.#append(member, enrolment, "clock", 1, event(atS, 0n), {});
      }
    });
  }

  /** Let the next writer in. */
  async close(): Promise<void> {
    await this.#last.catch(() => {});
    this.#failure ??= new StoreError("ledger: expected an open one, got one that was closed");
    await this.#storage.close();
  }

  async #charge(
    member: string,
    enrolment: string,
    charge: Charge,
    limits: Limits,
    compose: Compose,
  ): Promise<Uint8Array | Overrun> {
    expect(charge.nanoNats >= 1n, "charge: expected 1 nano-nat or more, got less");
    const { payload, studyBytes, ...charged } = charge;
    const { request, question, study, atS, nanoNats, symbol, weight } = charged;
    const rows = this.#member(member);
    const day = Math.floor(atS / SECONDS_PER_DAY);
    const standing = rows.standing(request, question, study, day, limits);
    if (standing.report !== null) {
      return standing.report;
    }
    if (standing.frozen !== null) {
      return compose(standing.frozen, 0n, 0n, 0);
    }
    const past = overrun(standing.totals, nanoNats, limits, weight);
    if (past !== null) {
      return past;
    }
    const size = payload.length;
    const isKept = this.#payloads.has(request);
    if (!isKept && !this.#hasRoom(study, size)) {
      return "space";
    }
    const { totals } = standing;
    const spent = (limits.epoch === null ? totals.study : totals.epoch) + nanoNats;
    const sequence = rows.chain(enrolment).sequence + 1;
    const report = compose(symbol, nanoNats, spent, sequence);
    const kept = {
      ...(isKept ? {} : { payload }),
      ...(this.#sizes.has(study) ? {} : { study: studyBytes }),
    };
    await this.#append(member, enrolment, "answer", 1, { ...charged, report }, kept);
    this.#keep({ digest: request, study, size });
    return report;
  }

  /** Append a row whose sequence number is `step` above the last one of its chain. */
  async #append(
    member: string,
    enrolment: string,
    kind: PostingKind,
    step: number,
    fields: Fields,
    kept: Kept,
  ): Promise<void> {
    const chain = this.#member(member).chain(enrolment);
    const place = this.#place + 1;
    const sequence = chain.sequence + step;
    const row = { place, member, enrolment, sequence, kind, ...fields };
    const hash = await postingHash(row, chain.hash);
    try {
      await this.#storage.append({ ...row, hash }, kept);
    } catch (failure) {
      const why = failure instanceof Error ? failure.message : "unknown";
      this.#failure = new StoreError(`ledger: expected a durable row, got a failure: ${why}`);
      throw this.#failure;
    }
    this.#add({ ...row, hash });
  }

  async #check(row: Posting): Promise<void> {
    const chain = this.#member(row.member).chain(row.enrolment);
    const step = row.kind === "loss" ? LOSS_STEP : 1;
    const follows = row.place === this.#place + 1 && row.sequence === chain.sequence + step;
    if (!follows || row.hash !== (await postingHash(row, chain.hash))) {
      throw new LedgerDamaged(
        `ledger: expected row ${this.#place + 1} to continue its chain, got another or none`,
      );
    }
  }

  #add(row: Posting): void {
    this.#member(row.member).add(row);
    this.#place = row.place;
  }

  #member(name: string): MemberRows {
    let found = this.#members.get(name);
    if (found === undefined) {
      this.#members.set(name, (found = new MemberRows()));
    }
    return found;
  }

  #readable(name: string): MemberRows {
    if (this.#failure !== null) {
      throw this.#failure;
    }
    return this.#member(name);
  }

  #keep({ digest, study, size }: KeptPayload): void {
    if (!this.#payloads.has(digest)) {
      this.#payloads.add(digest);
      this.#sizes.set(study, (this.#sizes.get(study) ?? 0) + size);
    }
  }

  #hasRoom(study: string, size: number): boolean {
    const all = [...this.#sizes.values()].reduce((sum, other) => sum + other, size);
    return (this.#sizes.get(study) ?? 0) + size <= MAX_STUDY_PAYLOADS && all <= MAX_PAYLOADS;
  }

  /** Do some work when all work before it is done; none is done after a failure. */
  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(() => {
      if (this.#failure !== null) {
        throw this.#failure;
      }
      return work();
    });
    this.#last = done.catch(() => {});
    return done;
  }
}

type Fields = Omit<Posting, "place" | "member" | "enrolment" | "sequence" | "kind" | "hash">;

function event(atS: number, nanoNats: bigint): Fields {
  const none = new Uint8Array();
  const digests = { request: "", study: "", question: "" };
  return { atS, nanoNats, ...digests, symbol: none, report: none, weight: 0 };
}

/** The durable rows of one member. */
class MemberRows {
  readonly rows: Posting[] = [];
  readonly answers = new Map<string, Posting>(); // by request
  readonly #symbols = new Map<string, Uint8Array>(); // by question
  readonly #chains = new Map<string, { sequence: number; hash: string }>(); // by enrolment
  lastS = 0;

  add(row: Posting): void {
    this.rows.push(row);
    this.#chains.set(row.enrolment, { sequence: row.sequence, hash: row.hash });
    this.lastS = row.kind === "clock" ? row.atS : Math.max(this.lastS, row.atS);
    if (row.kind === "answer") {
      this.answers.set(row.request, row);
      if (!this.#symbols.has(row.question)) {
        this.#symbols.set(row.question, row.symbol);
      }
    }
  }

  chain(enrolment: string): { readonly sequence: number; readonly hash: string } {
    return this.#chains.get(enrolment) ?? { sequence: 0, hash: NO_HASH };
  }

  standing(
    request: string,
    question: string,
    study: string,
    day: number,
    limits: Limits,
  ): Standing {
    return {
      report: this.answers.get(request)?.report ?? null,
      frozen: this.#symbols.get(question) ?? null,
      totals: this.#totals(study, day, limits),
    };
  }

  /** Sums over the rows and nothing else, so that there is no second number to disagree with. */
  #totals(study: string, day: number, limits: Limits): Totals {
    const sums = { study: 0n, day: 0n, life: 0n, window: 0n, epoch: 0n };
    const counts = { answers: 0, studyAnswers: 0, work: 0 };
    for (const row of this.rows) {
      const { atS, nanoNats } = row;
      const today = Math.floor(atS / SECONDS_PER_DAY) === day;
      sums.life += nanoNats;
      counts.answers += row.kind === "answer" ? 1 : 0;
      sums.day += today ? nanoNats : 0n;
      sums.window += limits.window !== null && atS >= limits.window.fromS ? nanoNats : 0n;
      if (row.study === study) {
        sums.study += nanoNats;
        sums.epoch += limits.epoch !== null && atS >= limits.epoch.fromS ? nanoNats : 0n;
        counts.studyAnswers += 1;
        counts.work += today ? row.weight : 0;
      }
    }
    return { ...sums, ...counts, lastS: this.lastS };
  }
}
