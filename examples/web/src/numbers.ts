/** Chances, costs and times as text, as on the owner's page of the Python client. */

import { expBounds, formatNats, NANO_NATS_PER_NAT } from "askance-client/index.js";

const BITS = 64;
const LITTLE = 8n * NANO_NATS_PER_NAT; // above it a reader is 99.97 % sure of one of two values
const CERTAIN = 20n * NANO_NATS_PER_NAT;
const MOST_DECIMALS = 12;

/** Part of 2^64 coins, or of any other whole. */
export interface Chance {
  readonly of: bigint;
  readonly whole: bigint;
}

/** A fraction with so many decimals, rounded half up. */
export function fixed(numerator: bigint, denominator: bigint, places: number): string {
  const unit = 10n ** BigInt(places);
  const negative = numerator < 0n;
  const units = (2n * numerator * unit + denominator) / (2n * denominator);
  const digits = String(units < 0n ? -units : units).padStart(places + 1, "0");
  const text = places ? `${digits.slice(0, -places)}.${digits.slice(-places)}` : digits;
  return negative && units !== 0n ? `-${text}` : text;
}

/** A chance as a percentage: two decimals, or two digits of a small one; a dash for none. */
export function percent(chance: Chance | null): string {
  if (chance === null) {
    return "–";
  }
  const { of, whole } = chance;
  let [places, unit] = [2, 100n];
  while (of > 0n && 100n * of * unit < 10n * whole && places < MOST_DECIMALS) {
    [places, unit] = [places + 1, unit * 10n];
  }
  return of ? `${fixed(100n * of, whole, places)} %` : "0 %";
}

/** e^epsilon / (1 + e^epsilon) as a percentage, at the first decimal where it is not 50 or 100. */
function sure(nanoNats: bigint): string {
  if (nanoNats > CERTAIN) {
    return "100 %";
  }
  const [, ratio] = expBounds(nanoNats, BITS);
  const whole = ratio + (1n << BigInt(BITS));
  let places = 0;
  const shown = () => Number(fixed(100n * ratio, whole, places));
  while (nanoNats && !(shown() > 50 && shown() < 100)) {
    places += 1;
  }
  return `${fixed(100n * ratio, whole, places)} %`;
}

export const nats = (nanoNats: bigint): string => `${formatNats(nanoNats)} nats`;

/** A cost with its risk, and above 8 nats that it protects little. */
export function cost(nanoNats: bigint): string {
  const risk = `of two equally likely values a reader is at most ${sure(nanoNats)} sure of the true one`;
  return `${nats(nanoNats)}: ${risk}${nanoNats <= LITTLE ? "" : ", which protects little"}`;
}
