/** Messages of schema.proto, where their comments stand; made by ./generate. */

import type { MessageKind } from "../../../codec/wire.js";

export interface Bit {
}
export const BitSchema: MessageKind<Bit> = {
  name: "Bit",
  fields: [],
};

export interface Bits {
  readonly length: number;
}
export const BitsSchema: MessageKind<Bits> = {
  name: "Bits",
  fields: [
    [1, "length", "uint32"],
  ],
};

export interface Category {
  readonly labels: readonly string[];
}
export const CategorySchema: MessageKind<Category> = {
  name: "Category",
  fields: [
    [1, "labels", "string", "[]"],
  ],
};

export interface Integer {
  readonly low: bigint;
  readonly high: bigint;
}
export const IntegerSchema: MessageKind<Integer> = {
  name: "Integer",
  fields: [
    [1, "low", "sint64"],
    [2, "high", "sint64"],
  ],
};

export interface Real {
  readonly low: bigint;
  readonly high: bigint;
  readonly fracBits: number;
}
export const RealSchema: MessageKind<Real> = {
  name: "Real",
  fields: [
    [1, "low", "sint64"],
    [2, "high", "sint64"],
    [3, "fracBits", "uint32"],
  ],
};

export interface Field {
  readonly name: string;
  readonly type:
    | { readonly case: "bit"; readonly value: Bit }
    | { readonly case: "bits"; readonly value: Bits }
    | { readonly case: "category"; readonly value: Category }
    | { readonly case: "integer"; readonly value: Integer }
    | { readonly case: "real"; readonly value: Real }
    | { readonly case: "label"; readonly value: Category }
    | { readonly case: undefined; readonly value?: undefined };
  readonly required: boolean;
  readonly title: string;
}
export const FieldSchema: MessageKind<Field> = {
  name: "Field",
  fields: [
    [1, "name", "string"],
    [2, "bit", BitSchema, "type"],
    [3, "bits", BitsSchema, "type"],
    [4, "category", CategorySchema, "type"],
    [5, "integer", IntegerSchema, "type"],
    [6, "real", RealSchema, "type"],
    [7, "label", CategorySchema, "type"],
    [8, "required", "bool"],
    [9, "title", "string"],
  ],
};

export interface Schema {
  readonly name: string;
  readonly version: number;
  readonly fields: readonly Field[];
}
export const SchemaSchema: MessageKind<Schema> = {
  name: "Schema",
  fields: [
    [1, "name", "string"],
    [2, "version", "uint32"],
    [3, "fields", FieldSchema, "[]"],
  ],
};
