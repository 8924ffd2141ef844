/**
 * The kit in headless Chromium: counts per kind and seconds.
 *
 *     npm run conformance:browser [/usr/bin/chromium]
 *
 * A server of this process on the loopback serves the page, its bundle and the cases, and takes the
 * result; nothing else is needed to drive the browser. Ends with 1 if a case fails.
 */

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import type { Count } from "./cases.js";

const LIMIT_MS = 300_000;
const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));
const CASES = join(PACKAGE, "../../tests/conformance/cases");
const PAGE = '<!doctype html><meta charset="utf-8"><title>kit</title><link rel="icon" href="data:,"><script type="module" src="/page.js"></script>';

interface Result {
  readonly counts?: Record<string, Count>;
  readonly agent?: string;
  readonly error?: string;
}

const bundled = await build({
  entryPoints: [join(PACKAGE, "conformance/page.ts")],
  bundle: true,
  format: "esm",
  target: "es2022",
  write: false,
});
const script = bundled.outputFiles[0]!.contents;

/** Serve until the page has posted its result. */
function serve(started: (port: number) => void): Promise<Result> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("the page gave no result")), LIMIT_MS);
    const server = createServer((request, response) => {
      respond(request, response).then(
        (result) => {
          if (result !== undefined) {
            clearTimeout(timer);
            server.close();
            resolve(result);
          }
        },
        (error: unknown) => {
          response.writeHead(404).end();
          process.stderr.write(`${String(error)}\n`);
        },
      );
    });
    server.listen(0, "127.0.0.1", () => started((server.address() as AddressInfo).port));
  });
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
): Promise<Result | undefined> {
  const path = request.url ?? "/";
  if (request.method === "POST") {
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    response.writeHead(204).end();
    return JSON.parse(Buffer.concat(chunks).toString("utf-8")) as Result;
  }
  if (path === "/") {
    response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
  } else if (path === "/page.js") {
    response.writeHead(200, { "content-type": "text/javascript" }).end(script);
  } else {
    const file = await readFile(join(CASES, basename(path)));
    response.writeHead(200).end(file);
  }
  return undefined;
}

const profile = await mkdtemp(join(tmpdir(), "kit-"));
const browser = process.argv[2] ?? "chromium";
let child: ReturnType<typeof spawn> | undefined;
const result = await serve((port) => {
  const options = ["--headless", "--no-sandbox", "--disable-gpu", `--user-data-dir=${profile}`];
  child = spawn(browser, [...options, `http://127.0.0.1:${port}/`], { stdio: "ignore" });
}).finally(() => child?.kill("SIGKILL"));
await rm(profile, { recursive: true, force: true, maxRetries: 5 });

if (result.counts === undefined) {
  throw new Error(result.error);
}
const counts = Object.entries(result.counts).sort(([a], [b]) => (a < b ? -1 : 1));
const total: Count = { passed: 0, failed: 0, seconds: 0 };
for (const [, count] of counts) {
  total.passed += count.passed;
  total.failed += count.failed;
  total.seconds += count.seconds;
}
process.stdout.write(`${result.agent}\nkind          passed  failed   seconds\n`);
for (const [kind, { passed, failed, seconds }] of [...counts, ["all", total] as const]) {
  const numbers = `${passed}`.padStart(8) + `${failed}`.padStart(8) + seconds.toFixed(2).padStart(10);
  process.stdout.write(`${kind.padEnd(12)}${numbers}\n`);
}
process.exitCode = total.failed ? 1 : 0;
