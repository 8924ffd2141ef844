/** Records from a file: JSON (a list of objects) or CSV with a line of names. */

import { readFile } from "node:fs/promises";

import type { RawRecord } from "../device/record_work.js";
import { InvalidParameter, InvalidRecord } from "../errors.js";

/**
 * Read records by their names, which a column has; without a column the file has one record, whose
 * name is "".
 *
 * @throws InvalidRecord: no such file, no CSV, a row without a name, or one name twice.
 */
export async function readRecords(
  path: string,
  key: string | null,
): Promise<ReadonlyMap<string, RawRecord>> {
  let text: string;
  try {
    text = (await readFile(path, "utf8")).replace(/^\ufeff/, ""); // spreadsheets write the mark
  } catch {
    throw new InvalidRecord(`records: expected a readable file, got ${path}`);
  }
  const rows = path.endsWith(".json") ? jsonRows(text) : csvRows(text);
  const records = new Map<string, RawRecord>();
  for (const row of rows) {
    const { [key ?? ""]: name, ...fields } = row;
    const named = key === null ? "" : String(name ?? "");
    if (records.has(named) || (key !== null && named === "")) {
      throw new InvalidRecord(`${path}: expected a name of its own in every row`);
    }
    records.set(named, key === null ? row : fields);
  }
  return records;
}

/** Parse JSON; the parser's own error would repeat the text, which may be a record or a secret. */
export function parsedJson(name: string, text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidParameter(`${name}: expected JSON, got another text`);
  }
}

function jsonRows(text: string): RawRecord[] {
  const rows: unknown = parsedJson("records", text);
  if (!Array.isArray(rows) || !rows.every((row) => row instanceof Object)) {
    throw new InvalidRecord("records: expected a list of objects");
  }
  return rows as RawRecord[];
}

function csvRows(text: string): RawRecord[] {
  const [names, ...rows] = cells(text);
  if (names === undefined || rows.some((row) => row.length !== names.length)) {
    throw new InvalidRecord("records: expected as many cells in every row as there are names");
  }
  return rows.map((row) => {
    const filled = row.map((cell, at) => [names[at]!, cell] as const);
    return Object.fromEntries(filled.filter(([, cell]) => cell !== ""));
  });
}

/** The cells of CSV (RFC 4180): a cell may be quoted, a quote in it is written twice. */
function cells(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let read = 0;
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/gy;
  for (const found of text.matchAll(cell)) {
    const [whole, quoted, bare, end] = found;
    read = found.index + whole.length;
    if (whole === "" && row.length === 0) {
      break;
    }
    row.push(quoted === undefined ? bare! : quoted.replaceAll('""', '"'));
    if (end !== ",") {
      rows.push(row);
      row = [];
    }
  }
  if (read < text.length) {
    throw new InvalidRecord(`records: expected quotes around a cell with a quote, in row ${rows.length + 1}`);
  }
  return rows;
}
