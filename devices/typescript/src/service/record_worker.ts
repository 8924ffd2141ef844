/**
 * The threads that work on records. One evaluates: it alone is given records. One draws, and one
 * draws stand-ins. Values pass from the first to the second and nowhere else.
 */

import { decodeRequest, decodeStudy } from "../codec/index.js";
import { StoreFailed } from "../errors.js";
import { type Schema, sha256 } from "../queries/index.js";
import { toHex } from "../integers.js";
import type { Request, StudyTerms } from "../messages.js";
import type { Words } from "../randomizers/index.js";
import { Latest } from "../device/examination.js";
import type { RawRecord, Value, Work } from "../device/record_work.js";
import { Drawing, evaluate, standIn } from "../device/record_work.js";

const KEPT = 64; // studies and requests that are remembered, decoded

/** One side of a channel, in a browser and in Node. */
export interface Port {
  postMessage(message: unknown, transfer?: readonly MessagePort[]): void;
  listen(handle: (message: any) => void): void;
}

/** A request in a message to a thread: its bytes and its study's, which the device has examined. */
export interface Item {
  readonly digest: string;
  readonly payload: Uint8Array;
  readonly study: Uint8Array;
  readonly words: Words;
}

/** Messages to a thread. */
export type Task =
  | { readonly kind: "to" | "from"; readonly port: MessagePort } // of values
  | { readonly kind: "record"; readonly member: string; readonly record: RawRecord }
  | { readonly kind: "take"; readonly id: number; readonly items: readonly Item[] }
  | { readonly kind: "evaluate"; readonly id: number; readonly member: string }
  | { readonly kind: "stand-ins" | "draw"; readonly id: number };

/** Messages from a thread. */
export type Done =
  | { readonly kind: "ready" }
  | { readonly kind: "evaluated"; readonly id: number }
  | { readonly kind: "symbols"; readonly id: number; readonly symbols: Map<string, Uint8Array> };

/** A value that was evaluated, on its way to the thread that draws. */
interface Ready {
  readonly id: number;
  readonly digest: string;
  readonly value: Value;
}

/**
 * Reads a member's record, for each answer anew and within the time of its evaluation. Whatever it
 * throws leaves the answer to the default.
 */
export type ReadRecord = (member: string, schema: Schema) => RawRecord | Promise<RawRecord>;

interface Taken {
  readonly works: readonly (Work & { readonly terms: StudyTerms })[];
  readonly drawing: Drawing;
}

/** Serve a thread's port, one message after another; without `read` records are those it is given. */
export function serve(own: Port, read?: ReadRecord): void {
  const records = new Map<string, RawRecord>();
  const recordOf: ReadRecord = read ?? ((member) => records.get(member) ?? {});
  const taken = new Map<number, Taken>();
  let values: MessagePort | undefined;
  let last: Promise<void> = Promise.resolve();

  const reply = (done: Done) => own.postMessage(done);
  const after = (work: () => void | Promise<void>) => {
    last = last.then(work).catch(endThread);
  };

  async function handle(task: Task): Promise<void> {
    switch (task.kind) {
      case "to":
        values = task.port;
        break;
      case "from":
        task.port.onmessage = ({ data }: { readonly data: Ready }) =>
          after(() => taken.get(data.id)?.drawing.put(data.digest, data.value));
        break;
      case "record":
        records.set(task.member, task.record);
        break;
      case "take":
        taken.set(task.id, await take(task.items));
        break;
      case "evaluate":
        await evaluateAll(task.id, task.member);
        reply({ kind: "evaluated", id: task.id });
        break;
      case "stand-ins": {
        const works = taken.get(task.id)?.works ?? [];
        const symbols = new Map(works.map((work) => [work.digest, standIn(work)]));
        taken.delete(task.id);
        reply({ kind: "symbols", id: task.id, symbols });
        break;
      }
      case "draw": {
        const symbols = taken.get(task.id)?.drawing.draw() ?? new Map();
        taken.delete(task.id);
        reply({ kind: "symbols", id: task.id, symbols });
      }
    }
  }

  /** Evaluate what was taken; an exception, whatever it is, leaves the answer to the default. */
  async function evaluateAll(id: number, member: string): Promise<void> {
    for (const { digest, request, terms } of taken.get(id)?.works ?? []) {
      try {
        const record = await recordOf(member, terms.schema);
        const value = evaluate(request, terms.schema.encode(record));
        values?.postMessage({ id, digest, value } satisfies Ready);
      } catch {
        continue;
      }
    }
    taken.delete(id);
  }

  own.listen((task: Task) => after(() => handle(task)));
  reply({ kind: "ready" });
}

/** End the thread by an error that is heard outside; its text says nothing of what was worked on. */
function endThread(): void {
  setTimeout(() => {
    throw new StoreFailed("evaluation: a thread failed");
  });
}

const studies = new Latest<StudyTerms>(KEPT);
const requests = new Latest<Request>(KEPT);

async function take(items: readonly Item[]): Promise<Taken> {
  const works = [];
  for (const { digest, payload, study, words } of items) {
    const key = toHex(await sha256(study));
    const terms = studies.get(key) ?? decodeStudy(study);
    const request = requests.get(digest) ?? decodeRequest(payload, terms.schema);
    studies.remember(key, terms);
    requests.remember(digest, request);
    works.push({ digest, request, words, terms });
  }
  return { works, drawing: new Drawing(works) };
}
