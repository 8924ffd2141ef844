/** Work on records at public times, in threads that may hang, and times at which nothing leaves. */

import { takeCoins, takeStandInCoins, type RawRecord } from "../device/record_work.js";
import type { Worked } from "../device/core.js";
import type { Due } from "../device/settling.js";
import type { Coins } from "../randomizers/index.js";
import { StoreFailed } from "../errors.js";
import { type Clock, phaseTimes, recordTimes } from "./observable.js";
import type { Done, Item, Task } from "./record_worker.js";

/** Does the work of one member's answers that are due. */
export interface Evaluation {
  /** Read the record, draw symbols, and return at a time that follows from the weights. */
  work(due: readonly Due[]): Promise<Worked>;

  /** Wait until no work on a record can delay what leaves the process. */
  quiet(): Promise<void>;
}

/** A thread that serves `record_worker`. */
export interface Thread {
  post(task: Task, transfer?: readonly MessagePort[]): void;
  end(): void; // it does not count as one that ends by itself
}

/** Starts a thread; `failed` is called if it ends by itself. */
export type StartThread = (hear: (done: Done) => void, failed: () => void) => Thread;

/**
 * Threads that work on records, at times that are functions of the work's weight.
 *
 * The window of some work begins when its stand-ins are drawn, by a thread that no record reaches.
 * At its first time (T1) the values that are ready are fixed, and the draw begins; a thread whose
 * evaluation is not over is ended, and another takes its place. At its second time (T2) the work is
 * over: a draw that is late is replaced by its stand-in.
 *
 * Windows and sending alternate in the whole process (`phaseTimes`): threads share processors with
 * whatever is sent.
 *
 * Privacy: windows, slots and phases are functions of weights, however long a step takes.
 */
export class TimedEvaluation {
  readonly #records = new Map<string, RawRecord>();
  readonly #pending = new Map<number, { readonly member: string; readonly items: Item[] }>();
  readonly #standIns = new Map<number, (symbols: Map<string, Uint8Array> | null) => void>();
  readonly #drawn = new Map<number, Map<string, Uint8Array>>();
  readonly #ready: Promise<unknown>; // of the first threads
  #preparer!: Thread;
  #evaluator!: Thread;
  #drawer!: Thread;
  #count = 0;
  #slot: Promise<unknown> = Promise.resolve();
  #windows = 0; // that are open
  #admits = true; // a window may begin
  #phase = 0;
  readonly #waiting = new Set<() => void>(); // for a change of the two
  #closed = false;

  /**
   * @param releaseMs the grid, on which reports leave.
   * @param startReading starts the thread that evaluates, where it reads records by itself.
   */
  constructor(
    private readonly start: StartThread,
    private readonly releaseMs: number,
    private readonly clock: Clock,
    private readonly startReading = start,
  ) {
    this.#ready = Promise.all([this.#startPreparer(), ...this.#startDrawer()]);
    this.#ready.catch(() => {}); // reported by the next piece of work
  }

  /** Give a member's record to the thread that evaluates; it replaces the one before. */
  setRecord(member: string, record: RawRecord): void {
    this.#records.set(member, record);
    this.#evaluator.post({ kind: "record", member, record });
  }

  /** The evaluation of one member's answers, by coins of its own. */
  of(member: string, coins: Coins): Evaluation {
    return { work: (due) => this.#work(member, coins, due), quiet: () => this.quiet() };
  }

  async #work(member: string, coins: Coins, due: readonly Due[]): Promise<Worked> {
    const weight = due.reduce((sum, { asked }) => sum + asked.weight, 0);
    const times = recordTimes(this.releaseMs, weight);
    const id = ++this.#count;
    const begun = this.#slot.then(() => this.#begin(id, member, coins, due, times.overMs));
    this.#slot = begun.then(() => this.clock.sleep(times.slotMs)).catch(() => {});
    const { standIns, over } = await begun;
    await this.clock.sleep(times.fixedMs);
    if (this.#pending.delete(id)) {
      this.#evaluator.end();
      this.#startEvaluator();
    }
    this.#drawer.post({ kind: "draw", id });
    await over;
    const drawn = this.#drawn.get(id)!;
    this.#drawn.delete(id); // a draw that comes later is not heard
    const late = due.filter(({ asked }) => !drawn.has(asked.digest));
    return {
      symbols: new Map([...standIns, ...drawn]),
      missed: late.length ? Math.min(...late.map(({ asked }) => asked.weight)) : 0,
    };
  }

  /** Wait until no window is open. */
  async quiet(): Promise<void> {
    while (this.#windows) {
      await this.#change();
    }
  }

