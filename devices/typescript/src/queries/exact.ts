/**
 * Numbers as exact ratios of integers, and their rounding to a grid of 2^-frac.
 *
 * Everything that may be written as a number (a number, a decimal text, a fraction) is first an
 * exact ratio; there is one rounding, and it is stated: half to even.
 */

import { floorDivide } from "../integers.js";

/** Numerator, and a denominator above 0. */
export type Ratio = readonly [bigint, bigint];

const MAX_TEXT = 128;
const NUMBER = /^([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?$/;
const FRACTION = /^([+-]?)([0-9]+)\/([0-9]+)$/;
// White space as Unicode's property has it, and the four separators of ASCII.
const SPACE = "[\\u0009-\\u000d\\u001c-\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const ENDS = new RegExp(`^${SPACE}+|${SPACE}+$`, "g");
// Outside 10^-100 .. 10^100 a decimal is replaced by that end: on every grid allowed here the
// result is the same, and "1e999999999" cannot make a device build a gigabyte of digits.
const DECADES = 100;

/** Cut white space off at both ends. */
export function stripped(text: string): string {
  return text.replace(ENDS, "");
}

/** The value as an exact ratio; undefined where it is not a finite number. */
export function exactRatio(value: unknown): Ratio | undefined {
  switch (typeof value) {
    case "string":
      return parsed(stripped(value));
    case "boolean":
      return [value ? 1n : 0n, 1n];
    case "bigint":
      return [value, 1n];
    case "number":
      return ratioOfFloat(value);
    default:
      return undefined;
  }
}

/** The mantissa over 2^frac nearest to the ratio; half to even. */
export function toGrid([numerator, denominator]: Ratio, frac: number): bigint {
  const scaled = numerator << BigInt(frac);
  const quotient = floorDivide(scaled, denominator);
  const twice = 2n * (scaled - quotient * denominator);
  const up = twice > denominator || (twice === denominator && (quotient & 1n) === 1n);
  return up ? quotient + 1n : quotient;
}

function parsed(text: string): Ratio | undefined {
  if (text.length > MAX_TEXT) {
    return undefined;
  }
  const decimal = NUMBER.exec(text);
  if (decimal !== null) {
    const [, sign, whole, fraction, alone, exponent] = decimal;
    const places = fraction ?? alone ?? "";
    const digits = ((whole ?? "") + places).replace(/^0+/, "");
    return decimalRatio(sign === "-" ? -1n : 1n, digits, Number(exponent ?? "0") - places.length);
  }
  const found = FRACTION.exec(text);
  if (found === null || BigInt(found[3]!) === 0n) {
    return undefined;
  }
  return [BigInt(found[2]!) * (found[1] === "-" ? -1n : 1n), BigInt(found[3]!)];
}

function decimalRatio(sign: bigint, digits: string, exponent: number): Ratio {
  if (digits === "") {
    return [0n, 1n];
  }
  const leading = digits.length - 1 + exponent;
  if (leading > DECADES) {
    return [sign * 10n ** BigInt(DECADES), 1n];
  }
  if (leading < -DECADES) {
    return [sign, 10n ** BigInt(DECADES)];
  }
  const mantissa = sign * BigInt(digits);
  return exponent >= 0
    ? [mantissa * 10n ** BigInt(exponent), 1n]
    : [mantissa, 10n ** BigInt(-exponent)];
}

/** A float as exactly what it is. */
function ratioOfFloat(value: number): Ratio | undefined {
  if (!Number.isFinite(value)) {
    return undefined;
  }
  let denominator = 1n;
  for (; !Number.isInteger(value); value *= 2) {
    denominator *= 2n; // exact: a power of two moves the exponent alone
  }
  return [BigInt(value), denominator];
}
