import assert from "node:assert/strict";
import { test } from "node:test";

import { InvalidQuery, InvalidRecord } from "../src/errors.js";
import { Bits, Category, Integer, Op, Query, QueryKind, Real, Schema } from "../src/queries/index.js";
import { exactRatio } from "../src/queries/exact.js";

const integer = new Integer(0n, 120n);

test("a float is exactly what it is", () => {
  assert.deepEqual(exactRatio(0.5), [1n, 2n]);
  assert.deepEqual(exactRatio(-0.375), [-3n, 8n]);
  assert.deepEqual(exactRatio(2 ** 60), [2n ** 60n, 1n]);
  assert.deepEqual(exactRatio(5e-324), [1n, 2n ** 1074n]);
  assert.equal(exactRatio(NaN), undefined);
  assert.equal(exactRatio(Infinity), undefined);
  // 0.1 * 2^40 = 109951162777.6
  assert.equal(new Real(0n, 1n << 41n, 40).encode(0.1), 109951162778n);
});

test("a number is rounded half to even and clamped", () => {
  assert.equal(integer.encode("2.5"), 2n);
  assert.equal(integer.encode(3.5), 4n);
  assert.equal(integer.encode("-7"), 0n);
  assert.equal(integer.encode("1e999999999"), 120n);
  assert.equal(integer.encode("361/3"), 120n);
});

test("white space at the ends of a number is that of Unicode and the separators of ASCII", () => {
  assert.equal(integer.encode("\u001c\u0085 41\u3000\n"), 41n);
  assert.equal(integer.encode("\ufeff41"), undefined);
  assert.equal(integer.encode("4 1"), undefined);
});

test("a label is looked up as it stands, a number by its digits, a truth value by its name first", () => {
  const field = new Category(["1", "True", "0"]);
  assert.deepEqual([field.encode(1), field.encode(true), field.encode(false)], [0n, 1n, 2n]);
  assert.deepEqual([field.encode(" 1"), field.encode(1.5), field.encode(null)], Array(3).fill(undefined));
});

test("bits are words of 32, the first component the lowest bit", () => {
  assert.deepEqual(new Bits(33).encode("1" + "0".repeat(30) + "11"), [0x80000001, 1]);
  assert.equal(new Bits(3).encode("012"), undefined);
  assert.deepEqual(new Bits(3).encode([1, "0", true]), [5]);
});

test("a record has the schema's fields only, whatever they are called", () => {
  const schema = new Schema("names", 1, [["__proto__", integer]]);
  assert.equal(schema.encode(JSON.parse('{"__proto__": 7}')).values.get("__proto__"), 7n);
  assert.equal(schema.encode({}).present.get("__proto__"), false);
  assert.throws(() => schema.encode({ age: 7 }), InvalidRecord);
});

/** A node as it is carried. */
function node(op: Op, args: number[] = [], constants: bigint[] = [], name = "", frac = 0) {
  return { op, args, constants, name, frac };
}

test("a vector's component answers the default if a field of its own is not present", () => {
  const schema = new Schema("two", 1, [
    ["a", integer],
    ["b", integer],
  ]);
  const nodes = [node(Op.FIELD, [], [], "a"), node(Op.FIELD, [], [], "b"), node(Op.VECTOR, [0, 1])];
  const range = { low: 0n, high: 100n, default: 50n };
  const query = Query.rebuilt(QueryKind.VECTOR, nodes, schema, range);
  assert.deepEqual(query.evaluateVector(schema.encode({ a: 120 })), [100n, 50n]);
});

test("a node that stands twice, stands unused, or in another order is refused", () => {
  const schema = new Schema("two", 1, [
    ["a", integer],
    ["b", integer],
  ]);
  const [a, b] = [node(Op.FIELD, [], [], "a"), node(Op.FIELD, [], [], "b")];
  const range = { low: 0n, high: 100n, default: 0n };
  const rebuilt = (...nodes: ReturnType<typeof node>[]) =>
    Query.rebuilt(QueryKind.REAL, nodes, schema, range);
  assert.equal(rebuilt(a, b, node(Op.ADD, [0, 1])).frac, 0);
  assert.throws(() => rebuilt(a, a, node(Op.ADD, [0, 1])), InvalidQuery);
  assert.throws(() => rebuilt(b, a), InvalidQuery);
  assert.throws(() => rebuilt(b, a, node(Op.ADD, [1, 0])), InvalidQuery);
});

test("a depth of 64 is evaluated, of 65 refused", () => {
  const schema = new Schema("one", 1, [["a", integer]]);
  const nodes = [node(Op.FIELD, [], [], "a")];
  for (let depth = 2; depth <= 64; depth++) {
    nodes.push(node(Op.ADD, [depth - 2, 0]));
  }
  const range = { low: 0n, high: 10_000n, default: 0n };
  const deepest = Query.rebuilt(QueryKind.REAL, nodes, schema, range);
  assert.equal(deepest.evaluate(schema.encode({ a: 3 })), 192n); // 64 times 3
  nodes.push(node(Op.ADD, [63, 0]));
  assert.throws(() => Query.rebuilt(QueryKind.REAL, nodes, schema, range), InvalidQuery);
});
