import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mock, test } from "node:test";
import { gunzipSync } from "node:zlib";

import { decodeSchema, encode, parse } from "../src/codec/index.js";
import { type ClientParts, DeviceClient } from "../src/embedding.js";
import * as shipped from "../src/index.js";
import { fromHex } from "../src/integers.js";
import * as shippedForNode from "../src/node.js";
import { startThread } from "../src/node/threads.js";
import { CheckInResponseSchema } from "../src/protos/askance_protos/v1/exchange_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { SignedStudySchema } from "../src/protos/askance_protos/v1/study_pb.js";
import { Aggregator, CallFailed } from "../src/service/connect.js";
import type { StartThread } from "../src/service/evaluation.js";
import { Secret } from "../src/service/identity.js";
import { MemoryStorage } from "./memory_storage.js";

// The first script of the kit introduces a study and asks for a bit, which takes one coin.
const cases = new URL("../../../../tests/conformance/cases/ledgers.jsonl.gz", import.meta.url);
const script = JSON.parse(gunzipSync(readFileSync(cases)).toString().split("\n", 1)[0]!).input;
const [introduction, , question] = script.steps;
const OWN = 0x0123_4567_89ab_cdefn;

test("a client draws the operating system's coins, whatever else it is given", async () => {
  const response = encode(CheckInResponseSchema, {
    studies: [parse(SignedStudySchema, fromHex(introduction.study))],
    requests: [fromHex(question.requests[0])],
  });
  const answers = [response];
  const given: bigint[] = []; // to threads that draw
  const noting: StartThread = (hear, failed) => {
    const thread = startThread(hear, failed);
    return {
      ...thread,
      post: (task, transfer) => {
        given.push(...(task.kind === "take" ? task.items.flatMap(({ words }) => [...words]) : []));
        thread.post(task, transfer);
      },
    };
  };
  let asked = 0;
  const coins = { words: (_: Uint8Array, count: number) => (asked++, new BigUint64Array(count)) };
  const storage = new MemoryStorage();
  const client = await DeviceClient.open({
    storage,
    consentStorage: storage,
    secret: await Secret.of(new Uint8Array(32)),
    startThread: noting,
    aggregator: new Aggregator("http://127.0.0.1:1", async () => ({
      status: answers.length ? 200 : 503, // the report is kept, and not taken
      body: answers.shift() ?? new Uint8Array(),
      header: (name) => (name === "content-type" ? "application/proto" : null),
    })),
    schema: decodeSchema(parse(SchemaSchema, fromHex(script.schema))),
    policy: { analysts: script.policy.analysts, lifeNanoNats: 10n ** 12n },
    consent: "pinned",
    nowS: () => Number(question.at_s),
    choices: { releaseMs: 20 },
    coins: () => coins,
    coinsOf: () => coins,
    seed: 7,
  } as ClientParts);
  const drawn = mock.method(crypto, "getRandomValues", (words: BigUint64Array) => words.fill(OWN));
  try {
    client.setRecord({ smoker: 1 });
    await assert.rejects(client.checkInOnce(), CallFailed);
  } finally {
    drawn.mock.restore();
    await client.close();
  }
  assert.equal(client.history.length, 1);
  assert.deepEqual(given, [OWN, OWN]); // of the answer and of its stand-in
  assert.equal(asked, 0);
});

test("nothing that the package exports draws from coins that are passed in, but randomizers", () => {
  const names = Object.keys({ ...shipped, ...shippedForNode });
  assert.deepEqual(
    names.filter((name) => /coins/i.test(name)),
    ["SystemCoins", "roundingCoins"], // the latter counts them
  );
  for (const name of ["TimedEvaluation", "answer", "takeCoins", "serve"]) {
    assert.ok(!names.includes(name), name);
  }
});
