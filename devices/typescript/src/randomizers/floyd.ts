/** A random subset of fixed size from a fixed number of coins, and how uniform it is. */

import { greatest, least } from "../integers.js";
import { COIN_SPACE, Halves, type Words } from "./coins.js";

/**
 * Draw `size` of `cells` items, the own one with probability threshold / 2^64.
 *
 * coins[0] decides whether the own item is in. The others come from the cells - 1 remaining items
 * (`drawSubset`). With the own item in, one is needed fewer and coins[1] is ignored: the number of
 * coins depends neither on the level nor on chance. Among the remaining items the last stands under
 * the own one's number.
 *
 * @param cells > size >= 1.
 * @param coins size + 1 words.
 * @returns 1 per item that is in the set, else 0.
 */
export function drawMembers(
  cells: number,
  size: number,
  threshold: bigint,
  level: number,
  coins: Words,
): Uint8Array {
  const last = cells - 1;
  const ownIn = coins[0]! < threshold ? 1 : 0;
  const members = drawSubset(last, size - ownIn, coins, cells);
  members[last] = members[level]!;
  members[level] = ownIn;
  return members;
}

/**
 * Draw `size` of `items` items evenly, by Floyd's algorithm.
 *
 * For every j from items - size to items - 1 draw t = floor(U (j + 1) / 2^64), which is in 0..j, and
 * take t, or j if t is taken already.
 *
 * @param items at most 2^20, >= size >= 0.
 * @param coins at least `size` words; the last `size` of them are read.
 * @param length of the result, at least `items`.
 * @returns 1 per item that is in the set, else 0. The order of draws leaves no trace.
 *
 * Source: Bentley and Floyd, Communications of the ACM 30 (1987).
 */
export function drawSubset(items: number, size: number, coins: Words, length = items): Uint8Array {
  const halves = new Halves(coins);
  const unread = items - coins.length; // draw j takes coins[j - unread]
  const members = new Uint8Array(length);
  for (let j = items - size; j < items; j++) {
    const item = halves.share(j - unread, j + 1);
    members[members[item] ? j : item] = 1;
  }
  return members;
}

/**
 * Bounds from above how much likelier one own item makes a set than another own item does.
 *
 * With M = 2^64, k = cells, w = size, t = threshold:
 *
 *     max(t (k-w), (M-t) w) M  over  min(t (k-w), (M-t) w) (M - w (2k-w-1)).
 *
 * The derivation stands in `client/askance_client/randomizers/floyd.py`.
 */
export function certifiedRatio(cells: number, size: number, threshold: bigint): [bigint, bigint] {
  const inside = threshold * BigInt(cells - size);
  const outside = (COIN_SPACE - threshold) * BigInt(size);
  const bias = BigInt(size) * BigInt(2 * cells - size - 1);
  return [greatest(inside, outside) * COIN_SPACE, least(inside, outside) * (COIN_SPACE - bias)];
}
