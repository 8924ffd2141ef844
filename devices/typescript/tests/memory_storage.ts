import type { ConsentStorage, KnownStudy } from "../src/owner/consents.js";
import type { Kept, KeptPayload, LedgerStorage, Stored } from "../src/ledger/ledger_file.js";
import type { Posting } from "../src/ledger/postings.js";

/** A storage in memory, whose rows a test may change, and whose appends it may let fail. */
export class MemoryStorage implements LedgerStorage, ConsentStorage {
  facts = new Map([["id", "00".repeat(16)]]);
  postings: Posting[] = [];
  payloads: KeptPayload[] = [];
  studies = new Map<string, KnownStudy>();
  /** Called before a row is stored, and after it. */
  before = () => {};
  after = () => {};

  async read(): Promise<Stored> {
    const { facts, postings, payloads } = this;
    return { facts, postings: [...postings], payloads: [...payloads] };
  }

  async append(row: Posting, kept: Kept): Promise<void> {
    this.before();
    this.postings.push(row);
    if (kept.payload !== undefined) {
      const size = kept.payload.length;
      this.payloads.push({ digest: row.request, study: row.study, size });
    }
    this.after();
  }

  async record(name: string, value: string): Promise<void> {
    this.facts.set(name, value);
  }

  async close(): Promise<void> {}

  async readStudies(): Promise<KnownStudy[]> {
    return [...this.studies.values()];
  }

  async writeStudy(study: KnownStudy): Promise<void> {
    this.studies.set(study.key, study);
  }

  async removeStudy(key: string): Promise<void> {
    this.studies.delete(key);
  }
}
