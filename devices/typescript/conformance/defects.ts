/**
 * Plants each defect in a copy of the source, builds it and asks the kit until a case fails.
 *
 *     npm run defects [NAME ...]
 *
 * Ends with 1 if a defect is not found.
 */

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { build } from "esbuild";

import type { Answer } from "./adapter.js";
import { load, same, type Case } from "./cases.js";
import { DEFECTS, type Defect } from "./planted_defects.js";

const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));
const CASES = join(PACKAGE, "../../tests/conformance/cases");
const folder = await mkdtemp(join(tmpdir(), "defects-"));

/** The adapter over the source with one text replaced. */
async function planted(defect: Defect): Promise<Answer> {
  const changed = join(PACKAGE, "src", defect.file);
  const outfile = join(folder, `${defect.name}.mjs`);
  let times = 0;
  await build({
    entryPoints: [join(PACKAGE, "conformance/node_adapter.ts")],
    bundle: true,
    format: "esm",
    platform: "node",
    target: "es2022",
    logLevel: "error",
    outfile,
    plugins: [
      {
        name: "plant",
        setup(builder) {
          builder.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
            const source = await readFile(path, "utf-8");
            if (path !== changed) {
              return { contents: source, loader: "ts" };
            }
            times += source.split(defect.text).length - 1;
            const contents = source.replace(defect.text, () => defect.replacement);
            return { contents, loader: "ts" };
          });
        },
      },
    ],
  });
  if (times !== 1) {
    throw new Error(`${defect.name}: expected its text once in ${defect.file}, found it ${times} times`);
  }
  return ((await import(pathToFileURL(outfile).href)) as { answer: Answer }).answer;
}

/** The name of the first case that is answered otherwise; an error that is thrown is one. */
async function finder(defect: Defect, cases: readonly Case[]): Promise<string | undefined> {
  const ask = await planted(defect);
  for (const { kind, name, input, expected } of cases) {
    if (kind === defect.kind) {
      const found = await ask(kind, input).catch((error: unknown) => ({ thrown: String(error) }));
      if (!same(found, expected)) {
        return name;
      }
    }
  }
  return undefined;
}

try {
  const cases = await load((name) => readFile(join(CASES, name)));
  const chosen = process.argv.slice(2);
  let missed = 0;
  const defects = DEFECTS.filter(({ name }) => !chosen.length || chosen.includes(name));
  for (const defect of defects) {
    const name = await finder(defect, cases);
    missed += name === undefined ? 1 : 0;
    const found = name === undefined ? "NOT FOUND" : `found by ${name}`;
    process.stdout.write(`${defect.kind.padEnd(12)}${defect.name}: ${found}\n`);
  }
  process.stdout.write(`${defects.length - missed} of ${defects.length} defects found\n`);
  process.exitCode = missed || !defects.length ? 1 : 0;
} finally {
  await rm(folder, { recursive: true });
}
