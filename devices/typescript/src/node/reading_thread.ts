/** Entry of a thread of Node that evaluates, and reads the records from the owner's file. */

import { parentPort, workerData } from "node:worker_threads";

import { InvalidRecord } from "../errors.js";
import { serve } from "../service/record_worker.js";
import { Journal } from "./journal.js";
import { RecordFile } from "./record_file.js";

const file = new RecordFile(workerData);
const journal = new Journal((line) => console.error(line));

/** Tell the owner that there is no record; a reason could repeat a part of one. */
function note(): void {
  const where = "status says why, once the device has stopped";
  journal.failed(new InvalidRecord(`records: none was read, and defaults are answered (${where})`));
}

await file.read().catch(note); // at once: the first answer then needs what has changed alone
serve(
  {
    postMessage: (message) => parentPort!.postMessage(message),
    listen: (handle) => void parentPort!.on("message", handle),
  },
  async (member, schema) => {
    try {
      return await file.of(member, schema);
    } catch (failure) {
      note();
      throw failure;
    }
  },
);
