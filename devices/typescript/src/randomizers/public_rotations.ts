/**
 * Random rotations that a public seed determines, in integers.
 *
 * A rotation of an even order is `STEPS` steps. A step gives every coordinate a random sign and maps
 * each pair (a, b) of neighbours to (a + b, a - b), the sums first, so that coordinates meet others
 * in the next step. It multiplies lengths by the root of 2 exactly; all steps by 2^(STEPS / 2).
 *
 * Accuracy only: no privacy loss depends on how even the rotations are, nor on this module at all.
 */

import { toBytes } from "../integers.js";
import { shake128 } from "./shake_128.js";

export const STEPS = 32;

/**
 * Rotate a vector by the rotations of a seed.
 *
 * A float holds each coordinate exactly: a vector has at most 1,026 coordinates up to 2^26, so it is
 * shorter than 2^32, and what has been rotated is shorter than 2^48.
 *
 * @param vector integers of magnitude at most 2^26; the order is even.
 * @param seed below 2^64.
 * @param bases number of rotations.
 * @returns bases x order coordinates, basis by basis, 2^(STEPS / 2) times as long.
 */
export function turned(vector: Float64Array, seed: bigint, bases: number): Float64Array {
  const order = vector.length;
  const octets = shake128(toBytes(seed, 8), (bases * order * STEPS) / 8);
  const found = new Float64Array(bases * order);
  let row = new Float64Array(order);
  let next = new Float64Array(order);
  for (let basis = 0, at = 0; basis < bases; basis++) {
    row.set(vector);
    for (let step = 0; step < STEPS; step++) {
      for (let i = 0; i < order; i += 2, at += 2) {
        const a = (octets[at >> 3]! << (at & 7)) & 0x80 ? -row[i]! : row[i]!;
        const b = (octets[at >> 3]! << (at & 7)) & 0x40 ? -row[i + 1]! : row[i + 1]!;
        next[i / 2] = a + b;
        next[(order + i) / 2] = a - b;
      }
      [row, next] = [next, row];
    }
    found.set(row, basis * order);
  }
  return found;
}
