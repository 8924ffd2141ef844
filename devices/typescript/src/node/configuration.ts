/** The owner's configuration of a folder, checked whole: an error names the key and shows the value. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

import { parseEpsilon } from "../accounting/index.js";
import { Policy, type PolicyChoices } from "../device/policy.js";
import { InvalidParameter } from "../errors.js";
import type { ConsentRule } from "../owner/consents.js";
import { printable } from "../printable.js";
import type { Schema } from "../queries/index.js";
import { Aggregator } from "../service/connect.js";
import { postTrusting } from "./posting.js";
import { fitted, readRecords } from "./records.js";
import type { RecordPlace } from "./record_file.js";
import { readSchema } from "./schema_file.js";

/** The owner's configuration; paths are relative to the folder, budgets are in nats. */
export interface Configuration {
  readonly aggregator: string; // such as https://HOST:PORT
  readonly ca?: string; // PEM file of the authority that signed the aggregator's certificate
  readonly analysts: readonly string[]; // public keys of 64 hexadecimal digits
  readonly life_epsilon: string;
  readonly day_epsilon?: string;
  readonly study_epsilon?: string;
  readonly window_epsilon?: string;
  readonly window_days?: number;
  readonly refresh_days?: number;
  readonly study_answers?: number;
  readonly fields?: readonly string[];
  readonly consent?: ConsentRule;
  readonly schema: string; // TOML as `askance schema` writes it, or JSON of an askance.v1.Schema
  readonly records: string; // JSON or CSV file
  readonly key?: string; // the column that names members; without it: one record
  readonly release_ms?: number;
  readonly least_wait_ms?: number;
}

type Check = (value: unknown) => string | null; // what was expected, if it is something else
const NEEDED = ["aggregator", "analysts", "life_epsilon", "schema", "records"] as const;
const RELEASE_MS = 86_400_000; // at most

const text: Check = (value) => (typeof value === "string" && value !== "" ? null : "a text");
const nats: Check = (value) => {
  try {
    return typeof value === "string" && parseEpsilon(value) ? null : 'nats as a text, such as "0.5"';
  } catch {
    return 'nats as a text of 10^-9 to 10^6, such as "0.5"';
  }
};
const count = (most: number): Check => (value) =>
  Number.isSafeInteger(value) && 1 <= Number(value) && Number(value) <= most
    ? null
    : `a whole number of 1 to ${most}`;
const listOf = (what: string, one: RegExp, least: number): Check => (value) =>
  Array.isArray(value) && value.length >= least && value.every((item) => typeof item === "string" && one.test(item))
    ? null
    : `a list of ${what}`;

const CHECKS: Readonly<Record<keyof Configuration, Check>> = {
  aggregator: text,
  ca: text,
  analysts: listOf("public keys of 64 hexadecimal digits, one or more", /^[0-9a-f]{64}$/, 1),
  life_epsilon: nats,
  day_epsilon: nats,
  study_epsilon: nats,
  window_epsilon: nats,
  window_days: count(100_000),
  refresh_days: count(100_000),
  study_answers: count(65_536),
  fields: listOf("names of fields", /./, 0),
  consent: (value) => (value === "pinned" || value === "ask" ? null : '"pinned" or "ask"'),
  schema: text,
  records: text,
  key: text,
  release_ms: count(RELEASE_MS),
  least_wait_ms: count(RELEASE_MS),
};

/** A configuration's parts, as a device is made of them. */
export interface Parts {
  readonly aggregator: Aggregator;
  readonly policy: Omit<PolicyChoices, "consent">;
  readonly schema: Schema;
  readonly records: RecordPlace;
  readonly names: readonly string[]; // of the members
}

/** Check the keys of what a file has; no other file is read. */
export function checkedConfiguration(given: unknown): Configuration {
  if (!(given instanceof Object) || Array.isArray(given)) {
    throw new InvalidParameter("expected a table of settings, got another value");
  }
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(CHECKS, key)) {
      throw new InvalidParameter(`expected known keys, got ${printable(key)}`);
    }
    const expected = CHECKS[key as keyof Configuration](value);
    if (expected !== null) {
      throw new InvalidParameter(`${key}: expected ${expected}, got ${shown(value)}`);
    }
  }
  const missing = NEEDED.find((key) => !Object.hasOwn(given, key));
  if (missing !== undefined) {
    throw new InvalidParameter(`${missing}: expected a value, got none`);
  }
  return given as Configuration;
}

/**
 * Make the parts of a configuration in a folder: all files that it names are read and checked.
 *
 * @throws InvalidParameter, InvalidRecord: one that cannot be read, or does not fit the others.
 */
export async function partsOf(given: Configuration, folder: string): Promise<Parts> {
  const at = (path: string) => resolve(folder, path);
  const policy = policyOf(given);
  new Policy(policy); // its own checks
  const authority = given.ca === undefined ? null : await authorityIn(at(given.ca));
  const aggregator = new Aggregator(given.aggregator, postTrusting(authority));
  const schema = await readSchema(at(given.schema));
  const unknown = given.fields?.find((field) => !schema.fields.has(field));
  if (unknown !== undefined) {
    throw new InvalidParameter(`fields: expected fields of the schema, got ${printable(unknown)}`);
  }
  const records = { path: at(given.records), key: given.key ?? null };
  const found = await fitted(records.path, await readRecords(records.path, records.key), schema);
  return { aggregator, policy, schema, records, names: [...found.keys()] };
}

function policyOf(given: Configuration): Omit<PolicyChoices, "consent"> {
  const nano = (budget: string | undefined) => (budget === undefined ? null : parseEpsilon(budget));
  return {
    analysts: given.analysts,
    lifeNanoNats: parseEpsilon(given.life_epsilon),
    dayNanoNats: nano(given.day_epsilon),
    studyNanoNats: nano(given.study_epsilon),
    windowNanoNats: nano(given.window_epsilon),
    refreshDays: given.refresh_days ?? null,
    fields: given.fields ?? null,
    ...(given.window_days === undefined ? {} : { windowDays: given.window_days }),
    ...(given.study_answers === undefined ? {} : { studyAnswers: given.study_answers }),
  };
}

async function authorityIn(path: string): Promise<string> {
  const pem = await readFile(path, "utf8").catch(() => "");
  if (!pem.includes("-----BEGIN CERTIFICATE-----")) {
    throw new InvalidParameter(`ca: expected a file of certificates (PEM), got ${printable(path)}`);
  }
  return pem;
}

function shown(value: unknown): string {
  return printable(JSON.stringify(value) ?? "none").slice(0, 80);
}
