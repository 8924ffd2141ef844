/** The integers of signed subset selection: how its coins are shared out, and what that costs. */

import { greatest, least } from "../integers.js";
import { COIN_SPACE } from "./coins.js";

/** The coins for (j, -s): its share, by the number of sets, of those above the threshold. */
export function oppositeCoins(values: number, size: number, threshold: bigint): bigint {
  return ((COIN_SPACE - threshold) * BigInt(size)) / BigInt(2 * values - size);
}

/** w / (2 d) of the coins, rounded down. */
export function evenCoins(values: number, size: number): bigint {
  return (COIN_SPACE * BigInt(size)) / BigInt(2 * values);
}

/**
 * Bounds from above how much likelier one level makes a report than another does.
 *
 * With M = 2^64, d = values, w = size, u = opposite and h = even coins, the chances of a report are
 * 2 t (d - w), 2 u (d - w), (M - t - u) w, 2 h (d - w), (M - 2 h) w over one denominator; if w = d,
 * they are t, u and h. The draws are short of even by at most M / (M - w (2d-w-1)). The derivation
 * stands in `client/askance_client/randomizers/signed_sets.py`.
 */
export function certifiedRatio(values: number, size: number, threshold: bigint): [bigint, bigint] {
  const others = oppositeCoins(values, size, threshold);
  const even = evenCoins(values, size);
  let chances = [threshold, others, even];
  if (size < values) {
    chances = chances.map((coins) => 2n * coins * BigInt(values - size));
    chances.push((COIN_SPACE - threshold - others) * BigInt(size));
    chances.push((COIN_SPACE - 2n * even) * BigInt(size));
  }
  const bias = BigInt(size) * BigInt(2 * values - size - 1);
  return [chances.reduce(greatest) * COIN_SPACE, chances.reduce(least) * (COIN_SPACE - bias)];
}
