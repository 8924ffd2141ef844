/** Entry of a browser's thread that works on records. */

import { serve } from "../service/record_worker.js";

serve({
  postMessage: (message) => self.postMessage(message),
  listen: (handle) => self.addEventListener("message", ({ data }) => handle(data)),
});
