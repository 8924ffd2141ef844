/**
 * Build the page: node examples/web/build.mjs SETTINGS OUT
 *
 * OUT then has static files alone, for any server. Each is named with the version of all of them,
 * which the service worker keeps together, each by its digest. The policy of contents is in the
 * page itself: it reaches its own origin and the aggregator that the settings name, and runs no
 * other script.
 */

import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const PACKAGE = resolve(HERE, "../../devices/typescript");
const { build } = createRequire(join(PACKAGE, "package.json"))("esbuild");

const [settingsFile = join(HERE, "settings.json"), out = join(HERE, "dist")] =
  process.argv.slice(2);
const settings = JSON.parse(await readFile(settingsFile, "utf8"));
const { origin } = new URL(settings.aggregator);

await mkdir(out, { recursive: true });
await build({
  entryPoints: {
    page: join(HERE, "src/page.ts"),
    record_thread: join(PACKAGE, "src/browser/record_thread.ts"),
  },
  alias: { "askance-client": join(PACKAGE, "src") },
  define: { SETTINGS: JSON.stringify(settings), VERSION: '"{version}"' },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  logLevel: "warning",
});
const page = await readFile(join(HERE, "src/index.html"), "utf8");
await writeFile(join(out, "index.html"), page.replaceAll("{aggregator}", origin));
await copyFile(join(HERE, "src/service_worker.js"), join(out, "service_worker.js"));
for (const shared of ["style.css", "mark.svg"]) {
  await copyFile(resolve(HERE, "../../client/askance_client/console", shared), join(out, shared));
}
await copyFile(join(HERE, "src/page.css"), join(out, "page.css"));

/** SHA-256 of a file that was built. */
const digestOf = async (file, form) =>
  createHash("sha256").update(await readFile(join(out, file))).digest(form);
/** Replace a mark in a file that was built. */
const put = async (file, mark, value) => {
  const text = await readFile(join(out, file), "utf8");
  await writeFile(join(out, file), text.replaceAll(mark, value));
};

const worker = "service_worker.js";
const kept = ["index.html", "page.js", "record_thread.js", "style.css", "page.css", "mark.svg"];
const digest = createHash("sha256");
for (const file of [worker, ...kept]) {
  digest.update(`${file}\0${await digestOf(file, "hex")}`);
}
const version = digest.digest("hex").slice(0, 16);
for (const file of ["index.html", "page.js", worker]) {
  await put(file, "{version}", version);
}
const files = {};
for (const file of kept) {
  files[file] = `sha256-${await digestOf(file, "base64")}`;
}
await put(worker, "{files}", JSON.stringify(files));
