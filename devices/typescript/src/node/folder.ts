/**
 * A device's folder: `device.json` (the owner's configuration), `identity.json` (the secret),
 * `ledger`, and `consents.json`. The folder is made whole or not at all: one that lacks a part is
 * refused, since a ledger that is made anew would forget charges.
 */

import { mkdir, readFile, rename, rm } from "node:fs/promises";
import { join, resolve } from "node:path";

import { InvalidParameter, StoreError, StoreFailed } from "../errors.js";
import { fromHex, toHex } from "../integers.js";
import type { ConsentStorage, KnownStudy } from "../owner/consents.js";
import { DeviceClient } from "../embedding.js";
import { Secret } from "../service/identity.js";
import { type Configuration, type Parts, checkedConfiguration, partsOf } from "./configuration.js";
import { Journal } from "./journal.js";
import { FileStorage, syncFolder, writeSynced } from "./ledger_file_storage.js";
import { parsedJson } from "./records.js";
import { startReadingFrom, startThread } from "./threads.js";

/**
 * Make a folder with a new secret and an empty ledger; there must be none yet.
 *
 * @param name of the configuration's file, in errors.
 * @throws InvalidParameter, InvalidRecord: a setting, or a file that it names; nothing was made.
 * @throws StoreError: there is one, or what was left by a process that was killed while it made one.
 */
export async function makeFolder(path: string, given: unknown, name = "device.json"): Promise<void> {
  const whole = resolve(path);
  const configuration = checked(name, given);
  await partsOf(configuration, whole);
  const beside = `${whole}.new`;
  await mkdir(beside, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    const left = "expected none there, got what an init left that did not end (no device has used it: remove it)";
    throw error.code === "EEXIST" ? new StoreError(`${beside}: ${left}`) : error;
  });
  try {
    const secret = toHex(crypto.getRandomValues(new Uint8Array(32)));
    await writeSynced(join(beside, "device.json"), `${JSON.stringify(configuration, null, 2)}\n`);
    await writeSynced(join(beside, "identity.json"), `${JSON.stringify({ secret })}\n`);
    await FileStorage.create(join(beside, "ledger"));
    await rename(beside, whole); // refused if something is there
  } catch (error) {
    await rm(beside, { recursive: true });
    const isThere = ["ENOTEMPTY", "EEXIST", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "");
    throw isThere ? new StoreError(`${whole}: expected none there, got one (a device is made once)`) : error;
  }
  await syncFolder(whole);
}

/** Read a folder's configuration, and check what it names. */
export async function readFolder(path: string): Promise<[Configuration, Parts]> {
  const configuration = checked("device.json", await read(path, "device.json"));
  return [configuration, await partsOf(configuration, path)];
}

function checked(name: string, given: unknown): Configuration {
  try {
    return checkedConfiguration(given);
  } catch (error) {
    throw new InvalidParameter(`${name}: ${(error as Error).message}`);
  }
}

async function readSecret(path: string): Promise<Secret> {
  const { secret } = await read(path, "identity.json");
  if (!/^[0-9a-f]{64}$/.test(secret)) {
    throw new StoreError("identity.json: expected a secret of 64 hexadecimal digits, got another");
  }
  return Secret.of(fromHex(secret));
}

/** Open the folder's devices; the thread that evaluates reads their records. */
export async function openClient(path: string): Promise<DeviceClient> {
  const [configuration, { aggregator, policy, schema, records, names }] = await readFolder(path);
  const { release_ms: releaseMs, least_wait_ms: leastWaitMs } = configuration;
  const secret = await readSecret(path);
  const journal = new Journal((line) => console.error(line));
  return DeviceClient.open({
    storage: await FileStorage.open(join(path, "ledger")), // last: it is held from here on
    consentStorage: new ConsentFile(join(path, "consents.json")),
    secret,
    startThread,
    startReading: startReadingFrom(records),
    aggregator,
    schema,
    policy,
    consent: configuration.consent ?? "pinned",
    members: records.key === null ? null : { key: records.key, names },
    choices: {
      ...(releaseMs === undefined ? {} : { releaseMs }),
      ...(leastWaitMs === undefined ? {} : { leastWaitMs }),
      onFailure: (failure) => journal.failed(failure),
      onRefusal: (refusal) => journal.refused(refusal),
    },
  });
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
