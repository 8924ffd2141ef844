import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mock, test } from "node:test";
import { Worker } from "node:worker_threads";
import { gunzipSync } from "node:zlib";

import { decodeReport, decodeSchema, encode, parse } from "../src/codec/index.js";
import { Device } from "../src/device/core.js";
import { Examiner } from "../src/device/examination.js";
import { Policy } from "../src/device/policy.js";
import { Reason, Refusal } from "../src/messages.js";
import { QueryKind } from "../src/queries/index.js";
import { Op } from "../src/queries/kinds.js";
import { fromHex } from "../src/integers.js";
import { LedgerFile } from "../src/ledger/ledger_file.js";
import { startReadingFrom, startThread } from "../src/node/threads.js";
import { RequestSchema } from "../src/protos/askance_protos/v1/exchange_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { SignedStudySchema } from "../src/protos/askance_protos/v1/study_pb.js";
import type { Coins } from "../src/randomizers/index.js";
import { type StartThread, TimedEvaluation } from "../src/service/evaluation.js";
import { type Clock, systemClock } from "../src/service/observable.js";
import { type Done, serve, type Task } from "../src/service/record_worker.js";
import { MemoryStorage } from "./memory_storage.js";

// The first script of the kit asks for the bit `smoker` by a table of two levels: symbol 1 for 1
// has e / (1 + e) = .731... of the coins, and is the second; a coin of 2^64 - 1 draws the last one,
// a coin of 0 the first one.
const cases = new URL("../../../../tests/conformance/cases/ledgers.jsonl.gz", import.meta.url);
const script = JSON.parse(gunzipSync(readFileSync(cases)).toString().split("\n", 1)[0]!).input;
const [introduction, , question] = script.steps;
const schema = decodeSchema(parse(SchemaSchema, fromHex(script.schema)));
const study = parse(SignedStudySchema, fromHex(introduction.study));
const payload = fromHex(question.requests[0]);
const MIDDLE = 1n << 63n; // of a record with 1 it draws 1, of one with 0, the default, it draws 0

const UNHURRIED_MS = 2000; // a grid on which a busy machine is in time, too

const MIDDLES: Coins = { words: (_, count) => new BigUint64Array(count).fill(MIDDLE) };

