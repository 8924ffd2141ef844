/** Random rounding: how a number on a fine grid becomes one of a few levels without bias. */

import { InvalidParameter, expect } from "../errors.js";
import { COIN_SPACE, type Words } from "./coins.js";

const MAX_SPAN = 1n << 31n;
export const MAX_ROUNDING_LEVELS = 1n << 16n;

/**
 * Round a grid value at random onto equally spaced points of [low, high].
 *
 * The value's position among the points is (value - low) (levels - 1) / (high - low); it goes to the
 * point above with the probability that is its fractional part, else to the one below.
 *
 * Privacy: the coin must be independent of the randomizer's: the report then follows a mixture of
 * the randomizer's rows, and its epsilon is kept.
 *
 * @param value in low..high.
 * @param low the first point.
 * @param high the last point; high - low is in 1..2^31-1.
 * @param levels how many points, 2..2^16.
 * @throws InvalidParameter: an argument is not of that form.
 */
export function roundToLevels(
  value: bigint,
  low: bigint,
  high: bigint,
  levels: bigint,
  coin: bigint,
): bigint {
  const span = high - low;
  expect(span > 0n && span < MAX_SPAN, "a range spans 1..2^31-1 grid units");
  const isFew = levels >= 2n && levels <= MAX_ROUNDING_LEVELS;
  expect(isFew, "rounding is onto 2..2^16 levels");
  expect(value >= low && value <= high, "a grid value lies in its range, found one outside");
  const position = (value - low) * (levels - 1n);
  const below = position / span;
  return coin < ((position % span) * COIN_SPACE) / span ? below + 1n : below;
}

/**
 * Round every component to one of the two ends: the pattern that is + where it is the high.
 *
 * There is a value, in low..high, and a coin for each component. Bit s-1-j of the pattern stands for
 * component j of s.
 */
export function signPattern(
  values: readonly bigint[],
  low: bigint,
  high: bigint,
  coins: Words,
): bigint {
  if (values.length !== coins.length || values.length === 0) {
    throw new InvalidParameter(`${values.length} components have as many coins`);
  }
  const signs = values.map((value, j) => roundToLevels(value, low, high, 2n, coins[j]!));
  return BigInt(`0b${signs.join("")}`);
}
