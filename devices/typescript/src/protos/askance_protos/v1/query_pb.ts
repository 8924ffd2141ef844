/** Messages of query.proto, where their comments stand; made by ./generate. */

import type { MessageKind } from "../../../codec/wire.js";

export enum QueryKind {
  PREDICATE = 1,
  REAL = 2,
  CATEGORY = 3,
  SIGNED = 4,
  VECTOR = 5,
}

export interface Node {
  readonly op: number;
  readonly args: readonly number[];
  readonly name: string;
  readonly constants: readonly bigint[];
  readonly frac: number;
}
export const NodeSchema: MessageKind<Node> = {
  name: "Node",
  fields: [
    [1, "op", "uint32"],
    [2, "args", "uint32", "[]"],
    [3, "name", "string"],
    [4, "constants", "sint64", "[]"],
    [5, "frac", "sint32"],
  ],
};

export interface Query {
  readonly kind: QueryKind;
  readonly nodes: readonly Node[];
  readonly low: bigint;
  readonly high: bigint;
  readonly default: bigint;
}
export const QuerySchema: MessageKind<Query> = {
  name: "Query",
  fields: [
    [1, "kind", "int32"],
    [2, "nodes", NodeSchema, "[]"],
    [3, "low", "sint64"],
    [4, "high", "sint64"],
    [5, "default", "sint64"],
  ],
};
