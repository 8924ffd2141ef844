import assert from "node:assert/strict";
import { test } from "node:test";

import { decodeStudy, encode, verifyStudy } from "../src/codec/index.js";
import { AskanceError } from "../src/errors.js";
import { StudySchema } from "../src/protos/askance_protos/v1/study_pb.js";

const FIELD = { name: "a", type: { case: "bit", value: {} }, required: false, title: "" } as const;

function study(parameters: string[], fractions?: { beta: string; confidence: string }): Uint8Array {
  return encode(StudySchema, {
    nonce: new Uint8Array(16),
    parameters: parameters.map((name) => ({ name, value: "" })),
    schema: { name: "s", version: 0, fields: [FIELD] },
    budgetNanoNats: 1n,
    expiresUnixS: 1n,
    conduct: fractions && { ...fractions, roundDeadlineS: 0, leastAnswers: 0n, waves: 0 },
  });
}

test("parameters ascend by code points, which the units of UTF-16 do not", () => {
  assert.equal(decodeStudy(study(["\uffee", "\u{10000}"])).parameters.length, 2);
  assert.throws(() => decodeStudy(study(["\u{10000}", "\uffee"])), AskanceError);
  assert.throws(() => decodeStudy(study(["a", "a"])), AskanceError);
  assert.equal(decodeStudy(study(["a", "aa", "b"])).parameters.length, 3);
});

test("a conduct's fractions are between 0 and 1 in lowest terms", () => {
  assert.equal(decodeStudy(study([], { beta: "1/3", confidence: "19/20" })).conduct?.beta, "1/3");
  for (const beta of ["2/6", "0/1", "1/1", "3/2", "01/3", "1", "", "1/3 "]) {
    assert.throws(() => decodeStudy(study([], { beta, confidence: "19/20" })), AskanceError);
  }
});

test("a key or a signature of another length verifies nothing", async () => {
  const sizes = [0, 31, 33, 64];
  for (const size of sizes) {
    const publicKey = new Uint8Array(size);
    const signed = { study: new Uint8Array(1), publicKey, signature: new Uint8Array(64) };
    assert.equal(await verifyStudy(signed), false);
  }
  const { publicKey, privateKey } = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  const text = new TextEncoder().encode("askance study v1\0x");
  const signature = new Uint8Array(await crypto.subtle.sign("Ed25519", privateKey, text));
  const signed = { study: new TextEncoder().encode("x"), publicKey: raw, signature };
  assert.equal(await verifyStudy(signed), true);
  assert.equal(await verifyStudy({ ...signed, signature: signature.subarray(1) }), false);
  assert.equal(await verifyStudy({ ...signed, study: new TextEncoder().encode("y") }), false);
});
