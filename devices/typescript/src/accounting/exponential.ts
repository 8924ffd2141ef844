/** Integers on both sides of e^x, for rational x >= 0. */

import { bitLength, ceilShift } from "../integers.js";
import { NANO_NATS_PER_NAT, checkNanoNats } from "./nano_nats.js";

/**
 * Bound e^(nano / 10^9) * 2^bits from below and from above.
 *
 * The argument is halved until it is at most 1/16, its exponential summed as a Taylor series and
 * then squared back. All of it is done twice, once with every rounding downward and once with every
 * rounding upward, in enough extra bits that the two ends differ by one or two units.
 *
 * @param nano nano-nats, >= 0.
 * @param bits binary places of the result, >= 0.
 * @returns [low, high] with low <= e^(nano / 10^9) * 2^bits <= high; equal only if nano is 0.
 */
export function expBounds(nano: bigint, bits: number): [bigint, bigint] {
  checkNanoNats(nano);
  if (nano === 0n) {
    return [1n << BigInt(bits), 1n << BigInt(bits)];
  }
  const nats = Number(nano / NANO_NATS_PER_NAT) + 1;
  // x < 2^bitLength(nats), so halving this often leaves at most 2^-4.
  const halvings = bitLength(BigInt(nats)) + 4;
  // e^x < 2^(3x/2). A squaring doubles the relative error and adds one unit: `halvings` bits.
  const guard = BigInt(nats + Math.floor(nats / 2) + halvings + 16);
  const places = BigInt(bits) + guard;
  let [low, high] = taylorBounds(nano, NANO_NATS_PER_NAT << BigInt(halvings), places);
  for (let i = 0; i < halvings; i++) {
    low = (low * low) >> places;
    high = ceilShift(high * high, places);
  }
  return [low >> guard, ceilShift(high, guard)];
}

/** Bound e^(numerator/denominator) * 2^places, the argument at most 1/16, by Taylor. */
function taylorBounds(numerator: bigint, denominator: bigint, places: bigint): [bigint, bigint] {
  const one = 1n << places;
  let [low, high, lowTerm, highTerm] = [one, one, one, one];
  // Once the upper term is one unit, the terms after it sum to less than it: their ratio is below
  // 1/16.
  for (let divisor = denominator; highTerm > 1n; divisor += denominator) {
    lowTerm = (lowTerm * numerator) / divisor;
    highTerm = (highTerm * numerator + divisor - 1n) / divisor;
    low += lowTerm;
    high += highTerm;
  }
  return [low, high + 1n];
}
