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
export function decodeRandomizer({ family }: RandomizerMessage): Randomizer {
  const { case: name, value } = family;
  switch (name) {
    case "table":
      return decodeTable(value);
    case "kAryResponse":
      return new KaryResponse(value.cells, value.other);
    case "subsetSelection":
      return new SubsetSelection(value.cells, value.size, value.threshold);
    case "linearHashing":
      return new LinearHashing(value.cells, value.modulus, value.other);
    case "hadamardSign":
      return new HadamardSign(value.values, value.threshold);
    case "signedSubsetSelection":
      return new SignedSubsetSelection(value.values, value.size, value.threshold);
    case "hypercubeResponse":
      return new HypercubeResponse(value.components, value.radius, value.threshold);
    case "randomCodebook": {
      const { components, radius, bases, near, threshold, seedBits } = value;
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
