/** Alphabets of randomizers, for readers of a ledger and for tests; a device that answers needs none. */

import { InvalidParameter } from "./errors.js";
import { fromBytes } from "./integers.js";
import {
  NumberedRandomizer,
  SetRandomizer,
  SignedSubsetSelection,
  type Randomizer,
} from "./randomizers/index.js";

/** True if the report is in the alphabet, in its one canonical form. */
export function valid(randomizer: Randomizer, report: Uint8Array): boolean {
  if (report.length !== randomizer.width) {
    return false;
  }
  if (randomizer instanceof NumberedRandomizer) {
    const number = fromBytes(report);
    return number >= randomizer.leastReport && number < randomizer.reports;
  }
  if (!(randomizer instanceof SetRandomizer)) {
    throw new InvalidParameter("randomizer: expected a family with a law, got another");
  }
  const found = itemsOf(randomizer, report);
  // No value may have both signs, which are neighbouring items.
  const values = randomizer instanceof SignedSubsetSelection ? found.map((item) => item >> 1) : found;
  return (
    found.length === randomizer.size &&
    found.at(-1)! < randomizer.items &&
    values.every((value, i) => i === 0 || values[i - 1]! < value)
  );
}

/** The items of a report, in its order. */
export function itemsOf(randomizer: SetRandomizer, report: Uint8Array): number[] {
  const [each, items] = [randomizer.indexBytes, [] as number[]];
  if (each) {
    for (let at = 0; at < report.length; at += each) {
      items.push(Number(fromBytes(report.subarray(at, at + each))));
    }
    return items;
  }
  for (let item = 0; item < 8 * report.length; item++) {
    if ((report[item >> 3]! >> (7 - (item & 7))) & 1) {
      items.push(item);
    }
  }
  return items;
}
