/**
 * Typing rules: the kind, the grid and the bounds of every operation's value.
 *
 * Bounds are interval arithmetic on integers. A value that could reach 2^62 is refused, so that 64
 * bits are enough in every language.
 */

import { InvalidQuery } from "../errors.js";
import { clamp, greatest, least, magnitude } from "../integers.js";
import type { ValueType } from "./fields.js";
import { Kind, Op } from "./kinds.js";
import { MAX_BITS, MAX_COMPONENTS, MAX_FRAC, MAX_MAGNITUDE, MAX_NODES, WORD } from "./limits.js";
import { SIGMOID_FRAC, sigmoidIndex, sigmoidTable } from "./sigmoid.js";

/** A typed value computed from a record. In one program equal nodes are one object. */
export interface ExpressionNode {
  readonly op: Op;
  readonly args: readonly ExpressionNode[];
  /** The field's name (FIELD only). */
  readonly name: string;
  /** The operation's own integers, over 2^grid. */
  readonly constants: readonly bigint[];
  /** Their grid, or the grid that ROUND goes to. */
  readonly grid: number;
  readonly type: ValueType;
  /** Position in the program. */
  readonly position: number;
  /** Height of the tree; a leaf has 1. */
  readonly depth: number;
}

/** An operation about to become a node: what its rule looks at. */
export type Parts = Pick<ExpressionNode, "op" | "args" | "constants" | "grid">;

type Ends = readonly [bigint, bigint];
type Rule = (parts: Parts) => ValueType;

/** A number of something, or the least and the most. */
type Count = number | readonly [number, number];

/** The rule of an operation, its numbers of arguments and constants, and whether it states a grid. */
type Shape = readonly [rule: Rule, args: Count, constants?: Count, statesGrid?: boolean];

const NUMERIC = [Kind.BOOLEAN, Kind.NUMBER];
const BOOLEAN: ValueType = { kind: Kind.BOOLEAN, frac: 0, low: 0n, high: 1n };

/**
 * The type of an operation's value (every operation but FIELD, whose type is the schema's).
 *
 * @throws InvalidQuery: wrong number or kind of arguments or constants, or a possible overflow.
 */
export function infer(parts: Parts): ValueType {
  const shape = SHAPES[parts.op];
  if (shape === undefined) {
    throw new InvalidQuery(`${Op[parts.op]} is no operation on values`);
  }
  const [rule, args, constants = 0, statesGrid = false] = shape;
  checkCount(parts.op, "arguments", parts.args.length, args);
  checkCount(parts.op, "constants", parts.constants.length, constants);
  const isGrid = parts.grid >= 0 && parts.grid <= (statesGrid ? MAX_FRAC : 0);
  expect(isGrid, parts.op, `another grid, found ${parts.grid} bits`);
  bounded(parts.op, ...parts.constants);
  return rule(parts);
}

/** Throw InvalidQuery unless a condition of an operation holds. */
function expect(holds: boolean, op: Op, expected: string): void {
  if (!holds) {
    throw new InvalidQuery(`${Op[op]} expects ${expected}`);
  }
}

/** Refuse a value that 64 bits could not hold with room for one addition. */
function bounded(op: Op, ...values: readonly bigint[]): void {
  for (const value of values) {
    if (value <= -MAX_MAGNITUDE || value >= MAX_MAGNITUDE) {
      throw new InvalidQuery(`${Op[op]} could reach 2^62 or more`);
    }
  }
}

function checkCount(op: Op, of: string, found: number, expected: Count): void {
  const [low, high] = typeof expected === "number" ? [expected, expected] : expected;
  expect(found >= low && found <= high, op, `${low}..${high} ${of}, found ${found}`);
}

function expectKind(parts: Parts, position: number, kinds: readonly Kind[]): ExpressionNode {
  const arg = parts.args[position]!;
  const { kind } = arg.type;
  const expected = kinds.map((one) => Kind[one]).join(" or ");
  const place = `as argument ${position + 1}`;
  expect(kinds.includes(kind), parts.op, `${expected} ${place}, found ${Kind[kind]}`);
  return arg;
}

