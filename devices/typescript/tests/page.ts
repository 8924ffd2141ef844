/**
 * A page with a device, for `tests/endurance/browser_kills.py`: it says before and after each step
 * of an answer where it is, and may be told to stop there.
 */

import { BrowserStorage } from "../src/browser/storage.js";
import { startThreadsFrom } from "../src/browser/threads.js";
import { decodeSchema, parse } from "../src/codec/index.js";
import { DeviceClient } from "../src/embedding.js";
import { fromHex, toHex } from "../src/integers.js";
import type { Kept, LedgerStorage } from "../src/ledger/ledger_file.js";
import type { Posting } from "../src/ledger/postings.js";
import { CheckInRequestSchema } from "../src/protos/askance_protos/v1/exchange_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { Aggregator, type Post, postByFetch } from "../src/service/connect.js";

type Json = Record<string, any>;
type Step = "charge" | "commit" | "send" | "sent";

declare global {
  interface Window {
    told?: (step: string) => void; // a binding of the browser's driver
    device: typeof commands;
  }
}

let stopAt = "";
let nowS: number | undefined;
let storage: BrowserStorage | undefined;
let client: DeviceClient | undefined;
let ending = new AbortController();
const failures: string[] = [];

/** Say where the device is, and stay there for ever if that is where it was told to stop. */
async function reach(step: Step): Promise<void> {
  window.told?.(step);
  if (stopAt === step) {
    await new Promise(() => {});
  }
}

const post: Post = async (url, headers, body, limit) => {
  const hasReports = parse(CheckInRequestSchema, body).reports.length > 0;
  if (hasReports) {
    await reach("send");
  }
  const answer = await postByFetch(url, headers, body, limit);
  if (hasReports) {
    await reach("sent");
  }
  return answer;
};

function watched(own: BrowserStorage): LedgerStorage {
  return {
    read: () => own.read(),
    record: (name, value) => own.record(name, value),
    close: () => own.close(),
    async append(row: Posting, kept: Kept) {
      await reach("charge");
      await own.append(row, kept);
      await reach("commit");
    },
  };
}

const commands = {
  /** Open the device of this origin; whether it is new. */
  async open(given: Json): Promise<Json> {
    try {
      storage = await BrowserStorage.open(given.name, null);
      client = await DeviceClient.open({
        storage: watched(storage),
        consentStorage: storage,
        secret: await storage.secret(),
        startThread: startThreadsFrom("/record_thread.js"),
        aggregator: new Aggregator(location.origin, post),
        schema: decodeSchema(parse(SchemaSchema, fromHex(given.schema))),
        policy: { analysts: given.analysts, lifeNanoNats: BigInt(given.life) },
        consent: "pinned",
        nowS: () => nowS ?? Math.floor(Date.now() / 1000),
        choices: {
          releaseMs: given.release_ms,
          leastWaitMs: 50,
          onFailure: (failure) => void failures.push(failure.message),
        },
      });
      client.setRecord(given.record);
      return { new: storage.isNew, id: client.deviceIds[0] };
    } catch (error) {
      await storage?.close();
      return { refused: (error as Error).name, message: (error as Error).message };
    }
  },

  /** Check in until `end`, and stop at a step; "": at none. */
  run(step: string): void {
    stopAt = step;
    ending = new AbortController();
    void client!.run(ending.signal).catch((error) => void failures.push(String(error)));
  },

  async once(): Promise<string> {
    return client!.checkInOnce().then(
      () => "",
      (error: Error) => `${error.name}: ${error.message}`,
    );
  },

  end(): void {
    ending.abort();
  },

  clock(atS: number): void {
    nowS = atS;
  },

  /** Rows: the request's digest, the report, the charge and the number. */
  rows(): [string, string, string, number][] {
    return client!.history.map(({ request, report, nanoNats, sequence }) => [
      request,
      toHex(report),
      String(nanoNats),
      sequence,
    ]);
  },

  failures: () => failures,

  async close(): Promise<void> {
    await client!.close();
  },
};

window.device = commands;
