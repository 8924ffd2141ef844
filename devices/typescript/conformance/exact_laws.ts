/** Alphabets of randomizers; a device that answers needs none. */

import { InvalidParameter } from "../src/errors.js";
import { fromBytes } from "../src/integers.js";
import {
  LinearHashing,
  NumberedRandomizer,
  SetRandomizer,
  SignedSubsetSelection,
  type Randomizer,
} from "../src/randomizers/index.js";

/** True if the report is in the alphabet, in its one canonical form. */
export function valid(randomizer: Randomizer, report: Uint8Array): boolean {
  if (report.length !== randomizer.width) {
    return false;
  }
  if (randomizer instanceof NumberedRandomizer) {
    const number = fromBytes(report);
    const least = randomizer instanceof LinearHashing ? randomizer.modulus : 0; // no hash is zero
    return number >= least && number < randomizer.reports;
  }
  if (!(randomizer instanceof SetRandomizer)) {
    throw new InvalidParameter("randomizer: expected a family with a law, got another");
  }
  const found = randomizer.itemsOf(report);
  // No value may have both signs, which are neighbouring items.
  const values = randomizer instanceof SignedSubsetSelection ? found.map((item) => item >> 1) : found;
  return (
    found.length === randomizer.size &&
    found.at(-1)! < randomizer.items &&
    values.every((value, i) => i === 0 || values[i - 1]! < value)
  );
}
