/**
 * Programs: an expression as a flat list of nodes, as it is carried, compared and evaluated.
 *
 * The list is the depth-first postorder with every distinct node once, the root last; that order is
 * canonical, and `rebuild` accepts no other. An untrusted list is typed anew against this device's
 * schema, without recursion.
 *
 * Canonical bytes: "askance/program/1", the number of nodes, then for each node its operation, the
 * number and the positions of its arguments, its field name, its constants and its grid.
 */

import { InvalidQuery } from "../errors.js";
import { magnitude } from "../integers.js";
import type { Node } from "../protos/askance_protos/v1/query_pb.js";
import { CanonicalBytes, utf8 } from "./canonical.js";
import { infer, type ExpressionNode } from "./inference.js";
import { Op } from "./kinds.js";
import { MAX_BITS, MAX_DEPTH, MAX_MAGNITUDE, MAX_NODES, MAX_WEIGHT } from "./limits.js";
import type { Schema } from "./schema.js";

const FORMAT = utf8("askance/program/1");
const NODE = utf8("askance/node/1");

/**
 * The typed nodes that a list stands for, inferred anew against this schema; the last is the value.
 *
 * @throws InvalidQuery: an unknown operation or field, a wrong argument, ill-typed, too large, too
 * deep, a possible overflow, or not in the canonical order.
 */
export function rebuild(nodes: readonly Node[], schema: Schema): readonly ExpressionNode[] {
  const program = "a program";
  const isList = nodes.length >= 1 && nodes.length <= MAX_NODES;
  expect(isList, program, `1..${MAX_NODES} nodes, found ${nodes.length}`);
  const built: ExpressionNode[] = [];
  const known = new Set<string>();
  let weight = 0;
  for (const node of nodes) {
    weight += 1 + node.args.length + node.constants.length;
    expect(weight <= MAX_WEIGHT, program, `at most ${MAX_WEIGHT} nodes and what they have`);
    // Earlier nodes differ from each other, so positions stand for the arguments' structure.
    known.add(`${node.op} ${node.args.join()} ${node.constants.join()} ${node.frac} ${node.name}`);
    expect(known.size === built.length + 1, program, "each distinct node once");
    built.push(node.op === Op.FIELD ? field(node, schema, built) : operation(node, built));
  }
  expect(isPostorder(built), program, "its nodes in canonical order, each used");
  return built;
}

function field(node: Node, schema: Schema, built: readonly ExpressionNode[]): ExpressionNode {
  const type = schema.fields.get(node.name)?.type;
  const isBare = !(node.args.length || node.constants.length || node.frac);
  expect(type !== undefined && isBare, "FIELD", "a field of the schema and nothing else");
  const { name } = node;
  return { op: Op.FIELD, args: [], name, constants: [], grid: 0, type, position: built.length, depth: 1 };
}

function operation(node: Node, built: readonly ExpressionNode[]): ExpressionNode {
  const name = Op[node.op]!;
  expect(name !== undefined, "a query", `known operations, found number ${node.op}`);
  const isPlain = node.name === "" && node.constants.length <= MAX_BITS;
  expect(isPlain, name, `no name and at most ${MAX_BITS} constants`);
  const areSmall = node.constants.every((value) => magnitude(value) < MAX_MAGNITUDE);
  expect(areSmall, name, "constants below 2^62");
  const args = node.args.map((position) => {
    const arg = built[position];
    expect(arg !== undefined, name, "positions of earlier nodes as arguments");
    return arg;
  });
  const depth = 1 + args.reduce((deepest, arg) => Math.max(deepest, arg.depth), 0);
  expect(depth <= MAX_DEPTH, "a program", `a depth of at most ${MAX_DEPTH}, found ${depth}`);
  const parts = { op: node.op as Op, args, constants: node.constants, grid: node.frac };
  return { ...parts, name: "", type: infer(parts), position: built.length, depth };
}

/** Throw InvalidQuery unless a condition holds. */
function expect(holds: boolean, of: string, expected: string): asserts holds {
  if (!holds) {
    throw new InvalidQuery(`${of} expects ${expected}`);
  }
}

/** True if the nodes are the depth-first postorder of the last one. */
function isPostorder(built: readonly ExpressionNode[]): boolean {
  let done = 0;
  const seen = new Set<ExpressionNode>();
  const stack: [ExpressionNode, number][] = [[built.at(-1)!, 0]];
  while (stack.length) {
    const top = stack.at(-1)!;
    const [node, next] = top;
    if (next < node.args.length) {
      top[1] += 1;
      const arg = node.args[next]!;
      if (!seen.has(arg)) {
        seen.add(arg);
        stack.push([arg, 0]);
      }
    } else if (node !== built[done++]) {
      return false;
    } else {
      stack.pop();
    }
  }
  return done === built.length;
}

/** Injective, versioned bytes of a program (see the top of this file). */
export function writeProgram(bytes: CanonicalBytes, nodes: readonly ExpressionNode[]): void {
  bytes.raw(FORMAT).u32(nodes.length);
  for (const node of nodes) {
    bytes.raw(NODE).u8(node.op).u32(node.args.length);
    for (const arg of node.args) {
      bytes.u32(arg.position);
    }
    bytes.text(node.name).u32(node.constants.length);
    for (const constant of node.constants) {
      bytes.i64(constant);
    }
    bytes.u8(node.grid);
  }
}
