/** Entry of a thread of Node that works on records. */

import { parentPort } from "node:worker_threads";

import { serve } from "../service/record_worker.js";

serve({
  postMessage: (message) => parentPort!.postMessage(message),
  listen: (handle) => parentPort!.on("message", handle),
});
