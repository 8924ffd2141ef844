import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { decodeReport, decodeRequest, decodeSchema, decodeStudy, parse } from "../src/codec/index.js";
import { AskanceError } from "../src/errors.js";
import { fromHex } from "../src/integers.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { decodeResponse } from "../src/service/exchange.js";

const cases = new URL("../../../../tests/conformance/cases/messages.jsonl.gz", import.meta.url);
const lines = gunzipSync(readFileSync(cases)).toString().trim().split("\n");
const all = lines.map((line) => JSON.parse(line));

/** Numbers that follow from a seed (mulberry32); the test is the same each time. */
function numbers(seed: number): (below: number) => number {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** A message with some bytes changed, taken away, doubled or put in. */
function damaged(data: Uint8Array, draw: (below: number) => number): Uint8Array {
  const bytes = [...data];
  for (let times = 1 + draw(4); times > 0; times--) {
    const at = draw(bytes.length + 1);
    const part = bytes.slice(at, at + 1 + draw(20));
    switch (draw(4)) {
      case 0:
        bytes[at % Math.max(1, bytes.length)] = draw(256);
        break;
      case 1:
        bytes.splice(at, part.length);
        break;
      case 2:
        bytes.splice(at, 0, ...part);
        break;
      default:
        bytes.splice(at, 0, draw(256));
    }
  }
  return Uint8Array.from(bytes);
}

const READERS: Record<string, (data: Uint8Array, given: any) => unknown> = {
  study: decodeStudy,
  report: decodeReport,
  response: decodeResponse,
  request: (data, given) =>
    decodeRequest(data, decodeSchema(parse(SchemaSchema, fromHex(given.schema)))),
};

for (const [kind, read] of Object.entries(READERS)) {
  test(`whatever is received is read or refused as its own error: ${kind}`, () => {
    const draw = numbers(1);
    const good = all.filter((one) => one.kind === kind && typeof one.input.bytes === "string");
    const outcomes = { read: 0, refused: 0 };
    for (let n = 0; n < 1500; n++) {
      const { input } = good[draw(good.length)]!;
      try {
        read(damaged(fromHex(input.bytes), draw), input);
        outcomes.read += 1;
      } catch (error) {
        assert.ok(error instanceof AskanceError, `${kind}: ${String(error)}`);
        outcomes.refused += 1;
      }
    }
    assert.ok(outcomes.refused > 500, JSON.stringify(outcomes));
  });
}
