/** Records from a file: JSON (a list of objects) or CSV with a line of names. */

import { readFile } from "node:fs/promises";

import type { RawRecord } from "../device/record_work.js";
import { InvalidParameter, InvalidRecord } from "../errors.js";
import { toHex } from "../integers.js";
import { printable } from "../printable.js";
import { utf8 } from "../queries/canonical.js";
import { stripped } from "../queries/exact.js";
import { Bit, Bits, Category, type Field, type Schema, sha256 } from "../queries/index.js";

/** Width of a field of bits that has texts: 6, 26 of a digest, and 32 bytes. */
export const TEXT_WIDTH = 288;
const TEXT_BYTES = 32;
const NOTHING = "(missing)"; // the label of those who have none, where a schema has such a label
const MISSING = new Set(["", "?", "NA", "NaN", "nan", "inf", "-inf"]); // unless they are labels
const TRUTHS = new Map(Object.entries({ yes: 1n, no: 0n, true: 1n, false: 0n, y: 1n, n: 0n }));
const MAX_NAME = 64;
const DIGEST = 8; // characters of a digest in a name

/** Columns of a file, and its records by their names. */
export interface RecordTable {
  readonly columns: readonly string[];
  readonly records: ReadonlyMap<string, RawRecord>;
}

/**
 * Read records by their names, which a column has; without a column the file has one record, whose
 * name is "".
 *
 * @throws InvalidRecord: no such file, no CSV, a row without a name, or one name twice.
 */
export async function readRecords(path: string, key: string | null): Promise<RecordTable> {
  let text: string;
  try {
    text = (await readFile(path, "utf8")).replace(/^\ufeff/, ""); // spreadsheets write the mark
  } catch {
    throw new InvalidRecord(`records: expected a readable file, got ${printable(path)}`);
  }
  const [found, rows] = path.endsWith(".json") ? jsonRows(text) : csvRows(text);
  if (key !== null && !found.includes(key) && found.length > 0) {
    throw new InvalidRecord(`${path}: expected a column ${printable(key)}, got ${named(found)}`);
  }
  const records = new Map<string, RawRecord>();
  for (const row of rows) {
    const { [key ?? ""]: name, ...fields } = row;
    const named = key === null ? "" : String(name ?? "");
    if (records.has(named) || (key !== null && named === "")) {
      throw new InvalidRecord(`${path}: expected a name of its own in every row`);
    }
    records.set(named, key === null ? row : fields);
  }
  return { columns: found.filter((column) => column !== key), records };
}

/**
 * The records as a schema has them: by its fields' names, texts as the Python device reads them.
 * Columns that the schema does not have are left out.
 *
 * @throws InvalidRecord: there is no column of one of its fields.
 */
export async function fitted(
  path: string,
  { columns, records }: RecordTable,
  schema: Schema,
): Promise<ReadonlyMap<string, RawRecord>> {
  const names = await fieldNames(columns);
  const places = [...schema.fields].map(([name, field]) => {
    const at = names.indexOf(name);
    if (at < 0 && records.size > 0) {
      throw new InvalidRecord(`${path}: expected a column of the field ${name}, got ${named(columns)}`);
    }
    return [name, columns[at]!, field] as const;
  });
  const fit = async (row: RawRecord): Promise<RawRecord> => {
    const values = places.map(async ([name, column, field]) => {
      const cell = Object.hasOwn(row, column) ? row[column] : undefined;
      return [name, await fieldValue(cell, field)] as const;
    });
    return Object.fromEntries((await Promise.all(values)).filter(([, value]) => value !== undefined));
  };
  return new Map(
    await Promise.all([...records].map(async ([name, row]) => [name, await fit(row)] as const)),
  );
}

/** Columns' names as fields', in their order; equal ones get a digest, as in Python. */
export async function fieldNames(columns: readonly string[]): Promise<readonly string[]> {
  const twice = columns.find((column, at) => columns.indexOf(column) !== at);
  if (twice !== undefined) {
    throw new InvalidRecord(`expected distinct column names, got ${printable(twice)} twice`);
  }
  const names = columns.map(fieldName);
  return Promise.all(
    columns.map(async (column, at) => {
      const name = names[at]!;
      if (column === name || names.filter((other) => other === name).length === 1) {
        return name;
      }
      const digest = toHex(await sha256(utf8(column))).slice(0, DIGEST);
      return `${name.slice(0, MAX_NAME - DIGEST - 1)}_${digest}`;
    }),
  );
}

function fieldName(column: string): string {
  const kept = column.replace(/[^A-Za-z0-9_]/gu, "_").slice(0, MAX_NAME);
  return /^[A-Za-z_]/.test(kept) ? kept : `_${kept}`.slice(0, MAX_NAME);
}

/** The value that a field encodes; undefined: there is none. */
async function fieldValue(cell: unknown, field: Field): Promise<unknown> {
  const isLabel = field instanceof Category && field.labels.includes(String(cell));
  if (cell === undefined || cell === null || (typeof cell === "string" && MISSING.has(stripped(cell)) && !isLabel)) {
    return field instanceof Category && field.labels.includes(NOTHING) ? NOTHING : undefined;
  }
  if (field instanceof Bits && field.width === TEXT_WIDTH && ["string", "number"].includes(typeof cell)) {
    return field.encode(cell) === undefined ? textBits(String(cell)) : cell;
  }
  return field instanceof Bit && typeof cell === "string" ? (TRUTHS.get(cell.toLowerCase()) ?? cell) : cell;
}

/** A text as bits: the bytes that it leaves free, the begin of its digest, and its first bytes. */
async function textBits(text: string): Promise<string> {
  const whole = utf8(text);
  const kept = whole.slice(0, TEXT_BYTES);
  const bits = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  const free = (TEXT_BYTES - kept.length).toString(2).padStart(6, "0");
  const digest = bits((await sha256(whole)).slice(0, 4)).slice(0, 26);
  return `${free}${digest}${bits(kept).padEnd(8 * TEXT_BYTES, "0")}`;
}

function named(columns: readonly string[]): string {
  return columns.slice(0, 20).map(printable).join(", ") || "none";
}

/** Parse JSON; the parser's own error would repeat the text, which may be a record or a secret. */
export function parsedJson(name: string, text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidParameter(`${name}: expected JSON, got another text`);
  }
}

function jsonRows(text: string): readonly [readonly string[], readonly RawRecord[]] {
  const rows: unknown = parsedJson("records", text);
  if (!Array.isArray(rows) || !rows.every((row) => row instanceof Object)) {
    throw new InvalidRecord("records: expected a list of objects");
  }
  return [[...new Set(rows.flatMap((row) => Object.keys(row)))], rows as RawRecord[]];
}

function csvRows(text: string): readonly [readonly string[], readonly RawRecord[]] {
  const [names, ...rows] = cells(text);
  if (names === undefined || rows.some((row) => row.length !== names.length)) {
    throw new InvalidRecord("records: expected as many cells in every row as there are names");
  }
  const records = rows.map((row) => {
    const filled = row.map((cell, at) => [names[at]!, cell] as const);
    return Object.fromEntries(filled.filter(([, cell]) => cell !== ""));
  });
  return [names, records];
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
