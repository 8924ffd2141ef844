import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { decodeReport, decodeRequest, decodeSchema, decodeStudy, parse } from "../src/codec/index.js";
import { AskanceError } from "../src/errors.js";
import { fromHex } from "../src/integers.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { decodeResponse } from "../src/service/exchange.js";
import { damaged, numbers } from "./damaged_bytes.js";

const cases = new URL("../../../../tests/conformance/cases/messages.jsonl.gz", import.meta.url);
const lines = gunzipSync(readFileSync(cases)).toString().trim().split("\n");
const all = lines.map((line) => JSON.parse(line));

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
