/** The adapter in Node: ledgers in files of a temporary folder. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { FileStorage } from "../src/node/ledger_file_storage.js";
import { adapter } from "./adapter.js";

export const answer = adapter(async () => {
  const folder = await mkdtemp(join(tmpdir(), "askance-"));
  const path = join(folder, "ledger");
  await FileStorage.create(path);
  return {
    open: () => FileStorage.open(path),
    remove: () => rm(folder, { recursive: true }),
  };
});
