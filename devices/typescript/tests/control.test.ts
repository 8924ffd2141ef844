import assert from "node:assert/strict";
import { lstat, mkdtemp, symlink, writeFile } from "node:fs/promises";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { InvalidParameter, StoreError } from "../src/errors.js";
import { type Operation, askRunning, serveControl } from "../src/node/control.js";

const OPERATIONS: Readonly<Record<string, Operation>> = {
  twice: ({ of }) => [{ first: of }, { second: of }],
  refuse: () => Promise.reject(new InvalidParameter("of: expected more, got 1")),
  break: () => Promise.reject(new TypeError("a secret")),
};

async function socket(): Promise<string> {
  return join(await mkdtemp(join(tmpdir(), "askance-")), "control.sock");
}

/** Send a text and return what comes back. */
async function sent(path: string, text: string): Promise<string> {
  const parts: Buffer[] = [];
  const connection = createConnection(path);
  connection.end(text);
  for await (const part of connection) {
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts).toString();
}

test("an operation is asked by its name, and its errors keep their kind", async () => {
  const path = await socket();
  assert.equal(await askRunning(path, "twice", {}), null);
  const stop = await serveControl(path, OPERATIONS);
  assert.equal((await lstat(path)).mode & 0o777, 0o600);
  assert.deepEqual(await askRunning(path, "twice", { of: 7 }), [{ first: 7 }, { second: 7 }]);
  await assert.rejects(askRunning(path, "refuse", {}), (error: Error) => {
    return error instanceof InvalidParameter && error.message === "of: expected more, got 1";
  });
  await assert.rejects(askRunning(path, "break", {}), (error: Error) => {
    return error instanceof StoreError && error.message === "the device failed";
  });
  await assert.rejects(askRunning(path, "toString", {}), /expected one of break, refuse, twice, got toString/);
  await stop();
  assert.equal(await askRunning(path, "twice", {}), null);
  await assert.rejects(lstat(path));
});

test("a line that is none, or too long, changes nothing", async () => {
  const path = await socket();
  const stop = await serveControl(path, OPERATIONS);
  for (const text of ["x\n", "", "null\n", '{"do":"twice","with":5}\n', `${" ".repeat(5000)}\n`]) {
    assert.match(await sent(path, text), /^\{"error":\{"reason":"bad-input","message":"control: expected /, text);
  }
  await stop();
});

test("an answer of another program is refused, and not repeated", async () => {
  for (const text of ["zzyzx\n", '{"first":1}\nzzyzx\n', "<!doctype zzyzx>\n"]) {
    const path = await socket();
    const server = createServer((connection) => connection.end(text));
    await new Promise<void>((done) => server.listen(path, done));
    await assert.rejects(askRunning(path, "twice", { of: 7 }), (error: Error) => {
      assert.equal(error.message, `${path}: expected lines of JSON, got another answer`);
      return error instanceof StoreError;
    });
    server.close();
  }
});

test("a socket that was left is replaced, a file is not, and a link is not followed", async () => {
  const path = await socket();
  await writeFile(`${path}.target`, "kept");
  await symlink(`${path}.target`, path);
  assert.equal(await askRunning(path, "twice", {}), null);
  const stop = await serveControl(path, OPERATIONS);
  assert.deepEqual(await askRunning(path, "twice", { of: 1 }), [{ first: 1 }, { second: 1 }]);
  await symlink(path, `${path}.link`);
  assert.equal(await askRunning(`${path}.link`, "twice", { of: 1 }), null);
  await stop();
  assert.ok((await lstat(`${path}.target`)).isFile());
  await writeFile(path, "a file of the owner");
  await assert.rejects(serveControl(path, OPERATIONS), /expected no file there/);
  await assert.rejects(serveControl("x".repeat(101), OPERATIONS), /at most 100 bytes/);
});
