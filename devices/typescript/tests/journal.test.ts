import assert from "node:assert/strict";
import { test } from "node:test";

import { Reason, Refusal } from "../src/messages.js";
import { Journal } from "../src/node/journal.js";

function journal(): { at: number; lines: string[]; own: Journal } {
  const found = { at: 0, lines: [] as string[], own: undefined as unknown as Journal };
  found.own = new Journal((line) => found.lines.push(line), () => found.at);
  return found;
}

test("a study that is refused is one line, whatever the number of members", () => {
  const one = journal();
  for (let member = 0; member < 200; member++) {
    one.at += 300;
    one.own.refused(new Refusal(Reason.UNTRUSTED_KEY, "expected a pinned key"));
    one.own.refused(new Refusal(Reason.UNKNOWN_STUDY, "expected a request of an accepted study"));
  }
  assert.deepEqual(one.lines, ["refused: expected a pinned key"]);
  one.at += 600_000;
  one.own.refused(new Refusal(Reason.UNTRUSTED_KEY, "expected a pinned key"));
  assert.equal(one.lines[1], "refused: expected a pinned key (and 199 times before)");
});

test("a request of an unknown study is said if nothing else was refused", () => {
  const one = journal();
  one.own.failed(new Error("not reached"));
  one.own.refused(new Refusal(Reason.UNKNOWN_STUDY, "expected a request of an accepted study"));
  assert.deepEqual(one.lines, ["failed: not reached", "refused: expected a request of an accepted study"]);
});

test("texts without end do not fill a log, and steer no terminal", () => {
  const one = journal();
  for (let number = 0; number < 1000; number++) {
    one.own.refused(new Refusal(Reason.MALFORMED, `\u001b[2J ${number}`));
  }
  assert.equal(one.lines.length, 64);
  assert.equal(one.lines[0], "refused: \\u{1b}[2J 0");
  one.at = 600_000;
  one.own.refused(new Refusal(Reason.MALFORMED, "another"));
  assert.equal(one.lines.at(-1), "refused: another");
});
