/** Threads of a browser that work on records. */

import type { StartThread } from "../service/evaluation.js";

/** Start threads from the address of `record_thread`, a module of the page's own origin. */
export function startThreadsFrom(address: URL | string): StartThread {
  return (hear, failed) => {
    const worker = new Worker(address, { type: "module" });
    worker.onmessage = ({ data }) => hear(data);
    worker.onerror = failed;
    return {
      post: (task, transfer = []) => worker.postMessage(task, [...transfer]),
      end: () => worker.terminate(),
    };
  };
}
