/** Messages of study.proto, where their comments stand; made by ./generate. */

import type { MessageKind } from "../../../codec/wire.js";
import { SchemaSchema, type Schema } from "./schema_pb.js";

export interface Parameter {
  readonly name: string;
  readonly value: string;
}
export const ParameterSchema: MessageKind<Parameter> = {
  name: "Parameter",
  fields: [
    [1, "name", "string"],
    [2, "value", "string"],
  ],
};

export interface Conduct {
  readonly beta: string;
  readonly confidence: string;
  readonly roundDeadlineS: number;
  readonly leastAnswers: bigint;
  readonly waves: number;
}
export const ConductSchema: MessageKind<Conduct> = {
  name: "Conduct",
  fields: [
    [1, "beta", "string"],
    [2, "confidence", "string"],
    [3, "roundDeadlineS", "uint32"],
    [4, "leastAnswers", "uint64"],
    [5, "waves", "uint32"],
  ],
};

export interface Repeat {
  readonly everyDays: number;
  readonly epochs: number;
  readonly first: number;
}
export const RepeatSchema: MessageKind<Repeat> = {
  name: "Repeat",
  fields: [
    [1, "everyDays", "uint32"],
    [2, "epochs", "uint32"],
    [3, "first", "uint32"],
  ],
};

export interface Study {
  readonly nonce: Uint8Array;
  readonly learner: string;
  readonly learnerVersion: number;
  readonly parameters: readonly Parameter[];
  readonly schema?: Schema | undefined;
  readonly budgetNanoNats: bigint;
  readonly expiresUnixS: bigint;
  readonly purpose: string;
  readonly conduct?: Conduct | undefined;
  readonly fields: readonly string[];
  readonly distribution: string;
  readonly repeat?: Repeat | undefined;
  readonly mostAnswers: number;
}
export const StudySchema: MessageKind<Study> = {
  name: "Study",
  fields: [
    [1, "nonce", "bytes"],
    [2, "learner", "string"],
    [3, "learnerVersion", "uint32"],
    [4, "parameters", ParameterSchema, "[]"],
    [5, "schema", SchemaSchema],
    [6, "budgetNanoNats", "uint64"],
    [7, "expiresUnixS", "int64"],
    [8, "purpose", "string"],
    [9, "conduct", ConductSchema],
    [10, "fields", "string", "[]"],
    [11, "distribution", "string"],
    [12, "repeat", RepeatSchema],
    [13, "mostAnswers", "uint32"],
  ],
};

export interface SignedStudy {
  readonly study: Uint8Array;
  readonly publicKey: Uint8Array;
  readonly signature: Uint8Array;
}
export const SignedStudySchema: MessageKind<SignedStudy> = {
  name: "SignedStudy",
  fields: [
    [1, "study", "bytes"],
    [2, "publicKey", "bytes"],
    [3, "signature", "bytes"],
  ],
};
