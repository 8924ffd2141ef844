/** Linear hashing: k-ary response about a random linear hash of the cell, for large alphabets. */

import { expect } from "../errors.js";
import { greatest, least, toBytes } from "../integers.js";
import { COIN_SPACE, type Words } from "./coins.js";
import { respond } from "./k_ary.js";
import { PrivacyLoss } from "./loss.js";
import { DRAW_COST, NumberedRandomizer, checkInteger } from "./randomizer.js";

const MIN_HASHED = 3; // with two cells there is nothing to hash
const MAX_HASHED = 1 << 20;
const MAX_MODULUS = 65521; // the greatest prime below 2^16: q^t stays below 2^32

/**
 * Reports (a, c): a random linear hash, and k-ary response about the own cell's hash value.
 *
 * With q = modulus, a cell is written to base q as a vector x of t digits, the least t with
 * q^t >= cells. One coin U makes a = floor(U (q^t - 1) / 2^64) + 1, whose digits are a non-zero
 * vector; another one makes c as `KaryResponse` of q cells does, about the hash value a.x mod q.
 * The report is the number a q + c.
 *
 * Privacy: pure eps-LDP, replace-one; a does not depend on the cell, however even its coin is, so
 * the loss is exactly that of k-ary response over q cells, attained by every report.
 * Source: Bassily and Smith 2015; Wang, Blocki, Li and Jha 2017 (optimal local hashing).
 */
export class LinearHashing extends NumberedRandomizer {
  readonly levels: bigint;
  readonly coins = 2;
  readonly reports: bigint;
  readonly drawCost: number;
  readonly loss: PrivacyLoss;
  /** P: how many of the 2^64 coins report the own cell's hash value. */
  readonly own: bigint;
  /** q^t: one more than there are hashes. */
  readonly vectors: number;

  /**
   * @param cells 3..2^20.
   * @param modulus a prime in 2..65521, less than cells.
   * @param other >= 1, and (modulus - 1) other < 2^64; the chance of each other value, over 2^64.
   * @throws InvalidParameter: they are not.
   */
  constructor(
    readonly cells: number,
    readonly modulus: number,
    readonly other: bigint,
  ) {
    super("linear-hashing", [cells, modulus, other]);
    checkInteger("cells", cells, MIN_HASHED, MAX_HASHED);
    checkInteger("modulus", modulus, 2, Math.min(MAX_MODULUS, cells - 1));
    expect(isPrime(modulus), `modulus: expected a prime, got ${modulus}`);
    checkInteger("other", other, 1n, (COIN_SPACE - 1n) / BigInt(modulus - 1));
    let [digits, vectors] = [1, modulus];
    for (; vectors < cells; digits++) {
      vectors *= modulus;
    }
    this.vectors = vectors;
    this.levels = BigInt(cells);
    this.reports = BigInt(vectors * modulus);
    this.drawCost = DRAW_COST + 4 * digits;
    this.own = COIN_SPACE - BigInt(modulus - 1) * other;
    this.loss = new PrivacyLoss(greatest(this.own, other), least(this.own, other));
  }

  /** a.x mod q. */
  private hashValue(hashing: number, cell: number): number {
    let total = 0;
    for (let [a, x] = [hashing, cell]; a && x; ) {
      total += (a % this.modulus) * (x % this.modulus);
      [a, x] = [Math.floor(a / this.modulus), Math.floor(x / this.modulus)];
    }
    return total % this.modulus;
  }

  /** The hash by the one coin, its value by the other. */
  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    const hashing = Number((coins[0]! * BigInt(this.vectors - 1)) >> 64n) + 1;
    const value = this.hashValue(hashing, Number(level));
    const reported = respond(this.own, value, this.other, coins[1]!);
    return toBytes(hashing * this.modulus + reported, this.width);
  }
}

/** True if a number from 2 on is prime. */
function isPrime(number: number): boolean {
  for (let divisor = 2; divisor * divisor <= number; divisor++) {
    if (number % divisor === 0) {
      return false;
    }
  }
  return true;
}
