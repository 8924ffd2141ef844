/**
 * The logistic function as a stated table of integers: no libm, so every machine agrees.
 *
 * `sigmoid(x)` is the entry of the nearest lower multiple of 1/256: x is clamped to [-8, 8] and the
 * entry floor(256 x) is round(2^16 / (1 + e^-t)), t = floor(256 x)/256.
 */

import { clamp } from "../integers.js";

export const SIGMOID_FRAC = 16;
const STEP_BITS = 8; // table points a unit: 2^8
const REACH = 8 << STEP_BITS; // the last index on either side of 0
const WORKING_BITS = 192n; // far more than the closest call among the 4097 roundings needs

let table: readonly bigint[] | undefined;

/** 4097 entries over 2^16, for t = -8, -8 + 1/256, ..., 8. */
export function sigmoidTable(): readonly bigint[] {
  return (table ??= computed());
}

function computed(): readonly bigint[] {
  const one = 1n << WORKING_BITS;
  let ratio = 0n; // e^(-1/256) by its series
  let order = 0n;
  for (let term = one; term; term /= order << BigInt(STEP_BITS)) {
    ratio += order % 2n === 0n ? term : -term;
    order += 1n;
  }
  const upper: bigint[] = [];
  for (let index = 0, power = one; index <= REACH; index++) {
    const doubled = (one << BigInt(SIGMOID_FRAC + 1)) / (one + power);
    upper.push((doubled + 1n) >> 1n);
    power = (power * ratio) >> WORKING_BITS;
  }
  const whole = 1n << BigInt(SIGMOID_FRAC);
  const lower = upper.slice(1).reverse().map((entry) => whole - entry); // 1 - sigmoid(t)
  return [...lower, ...upper];
}

/** The table index of the value over 2^frac. */
export function sigmoidIndex(value: bigint, frac: number): number {
  const shift = frac - STEP_BITS;
  const point = shift >= 0 ? value >> BigInt(shift) : value << BigInt(-shift);
  return Number(clamp(point, BigInt(-REACH), BigInt(REACH))) + REACH;
}