/** A value's move to the finer grid `frac`. */
export function moved(value: bigint, from: number, frac: number): bigint {
  return from === frac ? value : value << BigInt(frac - from);
}

/** The arguments' bounds on a common finer grid. */
function aligned(op: Op, frac: number, args: readonly ExpressionNode[]): Ends[] {
  return args.map(({ type }) => {
    const ends: Ends = [moved(type.low, type.frac, frac), moved(type.high, type.frac, frac)];
    bounded(op, ...ends);
    return ends;
  });
}

/** The finest grid of some nodes. */
export function finest(args: readonly ExpressionNode[]): number {
  return args.reduce((frac, arg) => Math.max(frac, arg.type.frac), 0);
}

/** All arguments are numbers: their common grid, and their bounds on it. */
function numbers(parts: Parts): { frac: number; ends: Ends[] } {
  for (const position of parts.args.keys()) {
    expectKind(parts, position, NUMERIC);
  }
  const frac = finest(parts.args);
  return { frac, ends: aligned(parts.op, frac, parts.args) };
}

function number(op: Op, frac: number, ends: readonly bigint[]): ValueType {
  bounded(op, ...ends);
  expect(frac <= MAX_FRAC, op, `a grid of 2^-${MAX_FRAC} or coarser, found 2^-${frac}`);
  return { kind: Kind.NUMBER, frac, low: ends.reduce(least), high: ends.reduce(greatest) };
}

/** The rule of an operation on one or two numbers, by their ends. */
function byEnds(ends: (a: Ends, b: Ends) => readonly bigint[]): Rule {
  return (parts) => {
    const { frac, ends: found } = numbers(parts);
    return number(parts.op, frac, ends(found[0]!, found.at(-1)!));
  };
}

function constant(parts: Parts): ValueType {
  const value = parts.constants[0]!;
  const kind = parts.grid === 0 && (value === 0n || value === 1n) ? Kind.BOOLEAN : Kind.NUMBER;
  return { kind, frac: parts.grid, low: value, high: value };
}

function component(parts: Parts): ValueType {
  const bits = expectKind(parts, 0, [Kind.BITS]);
  const [position, width] = [parts.constants[0]!, bits.type.width!];
  expect(position >= 0n && position < BigInt(width), parts.op, `one of 0..${width - 1}`);
  return BOOLEAN;
}

function multiply(parts: Parts): ValueType {
  const [a, b] = [expectKind(parts, 0, NUMERIC), expectKind(parts, 1, NUMERIC)];
  const { low, high } = a.type;
  let ends = [low * b.type.low, low * b.type.high, high * b.type.low, high * b.type.high];
  if (a === b) {
    ends = [low * low, high * high]; // a square is never negative
    if (low <= 0n && high >= 0n) {
      ends.push(0n);
    }
  }
  return number(parts.op, a.type.frac + b.type.frac, ends);
}

function absolute([low, high]: Ends): readonly bigint[] {
  const ends = [magnitude(low), magnitude(high)];
  return low <= 0n && high >= 0n ? [0n, ...ends] : ends;
}

function compare(parts: Parts): ValueType {
  numbers(parts);
  return BOOLEAN;
}

function equal(parts: Parts): ValueType {
  const [a, b] = parts.args as [ExpressionNode, ExpressionNode];
  if (a.type.kind !== Kind.CATEGORY && b.type.kind !== Kind.CATEGORY) {
    return compare(parts);
  }
  commonLabels(parts.op, a, b);
  return BOOLEAN;
}

