/** Threads of Node that work on records. */

import { type Transferable, Worker } from "node:worker_threads";

import type { StartThread } from "../service/evaluation.js";
import type { RecordPlace } from "./record_file.js";

/** Start a thread of Node, which is given records. */
export const startThread: StartThread = startThreads("record_thread.js");

/** Start threads that read records from a file. */
export function startReadingFrom(place: RecordPlace): StartThread {
  return startThreads("reading_thread.js", place);
}

function startThreads(script: string, workerData?: RecordPlace): StartThread {
  return (hear, failed) => {
    const worker = new Worker(new URL(script, import.meta.url), { workerData });
    let isEnded = false;
    worker.on("message", hear);
    worker.on("error", () => {}); // its end follows
    worker.on("exit", () => {
      if (!isEnded) {
        failed();
      }
    });
    return {
      post: (task, transfer = []) => worker.postMessage(task, [...transfer] as unknown as Transferable[]),
      end: () => {
        isEnded = true;
        void worker.terminate();
      },
    };
  };
}
