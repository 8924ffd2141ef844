/**
 * The Unix socket through which commands reach a running device, as that of the Python device.
 *
 * A running device holds its ledger and its decisions alone. Its socket `control.sock`, of mode 0600
 * in its folder, carries one request per connection: a line of JSON of at most 4,096 bytes, answered
 * by lines of JSON, the last of which is `{"end": true}` or `{"error": ...}`.
 */

import { lstat, unlink } from "node:fs/promises";
import { type Server, type Socket, createConnection, createServer } from "node:net";

import { AskanceError, InvalidParameter, StoreError } from "../errors.js";
import { printable } from "../printable.js";

export const SOCKET = "control.sock";
const MAX_REQUEST_BYTES = 4096;
const MAX_ANSWER_BYTES = 1 << 26;
const MAX_AT_ONCE = 8;
const TIMEOUT_MS = 30_000; // without a byte
const MAX_PATH_BYTES = 100; // the system's limit is 104 to 108
const ONLY_OWNER = 0o177;

export type Item = Readonly<Record<string, unknown>>;

/** Answers a request's arguments. What it changes is durable when it has answered. */
export type Operation = (given: Item) => Promise<readonly Item[]> | readonly Item[];

/**
 * Serve operations by name at a path, by a process that holds the folder's ledger: so what is there
 * was left by a process that was killed, and is removed. Returns how to end.
 *
 * @throws StoreError: the path is too long, or another kind of file is there.
 */
export async function serveControl(
  path: string,
  operations: Readonly<Record<string, Operation>>,
): Promise<() => Promise<void>> {
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw new StoreError(`${path}: expected a path of at most ${MAX_PATH_BYTES} bytes, got a longer one`);
  }
  const left = await lstat(path).catch(() => null);
  if (left !== null) {
    if (!left.isSocket() && !left.isSymbolicLink()) {
      throw new StoreError(`${path}: expected no file there, got one (move it away)`);
    }
    await unlink(path);
  }
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket.once("close", () => open.delete(socket)));
    void serve(socket, operations);
  });
  server.maxConnections = MAX_AT_ONCE;
  await listening(server, path);
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve()); // it removes the socket
      open.forEach((socket) => socket.destroy());
    });
}

/**
 * Ask the device that listens at a path; null if none does.
 *
 * @throws InvalidParameter: the device does not accept the arguments; nothing was changed.
 * @throws StoreError: the device failed, or another user's or another program's socket is there.
 */
export async function askRunning(path: string, name: string, given: Item): Promise<readonly Item[] | null> {
  const there = await lstat(path).catch(() => null);
  if (there === null || !there.isSocket()) {
    return null; // a symbolic link is not followed
  }
  const own = process.geteuid?.() ?? 0;
  if (there.uid !== own && there.uid !== 0) {
    throw new StoreError(`${path}: expected a socket of user ${own}, got one of another`);
  }
  const socket = createConnection(path);
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error("no answer in time")));
  let text: string;
  try {
    socket.end(`${JSON.stringify({ do: name, with: given })}\n`);
    text = await received(socket, MAX_ANSWER_BYTES, () => false); // until the device ends it
  } catch (error) {
    if (["ECONNREFUSED", "ENOENT"].includes((error as NodeJS.ErrnoException).code ?? "")) {
      return null; // left by a process that was killed
    }
    throw new StoreError(`${path}: expected an answer, got ${(error as Error).message}`);
  }
  const items = text.endsWith("\n") ? itemsOf(path, text) : [];
  const last = items.pop();
  const error = last?.["error"] as { reason: string; message: string } | undefined;
  if (error !== undefined) {
    throw new (error.reason === "bad-input" ? InvalidParameter : StoreError)(error.message);
  }
  if (last?.["end"] !== true) {
    throw new StoreError(`${path}: expected a whole answer, got a part (it may be busy: try again)`);
  }
  return items;
}

function itemsOf(path: string, text: string): Item[] {
  try {
    return text.trimEnd().split("\n").map((line) => Object(JSON.parse(line)));
  } catch {
    throw new StoreError(`${path}: expected lines of JSON, got another answer`);
  }
}

function listening(server: Server, path: string): Promise<void> {
  const before = process.umask(ONLY_OWNER); // the socket is made before `listen` returns
  try {
    return new Promise((resolve, reject) => {
      server.once("error", ({ message }) => reject(new StoreError(`${path}: ${message}`)));
      server.listen(path, resolve);
    });
  } finally {
    process.umask(before);
  }
}

async function serve(socket: Socket, operations: Readonly<Record<string, Operation>>): Promise<void> {
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy());
  socket.on("error", () => {}); // it has gone: it has no answer
  let lines: readonly unknown[];
  try {
    const [operation, given] = asked(await received(socket, MAX_REQUEST_BYTES, hasEnd), operations);
    lines = [...(await operation(given)), { end: true }];
  } catch (error) {
    const reason = error instanceof InvalidParameter ? "bad-input" : "failed";
    const message = error instanceof AskanceError ? error.message : "the device failed";
    lines = [{ error: { reason, message } }];
  }
  socket.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
}

function asked(text: string, operations: Readonly<Record<string, Operation>>): [Operation, Item] {
  let found: { do?: unknown; with?: unknown };
  try {
    found = Object(JSON.parse(text));
  } catch {
    throw new InvalidParameter(`control: expected a line of JSON, got ${text.length} characters`);
  }
  const { do: name, with: given = {} } = found;
  if (typeof name !== "string" || !Object.hasOwn(operations, name) || !(given instanceof Object)) {
    const known = Object.keys(operations).sort().join(", ");
    throw new InvalidParameter(`control: expected one of ${known}, got ${printable(String(name))}`);
  }
  return [operations[name]!, given as Item];
}

function hasEnd(part: Buffer): boolean {
  return part.includes("\n");
}

/** Receive what a peer sends, until it ends that or a part is the last one. */
async function received(
  socket: Socket,
  limit: number,
  isLast: (part: Buffer) => boolean,
): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    parts.push(part);
    size += part.length;
    if (size > limit) {
      throw new InvalidParameter(`control: expected at most ${limit} bytes, got more`);
    }
    if (isLast(part)) {
      break;
    }
  }
  return Buffer.concat(parts).toString();
}