/** Two categories with the same labels, or a category and the index of one of its labels. */
function commonLabels(op: Op, a: ExpressionNode, b: ExpressionNode): readonly string[] | undefined {
  if (a.type.kind !== Kind.CATEGORY) {
    [a, b] = [b, a];
  }
  if (b.type.kind === Kind.CATEGORY) {
    const [labels, others] = [a.type.labels, b.type.labels];
    if (labels === undefined || others === undefined) {
      return undefined;
    }
    // Equal labels are one object (see Schema): no query makes a device compare long lists.
    expect(labels === others, op, "categories with the same labels");
    return labels;
  }
  const index = b.type.low;
  const isLabel = !b.type.frac && index >= a.type.low && index <= a.type.high;
  expect(b.op === Op.CONSTANT && isLabel, op, "beside a category one of its labels or another");
  return a.type.labels;
}

function logic(parts: Parts): ValueType {
  for (const position of parts.args.keys()) {
    expectKind(parts, position, [Kind.BOOLEAN]);
  }
  return BOOLEAN;
}

function where(parts: Parts): ValueType {
  expectKind(parts, 0, [Kind.BOOLEAN]);
  const [, a, b] = parts.args as [ExpressionNode, ExpressionNode, ExpressionNode];
  if (a.type.kind === Kind.CATEGORY || b.type.kind === Kind.CATEGORY) {
    const labels = commonLabels(parts.op, a, b);
    return {
      kind: Kind.CATEGORY,
      frac: 0,
      low: least(a.type.low, b.type.low),
      high: greatest(a.type.high, b.type.high),
      ...(labels === undefined ? {} : { labels }),
    };
  }
  expectKind(parts, 1, NUMERIC);
  expectKind(parts, 2, NUMERIC);
  if (a.type.kind === Kind.BOOLEAN && b.type.kind === Kind.BOOLEAN) {
    return BOOLEAN;
  }
  const frac = finest([a, b]);
  return number(parts.op, frac, aligned(parts.op, frac, [a, b]).flat());
}

function clip(parts: Parts): ValueType {
  const x = expectKind(parts, 0, NUMERIC);
  const frac = Math.max(x.type.frac, parts.grid);
  const [low, high] = parts.constants.map((end) => moved(end, parts.grid, frac)) as [bigint, bigint];
  bounded(parts.op, low, high);
  expect(low <= high, parts.op, "low <= high, found low > high");
  const [ends] = aligned(parts.op, frac, [x]);
  return number(parts.op, frac, ends!.map((end) => clamp(end, low, high)));
}

function round(parts: Parts): ValueType {
  const x = expectKind(parts, 0, NUMERIC);
  const shift = x.type.frac - parts.grid;
  expect(shift > 0, parts.op, `a grid coarser than 2^-${x.type.frac}`);
  const half = 1n << BigInt(shift - 1);
  bounded(parts.op, x.type.low + half, x.type.high + half);
  const ends = [x.type.low, x.type.high].map((end) => (end + half) >> BigInt(shift));
  return number(parts.op, parts.grid, ends);
}

function sigmoid(parts: Parts): ValueType {
  const { frac, ends } = numbers(parts);
  const table = sigmoidTable();
  return number(
    parts.op,
    SIGMOID_FRAC,
    ends[0]!.map((end) => table[sigmoidIndex(end, frac)]!),
  );
}

function parity(parts: Parts): ValueType {
  const width = expectKind(parts, 0, [Kind.BITS]).type.width!;
  const words = Math.ceil(width / WORD);
  checkCount(parts.op, "constants", parts.constants.length, words);
  for (const [position, word] of parts.constants.entries()) {
    const bits = BigInt(Math.min(WORD, width - position * WORD));
    expect(word >= 0n && word >> bits === 0n, parts.op, `a mask of ${width} bits`);
  }
  return BOOLEAN;
}

