/**
 * A lock in files: one process at a time has what it stands for, until it ends in whatever way.
 *
 * The files are PATH.1, PATH.2 and so on, each made by one process and never by a second one. The
 * highest number has the lock while its process runs; a later process takes it by making the next
 * number. The highest file is never removed, so nothing has to be guarded: of two processes that
 * find the same holder gone, one makes the next number, and one that comes late finds a higher one.
 */

import { readFileSync } from "node:fs";
import { link, readFile, readdir, rename, unlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";

import { StoreError } from "../errors.js";

/** The process that has a lock; `began` tells it from a later one of the same number. */
interface Holder {
  readonly host: string;
  readonly pid: number;
  readonly began: string;
}

/**
 * Hold a lock; returns how to release it. Files of processes that have ended are removed.
 *
 * @throws StoreError: another process has it, or it cannot be told.
 */
export async function holdFile(path: string): Promise<() => Promise<void>> {
  const before = await highest(path);
  const holder = await holderOf(`${path}.${before}`);
  if (holder !== null && runs(holder)) {
    throw new StoreError(`${path}: expected a ledger that is not in use, got process ${holder.pid}`);
  }
  const own = `${path}.${before + 1}`;
  const isMade = await made(own, { host: hostname(), pid: process.pid, began: beginOf(process.pid) });
  if (!isMade || (await highest(path)) > before + 1) {
    if (isMade) {
      await unlink(own).catch(() => {});
    }
    throw new StoreError(`${path}: expected a ledger that is not in use, got one in use`);
  }
  for (const name of await leftovers(path)) {
    if (join(dirname(path), name) !== own) {
      await unlink(join(dirname(path), name)).catch(() => {});
    }
  }
  return async () => {
    await writeFile(besideOf(path), "null", { mode: 0o600 });
    await rename(besideOf(path), own);
  };
}

/** All files of a lock, and what a kill may have left of their making. */
async function leftovers(path: string): Promise<string[]> {
  const start = basename(path);
  return (await readdir(dirname(path))).filter((name) => name === start || name.startsWith(`${start}.`));
}

async function highest(path: string): Promise<number> {
  const numbers = (await leftovers(path)).map((name) => name.slice(basename(path).length + 1));
  return Math.max(0, ...numbers.filter((text) => /^[0-9]{1,15}$/.test(text)).map(Number));
}

/** The holder in a file; null: none, or one whose machine lost power before the disk had it. */
async function holderOf(path: string): Promise<Holder | null> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") {
      return null;
    }
    throw new StoreError(`${path}: ${(error as Error).message}`);
  }
}

/** Make a lock file, whole from the first moment; false: there is one, or another process cleans up. */
async function made(path: string, holder: Holder): Promise<boolean> {
  const beside = besideOf(path);
  try {
    await writeFile(beside, JSON.stringify(holder), { mode: 0o600 });
    await link(beside, path);
    return true;
  } catch (error) {
    if (["EEXIST", "ENOENT"].includes((error as NodeJS.ErrnoException).code ?? "")) {
      return false;
    }
    throw new StoreError(`${path}: ${(error as Error).message}`);
  } finally {
    await unlink(beside).catch(() => {});
  }
}

function besideOf(path: string): string {
  return `${path}.${process.pid}.new`;
}

/** True if a holder may still run; one of another machine is taken to run. */
function runs({ host, pid, began }: Holder): boolean {
  if (host !== hostname()) {
    return true;
  }
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") {
      return false;
    }
  }
  return beginOf(pid) === began;
}

/** When a process began, by the system's count; empty where the system does not say. */
function beginOf(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}
