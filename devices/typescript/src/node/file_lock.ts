/** A lock file: one process at a time has what it stands for, until it ends in whatever way. */

import { readFileSync } from "node:fs";
import { link, readFile, unlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";

import { StoreError } from "../errors.js";

/** The process that has a lock; `began` tells it from a later one of the same number. */
interface Holder {
  readonly host: string;
  readonly pid: number;
  readonly began: string;
}

/**
 * Hold a lock file; returns how to release it. The file of a process that has ended is replaced.
 *
 * @throws StoreError: another process has it, or it cannot be told.
 */
export async function holdFile(path: string): Promise<() => Promise<void>> {
  const own: Holder = { host: hostname(), pid: process.pid, began: beginOf(process.pid) };
  if (!(await made(path, own))) {
    // Only one process at a time looks at a lock that may be left over, and replaces it.
    const guard = `${path}.guard`;
    if (!(await made(guard, own))) {
      throw new StoreError(`${guard}: expected no process that looks at the lock, got one`);
    }
    try {
      const holder = JSON.parse(await readFile(path, "utf8").catch(() => "null")) as Holder | null;
      if (holder !== null && runs(holder)) {
        throw new StoreError(`${path}: expected a ledger that is not in use, got process ${holder.pid}`);
      }
      await unlink(path).catch(() => {});
      if (!(await made(path, own))) {
        throw new StoreError(`${path}: expected a ledger that is not in use, got one in use`);
      }
    } finally {
      await unlink(guard);
    }
  }
  return () => unlink(path).catch(() => {});
}

/** Make a lock file, whole from the first moment; false: there is one. */
async function made(path: string, holder: Holder): Promise<boolean> {
  const beside = `${path}.${process.pid}`;
  try {
    await writeFile(beside, JSON.stringify(holder), { mode: 0o600 });
    await link(beside, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") {
      return false;
    }
    throw new StoreError(`${path}: ${(error as Error).message}`);
  } finally {
    await unlink(beside).catch(() => {});
  }
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