function dot(parts: Parts): ValueType {
  const { args, constants } = parts;
  const bits = args[0]!.type.kind === Kind.BITS;
  if (bits) {
    checkCount(parts.op, "arguments", args.length, 1);
  }
  const width = bits ? args[0]!.type.width! : args.length;
  checkCount(parts.op, "constants", constants.length, width);
  const { frac, ends } = bits ? { frac: 0, ends: [] } : numbers(parts);
  let [low, high, total] = [0n, 0n, 0n];
  for (const [i, coefficient] of constants.entries()) {
    bounded(parts.op, bits ? coefficient : moved(coefficient, args[i]!.type.frac, frac));
    const [a, b] = (bits ? [0n, 1n] : ends[i]!).map((end) => coefficient * end) as [bigint, bigint];
    low += least(a, b);
    high += greatest(a, b);
    total += greatest(magnitude(a), magnitude(b));
  }
  bounded(parts.op, total); // every partial sum, in any order, is below it
  return number(parts.op, frac + parts.grid, [low, high]);
}

function bucketize(parts: Parts): ValueType {
  const x = expectKind(parts, 0, NUMERIC);
  const frac = Math.max(x.type.frac, parts.grid);
  aligned(parts.op, frac, [x]);
  const edges = parts.constants.map((edge) => moved(edge, parts.grid, frac));
  bounded(parts.op, ...edges);
  expect(edges.every((edge, i) => !i || edges[i - 1]! < edge), parts.op, "increasing edges");
  return { kind: Kind.CATEGORY, frac: 0, low: 0n, high: BigInt(edges.length) };
}

function first(parts: Parts): ValueType {
  logic(parts);
  return { kind: Kind.CATEGORY, frac: 0, low: 0n, high: BigInt(parts.args.length) };
}

function index(parts: Parts): ValueType {
  const { low, high } = expectKind(parts, 0, [Kind.CATEGORY]).type;
  return { kind: Kind.NUMBER, frac: 0, low, high };
}

function vector(parts: Parts): ValueType {
  const { frac } = numbers(parts);
  expect(parts.grid >= frac, parts.op, `a grid of at least its components' ${frac} bits`);
  const ends = aligned(parts.op, parts.grid, parts.args).flat();
  return {
    kind: Kind.VECTOR,
    frac: parts.grid,
    low: ends.reduce(least),
    high: ends.reduce(greatest),
    width: parts.args.length,
  };
}

const MANY: readonly [number, number] = [1, MAX_NODES - 1];
const SHAPES: { readonly [op in Op]?: Shape } = {
  [Op.CONSTANT]: [constant, 0, 1, true],
  [Op.COMPONENT]: [component, 1, 1],
  [Op.ADD]: [byEnds((a, b) => [a[0] + b[0], a[1] + b[1]]), 2],
  [Op.SUBTRACT]: [byEnds((a, b) => [a[0] - b[1], a[1] - b[0]]), 2],
  [Op.MULTIPLY]: [multiply, 2],
  [Op.NEGATE]: [byEnds((a) => [-a[1], -a[0]]), 1],
  [Op.LESS]: [compare, 2],
  [Op.LESS_EQUAL]: [compare, 2],
  [Op.EQUAL]: [equal, 2],
  [Op.AND]: [logic, 2],
  [Op.OR]: [logic, 2],
  [Op.NOT]: [logic, 1],
  [Op.WHERE]: [where, 3],
  [Op.CLIP]: [clip, 1, 2, true],
  [Op.ROUND]: [round, 1, 0, true],
  [Op.SIGMOID]: [sigmoid, 1],
  [Op.PARITY]: [parity, 1, [1, MAX_BITS / WORD]],
  [Op.DOT]: [dot, MANY, [1, MAX_BITS], true],
  [Op.BUCKETIZE]: [bucketize, 1, [1, MAX_BITS], true],
  [Op.FIRST]: [first, MANY],
  [Op.MINIMUM]: [byEnds((a, b) => [least(a[0], b[0]), least(a[1], b[1])]), 2],
  [Op.MAXIMUM]: [byEnds((a, b) => [greatest(a[0], b[0]), greatest(a[1], b[1])]), 2],
  [Op.ABSOLUTE]: [byEnds(absolute), 1],
  [Op.INDEX]: [index, 1],
  [Op.VECTOR]: [vector, [1, MAX_COMPONENTS], 0, true],
};
