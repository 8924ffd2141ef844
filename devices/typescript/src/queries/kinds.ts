/** The operations of a query and the kinds of their values; the numbers go on the wire. */

/** Kind of an expression's value; 0 is reserved. */
export enum Kind {
  BOOLEAN = 1, // 0 or 1, accepted wherever a number is
  NUMBER = 2,
  CATEGORY = 3, // an index, compared for equality only
  BITS = 4, // a vector; its components are BOOLEAN
  VECTOR = 5, // numbers on one grid; no operation takes it, a query may ask it
}

/** An operation. Numbers are stable and append-only; 0 (unspecified) and 27 are reserved. */
export enum Op {
  CONSTANT = 1,
  FIELD = 2,
  COMPONENT = 3,
  ADD = 4,
  SUBTRACT = 5,
  MULTIPLY = 6,
  NEGATE = 7,
  LESS = 8,
  LESS_EQUAL = 9,
  EQUAL = 10,
  AND = 11,
  OR = 12,
  NOT = 13,
  WHERE = 14,
  CLIP = 15,
  ROUND = 16,
  SIGMOID = 17,
  PARITY = 18,
  DOT = 19,
  BUCKETIZE = 20,
  FIRST = 21,
  MINIMUM = 22,
  MAXIMUM = 23,
  ABSOLUTE = 24,
  INDEX = 25,
  VECTOR = 26,
}
