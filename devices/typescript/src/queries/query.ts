/**
 * Queries: an expression together with what of its value is asked, its bounds and its default.
 *
 * The default is public: it is the answer of every record on which the expression cannot be
 * evaluated (a field is missing or unreadable), so whether it could be is not revealed by an error.
 */

import { InvalidQuery, InvalidRecord } from "../errors.js";
import { clamp, magnitude } from "../integers.js";
import { QueryKind, type Node, type Query as QueryMessage } from "../protos/askance_protos/v1/query_pb.js";
import { CanonicalBytes, sha256, utf8 } from "./canonical.js";
import { compileProgram, type Compiled } from "./evaluate.js";
import type { ExpressionNode } from "./inference.js";
import { Kind } from "./kinds.js";
import { MAX_CELLS, MAX_MAGNITUDE, MAX_SPREAD } from "./limits.js";
import { rebuild, writeProgram } from "./program.js";
import type { EncodedRecord, Schema } from "./schema.js";

const FORMAT = utf8("askance/query/1");

/** Kind of a query: what it asks of the expression's value. */
export { QueryKind };

/** The numbers of a query: the range that the value is clamped to, and the public default. */
export type Range = Pick<QueryMessage, "low" | "high" | "default">;

/** A question to one record; two are equal when the canonical bytes are. */
export class Query implements Range {
  readonly low: bigint;
  readonly high: bigint;
  readonly default: bigint;
  /** The last node: what is computed. */
  readonly expression: ExpressionNode;
  readonly canonical: Uint8Array<ArrayBuffer>;
  /** The names of the fields that the value depends on. */
  readonly fieldsUsed: ReadonlySet<string>;
  private readonly compiled: Compiled;

  /**
   * @param nodes typed nodes in canonical order.
   * @throws InvalidQuery: the parts do not fit together.
   */
  constructor(
    readonly kind: QueryKind,
    readonly nodes: readonly ExpressionNode[],
    range: Range,
  ) {
    this.expression = nodes.at(-1)!;
    this.low = range.low;
    this.high = range.high;
    this.default = range.default;
    checkQuery(this);
    const bytes = new CanonicalBytes().raw(FORMAT).u8(kind);
    bytes.i64(this.low).i64(this.high).i64(this.default);
    writeProgram(bytes, nodes);
    this.canonical = bytes.done();
    this.compiled = compileProgram(nodes);
    this.fieldsUsed = new Set(this.compiled.names);
  }

  /** The query that came as canonical nodes, inferred anew against this schema. */
  static rebuilt(kind: number, nodes: readonly Node[], schema: Schema, range: Range): Query {
    if (QueryKind[kind] === undefined) {
      throw new InvalidQuery("a query expects a known kind");
    }
    return new Query(kind, rebuild(nodes, schema), range);
  }

  /** The value is an integer over 2^frac; 0 but for REAL and VECTOR. */
  get frac(): number {
    return this.expression.type.frac;
  }

  /** Nodes, arguments and constants: the unit of work. */
  get weight(): number {
    return this.nodes.reduce((sum, node) => sum + 1 + node.args.length + node.constants.length, 0);
  }

  /** The number of values of a PREDICATE, CATEGORY or SIGNED query. */
  get cells(): number {
    if (this.kind === QueryKind.REAL || this.kind === QueryKind.VECTOR) {
      throw new InvalidQuery(`a ${QueryKind[this.kind]} query has no cells`);
    }
    return Number(this.high) + 1;
  }

  /** The number of components of a VECTOR query. */
  get components(): number {
    if (this.kind !== QueryKind.VECTOR) {
      throw new InvalidQuery(`components expects a VECTOR query, found ${QueryKind[this.kind]}`);
    }
    return this.expression.type.width!;
  }

  /** The digest of this question over this schema: SHA-256, 32 bytes. */
  async digest(schema: Schema): Promise<Uint8Array<ArrayBuffer>> {
    return sha256(await schema.digest(), this.canonical);
  }

  /**
   * Compute the value on the grid, in [low, high]; the default if a field is not present.
   *
   * @throws InvalidQuery: a VECTOR query, which has several values.
   * @throws InvalidRecord: the record was encoded by a schema without a field that is used.
   */
  evaluate(record: EncodedRecord): bigint {
    if (this.kind === QueryKind.VECTOR) {
      throw new InvalidQuery("a VECTOR query has several values: evaluateVector gives them");
    }
    return this.run(record)[0]!;
  }

  /**
   * Compute the components on the grid, each in [low, high].
   *
   * A component answers the default if a field that it depends on itself is not present, so an
   * answer is the same in all blocks that its components are asked in.
   */
  evaluateVector(record: EncodedRecord): bigint[] {
    if (this.kind !== QueryKind.VECTOR) {
      throw new InvalidQuery(`evaluateVector expects a VECTOR query`);
    }
    return this.run(record);
  }

  private run(record: EncodedRecord): bigint[] {
    for (const name of this.compiled.names) {
      if (!record.present.has(name)) {
        throw new InvalidRecord(`the query uses field ${name}, which the record's schema lacks`);
      }
    }
    // Computed also if a field is missing, so that the time does not tell whether one is.
    const values = this.compiled.run((name) => record.values.get(name)!);
    let absent = 0n;
    for (const [i, name] of this.compiled.names.entries()) {
      absent |= record.present.get(name)! ? 0n : 1n << BigInt(i);
    }
    return values.map((value, component) =>
      this.compiled.reads[component]! & absent ? this.default : clamp(value, this.low, this.high),
    );
  }
}

function checkQuery(query: Query): void {
  const { kind, frac, low: least, high: most } = query.expression.type;
  const expect = (holds: boolean, expected: string): void => {
    if (!holds) {
      throw new InvalidQuery(`a ${QueryKind[query.kind]} query expects ${expected}`);
    }
  };
  const numbers = [query.low, query.high, query.default];
  expect(numbers.every((n) => magnitude(n) < MAX_MAGNITUDE), "integers below 2^62 as its numbers");
  if (query.kind === QueryKind.REAL || query.kind === QueryKind.VECTOR) {
    const kinds = query.kind === QueryKind.VECTOR ? [Kind.VECTOR] : [Kind.BOOLEAN, Kind.NUMBER];
    const spread = query.high - query.low;
    expect(kinds.includes(kind), `another value, found ${Kind[kind]}`);
    expect(spread > 0n && spread < MAX_SPREAD, "0 < high - low < 2^31 grid units");
  } else if (query.kind === QueryKind.PREDICATE) {
    const isBit = query.low === 0n && query.high === 1n;
    expect(kind === Kind.BOOLEAN && isBit, `a BOOLEAN in 0..1, found ${Kind[kind]}`);
  } else {
    const isWhole = kind !== Kind.BITS && kind !== Kind.VECTOR && !frac && least >= 0n;
    const isOdd = query.kind !== QueryKind.SIGNED || most % 2n === 0n;
    expect(isWhole, `integers from 0, found ${Kind[kind]}`);
    expect(query.low === 0n && query.high === most, `the cells 0..${most} as its bounds`);
    expect(most >= 1n && most < MAX_CELLS && isOdd, `another number of cells than ${most + 1n}`);
  }
  expect(query.low <= query.default && query.default <= query.high, "its default within its bounds");
}
