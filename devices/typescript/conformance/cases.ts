/** The kit's cases, read from wherever they are, and the comparison of answers. */

import { sha256 } from "../src/queries/index.js";
import { toHex } from "../src/integers.js";
import type { Answer, Json } from "./adapter.js";

export interface Case {
  readonly kind: string;
  readonly name: string;
  readonly input: Json;
  readonly expected: Json;
}

/**
 * Read all cases; `read` gives a file of `tests/conformance/cases`.
 *
 * @throws Error: a file is not the one whose SHA-256 is recorded.
 */
export async function load(read: (name: string) => Promise<Uint8Array>): Promise<Case[]> {
  const text = new TextDecoder();
  const cases: Case[] = [];
  for (const line of text.decode(await read("SHA256SUMS")).trim().split("\n")) {
    const [digest, name] = line.split(/\s+/);
    const packed = new Blob([new Uint8Array(await read(`${name}.gz`))]);
    const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
    const data = new Uint8Array(await new Response(stream).arrayBuffer());
    if (toHex(await sha256(data)) !== digest) {
      throw new Error(`${name}: expected SHA-256 ${digest}, got another file`);
    }
    for (const record of text.decode(data).trimEnd().split("\n")) {
      cases.push(JSON.parse(record));
    }
  }
  return cases;
}

/** Whether two values of JSON are equal, whatever the order of names. */
export function same(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) {
    return a === b;
  }
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return (
    Array.isArray(a) === Array.isArray(b) &&
    left.length === right.length &&
    left.every(([name, value]) => Object.hasOwn(b, name) && same(value, (b as Json)[name]))
  );
}

/** Counts and seconds of one kind. */
export interface Count {
  passed: number;
  failed: number;
  seconds: number;
}

/** Ask every case and count by kind. */
export async function compare(
  cases: readonly Case[],
  answer: Answer,
): Promise<Record<string, Count>> {
  const counts: Record<string, Count> = {};
  for (const { kind, input, expected } of cases) {
    const count = (counts[kind] ??= { passed: 0, failed: 0, seconds: 0 });
    const start = performance.now();
    const right = same(await answer(kind, input), expected);
    count.seconds += (performance.now() - start) / 1000;
    count[right ? "passed" : "failed"] += 1;
  }
  return counts;
}
