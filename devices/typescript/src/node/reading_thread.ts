/** Entry of a thread of Node that evaluates, and reads the records from the owner's file. */

import { parentPort, workerData } from "node:worker_threads";

import { AskanceError } from "../errors.js";
import { serve } from "../service/record_worker.js";
import { Journal } from "./journal.js";
import { RecordFile } from "./record_file.js";

const file = new RecordFile(workerData);
const journal = new Journal((line) => console.error(line));

/** Tell the owner why there is no record; a message of this package repeats no value. */
function note(failure: unknown): void {
  journal.failed(failure instanceof AskanceError ? failure : new Error("records: not read"));
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
      note(failure);
      throw failure;
    }
  },
);