  /** End the threads. */
  close(): void {
    this.#closed = true;
    for (const thread of [this.#preparer, this.#evaluator, this.#drawer]) {
      thread.end();
    }
    this.#refuseAll();
  }

  /** Draw the stand-ins, open a window and begin the evaluation. */
  async #begin(
    id: number,
    member: string,
    coins: Coins,
    due: readonly Due[],
    overMs: number,
  ): Promise<{ standIns: Map<string, Uint8Array>; over: Promise<void> }> {
    await this.#ready;
    const [items, standInItems]: [Item[], Item[]] = [[], []];
    for (const { asked, payload, study } of due) {
      const common = { digest: asked.digest, payload, study: study.study };
      items.push({ ...common, words: takeCoins(coins, asked) });
      standInItems.push({ ...common, words: await takeStandInCoins(coins, asked) });
    }
    const prepared = new Promise<Map<string, Uint8Array> | null>((resolve) =>
      this.#standIns.set(id, resolve),
    );
    this.#preparer.post({ kind: "take", id, items: standInItems });
    this.#preparer.post({ kind: "stand-ins", id });
    this.#drawer.post({ kind: "take", id, items });
    this.#evaluator.post({ kind: "take", id, items: items.map(withoutCoins) });
    const standIns = await prepared;
    if (standIns === null || this.#closed) {
      throw new StoreFailed("evaluation: expected stand-ins, got a thread that ended");
    }
    while (!this.#admits) {
      await this.#change();
    }
    this.#openWindow();
    const over = this.clock.sleep(overMs).then(() => this.#closeWindow());
    this.#drawn.set(id, new Map());
    this.#pending.set(id, { member, items: items.map(withoutCoins) });
    this.#evaluator.post({ kind: "evaluate", id, member });
    return { standIns, over };
  }

  #openWindow(): void {
    if (!this.#windows++) {
      const phase = ++this.#phase;
      const [openMs] = phaseTimes(this.releaseMs);
      void this.clock.sleep(openMs).then(() => this.#admit(phase, false));
    }
  }

  /** The last window that closes begins a phase in which the process may send. */
  #closeWindow(): void {
    if (!--this.#windows) {
      const phase = ++this.#phase;
      const [, sendMs] = phaseTimes(this.releaseMs);
      this.#admit(phase, false);
      void this.clock.sleep(sendMs).then(() => this.#admit(phase, true));
    }
  }

  #admit(phase: number, admits: boolean): void {
    if (phase === this.#phase) {
      this.#admits = admits;
      const waiting = [...this.#waiting];
      this.#waiting.clear();
      waiting.forEach((wake) => wake());
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => void this.#waiting.add(resolve));
  }

  #hear(done: Done): void {
    if (done.kind === "evaluated") {
      this.#pending.delete(done.id);
    } else if (done.kind === "symbols" && this.#drawn.has(done.id)) {
      this.#drawn.set(done.id, done.symbols);
    }
  }

  /** Start a thread, or `again` another if it ends by itself; the promise is of its readiness. */
  #launch(start: StartThread, hear: (done: Done) => void, again: () => void): [Thread, Promise<void>] {
    let isReady = false;
    let thread!: Thread;
    const ready = new Promise<void>((resolve, reject) => {
      const failed = () => {
        if (!this.#closed && isReady) {
          again();
        }
        reject(new StoreFailed("evaluation: expected a thread, got one that does not start"));
      };
      thread = start((done) => {
        if (done.kind === "ready") {
          isReady = true;
          resolve();
        } else {
          hear(done);
        }
      }, failed);
    });
    ready.catch(() => {});
    return [thread, ready];
  }

  #startPreparer(): Promise<void> {
    const prepared = (done: Done) => {
      if (done.kind === "symbols") {
        this.#standIns.get(done.id)?.(done.symbols);
        this.#standIns.delete(done.id);
      }
    };
    const [thread, ready] = this.#launch(this.start, prepared, () => {
      this.#refuseAll();
      void this.#startPreparer();
    });
    this.#preparer = thread;
    return ready;
  }

  /** Start a thread that draws, and the one that evaluates for it. */
  #startDrawer(): Promise<void>[] {
    const [thread, ready] = this.#launch(
      this.start,
      (done) => this.#hear(done),
      () => void this.#startDrawer(),
    );
    this.#drawer = thread;
    this.#evaluator?.end();
    return [ready, this.#startEvaluator()];
  }

  /** Start a thread that evaluates what the one before it had not begun, and give it the records. */
  #startEvaluator(): Promise<void> {
    const [thread, ready] = this.#launch(
      this.startReading,
      (done) => this.#hear(done),
      () => {
        this.#pending.clear(); // these are answered by their defaults
        void this.#startEvaluator();
      },
    );
    this.#evaluator = thread;
    const { port1, port2 } = new MessageChannel();
    this.#drawer.post({ kind: "from", port: port1 }, [port1]);
    thread.post({ kind: "to", port: port2 }, [port2]);
    for (const [member, record] of this.#records) {
      thread.post({ kind: "record", member, record });
    }
    for (const [id, { member, items }] of this.#pending) {
      thread.post({ kind: "take", id, items });
      thread.post({ kind: "evaluate", id, member });
    }
    return ready;
  }

  #refuseAll(): void {
    for (const refuse of this.#standIns.values()) {
      refuse(null);
    }
    this.#standIns.clear();
  }
}

/** An item for the thread that evaluates, which sees no coin. */
function withoutCoins({ digest, payload, study }: Item): Item {
  return { digest, payload, study, words: new BigUint64Array() };
}
