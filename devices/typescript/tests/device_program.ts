/**
 * A device that a test leads by lines of JSON on its standard input, one answer a line; see
 * `tests/devices/scripted.py`.
 */

import { existsSync } from "node:fs";
import { createInterface } from "node:readline";

import { answer } from "../conformance/answering.js";
import { decodeSchema, parse } from "../src/codec/index.js";
import { Device } from "../src/device/core.js";
import { Examiner } from "../src/device/examination.js";
import { Policy } from "../src/device/policy.js";
import { AskanceError } from "../src/errors.js";
import { fromHex, toHex } from "../src/integers.js";
import { LedgerFile } from "../src/ledger/ledger_file.js";
import { Reason, type Refusal } from "../src/messages.js";
import { FileStorage } from "../src/node/ledger_file_storage.js";
import { postTrusting } from "../src/node/posting.js";
import { startThread } from "../src/node/threads.js";
import { Consents } from "../src/owner/consents.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { Aggregator, CallFailed } from "../src/service/connect.js";
import { type Evaluation, TimedEvaluation } from "../src/service/evaluation.js";
import { DeviceRunner } from "../src/service/runtime.js";
import { MemoryStorage } from "./memory_storage.js";
import { HashCoins } from "./seeded_coins.js";

type Json = Record<string, any>;

const consentStorage = new MemoryStorage();
let nowS = 0;
let file: LedgerFile;
let device: Device;
let runner: DeviceRunner;
let timed: TimedEvaluation | undefined;
let refusals: Refusal[] = [];

async function open(given: Json): Promise<Json> {
  if (!existsSync(given.path)) {
    await FileStorage.create(given.path);
  }
  file = await LedgerFile.open(await FileStorage.open(given.path));
  const schema = decodeSchema(parse(SchemaSchema, fromHex(given.schema)));
  const identity = {
    deviceId: given.device_id ?? toHex(Buffer.from("device 0")),
    token: given.token === undefined ? new Uint8Array(32) : fromHex(given.token),
  };
  const consents = given.consent && (await Consents.open(consentStorage, given.consent));
  const policy = new Policy({
    analysts: given.analysts,
    lifeNanoNats: BigInt(given.life),
    refreshDays: given.refresh_days ?? null,
    windowNanoNats: given.window === undefined ? null : BigInt(given.window),
    windowDays: given.window_days ?? 30,
    consent: consents?.consent ?? null,
  });
  const examiner = new Examiner();
  const ledger = file.ledger("", identity.deviceId);
  device = new Device({ schema, policy, ledger, examiner, nowS: () => nowS });
  const coins = new HashCoins(given.ordinal ?? 0);
  let evaluation: Evaluation = {
    work: (due) => answer(() => schema.encode(given.record), coins, due.map(({ asked }) => asked)),
    quiet: async () => {},
  };
  if (given.release_ms) {
    const clock = {
      now: () => performance.now(),
      sleep: (ms: number) => new Promise<void>((done) => void setTimeout(done, ms)),
    };
    timed = new TimedEvaluation(startThread, given.release_ms, clock);
    timed.setRecord("", given.record);
    evaluation = timed.of("", coins);
  }
  const aggregator = new Aggregator(given.url, postTrusting(given.ca ?? null));
  refusals = [];
  runner = new DeviceRunner(device, identity, aggregator, evaluation, {
    releaseMs: given.release_ms ?? 0,
    onRefusal: (refusal) => void refusals.push(refusal),
  });
  return {};
}

async function checkIn(): Promise<Json> {
  try {
    return { retry_after_ms: await runner.checkInOnce(), failure: null };
  } catch (error) {
    if (!(error instanceof AskanceError)) {
      throw error;
    }
    const code = error instanceof CallFailed ? error.code : null;
    return { failure: error.name, message: error.message, code };
  }
}

const COMMANDS: Record<string, (given: Json) => Json | Promise<Json>> = {
  open,
  check_in: checkIn,
  now: (given) => ((nowS = given.at_s), {}),
  state: () => ({
    sequence: device.ledger.sequence,
    unacknowledged: runner.unacknowledged,
    charges: file.postings.map(({ nanoNats }) => String(nanoNats)),
    known: device.knownStudies,
    refusals: refusals.map(({ reason }) => Reason[reason]),
  }),
  stored: (given) => {
    const report = device.ledger.stored(given.request);
    return { report: report && toHex(report) };
  },
  close: async () => {
    timed?.close();
    timed = undefined;
    await file.close();
    return {};
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line) as Json;
  console.log(JSON.stringify(await COMMANDS[given.do]!(given)));
}
timed?.close();
