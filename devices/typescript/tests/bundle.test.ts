import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const MAX_BYTES = 100_000; // minified; people's telephones fetch it
const SOURCE = fileURLToPath(new URL("../../src", import.meta.url));

/** What a page imports for its device, as in README.md. */
const PAGE = `export {
  Aggregator, BrowserStorage, DeviceClient, LedgerHeld, parseEpsilon, schemaFromJson, startThreadsFrom,
} from "./index.ts";`;

async function bytesOf(contents: string): Promise<number> {
  const bundle = await build({
    stdin: { contents, resolveDir: SOURCE, loader: "ts" },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
  });
  return bundle.outputFiles[0]!.contents.length;
}

test("the minified package, and what a page imports of it, keep their limit of bytes", async () => {
  const [whole, page] = [await bytesOf('export * from "./index.ts";'), await bytesOf(PAGE)];
  assert.ok(whole <= MAX_BYTES, `${whole} bytes`);
  assert.ok(page <= whole, `${page} bytes of ${whole}`);
  assert.ok(page > MAX_BYTES / 2, `${page} bytes: a part is missing`);
});
