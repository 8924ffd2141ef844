import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { decodeSchema, encode, parse } from "../src/codec/index.js";
import { Device } from "../src/device/core.js";
import { Examiner } from "../src/device/examination.js";
import { Policy } from "../src/device/policy.js";
import { fromHex } from "../src/integers.js";
import { LedgerFile } from "../src/ledger/ledger_file.js";
import { Consents } from "../src/owner/consents.js";
import { CheckInRequestSchema, CheckInResponseSchema } from "../src/protos/askance_protos/v1/exchange_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { SignedStudySchema } from "../src/protos/askance_protos/v1/study_pb.js";
import { Bit, Schema } from "../src/queries/index.js";
import { Aggregator, type Answer } from "../src/service/connect.js";
import { DeviceRunner } from "../src/service/runtime.js";
import { MemoryStorage } from "./memory_storage.js";

function answer(status: number, type: string, body: Uint8Array | string, retry = ""): Answer {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const headers: Record<string, string> = {
    "content-type": type,
    "trailer-askance-retry-after-ms": retry,
  };
  return { status, body: bytes, header: (name) => headers[name] ?? null };
}

const AWAY = answer(503, "application/json", '{"code":"unavailable"}');
const BUSY = answer(429, "application/json", '{"code":"resource_exhausted"}', "120000");
const NOISE = answer(200, "application/proto", new Uint8Array([255]));
const NOTHING = answer(200, "application/proto", ""); // an empty response: no wait is asked for
// retry_after_ms is field 4: 100,000 as a varint.
const LATER = answer(200, "application/proto", new Uint8Array([0x20, 0xa0, 0x8d, 0x06]));

test("check-ins are a minute apart or more, and no failure ends them", async () => {
  const file = await LedgerFile.open(new MemoryStorage());
  const device = new Device({
    schema: new Schema("person", 1, [["smoker", new Bit(false)]]),
    policy: new Policy({ analysts: [], lifeNanoNats: 1n }),
    ledger: file.ledger("", ""),
    nowS: () => 0,
    examiner: new Examiner(),
  });
  const broken = () => {
    throw new TypeError("a defect of this package");
  };
  const answers: (Answer | (() => never))[] = [AWAY, NOISE, broken, BUSY, NOTHING, LATER, AWAY];
  const end = new AbortController();
  const waits: number[] = [];
  const failures: string[] = [];
  const aggregator = new Aggregator("http://127.0.0.1:1", async () => {
    const next = answers.shift()!;
    return typeof next === "function" ? next() : next;
  });
  const evaluation = {
    work: () => Promise.reject(new Error("nothing is due")),
    quiet: () => Promise.resolve(),
  };
  const runner = new DeviceRunner(device, { deviceId: "00", token: new Uint8Array(16) }, aggregator, evaluation, {
    jitter: (bound) => bound,
    clock: {
      now: () => 0,
      sleep: async (milliseconds) => {
        waits.push(milliseconds);
        if (!answers.length) {
          end.abort();
        }
      },
    },
    onFailure: (failure) => void failures.push(failure.message),
  });
  await runner.keepCheckingIn(end.signal, 7);
  assert.equal(failures.length, 5);
  // A minute, and up to 500 ms x 2^k; what was asked for, twice with the jitter; a minute and a half.
  assert.deepEqual(waits, [7, 60_500, 61_000, 62_000, 300_000, 90_000, 150_000, 60_500]);
});

test("nothing is sent while work on a record may run, nor off the grid", async () => {
  const file = await LedgerFile.open(new MemoryStorage());
  const device = new Device({
    schema: new Schema("person", 1, [["smoker", new Bit(false)]]),
    policy: new Policy({ analysts: [], lifeNanoNats: 1n }),
    ledger: file.ledger("", ""),
    nowS: () => 0,
    examiner: new Examiner(),
  });
  const asking = encode(CheckInResponseSchema, { requests: [new Uint8Array([1])] }); // it is refused
  const acknowledging = (requestDigest: Uint8Array) =>
    encode(CheckInResponseSchema, { acks: [{ requestDigest, status: 1 }] });
  const events: string[] = [];
  let time = 0;
  let calls = 0;
  const aggregator = new Aggregator("http://127.0.0.1:1", async () => {
    events.push(`call at ${time}`);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new Uint8Array([1])));
    return answer(200, "application/proto", calls++ ? acknowledging(digest) : asking);
  });
  const evaluation = {
    work: () => Promise.reject(new Error("nothing is due")),
    quiet: async () => void events.push("quiet"),
  };
  const runner = new DeviceRunner(device, { deviceId: "00", token: new Uint8Array(16) }, aggregator, evaluation, {
    releaseMs: 700,
    clock: {
      now: () => time,
      sleep: async (milliseconds) => {
        time += milliseconds;
        await new Promise((resolve) => setImmediate(resolve));
      },
    },
  });
  await runner.checkInOnce();
  assert.deepEqual(events.slice(0, 3), ["quiet", "call at 0", "quiet"]);
  assert.equal(events.length, 4);
  const at = Number(events[3]!.slice("call at ".length));
  assert.deepEqual([at > 0, at % 700], [true, 0]);
});

test("a report that was not delivered stays when its study is denied", async () => {
  // The first script of the kit asks for one bit.
  const cases = new URL("../../../../tests/conformance/cases/ledgers.jsonl.gz", import.meta.url);
  const script = JSON.parse(gunzipSync(readFileSync(cases)).toString().split("\n", 1)[0]!).input;
  const [introduction, , question] = script.steps;
  const study = parse(SignedStudySchema, fromHex(introduction.study));
  const storage = new MemoryStorage();
  const file = await LedgerFile.open(storage);
  const consents = await Consents.open(storage, "pinned");
  const { analysts } = script.policy;
  const device = new Device({
    schema: decodeSchema(parse(SchemaSchema, fromHex(script.schema))),
    policy: new Policy({ analysts, lifeNanoNats: 10n ** 12n, consent: consents.consent }),
    ledger: file.ledger("", ""),
    nowS: () => Number(question.at_s),
    examiner: new Examiner(),
  });
  const asking = encode(CheckInResponseSchema, { studies: [study], requests: [fromHex(question.requests[0])] });
  const answers = [answer(200, "application/proto", asking), AWAY, NOTHING];
  const sent: Uint8Array[][] = [];
  const aggregator = new Aggregator("http://127.0.0.1:1", async (_, __, body) => {
    sent.push([...parse(CheckInRequestSchema, body).reports]);
    return answers.shift()!;
  });
  const evaluation = {
    work: async (due: readonly { asked: { digest: string } }[]) => ({
      symbols: new Map(due.map(({ asked }) => [asked.digest, new Uint8Array([1])])),
      missed: 0,
    }),
    quiet: () => Promise.resolve(),
  };
  const identity = { deviceId: "00", token: new Uint8Array(16) };
  const runner = new DeviceRunner(device, identity, aggregator, evaluation, { releaseMs: 0 });
  await assert.rejects(runner.checkInOnce(), /unavailable/);
  assert.deepEqual([sent.map(({ length }) => length), file.postings.length], [[0, 1], 1]);
  await consents.deny(consents.studies[0]!, Number(question.at_s));
  await runner.checkInOnce();
  assert.deepEqual(sent.slice(2), [[]]);
});
