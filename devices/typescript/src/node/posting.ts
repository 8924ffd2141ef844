/** Calls from Node, which may trust an authority of their own and keep no connection. */

import { request as plain } from "node:http";
import { request as secure } from "node:https";

import type { Post } from "../service/connect.js";
import { CALL_TIMEOUT_MS } from "../service/observable.js";

/** Post over TLS whose certificates the authorities (PEM) have signed; null: the system's. */
export function postTrusting(ca: string | null): Post {
  return (url, headers, body, limit) =>
    new Promise((resolve, reject) => {
      const isSecure = new URL(url).protocol === "https:";
      const options = {
        method: "POST",
        headers: { ...headers, "content-length": String(body.length) },
        signal: AbortSignal.timeout(CALL_TIMEOUT_MS), // of the whole call
        agent: false as const,
        ...(ca === null ? {} : { ca }),
      };
      const call = (isSecure ? secure : plain)(url, options, (answer) => {
        const parts: Buffer[] = [];
        let size = 0;
        answer.on("data", (part: Buffer) => {
          parts.push(part);
          size += part.length;
          if (size > limit) {
            call.destroy();
            done();
          }
        });
        const done = () =>
          resolve({
            status: answer.statusCode ?? 0,
            body: new Uint8Array(Buffer.concat(parts)),
            header: (name) => String(answer.headers[name] ?? "") || null,
          });
        answer.on("end", done);
        answer.on("error", reject);
      });
      call.on("error", reject);
      call.end(body);
    });
}
