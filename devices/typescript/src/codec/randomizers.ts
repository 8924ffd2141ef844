/** Randomizers on the wire: a table of integers, or a family's name and parameters. */

import { RemoteProtocolError } from "../errors.js";
import type {
  Randomizer as RandomizerMessage,
  Table,
} from "../protos/askance_protos/v1/randomizer_pb.js";
import { checkSides } from "../randomizers/channel.js";
import {
  Channel,
  HadamardSign,
  HypercubeResponse,
  KaryResponse,
  LinearHashing,
  RandomCodebook,
  SignedSubsetSelection,
  SubsetSelection,
  type Randomizer,
} from "../randomizers/index.js";

/**
 * The randomizer in a message; its privacy loss is computed from it, not read.
 *
 * @throws RemoteProtocolError: no family, or a table with a wrong number of entries.
 * @throws InvalidParameter: rows that do not sum to 2^64, an infinite loss, a parameter out of range.
 */
export function decodeRandomizer(message: RandomizerMessage | undefined): Randomizer {
  const family = message?.family;
  switch (family?.case) {
    case "table":
      return decodeTable(family.value);
    case "kAryResponse":
      return new KaryResponse(family.value.cells, family.value.other);
    case "subsetSelection": {
      const { cells, size, threshold } = family.value;
      return new SubsetSelection(cells, size, threshold);
    }
    case "linearHashing": {
      const { cells, modulus, other } = family.value;
      return new LinearHashing(cells, modulus, other);
    }
    case "hadamardSign":
      return new HadamardSign(family.value.values, family.value.threshold);
    case "signedSubsetSelection": {
      const { values, size, threshold } = family.value;
      return new SignedSubsetSelection(values, size, threshold);
    }
    case "hypercubeResponse": {
      const { components, radius, threshold } = family.value;
      return new HypercubeResponse(components, radius, threshold);
    }
    case "randomCodebook": {
      const { components, radius, bases, near, threshold, seedBits } = family.value;
      return new RandomCodebook(components, radius, bases, near, threshold, seedBits);
    }
    default:
      throw new RemoteProtocolError("randomizer: expected a family, found none");
  }
}

function decodeTable({ levels, symbols, entries, repeats }: Table): Channel {
  checkSides(levels, symbols); // before they are laid out
  const byColumn = repeats.length > 0;
  const total = byColumn ? repeats.reduce((sum, count) => sum + count, 0) : entries.length;
  if ((byColumn && repeats.length !== entries.length) || total !== levels * symbols) {
    throw new RemoteProtocolError(
      `randomizer: expected ${levels} x ${symbols} entries, found ${total}`,
    );
  }
  if (!byColumn) {
    return new Channel(levels, BigUint64Array.from(entries));
  }
  const laid = new BigUint64Array(total);
  let [x, y] = [0, 0];
  for (const [i, entry] of entries.entries()) {
    for (let left = repeats[i]!; left > 0; left--) {
      laid[x * symbols + y] = entry;
      [x, y] = x + 1 < levels ? [x + 1, y] : [0, y + 1];
    }
  }
  return new Channel(levels, laid);
}
