import assert from "node:assert/strict";
import { test } from "node:test";

import { parse } from "../src/codec/index.js";
import { RemoteProtocolError } from "../src/errors.js";
import { fromHex } from "../src/integers.js";
import { RequestSchema } from "../src/protos/askance_protos/v1/exchange_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";

// Request: study_digest = 1, round = 2, group = 3, query = 4 (kind = 1, nodes = 2 (args = 2)).
const refused: Record<string, string> = {
  "a number where bytes are": "0807",
  "bytes where a number is": "120107",
  "a number of 32 fixed bits": "1507000000",
  "a number of 64 fixed bits": "110700000000000000",
  "a group": "0b0c",
  "an end of a group": "0c",
  "a field that the message lacks": "a00601",
  "a field that an inner message lacks": "2203a00601",
  "a field that an inner message's item lacks": "22051203a00601",
  "field number 0": "0001",
  "an inner message that is longer than its message": "220422050801",
  "bytes beyond the message": "0a05616263",
  "a number that does not end": "1080",
  "a number of eleven bytes": "108080808080808080808001",
  "a tag beyond 32 bits": "808080808001",
  "a length beyond 32 bits": "0a808080808001",
  "a tag of six bytes": "8a808080800000",
  "a tag of five bytes beyond 32 bits": "8a8080801000",
  "a length of six bytes": "0a808080808000",
  "a length of five bytes beyond 32 bits": "0a8080808010",
  "a packed number that does not end": "220512031201 80".replace(" ", ""),
};

for (const [name, hex] of Object.entries(refused)) {
  test(`refused: ${name}`, () => {
    assert.throws(() => parse(RequestSchema, fromHex(hex)), RemoteProtocolError);
  });
}

test("a text that is not UTF-8 is refused, a byte order mark is part of a text", () => {
  assert.throws(() => parse(SchemaSchema, fromHex("0a02c328")), RemoteProtocolError);
  assert.equal(parse(SchemaSchema, fromHex("0a03efbbbf")).name, "\ufeff");
});

test("a number is cut to its 32 bits, and the last value counts", () => {
  assert.equal(parse(RequestSchema, fromHex("108780808010")).round, 7); // 2^32 + 7
  assert.equal(parse(RequestSchema, fromHex("10071009")).round, 9);
});

test("messages that occur twice are merged, numbers may be packed or not", () => {
  const { query } = parse(RequestSchema, fromHex("22020801" + "22061204" + "12020102" + "2206120410011002"));
  assert.equal(query?.kind, 1);
  assert.deepEqual(query?.nodes.map(({ args }) => args), [
    [1, 2],
    [1, 2],
  ]);
});

test("a message has at most its limit", () => {
  assert.equal(parse(RequestSchema, fromHex("10071007"), 4).round, 7);
  assert.throws(() => parse(RequestSchema, fromHex("10071007"), 3), RemoteProtocolError);
});
