/** A file of records that is read for every answer, as far as it has changed. */

import { stat } from "node:fs/promises";

import type { RawRecord } from "../device/record_work.js";
import { InvalidRecord } from "../errors.js";
import type { Schema } from "../queries/index.js";
import { type RecordTable, fitted, readRecords } from "./records.js";

/**
 * A file that was changed so shortly before it was read may be changed once more without another
 * time of change: file systems of Linux count these in steps of at most 10 ms.
 */
const SETTLED_MS = 100n;
const NS_PER_MS = 1_000_000n;

/** A file of records, and the column that names members; without one it has one record. */
export interface RecordPlace {
  readonly path: string;
  readonly key: string | null;
}

/** The table that was read last serves the next answer as long as the file has not changed. */
export class RecordFile {
  #last: { readonly version: string; readonly table: RecordTable } | null = null;

  constructor(private readonly place: RecordPlace) {}

  /**
   * A member's record as the file has it now.
   *
   * @throws InvalidRecord: no such file, or none of such records, or the member has no row.
   */
  async of(member: string, schema: Schema): Promise<RawRecord> {
    const { path } = this.place;
    const { columns, records } = await this.read();
    const row = records.get(member);
    if (row === undefined) {
      throw new InvalidRecord(`${path}: expected a row of each member, got none`);
    }
    const found = await fitted(path, { columns, records: new Map([[member, row]]) }, schema);
    return found.get(member)!;
  }

  /** The file's content now; it is read if it has changed. */
  async read(): Promise<RecordTable> {
    const version = await versionOf(this.place.path);
    if (version !== null && this.#last?.version === version) {
      return this.#last.table;
    }
    const table = await readRecords(this.place.path, this.place.key);
    this.#last = version === null ? null : { version, table };
    return table;
  }
}

/** What differs if a file does; null: it cannot be looked at, or was changed a moment ago. */
async function versionOf(path: string): Promise<string | null> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    const changedMs = (mtimeNs > ctimeNs ? mtimeNs : ctimeNs) / NS_PER_MS;
    const isSettled = BigInt(Date.now()) - changedMs >= SETTLED_MS;
    return isSettled ? [dev, ino, size, mtimeNs, ctimeNs].join() : null;
  } catch {
    return null; // reading says why
  }
}
