/** Lines about refusals and failures: each text once in a while, however many members have it. */

import { Reason, type Refusal } from "../messages.js";
import { printable } from "../printable.js";

const EVERY_MS = 600_000;
const MAX_TEXTS = 64; // remembered at one time: an aggregator could send new ones without end

/** Writes a text at once, and again after ten minutes, with the times that it came in between. */
export class Journal {
  readonly #texts = new Map<string, { nextMs: number; times: number }>();

  constructor(
    private readonly write: (line: string) => void,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Note a refusal. That a request's study is not known follows from the refusal of the study. */
  refused({ reason, message }: Refusal): void {
    const isKnown = [...this.#texts].some(([text, { nextMs }]) => {
      return text.startsWith("refused") && nextMs > this.nowMs();
    });
    if (reason !== Reason.UNKNOWN_STUDY || !isKnown) {
      this.#note(`refused: ${printable(message)}`);
    }
  }

  /** Note a check-in that failed. */
  failed({ message }: Error): void {
    this.#note(`failed: ${printable(message)}`);
  }

  #note(text: string): void {
    const nowMs = this.nowMs();
    const known = this.#texts.get(text);
    if (known !== undefined && nowMs < known.nextMs) {
      known.times += 1;
      return;
    }
    if (known === undefined && this.#texts.size >= MAX_TEXTS) {
      const old = [...this.#texts].find(([, { nextMs }]) => nextMs <= nowMs);
      if (old === undefined) {
        return;
      }
      this.#texts.delete(old[0]);
    }
    this.write(known?.times ? `${text} (and ${known.times} times before)` : text);
    this.#texts.set(text, { nextMs: nowMs + EVERY_MS, times: 0 });
  }
}
