import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mock, test } from "node:test";

import { StoreError } from "../src/errors.js";
import type { Charge, Compose, Limits } from "../src/ledger/contract.js";
import { LedgerDamaged, LedgerFile, type LedgerStorage } from "../src/ledger/ledger_file.js";
import { NO_HASH, postingHash } from "../src/ledger/postings.js";
import { FileStorage } from "../src/node/ledger_file_storage.js";
import { MemoryStorage } from "./memory_storage.js";

const T = 1_641_636_000; // 10:00 of a day, UTC
const DAY = 86_400;
const NAT = 1_000_000_000n;
const NONE: Limits = {
  study: 100n * NAT,
  day: 100n * NAT,
  life: 100n * NAT,
  window: null,
  epoch: null,
  answers: 65_536,
  work: 1e15,
};
const digit = (n: number) => n.toString(16).padStart(64, "0");
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** A report that a person can read: symbol, charge, sum and number. */
const compose: Compose = (symbol, charged, spent, sequence) =>
  new TextEncoder().encode(`${symbol[0]} ${charged / NAT} ${spent / NAT} ${sequence}`);

function charge(request: number, question: number, more: Partial<Charge> = {}): Charge {
  return {
    request: digit(request),
    question: digit(question),
    study: digit(1000),
    atS: T,
    nanoNats: NAT,
    symbol: new Uint8Array([question]),
    weight: 10,
    payload: new Uint8Array([request]),
    studyBytes: new Uint8Array([9]),
    ...more,
  };
}

async function opened(storage: LedgerStorage = new MemoryStorage()): Promise<LedgerFile> {
  return LedgerFile.open(storage);
}

async function outcome(file: LedgerFile, one: Charge, limits = NONE): Promise<string> {
  const found = await file.ledger("", "aa").commit(one, limits, compose);
  return typeof found === "string" ? found : text(found);
}

test("a hash is that of the Python client's ledger", async () => {
  // Computed by askance_client.ledger.postings.Posting.hash.
  const row = {
    place: 1,
    member: "ann",
    enrolment: "aabb",
    sequence: 1,
    kind: "answer" as const,
    atS: T,
    nanoNats: NAT,
    request: "01".repeat(32),
    study: "02".repeat(32),
    question: "03".repeat(32),
    symbol: new Uint8Array([1]),
    report: new TextEncoder().encode("report"),
    weight: 5,
  };
  const first = await postingHash(row, NO_HASH);
  assert.equal(first, "1e7d0a77091653c3429b1524e92d99784c1af7fe90e2411fa0a185ac9abe83db");
  const none = new Uint8Array();
  const digests = { request: "", study: "", question: "" };
  const loss = { kind: "loss" as const, atS: T + 1, nanoNats: 7n, symbol: none, report: none };
  const second = { ...row, ...digests, ...loss, place: 2, sequence: 1 + 2 ** 32, weight: 0 };
  assert.equal(await postingHash(second, first), "a56d3ae924b6eef1d1f27d2bb375e2025ea0f58626a3e6bf73090c503b61c2a1");
});

test("a question is charged once, its request resent, another request of it reused", async () => {
  const file = await opened();
  assert.equal(await outcome(file, charge(1, 7)), "7 1 1 1");
  assert.equal(await outcome(file, charge(1, 7, { symbol: new Uint8Array([8]) })), "7 1 1 1");
  assert.equal(await outcome(file, charge(2, 7, { symbol: new Uint8Array([8]) })), "7 0 0 0");
  assert.equal(await outcome(file, charge(3, 8)), "8 1 2 2");
  assert.equal(file.ledger("", "aa").sequence, 2);
  assert.equal(file.ledger("", "bb").sequence, 0); // numbers are the enrolment's
  assert.equal(text(file.ledger("", "bb").stored(digit(1))!), "7 1 1 1"); // budgets the member's
  assert.equal(file.ledger("other", "aa").stored(digit(1)), null);
});

const LIMITS: readonly [string, Partial<Limits>, Partial<Charge>][] = [
  ["life", { life: 2n * NAT }, { atS: T + 40 * DAY, study: digit(2) }],
  ["day", { day: 2n * NAT }, { study: digit(2) }],
  ["study", { study: 2n * NAT }, { atS: T + 40 * DAY }],
  ["window", { window: { fromS: T, nanoNats: 2n * NAT } }, { study: digit(2) }],
  ["epoch", { epoch: { fromS: T, nanoNats: 2n * NAT } }, { atS: T + DAY }],
  ["study answers", { answers: 2 }, { atS: T + DAY }],
  ["work", { work: 20 }, {}],
];

for (const [name, limit, third] of LIMITS) {
  test(`a limit may be reached and not passed: ${name}`, async () => {
    const file = await opened();
    const limits = { ...NONE, ...limit };
    assert.match(await outcome(file, charge(1, 1), limits), /^1 1/);
    assert.match(await outcome(file, charge(2, 2), limits), /^2 1/);
    assert.equal(await outcome(file, charge(3, 3, third), limits), name);
    assert.equal(file.postings.length, 2);
  });
}

