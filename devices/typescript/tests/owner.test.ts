import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { LedgerFile } from "../src/ledger/ledger_file.js";
import { makeFolder } from "../src/node/folder.js";
import { FileStorage } from "../src/node/ledger_file_storage.js";
import { tell } from "../src/node/operations.js";

const COMMAND = fileURLToPath(new URL("../src/node/command.js", import.meta.url));
const SCHEMA = { name: "people", version: 1, fields: [{ name: "smoker", bit: {} }] };
const CONFIGURATION = {
  aggregator: "http://127.0.0.1:1",
  analysts: ["00".repeat(32)],
  life_epsilon: "2",
  schema: "../schema.json",
  records: "../people.csv",
  key: "id",
};

async function home(changed: object = {}, people = "id,smoker\nann,1\nbob,0\n"): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "askance-"));
  await writeFile(join(made, "schema.json"), JSON.stringify(SCHEMA));
  await writeFile(join(made, "people.csv"), people);
  await writeFile(join(made, "people.json"), people);
  await makeFolder(join(made, "home"), { ...CONFIGURATION, ...changed });
  return join(made, "home");
}

/** Run `askance-device` to its end: its exit code, and what it wrote to standard error. */
async function run(folder: string, ...words: string[]): Promise<[number | null, string]> {
  const process = spawn("node", [COMMAND, ...words, "--home", folder], { timeout: 20_000 });
  let errors = "";
  process.stderr.on("data", (part) => (errors += part));
  return new Promise((resolve) => process.on("close", (code) => resolve([code, errors])));
}

async function rows(folder: string) {
  const file = await LedgerFile.open(await FileStorage.open(join(folder, "ledger")));
  await file.close();
  return file.postings.map(({ member, kind, nanoNats }) => [member, kind, nanoNats]);
}

test("a loss is accepted for every member of a folder", async () => {
  const folder = await home();
  assert.deepEqual(await run(folder, "accept-loss"), [0, ""]);
  assert.deepEqual((await rows(folder)).sort(), [
    ["ann", "loss", 2_000_000_000n],
    ["bob", "loss", 2_000_000_000n],
  ]);
});

test("a clock is repaired for the members with a later charge alone", async () => {
  const folder = await home();
  const file = await LedgerFile.open(await FileStorage.open(join(folder, "ledger")));
  await file.acceptLoss("bob", "aa", 2 ** 40, 1n); // far ahead
  await file.repairClock("bob", "aa", 5);
  await file.repairClock("bob", "aa", 5);
  await file.repairClock("ann", "bb", 5);
  await file.close();
  assert.deepEqual(await rows(folder), [
    ["bob", "loss", 1n],
    ["bob", "clock", 0n],
  ]);
});

test("repair-clock of a folder without a charge changes nothing", async () => {
  const folder = await home();
  assert.deepEqual(await run(folder, "repair-clock"), [0, ""]);
  assert.deepEqual(await rows(folder), []);
});

test("no message repeats a record or a secret that is no JSON", async () => {
  const folder = await home({ records: "../people.json" }, '[{"id":"ann","smoker":1}]');
  await writeFile(join(folder, "../people.json"), '[{"id":"ann","smoker":zzyzx}]');
  const [code, errors] = await run(folder, "status");
  assert.deepEqual([code, errors.includes("zzyzx")], [1, false]);
  assert.equal(errors, "records: expected JSON, got another text\n");
  const other = await home();
  for (const text of ['{"secret":zzyzx', '{"secret":"zzyzx"}', '{"secret":7}']) {
    await writeFile(join(other, "identity.json"), text);
    const [status, shown] = await run(other, "status");
    assert.deepEqual([status, shown.includes("zzyzx")], [1, false]);
    assert.match(shown, /^identity.json: expected .*\n$/);
  }
});

test("a command that fails ends, with one line", async () => {
  const long = await home({}, `id,smoker\n${"x".repeat(257)},1\n`);
  const [code, errors] = await run(long, "status");
  assert.equal(code, 1);
  assert.match(errors, /^ledger: expected a short name.*\n$/);
  const nobody = await home({}, "id,smoker\n");
  assert.deepEqual(await run(nobody, "status"), [0, ""]);
  const gone = await home();
  const [none, message] = await run(gone, "enroll", "--token", join(gone, "no such file"));
  assert.equal(none, 1);
  assert.match(message, /^ENOENT.*\n$/);
  await writeFile(join(gone, "token"), "a secret\nof two lines\n");
  const [wrong, told] = await run(gone, "enroll", "--token", join(gone, "token"));
  assert.equal(wrong, 1);
  assert.match(told, /token: expected a token, one line .*, got 2 lines, 21 characters\n$/);
});

test("a wrong option is answered by the usage", async () => {
  const folder = await home();
  assert.deepEqual(await run(folder, "--help"), [0, ""]);
  const [code, errors] = await run(folder, "status", "--colour");
  assert.equal(code, 1);
  assert.match(errors, /^Unknown option '--colour'[^]*usage: askance-device COMMAND --home FOLDER/);
  assert.doesNotMatch(errors, /node:internal/);
});

test("days that are no number are shown", async () => {
  const [code, errors] = await run(await home(), "approve", "00000000", "--days", "abc");
  assert.deepEqual([code, errors], [1, "--days: expected a whole number, got abc\n"]);
});

test("a folder whose first opening was cut short is opened", async () => {
  const folder = await home();
  assert.deepEqual(await run(folder, "status"), [0, ""]);
  const path = join(folder, "ledger");
  const lines = (await readFile(path, "utf8")).split("\n");
  assert.match(lines[2]!, /bound.members/);
  await writeFile(path, `${lines.slice(0, 2).join("\n")}\n`); // the second fact was not written
  assert.deepEqual(await run(folder, "status"), [0, ""]);
  assert.match(await readFile(path, "utf8"), /bound.members/);
});

test("an aggregator's words are spelled out where they could steer a terminal", async () => {
  const body = JSON.stringify({ code: "unavailable", message: "\u001b[2J\u202eyes\n\u009b1m" });
  const server = createServer((_, answer) => {
    answer.writeHead(503, { "content-type": "application/json" });
    answer.end(body);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  const folder = await home({ aggregator: `http://127.0.0.1:${port}` });
  const [code, errors] = await run(folder, "run", "--once");
  server.close();
  assert.equal(code, 1);
  assert.equal(errors, "unavailable: \\u{1b}[2J\\u{202e}yes\\u{a}\\u{9b}1m\n");
});

test("an approval of a study that never expires is told as one until the year 9999", () => {
  const shown = { study: "0123456789abcdef", state: "approved", untilS: 2 ** 63 };
  assert.equal(tell("approve", [shown]), "study 0123456789abcdef: approved until 9999-12-31T23:59:59.000Z");
});
