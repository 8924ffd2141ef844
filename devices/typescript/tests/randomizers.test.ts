import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { ratioWithin } from "../src/accounting/index.js";
import { InvalidParameter } from "../src/errors.js";
import { Channel, KaryResponse, SubsetSelection, SystemCoins } from "../src/randomizers/index.js";
import { Halves } from "../src/randomizers/coins.js";
import { respond } from "../src/randomizers/k_ary.js";
import { codeOfRank } from "../src/randomizers/random_codebook.js";
import { roundToLevels } from "../src/randomizers/rounding.js";
import { shake128 } from "../src/randomizers/shake_128.js";

const M = 1n << 64n;

test("a share of a coin is that of exact products, at the ends and between", () => {
  const halves = new Halves(BigUint64Array.of(0n, M - 1n, M / 2n, M / 3n, M / 3n + 1n));
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((i) => halves.share(i, 3)),
    [0, 2, 1, 0, 1],
  );
  assert.equal(halves.share(1, 2 ** 20), 2 ** 20 - 1);
  const words = new SystemCoins().words(new Uint8Array(32), 5000);
  const drawn = new Halves(words);
  words.forEach((word, i) => {
    const n = 2 ** 20 - i;
    assert.equal(drawn.share(i, n), Number((word * BigInt(n)) / M));
  });
});

test("coins of the operating system come in any number, and afresh", () => {
  const coins = new SystemCoins();
  const words = coins.words(new Uint8Array(32), 20_000); // more than one call gives
  assert.equal(new Set(words).size, 20_000);
  assert.equal(coins.words(new Uint8Array(32), 0).length, 0);
});

test("every coin of k-ary response reports one cell, the others' in equal intervals", () => {
  // A coin space of 10: 4 coins for the own cell 1, 2 for each of the cells 0, 2 and 3.
  const cells = Array.from({ length: 10 }, (_, coin) => respond(4n, 1, 2n, BigInt(coin)));
  assert.deepEqual(cells, [1, 1, 1, 1, 0, 0, 2, 2, 3, 3]);
});

test("a loss is the ratio of chances, and its charge is rounded up", () => {
  // P = 2^64 - other: 3 to 1, but for one coin less: 2^64 = 4 other.
  const { loss } = new KaryResponse(2, M / 4n);
  assert.deepEqual([loss.numerator, loss.denominator, loss.nanoNats], [3n, 1n, 1_098_612_289n]);
  assert.equal(ratioWithin(loss.numerator, loss.denominator, 1_098_612_288n), false);
});

test("rows of a table sum to 2^64, no entry is 0", () => {
  const table = (...entries: bigint[]) => new Channel(2, BigUint64Array.from(entries));
  const low = (1n << 32n) - 1n; // halves that carry
  const { loss } = table(low, M - low, M - low, low);
  assert.deepEqual([loss.numerator, loss.denominator], [M - low, low]);
  assert.throws(() => table(low, M - low, M - low, low + 1n), InvalidParameter);
  assert.throws(() => table(M - 1n, M - 1n, M - 1n, M - 1n), InvalidParameter); // 2^65 - 2
  assert.throws(() => table(M / 2n, M / 2n, M / 2n, M / 2n, 1n, M - 1n), InvalidParameter);
  assert.throws(() => new Channel(2, BigUint64Array.of(0n, M - 1n, 1n, 1n, M - 2n, 1n)), InvalidParameter);
});

test("a draw takes its number of coins and a level of its own", () => {
  const randomizer = new SubsetSelection(10, 3, M / 2n);
  const coins = new BigUint64Array(4);
  assert.equal(randomizer.randomize(9n, coins).length, 2);
  assert.throws(() => randomizer.randomize(10n, coins), InvalidParameter);
  assert.throws(() => randomizer.randomize(-1n, coins), InvalidParameter);
  assert.throws(() => randomizer.randomize(9n, new BigUint64Array(5)), InvalidParameter);
});

test("SHAKE-128 is that of FIPS 202", () => {
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
  assert.equal(hex(shake128(new Uint8Array(), 16)), "7f9c2ba4e88f827d616045507605853e");
  for (const [message, size] of [["12345678", 167], ["12345678", 168], ["", 1000], ["a".repeat(167), 500]] as const) {
    const expected = createHash("shake128", { outputLength: size }).update(message).digest("hex");
    assert.equal(hex(shake128(Buffer.from(message), size)), expected);
  }
});

test("codes of equal inner products are ranked by their numbers, negative zeros too", () => {
  // Codes 2 i and 2 i + 1 are row i and its negative: products 0, 0, 0, 0, 5, -5.
  const scores = Float64Array.of(0, -0, 5);
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((rank) => codeOfRank(scores, rank)), [4, 0, 1, 2, 3, 5]);
});

test("rounding goes up below the coin of the fraction and not at it", () => {
  // (7 - 0) (3 - 1) / 8 = 1.75: above with three quarters of the coins.
  const threshold = (3n * M) / 4n;
  assert.equal(roundToLevels(7n, 0n, 8n, 3n, threshold - 1n), 2n);
  assert.equal(roundToLevels(7n, 0n, 8n, 3n, threshold), 1n);
  assert.throws(() => roundToLevels(9n, 0n, 8n, 3n, 0n), InvalidParameter);
});