/** The main coins draw by the value, those of stand-ins draw 1 whatever the value is. */
class Told implements Coins {
  #asked = 0;
  words(_: Uint8Array, count: number): BigUint64Array {
    return new BigUint64Array(count).fill(this.#asked++ % 2 ? (1n << 64n) - 1n : MIDDLE);
  }
}

/** Let a thread do something else than it is asked. */
function tampered(change: (task: Task) => Task | null): StartThread {
  return (hear, failed) => {
    const thread = startThread(hear, failed);
    return {
      ...thread,
      post: (task, transfer) => {
        const changed = change(task);
        if (changed !== null) {
          thread.post(changed, transfer);
        }
      },
    };
  };
}

async function symbolOf(
  start: StartThread,
  coins: Coins,
  record: Record<string, unknown>,
  clock: Clock = systemClock,
  releaseMs = 20,
): Promise<[number, TimedEvaluation, Device]> {
  const file = await LedgerFile.open(new MemoryStorage());
  const policy = new Policy({ analysts: script.policy.analysts, lifeNanoNats: 10n ** 12n });
  const ledger = file.ledger("", "");
  const nowS = () => Number(question.at_s);
  const device = new Device({ schema, policy, ledger, nowS, examiner: new Examiner() });
  assert.equal(await device.introduce(study), null);
  const evaluation = new TimedEvaluation(start, releaseMs, clock);
  evaluation.setRecord("", record);
  const turn = await device.begin([payload]);
  const worked = await evaluation.of("", coins).work(turn.due);
  const [report] = (await turn.finish(worked)).values();
  const { outcome } = decodeReport(report!);
  assert.ok(!(outcome instanceof Refusal));
  return [outcome[0]!, evaluation, device];
}

for (const [record, symbol] of [[{ smoker: 1 }, 1], [{ smoker: 0 }, 0], [{}, 0]] as const) {
  test(`threads evaluate and draw: ${JSON.stringify(record)}`, async () => {
    const [drawn, evaluation] = await symbolOf(startThread, MIDDLES, record, systemClock, UNHURRIED_MS);
    evaluation.close();
    assert.equal(drawn, symbol);
  });
}

test("a record in a file is read within the time of each evaluation", async () => {
  const folder = mkdtempSync(join(tmpdir(), "askance-"));
  const path = join(folder, "people.csv");
  const write = (smoker: number) => writeFileSync(path, `id,${[...schema.fields.keys()].join()}\nann,${smoker},,,,,\n`);
  write(0);
  const tasks: Task[] = [];
  const reading: StartThread = (hear, failed) => {
    const thread = startReadingFrom({ path, key: "id" })(hear, failed);
    return { ...thread, post: (task, transfer) => (tasks.push(task), thread.post(task, transfer)) };
  };
  const evaluation = new TimedEvaluation(startThread, UNHURRIED_MS, systemClock, reading);
  const found = [];
  for (const change of [() => {}, () => write(1), () => write(0), () => rmSync(path)]) {
    const { device } = await met();
    const { due } = await device.begin([payload]);
    change(); // when all is decided
    const { symbols } = await evaluation.of("ann", MIDDLES).work(due);
    found.push([...symbols.values()].map(([symbol]) => symbol));
  }
  evaluation.close();
  rmSync(folder, { recursive: true });
  assert.deepEqual(found, [[0], [1], [0], [0]]); // the last one is the default
  assert.deepEqual([...new Set(tasks.map(({ kind }) => kind))], ["to", "take", "evaluate"]);
});

test("the log of a running device repeats nothing of a file that is not of records", async () => {
  const folder = mkdtempSync(join(tmpdir(), "askance-"));
  const path = join(folder, "people.csv");
  const said = [];
  for (const text of ["zzyzx,1\n", 'id,smoker\nann,1\nbob,"zzyzx"1\n']) {
    writeFileSync(path, text); // without its line of names; a quote where none may be
    const script = new URL("../src/node/reading_thread.js", import.meta.url);
    const worker = new Worker(script, { workerData: { path, key: "id" }, stderr: true });
    await new Promise((resolve) => worker.once("message", resolve)); // it is ready
    const [line] = (await once(worker.stderr, "data")) as [Buffer];
    said.push(String(line));
    await worker.terminate();
  }
  rmSync(folder, { recursive: true });
  assert.equal(said[0], said[1]);
  assert.match(said[0]!, /^failed: records: none was read, and defaults are answered \(.*\)\n$/);
});

test("a record that cannot be encoded is answered by the default", async () => {
  const [drawn, evaluation] = await symbolOf(startThread, MIDDLES, { unknown: 1 });
  evaluation.close();
  assert.equal(drawn, 0);
});

test("the thread that has the record is given no coin, and the one that draws no record", async () => {
  const threads: Task[][] = [];
  const noting: StartThread = (hear, failed) => {
    const given: Task[] = [];
    threads.push(given);
    return tampered((task) => (given.push(task), task))(hear, failed);
  };
  const [drawn, evaluation] = await symbolOf(noting, MIDDLES, { smoker: 1 }, systemClock, UNHURRIED_MS);
  evaluation.close();
  assert.equal(drawn, 1);
  const coinsOf = (given: Task[]) =>
    given.flatMap((task) => (task.kind === "take" ? task.items.map(({ words }) => words.length) : []));
  const has = (given: Task[]) => given.some(({ kind }) => kind === "record");
  assert.deepEqual(threads.filter(has).map(coinsOf), [[0]]);
  assert.deepEqual(threads.filter((given) => !has(given)).map(coinsOf), [[1], [1]]);
});

test("an evaluation that is not ready at T1 is the default, and its thread is replaced", async () => {
  let started = 0;
  const counting: StartThread = (...hearing) => {
    started += 1;
    return tampered((task) => (task.kind === "evaluate" ? null : task))(...hearing);
  };
  const [drawn, evaluation] = await symbolOf(counting, new Told(), { smoker: 1 });
  evaluation.close();
  assert.equal(drawn, 0); // by the main coins: the draw was in time
  assert.equal(started, 4); // three threads, and the one that took the place of another
});

test("a draw that is missed at T2 is its stand-in", async () => {
  const start = tampered((task) => (task.kind === "draw" ? null : task));
  const [drawn, evaluation, device] = await symbolOf(start, new Told(), { smoker: 0 });
  evaluation.close();
  assert.equal(drawn, 1); // by coins of its own
  const turn = await device.begin([payload]);
  turn.close();
  assert.equal(turn.due.length, 0); // the stored report
});

test("a value that comes after T1 changes nothing", async () => {
  let late: (() => void) | undefined;
  const start: StartThread = (hear, failed) => {
    const thread = startThread(hear, failed);
    const end = () => setTimeout(thread.end, 500);
    return {
      end,
      post: (task, transfer) => {
        if (task.kind === "evaluate") {
          late = () => thread.post(task, transfer);
        } else {
          thread.post(task, transfer);
          if (task.kind === "draw") {
            late?.();
          }
        }
      },
    };
  };
  const [drawn, evaluation] = await symbolOf(start, MIDDLES, { smoker: 1 });
  evaluation.close();
  assert.equal(drawn, 0);
});

test("waits are those of the weight, whatever the record is", async () => {
  const waits: number[][] = [];
  for (const record of [{ smoker: 1 }, { unknown: 1 }]) {
    const waited: number[] = [];
    const clock: Clock = {
      now: () => performance.now(),
      sleep: (ms) => {
        waited.push(ms);
        return systemClock.sleep(ms);
      },
    };
    const [, evaluation] = await symbolOf(startThread, MIDDLES, record, clock);
    evaluation.close();
    waits.push(waited);
  }
  // T1 100 and T2 150 ms on a grid of 20, phases of 40 and 50 ms, and a slot.
  assert.deepEqual(waits[0], [40, 150, 1, 100, 50]);
  assert.deepEqual(waits, new Array(2).fill(waits[0]));
});

test("threads that do not start refuse the work, and nothing is charged", async () => {
  let started = 0;
  const start: StartThread = (_, failed) => {
    started += 1;
    setImmediate(failed);
    return { post: () => {}, end: () => {} };
  };
  await assert.rejects(symbolOf(start, MIDDLES, { smoker: 1 }), /does not start/);
  assert.equal(started, 3); // and no more
});

/** A device of the script's study that has met it, and its ledger's rows. */
async function met(consent: (() => Refusal | null) | null = null) {
  const file = await LedgerFile.open(new MemoryStorage());
  const policy = new Policy({
    analysts: script.policy.analysts,
    lifeNanoNats: 10n ** 12n,
    consent: consent && (async () => consent()),
  });
  const time = { s: Number(question.at_s) };
  const ledger = file.ledger("", "");
  const device = new Device({ schema, policy, ledger, nowS: () => time.s, examiner: new Examiner() });
  assert.equal(await device.introduce(study), null);
  return { file, device, time };
}

test("an owner who denies while the record is worked on is charged nothing", async () => {
  let denied: Refusal | null = null;
  const { file, device } = await met(() => denied);
  const turn = await device.begin([payload]);
  const symbols = new Map(turn.due.map(({ asked }) => [asked.digest, new Uint8Array([1])]));
  assert.equal(symbols.size, 1);
  denied = new Refusal(Reason.NOT_APPROVED);
  const [report] = (await turn.finish({ symbols, missed: 0 })).values();
  const { outcome } = decodeReport(report!);
  assert.equal(outcome instanceof Refusal && outcome.reason, Reason.NOT_APPROVED);
  assert.deepEqual(file.postings, []);
});

test("after a missed draw its class of weights is refused for the hour, lighter ones are not", async () => {
  const { device, time } = await met();
  const { studyDigest } = parse(RequestSchema, payload);
  const none = { args: [], name: "", constants: [], frac: 0 };
  const nodes = [
    { ...none, op: Op.FIELD, name: "smoker" },
    { ...none, op: Op.VECTOR, args: new Array(1024).fill(0) },
  ];
  const hypercube = { components: 1024, radius: 511, threshold: 3n << 62n };
  const heavy = encode(RequestSchema, {
    studyDigest,
    query: { kind: QueryKind.VECTOR, nodes, low: 0n, high: 1n, default: 0n },
    randomizer: { family: { case: "hypercubeResponse", value: hypercube } },
  });
  const asked = async () => {
    const turn = await device.begin([heavy, payload]);
    turn.close();
    return [turn.due.length, ...turn.refusals.map(({ reason }) => reason)];
  };
  assert.deepEqual(await asked(), [2]);
  const turn = await device.begin([]);
  await turn.finish({ symbols: new Map(), missed: 22 }); // light: what is refused begins at 4,096
  assert.deepEqual(await asked(), [1, Reason.INVALID_RANDOMIZER]);
  time.s += 3_600;
  assert.deepEqual(await asked(), [2]);
});

/** A clock whose waits end in order, each as soon as nothing else is to be done. */
class Stepped implements Clock {
  time = 0;
  readonly #waits: { readonly at: number; readonly wake: () => void }[] = [];

