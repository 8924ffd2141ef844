/** The price of a likelihood ratio, in nano-nats, decided exactly. */

import { expect } from "../errors.js";
import { bitLength } from "../integers.js";
import { expBounds } from "./exponential.js";
import { NANO_NATS_PER_NAT, checkNanoNats } from "./nano_nats.js";

const STEP_BITS = 64;

/**
 * Decide numerator <= e^(nano / 10^9) * denominator, exactly.
 *
 * The precision is raised until the bounds of e^x no longer straddle the ratio. That ends: e^x is
 * irrational for every rational x other than 0 (Lindemann), and x = 0 compares two integers.
 *
 * @throws InvalidParameter: the loss is infinite (denominator 0), a part is negative, or nano is no
 * budget.
 */
export function ratioWithin(numerator: bigint, denominator: bigint, nano: bigint): boolean {
  checkRatio(numerator, denominator);
  checkNanoNats(nano);
  if (numerator <= denominator) {
    return true;
  }
  if (nano === 0n) {
    return false;
  }
  // e^x > 2^x: a generous budget is decided without computing an exponential of its size.
  if (numerator <= denominator << (nano / NANO_NATS_PER_NAT)) {
    return true;
  }
  for (let bits = (Math.floor(bitLength(numerator) / STEP_BITS) + 2) * STEP_BITS; ; bits *= 2) {
    const [low, high] = expBounds(nano, bits);
    const scaled = numerator << BigInt(bits);
    if (scaled <= low * denominator) {
      return true;
    }
    if (scaled > high * denominator) {
      return false;
    }
  }
}

/**
 * The least N >= 0, in nano-nats, with numerator <= e^(N / 10^9) * denominator.
 *
 * Privacy: an upper bound of the loss ln(numerator / denominator), by less than one nano-nat.
 *
 * @throws InvalidParameter: the loss is infinite (denominator 0), or a part is negative.
 */
export function charge(numerator: bigint, denominator: bigint): bigint {
  checkRatio(numerator, denominator);
  if (numerator <= denominator) {
    return 0n;
  }
  // numerator/denominator < 2^octaves <= e^octaves; 0 does not fit and `high` does.
  const octaves = bitLength(numerator) - bitLength(denominator) + 1;
  let [low, high] = [0n, BigInt(octaves) * NANO_NATS_PER_NAT];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (ratioWithin(numerator, denominator, middle)) {
      high = middle;
    } else {
      low = middle;
    }
  }
  return high;
}

function checkRatio(numerator: bigint, denominator: bigint): void {
  const isRatio = numerator >= 0n && denominator >= 0n;
  expect(isRatio, "a likelihood ratio has parts of 0 or more, found a negative one");
  expect(denominator !== 0n, "privacy loss is infinite: a likelihood ratio over zero");
}
