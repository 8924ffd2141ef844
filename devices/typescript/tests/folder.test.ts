import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, open, readFile, readdir, rm, unlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";

import { AskanceError, InvalidParameter, InvalidRecord, StoreError } from "../src/errors.js";
import { ConsentFile, makeFolder, openClient, readFolder } from "../src/node/folder.js";
import { RecordFile } from "../src/node/record_file.js";
import { readRecords } from "../src/node/records.js";
import { readSchema } from "../src/node/schema_file.js";

const CONFIGURATION = {
  aggregator: "http://127.0.0.1:1",
  analysts: ["00".repeat(32)],
  life_epsilon: "2",
  day_epsilon: "0.5",
  schema: "../schema.json",
  records: "../people.csv",
  key: "id",
};
const SCHEMA = { name: "people", version: 1, fields: [{ name: "smoker", bit: {} }] };

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "askance-"));
  await writeFile(join(made, "schema.json"), JSON.stringify(SCHEMA));
  await writeFile(join(made, "people.csv"), "id,smoker\nann,1\nbob,0\n");
  return made;
}

async function records(name: string, text: string, key: string | null = "id") {
  const path = join(await folder(), name);
  await writeFile(path, text);
  return [...(await readRecords(path, key)).records];
}

test("CSV has names, quotes and empty cells", async () => {
  const text = 'id,city,age\r\nann,"Bad ""Ems"", D",7\r\nbob,,8\r\n';
  assert.deepEqual(await records("a.csv", text), [
    ["ann", { city: 'Bad "Ems", D', age: "7" }],
    ["bob", { age: "8" }], // an empty cell is not present
  ]);
});

test("JSON is a list of objects; without a column of names it has one record", async () => {
  assert.deepEqual(await records("a.json", '[{"id":3,"x":true}]'), [["3", { x: true }]]);
  assert.deepEqual(await records("a.json", '[{"x":[1,0]}]', null), [["", { x: [1, 0] }]]);
});

test("a byte order mark is no part of the first name", async () => {
  assert.deepEqual(await records("a.csv", "\ufeffid,x\na,1\n"), [["a", { x: "1" }]]);
  await assert.rejects(readRecords("/nowhere/a.csv", "id"), InvalidRecord);
});

for (const [why, name, text, key] of [
  ["one name twice", "a.csv", "id,x\na,1\na,2\n", "id"],
  ["a row without a name", "a.csv", "id,x\n,1\n", "id"],
  ["a row that is too short", "a.csv", "id,x\na\n", "id"],
  ["a quote within a cell", "a.csv", 'id,x\na,5\' 11"\nb,1\n', "id"],
  ["a quote that is not closed", "a.csv", 'id,x\na,1\nb,"2\n', "id"],
  ["an object", "a.json", "{}", "id"],
  ["two records for one device", "a.json", "[{},{}]", null],
] as const) {
  test(`records are refused whole: ${why}`, async () => {
    await assert.rejects(records(name, text, key), InvalidRecord);
  });
}

test("a folder is made whole, once, and its parts are not made anew", async () => {
  const made = await folder();
  const home = join(made, "home");
  await makeFolder(home, CONFIGURATION);
  assert.deepEqual((await readdir(home)).sort(), ["device.json", "identity.json", "ledger"]);
  await assert.rejects(makeFolder(home, CONFIGURATION), /home: expected none there, got one/);
  assert.deepEqual((await readdir(made)).sort(), ["home", "people.csv", "schema.json"]);
  const client = await openClient(home);
  const ids = client.deviceIds;
  assert.equal(ids.length, 2);
  assert.deepEqual(ids, [...ids].sort());
  await assert.rejects(openClient(home), StoreError); // it is in use
  await client.close();
  for (const part of ["device.json", "identity.json", "ledger"]) {
    const kept = await readFile(join(home, part));
    await unlink(join(home, part));
    await assert.rejects(openClient(home), StoreError, part);
    await writeFile(join(home, part), kept);
  }
  const again = await openClient(home);
  assert.deepEqual(again.deviceIds, ids);
  await again.close();
  await writeFile(join(made, "people.csv"), "id,number,smoker\nann,1,1\nbob,2,0\n");
  const other = { ...CONFIGURATION, key: "number" }; // another name of every member
  await writeFile(join(home, "device.json"), JSON.stringify(other));
  await assert.rejects(openClient(home), /expected members as when it was first used/);
  await rm(made, { recursive: true });
});

test("what a killed init left is named by the next one, and an empty folder is none", async () => {
  const made = await folder();
  const home = join(made, "home");
  const module = new URL("../src/node/folder.js", import.meta.url).href;
  const code = `
    import { open } from "node:fs/promises";
    import { makeFolder } from ${JSON.stringify(module)};
    const handle = await open(".");
    Object.getPrototypeOf(handle).sync = () => { console.log("half"); return new Promise(() => setInterval(() => {}, 1000)); };
    await makeFolder(${JSON.stringify(home)}, ${JSON.stringify(CONFIGURATION)});`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code]);
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
  await mkdir(home); // as a person may have made it
  const left = new RegExp(`^StoreError: ${home}.new: expected none there, .*remove it`);
  await assert.rejects(makeFolder(home, CONFIGURATION), left);
  await rm(`${home}.new`, { recursive: true });
  await makeFolder(home, CONFIGURATION);
  await (await openClient(home)).close();
});