test("limits of a day, a study and an epoch do not count what is outside", async () => {
  const limits = { ...NONE, day: NAT, study: NAT, epoch: { fromS: T + DAY, nanoNats: NAT } };
  const file = await opened();
  assert.match(await outcome(file, charge(1, 1), limits), /^1 1/);
  const other = charge(2, 2, { study: digit(2), atS: T + DAY });
  assert.match(await outcome(file, other, limits), /^2 1 1/);
});

test("commits that come at once are made one after another", async () => {
  const file = await opened();
  const limits = { ...NONE, life: 3n * NAT };
  const asked = [1, 2, 3, 4, 5, 6].map((n) => outcome(file, charge(n, n), limits));
  const found = await Promise.all(asked);
  assert.deepEqual(found, ["1 1 1 1", "2 1 2 2", "3 1 3 3", "life", "life", "life"]);
});

test("a failed commit ends the ledger; opened anew it has what is durable", async () => {
  for (const durable of [false, true]) {
    const storage = new MemoryStorage();
    const file = await opened(storage);
    await outcome(file, charge(1, 1));
    storage[durable ? "after" : "before"] = () => {
      throw new Error("the disk is away");
    };
    await assert.rejects(outcome(file, charge(2, 2)), /the disk is away/);
    assert.throws(() => file.ledger("", "aa").sequence, StoreError);
    await assert.rejects(outcome(file, charge(3, 3)), StoreError);
    storage.before = storage.after = () => {};
    const again = await opened(storage);
    assert.equal(again.ledger("", "aa").sequence, durable ? 2 : 1);
    const stored = durable ? "2 1 2 2" : "9 1 2 2"; // charged then: the stored symbol; else anew
    assert.equal(await outcome(again, charge(2, 2, { symbol: new Uint8Array([9]) })), stored);
  }
});

const DAMAGES: Record<string, (storage: MemoryStorage) => void> = {
  "a row is missing": ({ postings }) => void postings.splice(1, 1),
  "the first row is missing": ({ postings }) => void postings.shift(),
  "a charge is smaller": ({ postings }) => void (postings[0] = { ...postings[0]!, nanoNats: 1n }),
  "a time is earlier": ({ postings }) => void (postings[1] = { ...postings[1]!, atS: 5 }),
  "a symbol is another": ({ postings }) =>
    void (postings[0] = { ...postings[0]!, symbol: new Uint8Array([3]) }),
  "rows have changed places": ({ postings }) => void postings.reverse(),
  "a row is there twice": ({ postings }) => void postings.push(postings[0]!),
  "the id is missing": ({ facts }) => void facts.clear(),
};

for (const [name, damage] of Object.entries(DAMAGES)) {
  test(`a damaged ledger is refused: ${name}`, async () => {
    const storage = new MemoryStorage();
    const file = await opened(storage);
    for (const n of [1, 2, 3]) {
      await outcome(file, charge(n, n));
    }
    await opened(storage);
    damage(storage);
    await assert.rejects(opened(storage), LedgerDamaged);
  });
}

test("a loss is charged and skips 2^32 numbers; a repaired clock lets earlier times be", async () => {
  const storage = new MemoryStorage();
  const file = await opened(storage);
  await outcome(file, charge(1, 1));
  await file.repairClock("", "aa", T - 1000);
  const lastS = (one: LedgerFile) =>
    one.ledger("", "aa").standing(digit(5), digit(5), digit(1000), 0, NONE).totals.lastS;
  assert.equal(lastS(file), T - 1000);
  await file.acceptLoss("", "aa", T, 5n * NAT);
  const again = await opened(storage);
  assert.equal(again.ledger("", "aa").sequence, 2 + 2 ** 32);
  assert.equal(lastS(again), T);
  assert.equal(await outcome(again, charge(2, 2), { ...NONE, life: 5n * NAT }), "life");
});

test("a ledger is bound to its schema, and not after charges without a binding", async () => {
  const storage = new MemoryStorage();
  const file = await opened(storage);
  await file.bind({ schema: "one" });
  await file.bind({ schema: "one" });
  await assert.rejects(file.bind({ schema: "two" }), StoreError);
  await outcome(file, charge(1, 1));
  storage.facts.delete("bound.schema");
  await assert.rejects((await opened(storage)).bind({ schema: "one" }), LedgerDamaged);
});

async function folder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "askance-"));
}

test("a file keeps rows, payloads and facts, and cuts off a line without an end", async () => {
  const path = join(await folder(), "ledger");
  await FileStorage.create(path);
  const storage = await FileStorage.open(path);
  const file = await opened(storage);
  await outcome(file, charge(1, 1));
  await file.record("a name", "a value");
  await outcome(file, charge(2, 2));
  await file.close();
  const whole = await readFile(path);
  for (const torn of ['{"row":{"place":3', "{", '{"payload":"00"']) {
    await writeFile(path, Buffer.concat([whole, Buffer.from(torn)]));
    const next = await FileStorage.open(path);
    const again = await opened(next);
    assert.equal(again.ledger("", "aa").sequence, 2);
    assert.equal(again.fact("a name"), "a value");
    assert.equal(await outcome(again, charge(2, 9)), "2 1 2 2");
    await again.close();
    assert.deepEqual(await readFile(path), whole);
  }
});

