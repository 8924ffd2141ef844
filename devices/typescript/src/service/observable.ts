/**
 * Decisions on what an aggregator, or an observer of the network, sees of a device.
 *
 * Each rule is a function of public data (device ids, what an aggregator sent, the configuration)
 * and of fresh randomness, never of a record or a name. A change of order, timing, batches or
 * retries is a change of this module.
 *
 * | observed                       | rule                                   | decided by        |
 * |--------------------------------|----------------------------------------|-------------------|
 * | order of enrolments and of     | device ids as bytes, ascending         | `ordered`         |
 * | members that check in once     |                                        |                   |
 * | time of a member's first       | uniform within `LEAST_WAIT_MS`         | `DeviceClient`    |
 * | check-in                       |                                        |                   |
 * | time of a check-in             | after `LEAST_WAIT_MS` or what the      | `nextCheckInMs`   |
 * |                                | aggregator asked for, plus up to half  |                   |
 * |                                | of it at random                        |                   |
 * | wait after k failures in a row | uniform to min(cap, 500 ms x 2^k),     | `waitAfterMs`     |
 * |                                | besides a wait that was asked for      |                   |
 * | reports in one message         | requests' order, per `MAX_REPORTS` and | `firstBatch`      |
 * |                                | lengths, which randomizers fix         |                   |
 * | time of the reports of one     | together, at a multiple of `releaseMs` | `onGrid`          |
 * | message                        | after the requests                     |                   |
 * | begin of draws, of a commit    | quarters of `releaseMs` after the      | `recordTimes`     |
 * |                                | begin of evaluation, by weight         |                   |
 * | time of whatever is sent       | never while work on a record may run   | `phaseTimes`      |
 *
 * Not hidden: whether a device is connected; how many requests a message had; that a disk was slow
 * by whole multiples of `releaseMs`; that a page was hidden, whose timers the browser slows down.
 */

import { WEIGHT_PER_S } from "../device/policy.js";
import { BATCH_BYTES, MAX_REPORTS } from "./exchange.js";

export const CALL_TIMEOUT_MS = 60_000;
export const LEAST_WAIT_MS = 60_000; // between two check-ins
export const LONGEST_WAIT_MS = 300_000; // between two tries
export const MAX_EXCHANGES = 64; // of one check-in

const FIRST_WAIT_MS = 500; // bound of the wait after the first failure
const WEIGHT_PER_MS = WEIGHT_PER_S / 1000;
const LEAST_STEP_MS = 50; // of the times of record work: below it, a busy machine misses them

/** Draws a whole number uniformly from 0 to a bound, both included. */
export type Jitter = (bound: number) => number;

/** Time of a process: a clock that never goes back, in milliseconds, and waits that follow it. */
export interface Clock {
  now(): number;
  sleep(milliseconds: number): Promise<void>;
}

/**
 * Public times of some work on records, in milliseconds from its begin: the end of the slot, when
 * another member's work may begin; T1, when values are fixed and draws begin; T2, when symbols are
 * committed.
 */
export interface RecordTimes {
  readonly slotMs: number;
  readonly fixedMs: number;
  readonly overMs: number;
}

/** The times of work on records, by a public bound of its evaluations, and of its draws. */
export function recordTimes(releaseMs: number, weight: number): RecordTimes {
  const stepMs = Math.max(Math.floor(releaseMs / 4), LEAST_STEP_MS);
  const steps = 1 + Math.floor(weight / (WEIGHT_PER_MS * stepMs));
  const overMs = (1 + 2 * steps) * stepMs;
  const slotMs = Math.min(overMs, 1 + Math.floor((2 * weight) / WEIGHT_PER_MS));
  return { slotMs, fixedMs: (1 + steps) * stepMs, overMs };
}

/** For how long windows of record work may begin, and then for how long none may. */
export function phaseTimes(releaseMs: number): readonly [number, number] {
  return [2 * releaseMs, Math.max(Math.floor(releaseMs / 4), LEAST_STEP_MS)];
}

/**
 * Do some work and return at the first multiple of `releaseMs` from now at which it is done.
 *
 * Every multiple is counted from the begin. A wait that ended more than half of `releaseMs` late
 * (a hidden page, a machine that slept) has missed its instant, which becomes the next multiple;
 * if that is missed too, the timers are slowed down, and the browser's own instant is taken.
 * Lateness follows from the browser's rules and from what else the machine does: the work on the
 * record has ended at T2, before.
 */
export async function onGrid<T>(work: Promise<T>, releaseMs: number, clock: Clock): Promise<T> {
  if (!releaseMs) {
    return work;
  }
  let done = false;
  const settle = () => void (done = true);
  work.then(settle, settle);
  const began = clock.now();
  let instant = began + releaseMs;
  for (let missed = 0; ; ) {
    await clock.sleep(Math.max(0, instant - clock.now()));
    const lateMs = clock.now() - instant;
    missed = lateMs > releaseMs / 2 ? missed + 1 : 0;
    if (done && missed !== 1) {
      return work;
    }
    instant += releaseMs * Math.max(1, Math.ceil(lateMs / releaseMs));
  }
}

/** When to check in again after a check-in that succeeded. */
export function nextCheckInMs(askedMs: number, leastMs: number, jitter: Jitter): number {
  const waitMs = Math.max(leastMs, Math.min(askedMs, LONGEST_WAIT_MS));
  return waitMs + jitter(Math.floor(waitMs / 2));
}

/** When to try again after failures in a row; `askedMs` is what the aggregator asked for, or 0. */
export function waitAfterMs(failures: number, askedMs: number, jitter: Jitter): number {
  const bounded = Math.min(askedMs, LONGEST_WAIT_MS);
  const doubled = FIRST_WAIT_MS * 2 ** Math.min(failures - 1, 20);
  return bounded + jitter(Math.max(bounded, Math.min(LONGEST_WAIT_MS, doubled)));
}

/** The first reports of those that are kept, oldest first, cut to what a message may have. */
export function firstBatch(reports: Iterable<Uint8Array>): Uint8Array[] {
  const batch: Uint8Array[] = [];
  let room = BATCH_BYTES;
  for (const report of reports) {
    if (batch.length === MAX_REPORTS || (batch.length && report.length > room)) {
      break;
    }
    batch.push(report);
    room -= report.length;
  }
  return batch;
}

/** Members in the order in which an aggregator may observe them: by device id. */
export function ordered<T extends { readonly deviceId: string }>(members: Iterable<T>): T[] {
  return [...members].sort((a, b) => (a.deviceId < b.deviceId ? -1 : 1));
}

/** Jitter from the operating system; the bound is below 2^31. */
export function systemJitter(bound: number): number {
  const range = bound + 1;
  const most = 2 ** 32 - (2 ** 32 % range); // above it a remainder would be more likely
  const word = new Uint32Array(1);
  do {
    crypto.getRandomValues(word);
  } while (word[0]! >= most);
  return word[0]! % range;
}

/** The clock of this thread. */
export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (milliseconds) => new Promise((resolve) => void setTimeout(resolve, milliseconds)),
};
