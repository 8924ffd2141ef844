/**
 * A schema from a file: TOML of the form that the Python device reads and `askance schema` writes, or
 * an `askance.v1.Schema` as JSON.
 */

import { readFile } from "node:fs/promises";
import { parse } from "node:path";

import { schemaFromJson } from "../codec/index.js";
import { AskanceError, InvalidParameter } from "../errors.js";
import { floorDivide } from "../integers.js";
import { printable } from "../printable.js";
import { Bit, Bits, Category, type Field, Integer, Label, Real, Schema } from "../queries/index.js";
import { exactRatio } from "../queries/exact.js";
import { TEXT_WIDTH, fieldNames, parsedJson } from "./records.js";
import { type TomlTable, type TomlValue, parseToml } from "./toml.js";

const REAL_FRAC = 16n; // where a file does not say

/** A type: the keys that it needs, those that it may have, and its maker. */
type Kind = readonly [
  needed: readonly string[],
  more: readonly string[],
  make: (given: TomlTable, required: boolean) => Field,
];

const KINDS: ReadonlyMap<string, Kind> = new Map<string, Kind>([
  ["bit", [[], [], (_, required) => new Bit(required)]],
  ["bits", [["width"], [], (given, required) => new Bits(Number(whole(given, "width")), required)]],
  ["text", [[], [], (_, required) => new Bits(TEXT_WIDTH, required)]],
  ["category", [["labels"], [], (given, required) => new Category(labels(given), required)]],
  ["label", [["labels"], [], (given, required) => new Label(labels(given), required)]],
  ["integer", [["low", "high"], [], integer]],
  ["real", [["low", "high"], ["frac_bits"], real]],
]);

/**
 * Read the schema in a file.
 *
 * @throws InvalidParameter: no such file, or no schema; the field is named.
 */
export async function readSchema(path: string): Promise<Schema> {
  const text = await readFile(path, "utf8").catch(() => {
    throw new InvalidParameter(`schema: expected a readable file, got ${printable(path)}`);
  });
  try {
    return path.endsWith(".json")
      ? schemaFromJson(parsedJson(path, text))
      : await schemaOf(parseToml(path, text), path);
  } catch (error) {
    if (error instanceof AskanceError && !error.message.startsWith(path)) {
      throw new InvalidParameter(`${printable(path)}: ${error.message}`);
    }
    throw error;
  }
}

async function schemaOf(content: TomlTable, path: string): Promise<Schema> {
  const unknown = [...content.keys()].find((key) => !["name", "version", "fields"].includes(key));
  if (unknown !== undefined) {
    throw new InvalidParameter(`expected name, version and fields, got ${printable(unknown)}`);
  }
  const given = content.get("fields");
  if (!(given instanceof Map)) {
    throw new InvalidParameter("expected a table of fields, got none");
  }
  const columns = [...given.keys()];
  const names = await fieldNames(columns);
  const fields = columns.map((column) => {
    try {
      return fieldOf(given.get(column)!);
    } catch (error) {
      throw new InvalidParameter(`fields.${printable(column)}: ${(error as Error).message}`);
    }
  });
  const name = content.get("name") ?? parse(path).name;
  const version = content.get("version") ?? 1n;
  if (typeof name !== "string" || typeof version !== "bigint") {
    throw new InvalidParameter("expected a text as name and a whole number as version");
  }
  return new Schema(name, Number(version), names.map((one, at) => [one, fields[at]!] as const));
}

function fieldOf(item: TomlValue): Field {
  const type = item instanceof Map ? item.get("type") : undefined;
  const kind = KINDS.get(String(type));
  if (kind === undefined) {
    const got = type === undefined ? "none" : printable(String(type));
    throw new InvalidParameter(`expected a type among ${[...KINDS.keys()].join(", ")}, got ${got}`);
  }
  const given = item as TomlTable;
  const [needed, more, make] = kind;
  const allowed = ["type", "required", ...needed, ...more];
  const missing = needed.find((key) => !given.has(key));
  const unknown = [...given.keys()].find((key) => !allowed.includes(key));
  if (missing !== undefined || unknown !== undefined) {
    const got = missing === undefined ? printable(unknown!) : `no ${missing}`;
    throw new InvalidParameter(`expected ${allowed.join(", ")}, got ${got}`);
  }
  const required = given.get("required") ?? false;
  if (typeof required !== "boolean") {
    throw new InvalidParameter("required: expected true or false, got another value");
  }
  return make(given, required);
}

function integer(given: TomlTable, required: boolean): Field {
  return new Integer(whole(given, "low"), whole(given, "high"), required);
}

/** A Real whose bounds are rounded outward to its grid. */
function real(given: TomlTable, required: boolean): Field {
  const frac = given.has("frac_bits") ? whole(given, "frac_bits") : REAL_FRAC;
  const scaled = (name: string, sign: bigint): bigint => {
    const ratio = exactRatio(given.get(name));
    if (ratio === undefined || typeof given.get(name) === "boolean") {
      throw new InvalidParameter(`${name}: expected a number, got ${shown(given.get(name))}`);
    }
    return sign * floorDivide((sign * ratio[0]) << (frac < 0n ? 0n : frac), ratio[1]);
  };
  return new Real(scaled("low", 1n), scaled("high", -1n), Number(frac), required);
}

function whole(given: TomlTable, name: string): bigint {
  const found = given.get(name);
  if (typeof found !== "bigint") {
    throw new InvalidParameter(`${name}: expected a whole number, got ${shown(found)}`);
  }
  return found;
}

function labels(given: TomlTable): readonly string[] {
  const found = given.get("labels");
  if (!Array.isArray(found) || !found.every((label) => typeof label === "string")) {
    throw new InvalidParameter(`labels: expected a list of texts, got ${shown(found)}`);
  }
  return found;
}

function shown(value: TomlValue | undefined): string {
  if (value instanceof Map || Array.isArray(value)) {
    return value instanceof Map ? "a table" : "another list";
  }
  return printable(String(value)).slice(0, 80);
}
