import assert from "node:assert/strict";
import { test } from "node:test";

import { charge, expBounds, formatNats, parseEpsilon, ratioWithin } from "../src/accounting/index.js";
import { InvalidParameter } from "../src/errors.js";

test("ln 3 costs 1.098612289 nats, rounded up", () => {
  // ln 3 = 1.09861228866810969...
  assert.equal(charge(3n, 1n), 1_098_612_289n);
  assert.equal(ratioWithin(3n, 1n, 1_098_612_288n), false);
  assert.equal(ratioWithin(3n, 1n, 1_098_612_289n), true);
});

test("a ratio of at most 1 costs nothing, one over zero is refused", () => {
  assert.equal(charge(7n, 7n), 0n);
  assert.equal(charge(0n, 7n), 0n);
  assert.throws(() => charge(1n, 0n), InvalidParameter);
});

test("bounds of e enclose e", () => {
  // e * 10^30 = 2718281828459045235360287471352.66...
  const [low, high] = expBounds(10n ** 9n, 200);
  const e = 2718281828459045235360287471352n;
  assert.ok(low * 10n ** 30n <= (e + 1n) << 200n);
  assert.ok(high * 10n ** 30n >= e << 200n);
  assert.ok(high - low <= 2n);
});

test("a budget is rounded down and shown exactly", () => {
  assert.equal(parseEpsilon("0.5"), 500_000_000n);
  assert.equal(parseEpsilon("1.0000000019"), 1_000_000_001n);
  assert.equal(formatNats(1_500_000_000n), "1.5");
  assert.equal(formatNats(2_000_000_000n), "2");
  for (const text of ["", "-1", "1e3", "0.0000000001", "1000001"]) {
    assert.throws(() => parseEpsilon(text), InvalidParameter);
  }
});
