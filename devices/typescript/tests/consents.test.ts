import assert from "node:assert/strict";
import { test } from "node:test";

import type { ExaminedStudy } from "../src/device/examination.js";
import { InvalidParameter } from "../src/errors.js";
import { Reason } from "../src/messages.js";
import { Consents, type KnownStudy, MAX_WAITING } from "../src/owner/consents.js";
import { MemoryStorage } from "./memory_storage.js";

const DAY = 86_400;
const ANALYST = "ee".repeat(32);

function study(number: number, publicKey = ANALYST): ExaminedStudy {
  const digest = number.toString(16).padStart(64, "0");
  const terms = { expiresUnixS: BigInt(100 * DAY) } as ExaminedStudy["terms"];
  return { digest, terms, publicKey, study: new Uint8Array([number]), copies: [] };
}

/** A storage whose writes wait. */
class HeldStorage extends MemoryStorage {
  #held: Promise<void> = Promise.resolve();

  /** Hold back writes from now on; returns how to let them go on. */
  hold(): () => void {
    let ended = () => {};
    this.#held = new Promise((resolve) => (ended = resolve));
    return ended;
  }

  override async writeStudy(study: KnownStudy): Promise<void> {
    await this.#held;
    await super.writeStudy(study);
  }
}

const payload = (number: number) => new Uint8Array([number]);

async function reason(consents: Consents, of: ExaminedStudy, atS: number): Promise<string> {
  const refusal = await consents.consent(of, payload(1), atS);
  return refusal === null ? "" : Reason[refusal.reason]!;
}

test("a study waits, is approved for days, and waits again", async () => {
  const consents = await Consents.open(new MemoryStorage(), "ask");
  assert.equal(await reason(consents, study(1), 0), "WAITING");
  await consents.approve(consents.named("00000000"), 10, 2);
  assert.equal(await reason(consents, study(1), 10 + 2 * DAY - 1), "");
  assert.equal(await reason(consents, study(1), 10 + 2 * DAY), "WAITING");
  assert.equal(await reason(consents, study(1, "dd".repeat(32)), 10), "WAITING"); // another key
});

test("a denial holds until another decision, and both are there after a restart", async () => {
  const storage = new MemoryStorage();
  const consents = await Consents.open(storage, "pinned");
  assert.equal(await reason(consents, study(1), 0), ""); // answered undecided
  await consents.deny(consents.studies[0]!, 5);
  const again = await Consents.open(storage, "pinned");
  assert.equal(await reason(again, study(1), 90 * DAY), "NOT_APPROVED");
  await again.approve(again.studies[0]!, 91 * DAY);
  assert.equal(await reason(again, study(1), 100 * DAY - 1), "");
  assert.equal(again.state(again.studies[0]!, 100 * DAY), "expired");
});

test("an approval does not pass the study's end, and an expired study gets none", async () => {
  const consents = await Consents.open(new MemoryStorage(), "ask");
  await reason(consents, study(1), 0);
  const [known] = consents.studies;
  const { decision } = await consents.approve(known!, 99 * DAY, 30);
  assert.equal(decision!.untilS, 100 * DAY);
  await assert.rejects(consents.approve(known!, 100 * DAY), InvalidParameter);
  await assert.rejects(consents.approve(known!, 0, 0), InvalidParameter);
});

test("64 undecided studies are kept, with eight questions each; others are held, not listed", async () => {
  const consents = await Consents.open(new MemoryStorage(), "ask");
  for (let number = 0; number <= MAX_WAITING; number++) {
    assert.equal(await reason(consents, study(number), number), "WAITING");
  }
  assert.equal(consents.studies.length, 64);
  for (let number = 0; number < 20; number++) {
    await consents.consent(study(3), payload(number), 0);
  }
  assert.equal(consents.studies[3]!.questions.length, 8);
  assert.throws(() => consents.named("0000000"), /asked about, got 0000000/); // seven digits
  assert.throws(() => consents.named("00000000"), /got 00000000, which begins \d+ of them$/);
});

for (const verdict of ["approve", "deny"] as const) {
  test(`${verdict}: a decision has its answer, and is in force, once its write has ended`, async () => {
    const storage = new HeldStorage();
    const consents = await Consents.open(storage, "ask");
    await reason(consents, study(1), 0);
    const ended = storage.hold();
    const steps: string[] = [];
    const decided = consents[verdict](consents.studies[0]!, 1).then(() => steps.push("answered"));
    await new Promise((resolve) => setImmediate(resolve)); // all that does not wait for the write has happened
    assert.deepEqual([steps, consents.studies[0]!.decision], [[], null]);
    steps.push("written");
    ended();
    await decided;
    assert.deepEqual(steps, ["written", "answered"]);
    const { decision } = (await Consents.open(storage, "ask")).studies[0]!;
    assert.equal(decision?.verdict, { approve: "approved", deny: "denied" }[verdict]);
  });
}

test("a decision that is made while a question is kept stands", async () => {
  const storage = new MemoryStorage();
  const consents = await Consents.open(storage, "ask");
  await reason(consents, study(1), 0);
  const [known] = consents.studies;
  await Promise.all([consents.deny(known!, 1), consents.consent(study(1), payload(2), 1)]);
  const again = await Consents.open(storage, "ask");
  assert.equal(again.studies[0]!.decision?.verdict, "denied");
  assert.equal(again.studies[0]!.questions.length, 2);
});