  now(): number {
    return this.time;
  }

  sleep(milliseconds: number): Promise<void> {
    return new Promise((wake) => void this.#waits.push({ at: this.time + milliseconds, wake }));
  }

  async run(): Promise<void> {
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      this.#waits.sort((a, b) => a.at - b.at);
      const next = this.#waits.shift();
      if (next === undefined) {
        return;
      }
      this.time = next.at;
      next.wake();
    }
  }
}

test("windows begin for two grids, then none until all are over and a quarter is left to send", async () => {
  const clock = new Stepped();
  const begun: number[] = [];
  const start: StartThread = (hear) => {
    setImmediate(() => hear({ kind: "ready" }));
    const post = (task: Task) => {
      if (task.kind === "evaluate") {
        begun.push(clock.now());
        hear({ kind: "evaluated", id: task.id });
      } else if (task.kind === "stand-ins" || task.kind === "draw") {
        hear({ kind: "symbols", id: task.id, symbols: new Map([[digest, new Uint8Array(1)]]) });
      }
    };
    return { post, end: () => {} };
  };
  const file = await LedgerFile.open(new MemoryStorage());
  const policy = new Policy({ analysts: script.policy.analysts, lifeNanoNats: 10n ** 12n });
  const nowS = () => Number(question.at_s);
  const device = new Device({ schema, policy, ledger: file.ledger("", ""), nowS, examiner: new Examiner() });
  assert.equal(await device.introduce(study), null);
  const { due } = await device.begin([payload]);
  const digest = due[0]!.asked.digest;
  // At once, as all else here: the clock goes on when nothing is left to be done.
  const hashed = mock.method(crypto.subtle, "digest", async (_: unknown, data: Uint8Array) =>
    new Uint8Array(createHash("sha256").update(data).digest()).buffer,
  );
  const evaluation = new TimedEvaluation(start, 1000, clock);
  const times = [0, 300, 600, 900, 1200, 1500, 1800, 2100, 2400, 2700, 3000];
  for (const time of times) {
    void clock.sleep(time).then(() => evaluation.of("", MIDDLES).work(due));
  }
  await clock.run();
  hashed.mock.restore();
  evaluation.close();
  // The window of 1800 is over at 2550; until 2800 what is owed is sent. Slots of 1 ms follow.
  assert.deepEqual(begun, [0, 300, 600, 900, 1200, 1500, 1800, 2800, 2801, 2802, 3000]);
});

for (const kind of ["draw", "stand-ins"] as const) {
  test(`a thread forgets the coins of what it has drawn: ${kind}`, async () => {
    const told: Done[] = [];
    let give!: (task: Task) => void;
    serve({ postMessage: (done) => void told.push(done as Done), listen: (handle) => void (give = handle) });
    const words = new BigUint64Array(1);
    give({ kind: "take", id: 1, items: [{ digest: "00", payload, study: study.study, words }] });
    give({ kind, id: 1 });
    give({ kind, id: 1 });
    while (told.length < 3) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const drawn = told.map((done) => (done.kind === "symbols" ? [...done.symbols.keys()] : done.kind));
    assert.deepEqual(drawn, ["ready", ["00"], []]);
  });
}

test("work that fails ends its thread, by an error that names nothing of it", async () => {
  const thrown: (() => void)[] = [];
  let give!: (task: Task) => void;
  serve({ postMessage: () => {}, listen: (handle) => void (give = handle) });
  const waits = mock.method(globalThis, "setTimeout", (work: () => void) => void thrown.push(work));
  const item = { digest: "00", payload: new Uint8Array(), study: new Uint8Array([255]) };
  give({ kind: "take", id: 1, items: [{ ...item, words: new BigUint64Array() }] });
  while (!thrown.length) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  waits.mock.restore();
  assert.throws(thrown[0]!, { name: "StoreFailed", message: "evaluation: a thread failed" });
});
