/**
 * Evaluation of an expression on one record: a list of steps over slots.
 *
 * A program is compiled once; each node that is not a field is a step, which computes one value
 * from those before it. Values are exact: `inference` bounds each below 2^62.
 *
 * No float decides anything, and no step is left out for a value: the number of steps and their
 * kinds are functions of the query alone.
 */

import { clamp, greatest, least, magnitude } from "../integers.js";
import type { GridValue } from "./fields.js";
import { finest, moved, type ExpressionNode } from "./inference.js";
import { Kind, Op } from "./kinds.js";
import { WORD } from "./limits.js";
import { sigmoidIndex, sigmoidTable } from "./sigmoid.js";

/** Values by the position of their nodes; where one is BITS, `words` has it. */
type Slots = bigint[];
type Step = (slots: Slots) => bigint;

/** A program ready to run. */
export interface Compiled {
  /** The fields that it reads, in the order of the program. */
  readonly names: readonly string[];
  /** For each component of the value, the fields that it depends on: bit i stands for name i. */
  readonly reads: readonly bigint[];
  /** The components of the value, given the fields' values: one, or those of a VECTOR. */
  run(values: (name: string) => GridValue): bigint[];
}

/** The steps of a program, whose last node is the value. */
export function compileProgram(nodes: readonly ExpressionNode[]): Compiled {
  const root = nodes.at(-1)!;
  const vector = root.type.kind === Kind.VECTOR;
  const computed = vector ? nodes.slice(0, -1) : nodes;
  const steps = computed.map((node) => (node.op === Op.FIELD ? undefined : compileNode(node)));
  const components = vector ? root.args.map((arg) => compileMove(arg, root.grid)) : [at(root)];
  return {
    names: nodes.filter((node) => node.op === Op.FIELD).map((node) => node.name),
    reads: readFields(nodes),
    run(values) {
      const slots: Slots = new Array(nodes.length);
      for (let i = 0; i < steps.length; i++) {
        const step = steps[i];
        // The kinds that `inference` has found say which slots hold words.
        slots[i] = step === undefined ? (values(computed[i]!.name) as bigint) : step(slots);
      }
      return components.map((component) => component(slots));
    },
  };
}

/** The fields that each component depends on. */
function readFields(nodes: readonly ExpressionNode[]): readonly bigint[] {
  const masks: bigint[] = [];
  let field = 0n;
  for (const { op, args } of nodes) {
    const own = op === Op.FIELD ? 1n << field++ : 0n;
    masks.push(args.reduce((mask, arg) => mask | masks[arg.position]!, own));
  }
  const root = nodes.at(-1)!;
  const components = root.type.kind === Kind.VECTOR ? root.args : [root];
  return components.map((component) => masks[component.position]!);
}

/** The value of a node. */
function at(node: ExpressionNode): Step {
  const i = node.position;
  return (slots) => slots[i]!;
}

/** The words of a node of BITS. */
function words(slots: Slots, i: number): readonly number[] {
  return slots[i] as unknown as readonly number[];
}

/** The value of a node on the finer grid `frac`. */
function compileMove(node: ExpressionNode, frac: number): Step {
  const [i, shift] = [node.position, BigInt(frac - node.type.frac)];
  return shift === 0n ? at(node) : (slots) => slots[i]! << shift;
}

/** A step of two values on their finer grid. */
function compilePair(args: readonly ExpressionNode[], step: (a: bigint, b: bigint) => bigint): Step {
  const frac = finest(args);
  const [i, j] = args.map((arg) => arg.position) as [number, number];
  const [m, n] = args.map((arg) => BigInt(frac - arg.type.frac)) as [bigint, bigint];
  return m === 0n && n === 0n
    ? (slots) => step(slots[i]!, slots[j]!)
    : (slots) => step(slots[i]! << m, slots[j]! << n);
}

const bit = (holds: boolean): bigint => (holds ? 1n : 0n);

const PAIRS: { readonly [op in Op]?: (a: bigint, b: bigint) => bigint } = {
  [Op.ADD]: (a, b) => a + b,
  [Op.SUBTRACT]: (a, b) => a - b,
  [Op.AND]: (a, b) => a & b,
  [Op.OR]: (a, b) => a | b,
  [Op.LESS]: (a, b) => bit(a < b),
  [Op.LESS_EQUAL]: (a, b) => bit(a <= b),
  [Op.EQUAL]: (a, b) => bit(a === b),
  [Op.MINIMUM]: least,
  [Op.MAXIMUM]: greatest,
};

