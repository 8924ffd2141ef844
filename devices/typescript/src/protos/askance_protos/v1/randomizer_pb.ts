/** Messages of randomizer.proto, where their comments stand; made by ./generate. */

import type { MessageKind } from "../../../codec/wire.js";

export interface Table {
  readonly levels: number;
  readonly symbols: number;
  readonly entries: readonly bigint[];
  readonly repeats: readonly number[];
}
export const TableSchema: MessageKind<Table> = {
  name: "Table",
  fields: [
    [1, "levels", "uint32"],
    [2, "symbols", "uint32"],
    [3, "entries", "uint64", "[]"],
    [4, "repeats", "uint32", "[]"],
  ],
};

export interface KaryResponse {
  readonly cells: number;
  readonly other: bigint;
}
export const KaryResponseSchema: MessageKind<KaryResponse> = {
  name: "KaryResponse",
  fields: [
    [1, "cells", "uint32"],
    [2, "other", "uint64"],
  ],
};

export interface SubsetSelection {
  readonly cells: number;
  readonly size: number;
  readonly threshold: bigint;
}
export const SubsetSelectionSchema: MessageKind<SubsetSelection> = {
  name: "SubsetSelection",
  fields: [
    [1, "cells", "uint32"],
    [2, "size", "uint32"],
    [3, "threshold", "uint64"],
  ],
};

export interface LinearHashing {
  readonly cells: number;
  readonly modulus: number;
  readonly other: bigint;
}
export const LinearHashingSchema: MessageKind<LinearHashing> = {
  name: "LinearHashing",
  fields: [
    [1, "cells", "uint32"],
    [2, "modulus", "uint32"],
    [3, "other", "uint64"],
  ],
};

export interface HadamardSign {
  readonly values: number;
  readonly threshold: bigint;
}
export const HadamardSignSchema: MessageKind<HadamardSign> = {
  name: "HadamardSign",
  fields: [
    [1, "values", "uint32"],
    [2, "threshold", "uint64"],
  ],
};

export interface SignedSubsetSelection {
  readonly values: number;
  readonly size: number;
  readonly threshold: bigint;
}
export const SignedSubsetSelectionSchema: MessageKind<SignedSubsetSelection> = {
  name: "SignedSubsetSelection",
  fields: [
    [1, "values", "uint32"],
    [2, "size", "uint32"],
    [3, "threshold", "uint64"],
  ],
};

export interface HypercubeResponse {
  readonly components: number;
  readonly radius: number;
  readonly threshold: bigint;
}
export const HypercubeResponseSchema: MessageKind<HypercubeResponse> = {
  name: "HypercubeResponse",
  fields: [
    [1, "components", "uint32"],
    [2, "radius", "uint32"],
    [3, "threshold", "uint64"],
  ],
};

export interface RandomCodebook {
  readonly components: number;
  readonly radius: bigint;
  readonly bases: number;
  readonly near: number;
  readonly threshold: bigint;
  readonly seedBits: number;
}
export const RandomCodebookSchema: MessageKind<RandomCodebook> = {
  name: "RandomCodebook",
  fields: [
    [1, "components", "uint32"],
    [2, "radius", "uint64"],
    [3, "bases", "uint32"],
    [4, "near", "uint32"],
    [5, "threshold", "uint64"],
    [6, "seedBits", "uint32"],
  ],
};

export interface Randomizer {
  readonly family:
    | { readonly case: "table"; readonly value: Table }
    | { readonly case: "kAryResponse"; readonly value: KaryResponse }
    | { readonly case: "subsetSelection"; readonly value: SubsetSelection }
    | { readonly case: "linearHashing"; readonly value: LinearHashing }
    | { readonly case: "hadamardSign"; readonly value: HadamardSign }
    | { readonly case: "signedSubsetSelection"; readonly value: SignedSubsetSelection }
    | { readonly case: "hypercubeResponse"; readonly value: HypercubeResponse }
    | { readonly case: "randomCodebook"; readonly value: RandomCodebook }
    | { readonly case: undefined; readonly value?: undefined };
}
export const RandomizerSchema: MessageKind<Randomizer> = {
  name: "Randomizer",
  fields: [
    [1, "table", TableSchema, "family"],
    [2, "kAryResponse", KaryResponseSchema, "family"],
    [3, "subsetSelection", SubsetSelectionSchema, "family"],
    [4, "linearHashing", LinearHashingSchema, "family"],
    [5, "hadamardSign", HadamardSignSchema, "family"],
    [6, "signedSubsetSelection", SignedSubsetSelectionSchema, "family"],
    [7, "hypercubeResponse", HypercubeResponseSchema, "family"],
    [8, "randomCodebook", RandomCodebookSchema, "family"],
  ],
};
