/** Unit of every budget: a whole number of nano-nats, shown as nats. */

import { expect } from "../errors.js";

export const NANO_NATS_PER_NAT = 10n ** 9n;
export const MAX_NANO_NATS = 10n ** 6n * NANO_NATS_PER_NAT;

/**
 * The least loss of a question that a device answers, in nano-nats. It follows from no owner's
 * budget, which it would reveal.
 */
export const LEAST_LOSS = NANO_NATS_PER_NAT / 1000n;

const EPSILON = /^(\d{1,40})(?:\.(\d{1,20}))?$/;

/** Give `nano` back if it is a budget: 0..MAX_NANO_NATS; else throw InvalidParameter. */
export function checkNanoNats(nano: bigint): bigint {
  const isBudget = nano >= 0n && nano <= MAX_NANO_NATS;
  expect(isBudget, "budget: expected 0..10^15 nano-nats, got a number outside");
  return nano;
}

/**
 * Read an epsilon in nats ("0.5", "2") as nano-nats, exactly, rounded down.
 *
 * Privacy: rounding down never grants more than was written.
 *
 * @throws InvalidParameter: no such text, below one nano-nat, or above 10^6 nats.
 */
export function parseEpsilon(text: string): bigint {
  const found = EPSILON.exec(text);
  expect(found !== null, 'epsilon: expected nats as "0.5", got another text');
  const nano = BigInt(found[1]! + (found[2] ?? "").padEnd(9, "0").slice(0, 9));
  expect(nano !== 0n, "epsilon: expected at least 10^-9 nats, got less");
  return checkNanoNats(nano);
}

/** Show nano-nats as nats, exactly: 500,000,000 is "0.5" and 2 * 10^9 is "2". */
export function formatNats(nano: bigint): string {
  const magnitude = nano < 0n ? -nano : nano;
  const rest = String(magnitude % NANO_NATS_PER_NAT).padStart(9, "0").replace(/0+$/, "");
  const whole = String(magnitude / NANO_NATS_PER_NAT);
  return (nano < 0n ? "-" : "") + (rest ? `${whole}.${rest}` : whole);
}
