/** Random codebook: of many public directions, one that favours those near the own vector. */

import { bitLength, clamp, greatest, least, toBytes } from "../integers.js";
import { COIN_SPACE, Halves, type Words } from "./coins.js";
import { MAX_COMPONENTS } from "./hypercube_response.js";
import { PrivacyLoss } from "./loss.js";
import { STEPS, turned } from "./public_rotations.js";
import { DRAW_COST, NumberedRandomizer, checkInteger, checkThreshold } from "./randomizer.js";

const MAX_CODES = 65520; // 1,820 bases of the least order: below 2^16
const MAX_RADIUS = 1n << 40n;
const SEED_BITS = 40;
const LEAST_ORDER = 18; // steps mix lower orders too slowly, and powers of two
const LENGTH_BITS = 26; // of the radius on the working grid

/**
 * Reports a public seed and one of the M directions that the seed expands to.
 *
 * A level is a vector of integers. Its point on the sphere is the vector and one coordinate that
 * lengthens it to the radius, of what is longer the vector itself; zeros may follow. The seed gives
 * `bases` rotations; code 2 i + b is the i-th row of them, negative if b is 1. The codes are ranked
 * by their inner product with the point, ties by index. One coin draws the seed. Another one says
 * with probability threshold / 2^64 that the report is among the first `near` codes of the ranking,
 * and a third one which of them, else which other.
 *
 * Privacy: pure eps-LDP, replace-one. The seed does not depend on the vector, and for every seed a
 * ranking is an order of all M codes: a code's chance is that of its rank, an integer over 2^128.
 * The loss is the greatest of these integers over the least, exactly, whatever the vectors and
 * however the ranking comes about.
 * Source: Bhowmick et al. 2018 and Asi, Feldman and Talwar, arXiv:2205.02466 (PrivUnit).
 */
export class RandomCodebook extends NumberedRandomizer {
  readonly levels: bigint;
  readonly coins = 3;
  readonly reports: bigint;
  readonly drawCost: number;
  readonly loss: PrivacyLoss;
  /** Number of coordinates of a code. */
  readonly order: number;
  /** M: two for each row of each basis. */
  readonly codes: number;
  /** Hexadecimal digits of a component in a level, which hold -radius..radius. */
  readonly digits: number;

  /**
   * @param components 1..1024.
   * @param radius 1..2^40, in grid units: the greatest length of a vector.
   * @param bases 1 or more; the M codes are at most 65520.
   * @param near 1..M-1.
   * @param threshold 1..2^64-1.
   * @param seedBits 0..40; fewer than 40 only in tests.
   * @throws InvalidParameter: they are not.
   */
  constructor(
    readonly components: number,
    readonly radius: bigint,
    readonly bases: number,
    readonly near: number,
    readonly threshold: bigint,
    readonly seedBits: number,
  ) {
    super("codebook", [components, radius, bases, near, threshold, seedBits]);
    checkInteger("components", components, 1, MAX_COMPONENTS);
    checkInteger("radius", radius, 1n, MAX_RADIUS);
    const order = Math.max(LEAST_ORDER, components + 2 - (components % 2));
    this.order = (order & (order - 1)) === 0 ? order + 2 : order;
    checkInteger("bases", bases, 1, Math.floor(MAX_CODES / (2 * this.order)));
    this.codes = 2 * bases * this.order;
    checkInteger("near", near, 1, this.codes - 1);
    checkThreshold(threshold);
    checkInteger("seed_bits", seedBits, 0, SEED_BITS);
    this.digits = Math.floor(bitLength(radius) / 4) + 1;
    this.levels = 1n << BigInt(4 * components * this.digits);
    this.reports = BigInt(this.codes) << BigInt(seedBits);
    this.drawCost = DRAW_COST + bases * this.order * STEPS;
    this.loss = exactLoss(threshold, BigInt(near), BigInt(this.codes - near));
  }

  override get vectorComponents(): number {
    return this.components;
  }

  /** Write the components, clipped to the radius, one after another; no coin rounds them. */
  override vectorLevel(values: readonly bigint[]): bigint {
    const half = 1n << BigInt(4 * this.digits - 1);
    const digits = values.map((value) =>
      (half + clamp(value, -this.radius, this.radius)).toString(16).padStart(this.digits, "0"),
    );
    return BigInt(`0x${digits.join("")}`);
  }

  /** The level's point on the sphere, on the working grid of 2^25 to 2^26 per radius. */
  private point(level: bigint): Float64Array {
    const size = this.digits;
    const shift = BigInt(LENGTH_BITS - bitLength(this.radius)); // to the right if it is negative
    const half = 1n << BigInt(4 * size - 1);
    const text = level.toString(16).padStart(this.components * size, "0");
    const point = new Float64Array(this.order);
    let short = (this.radius << shift) ** 2n;
    for (let j = 0; j < this.components; j++) {
      const value = (BigInt(`0x${text.slice(j * size, (j + 1) * size)}`) - half) << shift;
      short -= value * value;
      point[j] = Number(value);
    }
    point[this.components] = squareRoot(Number(short));
    return point;
  }

  /** The seed by the first coin, near or far by the second, the rank by the third. */
  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    const seed = coins[0]! >> BigInt(64 - this.seedBits);
    const isNear = coins[1]! < this.threshold;
    const chosen = new Halves(coins).share(2, isNear ? this.near : this.codes - this.near);
    const scores = turned(this.point(level), seed, this.bases);
    const code = codeOfRank(scores, isNear ? chosen : this.near + chosen);
    return toBytes(seed * BigInt(this.codes) + BigInt(code), this.width);
  }
}

/** An even draw of a rank among k has floor or ceil of 2^64 / k coins for it. */
function exactLoss(threshold: bigint, near: bigint, far: bigint): PrivacyLoss {
  const rest = COIN_SPACE - threshold;
  const above = (n: bigint): bigint => (COIN_SPACE + n - 1n) / n;
  return new PrivacyLoss(
    greatest(threshold * above(near), rest * above(far)),
    least(threshold * (COIN_SPACE / near), rest * (COIN_SPACE / far)),
  );
}

/** floor of the root of n < 2^53, 0 if n is negative; a root is rounded up to a whole one at most. */
function squareRoot(n: number): number {
  const root = Math.floor(Math.sqrt(Math.max(n, 0)));
  return root * root > n ? Math.max(root - 1, 0) : root;
}

/**
 * The code at a rank, from 0 on, of the M codes of M / 2 inner products: the greatest first, of
 * equal ones the first. Sorted values say how many codes stand before those that are equal to it.
 */
export function codeOfRank(scores: Float64Array, rank: number): number {
  const falling = new Float64Array(2 * scores.length);
  scores.forEach((score, row) => {
    falling[2 * row] = 0 - score; // and no negative zero
    falling[2 * row + 1] = score;
  });
  const sorted = falling.slice().sort();
  const value = sorted[rank]!;
  let code = -1;
  for (let left = rank - sorted.indexOf(value); left >= 0; left--) {
    code = falling.indexOf(value, code + 1);
  }
  return code;
}
