/** A random sign pattern near or far from one's own, from a fixed number of coins. */

import { bitLength, ceilShift, greatest, least } from "../integers.js";
import { COIN_SPACE, type Words } from "./coins.js";
import { drawSubset } from "./floyd.js";

const RATIO_BITS = 256; // of a certified ratio: thousands would make its logarithm slow

const remembered = new Map<number, readonly bigint[]>(); // 1,024 of them would take 70 MB
const MOST_REMEMBERED = 64;

/** The numbers of patterns at a Hamming distance of at most 0, 1, ..., components. */
export function patternsWithin(components: number): readonly bigint[] {
  const known = remembered.get(components);
  if (known !== undefined) {
    return known;
  }
  const within: bigint[] = [];
  let [sum, binomial] = [0n, 1n];
  for (let distance = 0; distance <= components; distance++) {
    sum += binomial;
    within.push(sum);
    binomial = (binomial * BigInt(components - distance)) / BigInt(distance + 1);
  }
  if (remembered.size === MOST_REMEMBERED) {
    remembered.clear();
  }
  remembered.set(components, within);
  return within;
}

/**
 * Number of coins for a rank among patterns: at least one coin's bits to spare.
 *
 * One component has one pattern near and one far: there is nothing to draw.
 */
export function rankWords(components: number): number {
  return components > 1 ? Math.ceil(components / 64) + 1 : 0;
}

/**
 * Draw the components that differ: within radius with probability threshold / 2^64.
 *
 * coins[0] decides whether the pattern is near. The next coins, joined to one number U, give it a
 * rank floor(U R / 2^(bits of U)) among the R near or far patterns ordered by distance, hence the
 * distance. So many components are drawn by Floyd's algorithm, or, of more than half of them, those
 * that are kept: coins are left unread then, their number depends on nothing.
 *
 * @param within the result of `patternsWithin`.
 * @param coins 1 + rankWords(components) + floor(components / 2) words.
 * @returns the set as bits: component j is bit components - 1 - j.
 */
export function drawFlips(
  within: readonly bigint[],
  radius: number,
  threshold: bigint,
  coins: Words,
): bigint {
  const components = within.length - 1;
  const [near, total] = [within[radius]!, within[components]!];
  const words = rankWords(components);
  let rank = 0n;
  for (const word of coins.subarray(1, 1 + words)) {
    rank = (rank << 64n) | word;
  }
  const bits = BigInt(64 * words);
  rank = coins[0]! < threshold ? (rank * near) >> bits : near + ((rank * (total - near)) >> bits);
  const distance = within.reduce((below, count) => below + (count <= rank ? 1 : 0), 0);
  const kept = components - distance;
  const drawn = BigInt(`0b${drawSubset(components, Math.min(distance, kept), coins).join("")}`);
  return distance <= kept ? drawn : total - 1n - drawn;
}

/**
 * Bounds from above how much likelier one own pattern makes a report than another does.
 *
 * With M = 2^64, s = components, h = floor(s / 2), N near and F far patterns it is
 * max(t F, (M - t) N) M over the least of the two times (M - 2S), 2S = 2 + h (2s - h + 1), or 0 for
 * one component. Terms of thousands of bits are cut to 256, outward. The derivation stands in
 * `client/askance_client/randomizers/hypercube_draws.py`.
 */
export function certifiedRatio(
  within: readonly bigint[],
  radius: number,
  threshold: bigint,
): [bigint, bigint] {
  const components = within.length - 1;
  const [near, half] = [within[radius]!, Math.floor(components / 2)];
  const inside = threshold * (within[components]! - near);
  const outside = (COIN_SPACE - threshold) * near;
  const bias = components > 1 ? 2 + half * (2 * components - half + 1) : 0;
  const most = greatest(inside, outside) * COIN_SPACE;
  const less = least(inside, outside) * (COIN_SPACE - BigInt(bias));
  const excess = BigInt(Math.max(bitLength(less) - RATIO_BITS, 0)); // outward
  return [ceilShift(most, excess), less >> excess];
}
