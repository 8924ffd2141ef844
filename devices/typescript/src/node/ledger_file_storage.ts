/**
 * A ledger in a file of Node: lines of JSON, only ever appended, each append synced to the disk.
 *
 * A line that a crash cut short has no end, was never synced, and nothing was sent for it: it is cut
 * off. Every other line must be whole. The file is held by a lock file while it is open.
 */

import { createReadStream } from "node:fs";
import { type FileHandle, open, link, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { createInterface } from "node:readline";

import { StoreError, StoreFailed } from "../errors.js";
import { fromHex, toHex } from "../integers.js";
import type { Kept, KeptPayload, LedgerStorage, Stored } from "../ledger/ledger_file.js";
import { ID, LedgerDamaged } from "../ledger/ledger_file.js";
import type { Posting } from "../ledger/postings.js";
import { holdFile } from "./file_lock.js";

const FORMAT = "askance ledger 1";
const CHUNK = 1 << 16;
const NEWLINE = 10;

type Line =
  | { readonly format: string; readonly id: string }
  | { readonly fact: readonly [string, string] }
  | { readonly study: string; readonly bytes: string }
  | { readonly payload: string; readonly of: string; readonly bytes: string }
  | { readonly row: Readonly<Record<keyof Posting, string | number>> };

/** The storage of a folder's ledger, for all members of the folder. */
export class FileStorage implements LedgerStorage {
  private constructor(
    private readonly path: string,
    private readonly handle: FileHandle,
    private readonly release: () => Promise<void>,
  ) {}

  /**
   * Make a file without any charge.
   *
   * @throws StoreError: there is one already, or the disk refuses.
   */
  static async create(path: string): Promise<void> {
    const id = toHex(crypto.getRandomValues(new Uint8Array(16)));
    await writeNew(path, `${JSON.stringify({ format: FORMAT, id })}\n`);
  }

  /**
   * Open a file, alone.
   *
   * @throws StoreError: there is none, or another process has it.
   */
  static async open(path: string): Promise<FileStorage> {
    const release = await holdFile(`${path}.lock`);
    try {
      const handle = await open(path, "r+");
      await cutOff(handle);
      return new FileStorage(path, handle, release);
    } catch (error) {
      await release();
      throw failed(path, error);
    }
  }

  async read(): Promise<Stored> {
    const facts = new Map<string, string>();
    const postings: Posting[] = [];
    const payloads: KeptPayload[] = [];
    let count = 0;
    for await (const text of createInterface({ input: createReadStream(this.path) })) {
      count += 1;
      const line = parsed(text, count);
      if ("row" in line) {
        postings.push(postingOf(line.row));
      } else if ("payload" in line) {
        const size = line.bytes.length / 2;
        payloads.push({ digest: line.payload, study: line.of, size });
      } else if ("fact" in line) {
        facts.set(...line.fact);
      } else if ("format" in line) {
        facts.set(ID, line.id);
      }
    }
    return { facts, postings, payloads };
  }

  async append(row: Posting, kept: Kept): Promise<void> {
    const lines: unknown[] = [];
    if (kept.study !== undefined) {
      lines.push({ study: row.study, bytes: toHex(kept.study) });
    }
    if (kept.payload !== undefined) {
      lines.push({ payload: row.request, of: row.study, bytes: toHex(kept.payload) });
    }
    const texts = { nanoNats: String(row.nanoNats), symbol: toHex(row.symbol) };
    lines.push({ row: { ...row, ...texts, report: toHex(row.report) } });
    await this.#append(lines);
  }

  async record(name: string, value: string): Promise<void> {
    await this.#append([{ fact: [name, value] }]);
  }

  async close(): Promise<void> {
    await this.handle.close();
    await this.release();
  }

  async #append(lines: readonly unknown[]): Promise<void> {
    const data = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    try {
      const { size } = await this.handle.stat();
      const { bytesWritten } = await this.handle.write(data, 0, data.length, size);
      if (bytesWritten !== data.length) {
        throw new StoreFailed("expected a whole write");
      }
      await this.handle.datasync();
    } catch (error) {
      throw failed(this.path, error);
    }
  }
}

/** Make a file with a text, durably, or find that it is there. */
export async function writeNew(path: string, text: string): Promise<void> {
  const beside = `${path}.${process.pid}.new`;
  try {
    await writeSynced(beside, text);
    await link(beside, path);
    await unlink(beside);
    await syncFolder(path);
  } catch (error) {
    await unlink(beside).catch(() => {});
    throw failed(path, error);
  }
}

/** Write a file that only its user can read, and sync it. */
export async function writeSynced(path: string, text: string): Promise<void> {
  const handle = await open(path, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Make a folder's entries durable. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Cut off what follows the last end of a line: a write that a crash cut short. */
async function cutOff(handle: FileHandle): Promise<void> {
  const { size } = await handle.stat();
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - CHUNK);
    const { buffer } = await handle.read(Buffer.alloc(end - start), 0, end - start, start);
    const at = buffer.lastIndexOf(NEWLINE);
    if (at >= 0) {
      if (start + at + 1 < size) {
        await handle.truncate(start + at + 1);
        await handle.sync();
      }
      return;
    }
    end = start;
  }
}

function parsed(text: string, number: number): Line {
  try {
    const line = JSON.parse(text) as Line;
    if ((number === 1) === ("format" in line) && (number > 1 || (line as { format: string }).format === FORMAT)) {
      return line;
    }
  } catch {
    // Refused below.
  }
  throw new LedgerDamaged(`ledger: expected line ${number} of a ledger, got another`);
}

function postingOf(row: Readonly<Record<keyof Posting, string | number>>): Posting {
  const { nanoNats, symbol, report } = row;
  const bytes = { symbol: fromHex(String(symbol)), report: fromHex(String(report)) };
  return { ...(row as unknown as Posting), nanoNats: BigInt(nanoNats), ...bytes };
}

function failed(path: string, error: unknown): StoreError {
  const why = error instanceof Error ? error.message : "unknown";
  return error instanceof StoreError ? error : new StoreFailed(`${path}: ${why}`);
}
