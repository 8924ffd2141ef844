import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { InvalidParameter, InvalidRecord } from "../src/errors.js";
import { toHex } from "../src/integers.js";
import { fitted, readRecords } from "../src/node/records.js";
import { readSchema } from "../src/node/schema_file.js";
import { parseToml } from "../src/node/toml.js";

const PEOPLE = `# Bounds are known beforehand.
name = "people"
version = 3

[fields]
age = { type = "integer", low = 17, high = 90, required = true }
"sepal length (cm)" = { type = "real", low = "0.5", high = 2.3, frac_bits = 3 } # rounded outward
sepal_length__cm_ = { type = "real", low = -4, high = "1/3" }
education = { type = "category", labels = ["school", 'college "B"', "\\u00fcber\\tall"] }
smokes = { type = "bit" }
answers = { type = "bits", width = 12 }
town = { type = "text" }
"2020" = { type = "integer", low = -1_000, high = 0 }

[fields.income]
type = "label"
labels = [
  "<=50K", # a comment
  ">50K",
]
`;

async function file(name: string, text: string): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), "askance-")), name);
  await writeFile(path, text);
  return path;
}

test("a schema in TOML is that of the Python device", async () => {
  const schema = await readSchema(await file("people.toml", PEOPLE));
  assert.deepEqual(
    [...schema.fields.keys()],
    [
      ...["age", "sepal_length__cm__ad5c5394", "sepal_length__cm_", "education", "smokes", "answers"],
      ...["town", "_2020", "income"],
    ],
  );
  // The digest that the Python client computes of the same file.
  assert.equal(toHex(await schema.digest()), "1f2440b9a1a9b4e1f13abb817a1a3bc12f6f3079011e78773bc436abcd3f41e8");
  const unnamed = await readSchema(await file("library.toml", '[fields]\nx = { type = "bit" }\n'));
  assert.deepEqual([unnamed.name, unnamed.version], ["library", 1]);
});

for (const [why, text, expected] of [
  ["another key", 'title = "x"', /people.toml: expected name, version and fields, got title$/],
  ["no fields", 'name = "x"', /people.toml: expected a table of fields, got none$/],
  ["an unknown type", '[fields]\nage = { type = "int" }', /fields.age: expected a type among bit, .*, got int$/],
  ["a key that lacks", '[fields]\nage = { type = "integer", low = 1 }', /fields.age: expected .*, got no high$/],
  ["a key too many", '[fields]\nx = { type = "bit", low = 1 }', /fields.x: expected type, required, got low$/],
  ["a fraction as a bound", '[fields]\nx = { type = "integer", low = 0.5, high = 2 }', /low: expected a whole number, got 0.5$/],
  ["bounds the wrong way", '[fields]\nx = { type = "real", low = 2, high = 1 }', /fields.x: .*low < high/],
  ["labels that are none", '[fields]\nx = { type = "label", labels = [1] }', /labels: expected a list of texts/],
  ["a key twice", 'name = "x"\nname = "y"', /people.toml: line 2: expected the key name once$/],
  ["a table twice", "[fields]\n[fields]", /line 2: expected a table once$/],
  ["a date", "name = 1979-05-27", /line 1: expected a text, a number/],
  ["a text that is open", 'name = "x', /line 1: expected a text/],
  ["half a character", 'name = "\\ud800"', /line 1: expected a character of Unicode$/],
  ["a character in halves", 'name = "\\ud83d\\ude00"', /line 1: expected a character of Unicode$/],
  ["half a character in eight digits", 'name = "\\U0000dfff"', /line 1: expected a character of Unicode$/],
  ["two pairs in a line", 'name = "x" version = 1', /line 1: expected the end of a line$/],
] as const) {
  test(`a schema is refused: ${why}`, async () => {
    await assert.rejects(readSchema(await file("people.toml", text)), (error: Error) => {
      assert.match(error.message, expected);
      return error instanceof InvalidParameter;
    });
  });
}

test("TOML of other kinds of lines", () => {
  const found = parseToml("x", "a.b = 1 # c\r\n'q' = [ [], {}, 1e3, ]\n\"\\U0001F3B2\" = true\n[a.c]\nd=-0\n");
  assert.deepEqual(
    found,
    new Map<string, unknown>([
      ["a", new Map<string, unknown>([["b", 1n], ["c", new Map([["d", 0n]])]])],
      ["q", [[], new Map(), "1e3"]],
      ["\u{1F3B2}", true],
    ]),
  );
});

// Python's tomllib refuses each.
for (const text of [
  "[a.b.c]\nz = 9\n[a]\nb.c.t = 1\n",
  "a.b = 1\n[a]\nc = 2\n",
  "a = { b = 1 }\na.c = 2\n",
  "a = { b = { c = 1 }, b.d = 2 }\n",
  "[a]\nx = 1\n[b]\n[a.x]\n",
  "[a]\nb = {}\n[a.b]\n",
  "x = 'a\u0001'\n",
  "x = 1 # \u0001\n",
  "x = [\r1]\n",
]) {
  test(`TOML that is none is refused: ${JSON.stringify(text)}`, () => {
    assert.throws(() => parseToml("x", text), InvalidParameter);
  });
}

test("words that every object of the language has are texts, and no values where a cell is empty", async () => {
  const text = '[fields]\nsmokes = { type = "bit" }\nconstructor = { type = "integer", low = 0, high = 9 }\n';
  const schema = await readSchema(await file("people.toml", text));
  const path = await file("a.csv", "id,smokes,constructor\nann,constructor,\nbob,__proto__,7\n");
  assert.deepEqual(
    [...(await fitted(path, await readRecords(path, "id"), schema))],
    [
      ["ann", { smokes: "constructor" }],
      ["bob", { smokes: "__proto__", constructor: "7" }],
    ],
  );
});

test("records are read as the Python device reads them", async () => {
  const schema = await readSchema(
    await file(
      "people.toml",
      `[fields]
smokes = { type = "bit" }
"length (cm)" = { type = "real", low = 0, high = 9 }
town = { type = "text" }
job = { type = "category", labels = ["NA", "(missing)"] }
`,
    ),
  );
  const path = await file("a.csv", "id,smokes,length (cm),town,job,other\nann,Yes,NA,Bad Ems,NA,1\nbob,?,7,,,2\n");
  const records = await fitted(path, await readRecords(path, "id"), schema);
  // Of "Bad Ems": 25 bytes are free, 26 bits of its SHA-256, seven bytes, and zeros.
  const bytes = [..."Bad Ems"].map((one) => one.charCodeAt(0).toString(2).padStart(8, "0")).join("");
  assert.deepEqual([...records], [
    ["ann", { smokes: 1n, town: `01100101101111000111011111111001${bytes.padEnd(256, "0")}`, job: "NA" }],
    ["bob", { length__cm_: "7", job: "(missing)" }],
  ]);
  const short = await file("b.csv", "id,smokes\nann,1\n");
  await assert.rejects(fitted(short, await readRecords(short, "id"), schema), (error: Error) => {
    assert.match(error.message, /b.csv: expected a column of the field length__cm_, got smokes$/);
    return error instanceof InvalidRecord;
  });
  await assert.rejects(readRecords(short, "name"), /b.csv: expected a column name, got id, smokes$/);
});
