/** Threads of Node that work on records. */

import { type Transferable, Worker } from "node:worker_threads";

import type { StartThread } from "../service/evaluation.js";

/** Start a thread of Node. */
export const startThread: StartThread = (hear, failed) => {
  const worker = new Worker(new URL("./record_thread.js", import.meta.url));
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
