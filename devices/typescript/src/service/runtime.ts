/** A device at work: it fetches requests, lets its core answer them, and delivers the reports. */

import { encode } from "../codec/index.js";
import type { Device } from "../device/core.js";
import { AskanceError, RemoteProtocolError } from "../errors.js";
import { fromHex, toHex } from "../integers.js";
import type { Refusal } from "../messages.js";
import { CheckInRequestSchema, type CheckInResponse } from "../protos/askance_protos/v1/exchange_pb.js";
import { type Aggregator, CallFailed, type Credentials, deviceCredentials } from "./connect.js";
import type { Evaluation } from "./evaluation.js";
import { MAX_KNOWN_STUDIES, decodeResponse } from "./exchange.js";
import type { Identity } from "./identity.js";
import {
  type Clock,
  type Jitter,
  LEAST_WAIT_MS,
  MAX_EXCHANGES,
  firstBatch,
  nextCheckInMs,
  onGrid,
  systemClock,
  systemJitter,
  waitAfterMs,
} from "./observable.js";

export const MAX_UNACKNOWLEDGED = 1024;

/**
 * An aggregator has acknowledged more answers than the ledger holds: the ledger is older than it
 * was (its storage was put back), or the aggregator lies. Nothing was answered.
 */
export class LedgerOlder extends RemoteProtocolError {}

/** Public choices of a device at work. */
export interface RunnerChoices {
  readonly releaseMs?: number; // the grid on which reports leave; 0: at once, for simulations
  readonly leastWaitMs?: number; // between two check-ins
  readonly clock?: Clock;
  readonly jitter?: Jitter;
  readonly onRefusal?: (refusal: Refusal) => void; // with its text, which does not leave
  readonly onFailure?: (failure: Error) => void;
}

/**
 * Check-ins of one device with its aggregator.
 *
 * Privacy: nothing is decided here; what leaves is what `Turn.finish` returned, durable already,
 * and a repetition is the same bytes.
 */
export class DeviceRunner {
  readonly #outbox = new Map<string, Uint8Array>(); // reports of a check-in that are not acknowledged
  readonly #credentials: Credentials;
  readonly #choices: RunnerChoices;
  readonly #clock: Clock;

  constructor(
    private readonly device: Device,
    identity: Identity,
    private readonly aggregator: Aggregator,
    private readonly evaluation: Evaluation,
    choices: RunnerChoices = {},
  ) {
    this.#credentials = deviceCredentials(identity);
    this.#choices = choices;
    this.#clock = choices.clock ?? systemClock;
  }

  /** Number of reports kept for another delivery. */
  get unacknowledged(): number {
    return this.#outbox.size;
  }

  /**
   * Fetch requests, answer them and deliver the answers.
   *
   * What an earlier check-in did not deliver is not kept: the aggregator asks again for what it
   * lacks, the ledger has the bytes, and the owner may have denied the study since.
   *
   * @returns when the aggregator would like the next check-in, in milliseconds.
   */
  async checkInOnce(): Promise<number> {
    this.#outbox.clear();
    let response = await this.#exchange();
    for (let i = 0; i < MAX_EXCHANGES && this.#outbox.size; i++) {
      response = await this.#exchange();
    }
    return response.retryAfterMs;
  }

  /** Check in again and again, first after a wait, until the signal ends it. */
  async keepCheckingIn(signal: AbortSignal, firstMs = 0): Promise<void> {
    const { leastWaitMs = LEAST_WAIT_MS, jitter = systemJitter, onFailure } = this.#choices;
    await unlessAborted(this.#clock.sleep(firstMs), signal);
    for (let failures = 0; !signal.aborted; ) {
      let waitMs: number;
      try {
        waitMs = nextCheckInMs(await this.checkInOnce(), leastWaitMs, jitter);
        failures = 0;
      } catch (failure) {
        // Whatever it is: one bad exchange does not end the device.
        onFailure?.(failure instanceof Error ? failure : new AskanceError("check-in failed"));
        const askedMs = failure instanceof CallFailed ? failure.retryMs : 0;
        waitMs = leastWaitMs + waitAfterMs(++failures, askedMs, jitter);
      }
      await unlessAborted(this.#clock.sleep(waitMs), signal);
    }
  }

  async #exchange(): Promise<CheckInResponse> {
    const reports = firstBatch(this.#outbox.values());
    const knownStudies = this.device.knownStudies.slice(-MAX_KNOWN_STUDIES).map(fromHex);
    await this.evaluation.quiet();
    const message = encode(CheckInRequestSchema, { reports, knownStudies });
    const data = await this.aggregator.call("CheckIn", message, this.#credentials);
    const response = decodeResponse(data);
    if (response.acks.length < reports.length) {
      throw new RemoteProtocolError(
        `exchange: expected ${reports.length} acknowledgements, found ${response.acks.length}`,
      );
    }
    const { releaseMs = 1000 } = this.#choices;
    const answering = this.#answer(response);
    await (response.requests.length ? onGrid(answering, releaseMs, this.#clock) : answering);
    return response;
  }

  /** Do what a response says, and keep the reports that it led to. */
  async #answer(response: CheckInResponse): Promise<void> {
    const { acknowledgedSequence, acks, studies } = response;
    const held = this.device.ledger.sequence;
    if (acknowledgedSequence > BigInt(held)) {
      throw new LedgerOlder(
        `expected an aggregator that has at most ${held} numbered answers, got one that has` +
          ` ${acknowledgedSequence}: the ledger is older than it was, or the aggregator lies`,
      );
    }
    for (const { requestDigest } of acks) {
      this.#outbox.delete(toHex(requestDigest)); // whatever its status: to send it again would change nothing
    }
    for (const study of studies) {
      this.#refused(await this.device.introduce(study));
    }
    for (let requests: readonly Uint8Array[] = response.requests; requests.length; ) {
      requests = await this.#turn(requests);
    }
  }

  /** Answer requests, and return those that are left for the next turn. */
  async #turn(requests: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
    const turn = await this.device.begin(requests);
    try {
      turn.refusals.forEach((refusal) => this.#refused(refusal));
      const { due } = turn;
      const nothing = { symbols: new Map<string, Uint8Array>(), missed: 0 };
      const worked = due.length ? await this.evaluation.work(due) : nothing;
      for (const [digest, report] of await turn.finish(worked)) {
        this.#put(digest, report);
      }
    } finally {
      turn.close();
    }
    return turn.left;
  }

  #put(digest: string, report: Uint8Array): void {
    if (this.#outbox.size >= MAX_UNACKNOWLEDGED && !this.#outbox.has(digest)) {
      throw new RemoteProtocolError(
        `exchange: expected at most ${MAX_UNACKNOWLEDGED} reports without an acknowledgement`,
      );
    }
    this.#outbox.set(digest, report);
  }

  #refused(refusal: Refusal | null): void {
    if (refusal !== null) {
      this.#choices.onRefusal?.(refusal);
    }
  }
}

async function unlessAborted(wait: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) {
    return;
  }
  await new Promise<void>((resolve) => {
    const done = () => {
      signal.removeEventListener("abort", done);
      resolve();
    };
    signal.addEventListener("abort", done);
    void wait.then(done);
  });
}