test("budgets are those of the configuration, and a key that is not known is refused", async () => {
  const home = join(await folder(), "home");
  await makeFolder(home, CONFIGURATION);
  const [, { policy }] = await readFolder(home);
  const { lifeNanoNats, dayNanoNats, studyNanoNats } = policy;
  assert.deepEqual([lifeNanoNats, dayNanoNats, studyNanoNats], [2_000_000_000n, 500_000_000n, null]);
  await writeFile(join(home, "device.json"), JSON.stringify({ ...CONFIGURATION, life: "9" }));
  await assert.rejects(readFolder(home), InvalidParameter);
});

for (const [why, changed, expected] of [
  ["an address", { aggregator: "127.0.0.1:1" }, /^aggregator: expected https:.*got 127.0.0.1:1$/],
  ["a key of an analyst", { analysts: ["abc"] }, /^device.json: analysts: expected a list of public keys.*got \["abc"\]$/],
  ["a key in a list of its own", { analysts: [["00".repeat(32)]] }, /^device.json: analysts: expected a list of public keys/],
  ["a budget that is a number", { life_epsilon: 2 }, /^device.json: life_epsilon: expected nats as a text.*got 2$/],
  ["a rule", { consent: "maybe" }, /^device.json: consent: expected "pinned" or "ask", got "maybe"$/],
  ["a key", { life: "9" }, /^device.json: expected known keys, got life$/],
  ["a schema that is not there", { schema: "../none.toml" }, /^schema: expected a readable file, got .*none.toml$/],
  ["a schema that is none", { schema: "../people.csv" }, /people.csv: line 1: expected =$/],
  ["records that are not there", { records: "none.csv" }, /^records: expected a readable file, got .*none.csv$/],
  ["a column of names", { key: "name" }, /people.csv: expected a column name, got id, smoker$/],
  ["fields", { fields: ["age"] }, /^fields: expected fields of the schema, got age$/],
  ["an authority", { ca: "../people.csv" }, /^ca: expected a file of certificates \(PEM\), got .*people.csv$/],
] as const) {
  test(`a folder is not made with wrong settings: ${why}`, async () => {
    const made = await folder();
    const given = { ...CONFIGURATION, ...changed };
    await assert.rejects(makeFolder(join(made, "home"), given), (error: Error) => {
      assert.match(error.message, expected);
      return error instanceof AskanceError;
    });
    assert.deepEqual((await readdir(made)).sort(), ["people.csv", "schema.json"]);
  });
}

test("a column that the schema lacks is left out", async () => {
  const made = await folder();
  await writeFile(join(made, "people.csv"), "id,town,smoker\nann,Ems,1\n");
  const home = join(made, "home");
  await makeFolder(home, CONFIGURATION);
  const [, { records, schema, names }] = await readFolder(home);
  assert.deepEqual(names, ["ann"]);
  assert.deepEqual(await new RecordFile(records).of("ann", schema), { smoker: "1" });
});

test("a record is what the file has when it is asked for", async () => {
  const made = await folder();
  const path = join(made, "people.csv");
  const schema = await readSchema(join(made, "schema.json"));
  const file = new RecordFile({ path, key: "id" });
  const old = new Date(Date.now() - 60_000); // with the size: only the time of change tells
  await utimes(path, old, old);
  await new Promise((resolve) => setTimeout(resolve, 150)); // it counts as settled
  const before = await file.read();
  assert.equal(await file.read(), before); // one table serves as long as nothing changed
  assert.deepEqual(await file.of("ann", schema), { smoker: "1" });
  await writeFile(path, "id,smoker\nann,0\nbob,0\n");
  await utimes(path, old, old);
  assert.deepEqual(await file.of("ann", schema), { smoker: "0" });
  await writeFile(path, "id,smoker\nbob,1\n");
  await assert.rejects(file.of("ann", schema), /expected a row of each member, got none$/);
  assert.deepEqual(await file.of("bob", schema), { smoker: "1" });
  await unlink(path);
  await assert.rejects(file.of("bob", schema), InvalidRecord);
});

const STUDY = {
  key: "ab".repeat(64),
  study: new Uint8Array([1, 2]),
  firstS: 5,
  expiresS: 9,
  questions: [new Uint8Array([3])],
  decision: { verdict: "denied", atS: 6, untilS: 0 },
} as const;

test("decisions are read again as they were written", async () => {
  const path = join(await folder(), "consents.json");
  await new ConsentFile(path).writeStudy(STUDY);
  const file = new ConsentFile(path);
  assert.deepEqual(await file.readStudies(), [STUDY]);
  await file.removeStudy(STUDY.key);
  assert.deepEqual(await new ConsentFile(path).readStudies(), []);
});

test("a decision is written once its file is synced, renamed, and its folder is synced", async (t: TestContext) => {
  const made = await folder();
  const path = join(made, "consents.json");
  const handle = await open(made);
  const syncs: (() => void)[] = []; // how to end those that have begun
  t.mock.method(Object.getPrototypeOf(handle), "sync", () => {
    return new Promise<void>((resolve) => syncs.push(resolve));
  });
  await handle.close();
  let isWritten = false;
  const writing = new ConsentFile(path).writeStudy(STUDY).then(() => (isWritten = true));
  for (const [count, file] of [
    [1, "consents.json.new"],
    [2, "consents.json"],
  ] as const) {
    while (syncs.length < count && !isWritten) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const files = (await readdir(made)).filter((name) => name.startsWith("consents"));
    assert.deepEqual([files, isWritten], [[file], false]);
    syncs[count - 1]!();
  }
  await writing;
  assert.equal(syncs.length, 2);
});
