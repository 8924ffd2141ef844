import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, readdir, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { StoreError } from "../src/errors.js";
import { holdFile } from "../src/node/file_lock.js";

const MODULE = fileURLToPath(new URL("../src/node/file_lock.js", import.meta.url));

async function lock(): Promise<string> {
  return join(await mkdtemp(join(tmpdir(), "askance-")), "ledger.lock");
}

/** A process that has tried to hold a lock, and what it says: "held" or "refused". */
async function holding(path: string) {
  const code = `import { holdFile } from ${JSON.stringify(MODULE)};
    await holdFile(${JSON.stringify(path)}).then(() => console.log("held"), () => console.log("refused"));
    setInterval(() => {}, 1000);`;
  const process = spawn("node", ["--input-type=module", "-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  const [said] = await once(process.stdout, "data");
  return { said: String(said).trim(), kill: async () => (process.kill("SIGKILL"), void (await once(process, "exit"))) };
}

test("a lock is held once, and again after its release", async () => {
  const path = await lock();
  for (let round = 0; round < 3; round++) {
    const release = await holdFile(path);
    await assert.rejects(holdFile(path), StoreError);
    await release();
  }
  assert.deepEqual(await readdir(dirname(path)), ["ledger.lock.3"]);
});

test("what a killed process has left is cleaned up by the next start", async () => {
  const path = await lock();
  const killed = await holding(path);
  assert.equal(killed.said, "held");
  await assert.rejects(holdFile(path), StoreError);
  await killed.kill();
  const dead = await readFile(`${path}.1`, "utf8");
  for (const left of [".guard", ".4711.new", ""]) {
    await writeFile(`${path}${left}`, dead); // killed while it made a lock, or an older version was
  }
  const release = await holdFile(path);
  assert.deepEqual(await readdir(dirname(path)), ["ledger.lock.2"]);
  await release();
});

test("of processes that find the same holder gone, one goes on", async () => {
  const path = await lock();
  await (await holding(path)).kill();
  const all = await Promise.all([1, 2, 3, 4].map(() => holding(path)));
  assert.deepEqual(all.map(({ said }) => said).sort(), ["held", "refused", "refused", "refused"]);
  await Promise.all(all.map(({ kill }) => kill()));
});

test("a later process with the number of one that has ended is no holder", async () => {
  const path = await lock();
  await writeFile(`${path}.3`, JSON.stringify({ host: hostname(), pid: process.pid, began: "1" }));
  const release = await holdFile(path);
  assert.deepEqual(await readdir(dirname(path)), ["ledger.lock.4"]);
  await release();
});

test("a file that power cut short is no holder, and one of another machine is", async () => {
  const path = await lock();
  await writeFile(`${path}.7`, "");
  const release = await holdFile(path);
  assert.deepEqual(await readdir(dirname(path)), ["ledger.lock.8"]);
  await release();
  await writeFile(`${path}.9`, JSON.stringify({ host: "another", pid: 1, began: "" }));
  await assert.rejects(holdFile(path), /got process 1$/);
});
