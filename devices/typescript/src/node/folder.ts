/**
 * A device's folder: `device.json` (the owner's configuration), `identity.json` (the secret),
 * `ledger`, and `consents.json`. The folder is made whole or not at all: one that lacks a part is
 * refused, since a ledger that is made anew would forget charges.
 */

import { mkdir, readFile, rename } from "node:fs/promises";
import { join, resolve } from "node:path";

import { parseEpsilon } from "../accounting/index.js";
import { schemaFromJson } from "../codec/index.js";
import type { PolicyChoices } from "../device/policy.js";
import { InvalidParameter, StoreError, StoreFailed } from "../errors.js";
import { fromHex, toHex } from "../integers.js";
import type { ConsentRule, ConsentStorage, KnownStudy } from "../owner/consents.js";
import type { Schema } from "../queries/index.js";
import { DeviceClient } from "../embedding.js";
import { Aggregator } from "../service/connect.js";
import { Secret } from "../service/identity.js";
import { FileStorage, syncFolder, writeSynced } from "./ledger_file_storage.js";
import { postTrusting } from "./posting.js";
import { parsedJson, readRecords } from "./records.js";
import { startThread } from "./threads.js";

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
  readonly schema: string; // JSON file of an askance.v1.Schema
  readonly records: string; // JSON or CSV file
  readonly key?: string; // the column that names members; without it: one record
  readonly release_ms?: number;
  readonly least_wait_ms?: number;
}

const KEYS = new Set(
  ("aggregator ca analysts life_epsilon day_epsilon study_epsilon window_epsilon window_days " +
    "refresh_days study_answers fields consent schema records key release_ms least_wait_ms"
  ).split(" "),
);

/** Make a folder with a new secret and an empty ledger; there must be none yet. */
export async function makeFolder(path: string, configuration: Configuration): Promise<void> {
  const whole = resolve(path);
  const beside = `${whole}.new`;
  await mkdir(beside, { mode: 0o700 });
  const secret = toHex(crypto.getRandomValues(new Uint8Array(32)));
  await writeSynced(join(beside, "device.json"), `${JSON.stringify(configuration, null, 2)}\n`);
  await writeSynced(join(beside, "identity.json"), `${JSON.stringify({ secret })}\n`);
  await FileStorage.create(join(beside, "ledger"));
  await mkdir(whole); // refused if it is there
  await rename(beside, whole);
  await syncFolder(whole);
}

/** An opened folder. */
export class Folder {
  private constructor(
    readonly path: string,
    readonly configuration: Configuration,
  ) {}

  /** Read a folder's configuration. */
  static async open(path: string): Promise<Folder> {
    const configuration: Configuration = await read(path, "device.json");
    const unknown = Object.keys(configuration).find((name) => !KEYS.has(name));
    if (unknown !== undefined) {
      throw new InvalidParameter(`device.json: expected known keys, got ${unknown}`);
    }
    return new Folder(path, configuration);
  }

  /** A path that the configuration has. */
  at(path: string): string {
    return resolve(this.path, path);
  }

  async secret(): Promise<Secret> {
    const { secret } = await read(this.path, "identity.json");
    if (!/^[0-9a-f]{64}$/.test(secret)) {
      throw new StoreError("identity.json: expected a secret of 64 hexadecimal digits, got another");
    }
    return Secret.of(fromHex(secret));
  }

  /** The ledger's storage, held by this process. */
  async storage(): Promise<FileStorage> {
    return FileStorage.open(join(this.path, "ledger"));
  }

  async schema(): Promise<Schema> {
    const { schema } = this.configuration;
    return schemaFromJson(parsedJson(schema, await readFile(this.at(schema), "utf8")));
  }

  async authority(): Promise<string | null> {
    const { ca } = this.configuration;
    return ca === undefined ? null : readFile(this.at(ca), "utf8");
  }

  policy(): Omit<PolicyChoices, "consent"> {
    const { configuration: given } = this;
    const nano = (text: string | undefined) => (text === undefined ? null : parseEpsilon(text));
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
}

/** Open the folder's devices, with their records. */
export async function openClient(path: string): Promise<DeviceClient> {
  const folder = await Folder.open(path);
  const { configuration } = folder;
  const { key = null, release_ms: releaseMs, least_wait_ms: leastWaitMs } = configuration;
  const records = await readRecords(folder.at(configuration.records), key);
  const [secret, authority] = [await folder.secret(), await folder.authority()];
  const schema = await folder.schema();
  const client = await DeviceClient.open({
    storage: await folder.storage(), // last: it is held from here on
    consentStorage: new ConsentFile(join(path, "consents.json")),
    secret,
    startThread,
    aggregator: new Aggregator(configuration.aggregator, postTrusting(authority)),
    schema,
    policy: folder.policy(),
    consent: configuration.consent ?? "pinned",
    members: key === null ? null : { key, names: [...records.keys()] },
    choices: {
      ...(releaseMs === undefined ? {} : { releaseMs }),
      ...(leastWaitMs === undefined ? {} : { leastWaitMs }),
      onFailure: (failure) => console.error(failure.message),
      onRefusal: ({ message }) => console.error(`refused: ${message}`),
    },
  });
  for (const [name, record] of records) {
    client.setRecord(record, name);
  }
  return client;
}

/** Decisions in a file, written whole. A file that is lost means that every study waits again. */
export class ConsentFile implements ConsentStorage {
  #studies: ReadonlyMap<string, KnownStudy> = new Map();

  constructor(private readonly path: string) {}

  async readStudies(): Promise<readonly KnownStudy[]> {
    const text = await readFile(this.path, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") {
        return "[]";
      }
      throw new StoreError(`${this.path}: ${error.message}`);
    });
    const rows: (KnownStudy & { study: string; questions: string[] })[] = parsedJson(this.path, text);
    this.#studies = new Map(
      rows.map((row) => {
        const questions = row.questions.map(fromHex);
        return [row.key, { ...row, study: fromHex(row.study), questions }];
      }),
    );
    return [...this.#studies.values()];
  }

  async writeStudy(study: KnownStudy): Promise<void> {
    await this.#replace((studies) => studies.set(study.key, study));
  }

  async removeStudy(key: string): Promise<void> {
    await this.#replace((studies) => studies.delete(key));
  }

  /** Change a copy, which counts once it is durable: a write that failed is in no later one. */
  async #replace(change: (studies: Map<string, KnownStudy>) => void): Promise<void> {
    const studies = new Map(this.#studies);
    change(studies);
    const rows = [...studies.values()].map((known) => ({
      ...known,
      study: toHex(known.study),
      questions: known.questions.map(toHex),
    }));
    try {
      await writeSynced(`${this.path}.new`, `${JSON.stringify(rows)}\n`);
      await rename(`${this.path}.new`, this.path);
      await syncFolder(this.path);
    } catch (error) {
      throw new StoreFailed(`${this.path}: ${(error as Error).message}`);
    }
    this.#studies = studies;
  }
}

async function read(folder: string, name: string): Promise<any> {
  const text = await readFile(join(folder, name), "utf8").catch(() => {
    throw new StoreError(`${folder}: expected a whole folder, got one without ${name}`);
  });
  return parsedJson(name, text);
}