test("a file whose lines were changed is refused, and no file is overwritten", async () => {
  const path = join(await folder(), "ledger");
  await FileStorage.create(path);
  await assert.rejects(FileStorage.create(path), StoreError);
  const file = await opened((await FileStorage.open(path)));
  await outcome(file, charge(1, 1));
  await outcome(file, charge(2, 2));
  await file.close();
  const lines = (await readFile(path, "utf8")).split("\n");
  const rows = lines.flatMap((line, at) => (line.startsWith('{"row"') ? [at] : []));
  const damaged = [
    lines.filter((_, at) => at !== rows[0]),
    lines.slice(1),
    lines.map((line, at) => (at === rows[0] ? line.replace("1000000000", "1") : line)),
    ["", ...lines],
    lines.map((line, at) => (at === rows[0] ? line.slice(0, -5) : line)),
  ];
  for (const changed of damaged) {
    await writeFile(path, changed.join("\n"));
    const storage = await FileStorage.open(path);
    await assert.rejects(opened(storage), LedgerDamaged);
    await storage.close();
  }
});

test("a row that the disk does not sync is not told of", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "askance-")), "ledger");
  await FileStorage.create(path);
  const storage = await FileStorage.open(path);
  const file = await opened(storage);
  const handle = await open(path);
  await handle.close();
  const sync = mock.method(Object.getPrototypeOf(handle), "datasync", async () => {
    throw new Error("no disk");
  });
  try {
    await assert.rejects(outcome(file, charge(1, 1)), /no disk/);
  } finally {
    sync.mock.restore();
  }
  await file.close();
});

test("a second process is refused while the first one lives, and let in after its end", async () => {
  const path = join(await folder(), "ledger");
  await FileStorage.create(path);
  const module = new URL("../src/node/ledger_file_storage.js", import.meta.url);
  const code = `
    import { FileStorage } from ${JSON.stringify(module.href)};
    await FileStorage.open(${JSON.stringify(path)});
    console.log("open");
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code]);
  await once(child.stdout, "data");
  await assert.rejects(FileStorage.open(path), /not in use, got process/);
  child.kill("SIGKILL");
  await once(child, "exit");
  const storage = await FileStorage.open(path);
  await assert.rejects(FileStorage.open(path), StoreError); // this process has it
  await storage.close();
  await (await FileStorage.open(path)).close();
});

test("a process that is killed while it charges loses no row that it told of", async () => {
  const path = join(await folder(), "ledger");
  await FileStorage.create(path);
  const [ledgers, storages] = ["ledger/ledger_file", "node/ledger_file_storage"].map(
    (name) => new URL(`../src/${name}.js`, import.meta.url).href,
  );
  const code = `
    import { LedgerFile } from ${JSON.stringify(ledgers)};
    import { FileStorage } from ${JSON.stringify(storages)};
    const file = await LedgerFile.open(await FileStorage.open(${JSON.stringify(path)}));
    const limit = 10n ** 15n;
    const limits = { study: limit, day: limit, life: limit, window: null, epoch: null };
    const bytes = new Uint8Array(200);
    for (let n = file.postings.length + 1; ; n++) {
      const digest = n.toString(16).padStart(64, "0");
      const one = { request: digest, question: digest, study: "11".repeat(32), atS: 5 };
      const sizes = { nanoNats: 1n, weight: 1, symbol: bytes, payload: bytes, studyBytes: bytes };
      const all = { ...limits, answers: 65536, work: 1e15 };
      await file.ledger("", "aa").commit({ ...one, ...sizes }, all, () => bytes);
      process.stdout.write(n + "\\n");
    }`;
  for (let kill = 0; kill < 4; kill++) {
    const child = spawn(process.execPath, ["--input-type=module", "-e", code]);
    let told = 0;
    child.stdout.on("data", (data) => {
      told = Number(String(data).trim().split("\n").at(-1));
    });
    await once(child.stdout, "data");
    await new Promise((resolve) => setTimeout(resolve, 20 + 17 * kill));
    child.kill("SIGKILL");
    await once(child, "close"); // and all that it told is read
    const file = await opened(await FileStorage.open(path));
    const { sequence } = file.ledger("", "aa");
    await file.close();
    assert.ok(told >= 1 && [told, told + 1].includes(sequence), `${sequence}, told ${told}`);
  }
});

test("payloads of all studies have a bound, and those of one study another", async () => {
  for (const [studies, one, found] of [
    [15, charge(1, 1), "1 1 1 1"],
    [16, charge(1, 1), "space"], // 16 studies of 64 MiB are the GiB of all
    [1, charge(1, 1, { study: digit(0) }), "space"],
  ] as const) {
    const storage = new MemoryStorage();
    storage.payloads = Array.from({ length: studies }, (_, at) => {
      return { digest: digit(5000 + at), study: digit(at), size: 64 << 20 };
    });
    assert.equal(await outcome(await opened(storage), one), found);
    assert.equal(storage.postings.length, found === "space" ? 0 : 1);
  }
});