function compileNode(node: ExpressionNode): Step {
  const pair = PAIRS[node.op];
  if (pair !== undefined) {
    return compilePair(node.args, pair);
  }
  const [i, j] = node.args.map((arg) => arg.position) as [number, number];
  switch (node.op) {
    case Op.CONSTANT: {
      const value = node.constants[0]!;
      return () => value;
    }
    case Op.MULTIPLY:
      return (slots) => slots[i]! * slots[j]!;
    case Op.NOT:
      return (slots) => 1n - slots[i]!;
    case Op.NEGATE:
      return (slots) => -slots[i]!;
    case Op.ABSOLUTE:
      return (slots) => magnitude(slots[i]!);
    case Op.INDEX:
      return at(node.args[0]!);
    case Op.WHERE: {
      const [, yes, no] = node.args as [ExpressionNode, ExpressionNode, ExpressionNode];
      const frac = finest([yes, no]);
      const [a, b] = [compileMove(yes, frac), compileMove(no, frac)];
      return (slots) => (slots[i]! ? a : b)(slots);
    }
    case Op.CLIP: {
      const value = compileMove(node.args[0]!, node.type.frac);
      const [low, high] = node.constants.map((end) => moved(end, node.grid, node.type.frac));
      return (slots) => clamp(value(slots), low!, high!);
    }
    case Op.ROUND: {
      const shift = BigInt(node.args[0]!.type.frac - node.grid);
      const half = 1n << (shift - 1n);
      return (slots) => (slots[i]! + half) >> shift;
    }
    case Op.SIGMOID: {
      const [table, frac] = [sigmoidTable(), node.args[0]!.type.frac];
      return (slots) => table[sigmoidIndex(slots[i]!, frac)]!;
    }
    case Op.COMPONENT: {
      const position = Number(node.constants[0]!);
      const [word, shift] = [Math.floor(position / WORD), position % WORD];
      return (slots) => BigInt((words(slots, i)[word]! >>> shift) & 1);
    }
    case Op.PARITY: {
      const masks = node.constants.map(Number);
      return (slots) => BigInt(parityOf(words(slots, i), masks));
    }
    case Op.DOT:
      return compileDot(node);
    case Op.BUCKETIZE: {
      const frac = Math.max(node.args[0]!.type.frac, node.grid);
      const edges = node.constants.map((edge) => moved(edge, node.grid, frac));
      const value = compileMove(node.args[0]!, frac);
      return (slots) => {
        const x = value(slots);
        let bucket = 0;
        for (const edge of edges) {
          bucket += edge <= x ? 1 : 0;
        }
        return BigInt(bucket);
      };
    }
    case Op.FIRST: {
      const positions = node.args.map((arg) => arg.position);
      return (slots) => {
        let index = positions.length;
        for (let p = positions.length - 1; p >= 0; p--) {
          index = slots[positions[p]!]! ? p : index;
        }
        return BigInt(index);
      };
    }
    default:
      throw new Error(`no step for ${Op[node.op]}`); // inference refuses what is not above
  }
}

function parityOf(bits: readonly number[], masks: readonly number[]): number {
  let folded = 0;
  for (let word = 0; word < masks.length; word++) {
    folded ^= bits[word]! & masks[word]!;
  }
  for (const shift of [16, 8, 4, 2, 1]) {
    folded ^= folded >>> shift;
  }
  return folded & 1;
}

function compileDot(node: ExpressionNode): Step {
  const source = node.args[0]!;
  if (source.type.kind === Kind.BITS) {
    const [i, constants] = [source.position, node.constants];
    return (slots) => {
      const bits = words(slots, i);
      let total = 0n;
      for (let c = 0; c < constants.length; c++) {
        total += (bits[Math.floor(c / WORD)]! >>> c % WORD) & 1 ? constants[c]! : 0n;
      }
      return total;
    };
  }
  const frac = finest(node.args);
  const terms = node.args.map(
    (arg, position) =>
      [arg.position, moved(node.constants[position]!, arg.type.frac, frac)] as const,
  );
  return (slots) => {
    let total = 0n;
    for (const [position, coefficient] of terms) {
      total += slots[position]! * coefficient;
    }
    return total;
  };
}
