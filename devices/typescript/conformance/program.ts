/** The kit's program: reads a case per line from standard input, writes an answer per line. */

import { createInterface } from "node:readline";

import { answer } from "./node_adapter.js";

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const reply = { id: asked.id, answer: await answer(asked.kind, asked.input) };
  process.stdout.write(JSON.stringify(reply) + "\n");
}
