/**
 * A browser's storage of a ledger: one IndexedDB database per device, written by one tab.
 *
 * The database is made whole or not at all, with the device's secret in it: what is evicted is
 * evicted together, and is a new device, whose enrolment the site decides on. A database in which a
 * part is missing is refused. The row that was written last is named by a fact, in the transaction
 * that writes the row: a ledger whose last rows were removed is refused as well. There is no mark
 * outside the database: an origin's storage is evicted and put back as one.
 *
 * A Web Lock is held from `open` to `close`. Every transaction is strictly durable, and a row is
 * added, never put: if a second writer got in all the same, one of the two fails before it sends.
 */

import { StoreError, StoreFailed } from "../errors.js";
import type { ConsentStorage, KnownStudy } from "../owner/consents.js";
import { Secret } from "../service/identity.js";
import { toHex } from "../integers.js";
import type { Kept, KeptPayload, LedgerStorage, Stored } from "../ledger/ledger_file.js";
import { ID, LedgerDamaged } from "../ledger/ledger_file.js";
import { NO_HASH, type Posting } from "../ledger/postings.js";

const VERSION = 1;
const STORES = ["facts", "postings", "payloads", "studies", "consents"] as const;
const SECRET = "secret";
const LAST = "last"; // hash of the last row

/** Another tab has the ledger, or has taken it. */
export class LedgerHeld extends StoreError {}

/** A device's storage in this browser. */
export class BrowserStorage implements LedgerStorage, ConsentStorage {
  #closed: string | null = null;

  private constructor(
    private readonly database: IDBDatabase,
    private readonly release: () => void,
    /** True if the database was made by this call: the device is new. */
    readonly isNew: boolean,
  ) {
    database.onversionchange = () => this.#end("the database is to be deleted");
    database.onclose = () => this.#end("the database was deleted");
  }

  /**
   * Open a device's storage, and make it if there is none at all.
   *
   * @param name of the device, for an origin that has several.
   * @param signal ends the wait for the tab that has the storage; null: do not wait.
   * @throws LedgerHeld: another tab has it.
   */
  static async open(name: string, signal: AbortSignal | null): Promise<BrowserStorage> {
    const lock = `askance-${name}`;
    const lost = { handle: () => {} };
    const release = await held(lock, signal, () => lost.handle());
    try {
      const made = { [ID]: randomId(), [SECRET]: await Secret.makeKey(), [LAST]: NO_HASH };
      const [database, isNew] = await opened(lock, made);
      const storage = new BrowserStorage(database, release, isNew);
      lost.handle = () => storage.#end("another tab has taken the ledger");
      return storage;
    } catch (error) {
      release();
      throw error;
    }
  }

  /** The secret from which the device's identity is derived. */
  async secret(): Promise<Secret> {
    const row = await this.#run("readonly", ["facts"], ([facts]) => facts!.get(SECRET));
    if (!(row?.value instanceof CryptoKey)) {
      throw new LedgerDamaged("ledger: expected the device's secret beside it, got none");
    }
    return new Secret(row.value);
  }

