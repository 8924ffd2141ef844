/** Levels of disjoint signed values: level 2j is + at value j, 2j + 1 is - at it, 2d is neutral. */

export const MAX_VALUES = 32767; // d values take 2 d + 1 cells: 2 bytes

/** Number of levels of `values` signed values: two per value, and the neutral one. */
export function signedLevels(values: number): bigint {
  return BigInt(2 * values + 1);
}