  async read(): Promise<Stored> {
    const payloads: KeptPayload[] = [];
    let facts: { name: string; value: unknown }[] = [];
    let postings: Posting[] = [];
    await this.#run("readonly", ["facts", "postings", "payloads"], (stores) => {
      const [ofFacts, ofPostings, ofPayloads] = stores;
      ofFacts!.getAll().onsuccess = ({ target }) => void (facts = resultOf(target));
      ofPostings!.getAll().onsuccess = ({ target }) => void (postings = resultOf(target));
      // One after another: all of them together may be a gigabyte.
      ofPayloads!.openCursor().onsuccess = ({ target }) => {
        const cursor: IDBCursorWithValue | null = resultOf(target);
        if (cursor !== null) {
          const { digest, study, size } = cursor.value;
          payloads.push({ digest, study, size });
          cursor.continue();
        }
      };
    });
    const texts = facts.filter(({ value }) => typeof value === "string");
    const known = new Map(texts.map(({ name, value }) => [name, value as string]));
    await this.secret();
    if ((postings.at(-1)?.hash ?? NO_HASH) !== known.get(LAST)) {
      throw new LedgerDamaged("ledger: expected the row that was written last, got another");
    }
    return { facts: known, postings, payloads };
  }

  async append(row: Posting, kept: Kept): Promise<void> {
    await this.#run("readwrite", ["facts", "postings", "payloads", "studies"], (stores) => {
      const [facts, postings, payloads, studies] = stores;
      postings!.add(row);
      facts!.put({ name: LAST, value: row.hash });
      const { request: digest, study } = row;
      if (kept.payload !== undefined) {
        payloads!.put({ digest, study, size: kept.payload.length, payload: kept.payload });
      }
      if (kept.study !== undefined) {
        studies!.put({ digest: study, study: kept.study });
      }
    });
  }

  async record(name: string, value: string): Promise<void> {
    await this.#run("readwrite", ["facts"], ([facts]) => void facts!.put({ name, value }));
  }

  async readStudies(): Promise<KnownStudy[]> {
    return this.#run("readonly", ["consents"], ([consents]) => consents!.getAll());
  }

  async writeStudy(study: KnownStudy): Promise<void> {
    await this.#run("readwrite", ["consents"], ([consents]) => void consents!.put(study));
  }

  async removeStudy(key: string): Promise<void> {
    await this.#run("readwrite", ["consents"], ([consents]) => void consents!.delete(key));
  }

  async close(): Promise<void> {
    this.#end("it was closed");
    this.database.close();
    this.release();
  }

  #end(why: string): void {
    this.#closed ??= why;
  }

  /** Run one transaction, and wait until it is durable. */
  async #run(
    mode: "readonly" | "readwrite",
    names: readonly (typeof STORES)[number][],
    work: (stores: IDBObjectStore[]) => IDBRequest | void,
  ): Promise<any> {
    if (this.#closed !== null) {
      throw new LedgerHeld(`ledger: expected an open one, but ${this.#closed}`);
    }
    return new Promise((resolve, reject) => {
      const fail = (error: DOMException | null) =>
        reject(new StoreFailed(`ledger: expected a durable write, got ${error?.name ?? "none"}`));
      try {
        const transaction = this.database.transaction([...names], mode, { durability: "strict" });
        const request = work(names.map((name) => transaction.objectStore(name)));
        transaction.oncomplete = () => resolve(request?.result);
        transaction.onabort = () => fail(transaction.error);
      } catch (error) {
        fail(error as DOMException);
      }
    });
  }
}

/** Hold a Web Lock; returns how to release it. */
async function held(
  name: string,
  signal: AbortSignal | null,
  lost: () => void,
): Promise<() => void> {
  return new Promise((resolve, reject) => {
    let release!: () => void;
    const until = new Promise<void>((done) => (release = done));
    const options = signal === null ? { ifAvailable: true } : { signal };
    navigator.locks
      .request(name, options, (lock) => {
        if (lock === null) {
          reject(new LedgerHeld("ledger: expected one that no other tab has, got one in use"));
          return undefined;
        }
        resolve(release);
        return until;
      })
      .catch((error) => {
        lost();
        reject(new LedgerHeld(`ledger: expected its lock, got ${String(error?.name)}`));
      });
  });
}

/** Open a database, and make it with its first facts if there is none; true if it is new. */
async function opened(
  name: string,
  facts: Readonly<Record<string, unknown>>,
): Promise<[IDBDatabase, boolean]> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(name, VERSION);
    let isNew = false;
    asked.onupgradeneeded = () => {
      isNew = true;
      const keys = { facts: "name", postings: "place", consents: "key" } as const;
      for (const store of STORES) {
        const keyPath = store in keys ? keys[store as keyof typeof keys] : "digest";
        asked.result.createObjectStore(store, { keyPath });
      }
      const first = asked.transaction!.objectStore("facts");
      for (const [fact, value] of Object.entries(facts)) {
        first.add({ name: fact, value });
      }
    };
    asked.onsuccess = () => {
      const lacks = STORES.filter((store) => !asked.result.objectStoreNames.contains(store));
      if (lacks.length) {
        asked.result.close();
        reject(new LedgerDamaged(`ledger: expected ${lacks.join(", ")}, got none`));
      } else {
        resolve([asked.result, isNew]);
      }
    };
    asked.onerror = () => reject(new StoreFailed(`ledger: ${asked.error?.name ?? "not opened"}`));
  });
}

function resultOf(target: EventTarget | null): any {
  return (target as IDBRequest).result;
}

function randomId(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}
