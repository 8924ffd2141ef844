/** Adapter of this package: the kit's cases, answered by its modules. */

import { charge } from "../src/accounting/index.js";
import { decodeQuery, decodeSchema, decodeStudy, digestOf, parse, verifyStudy } from "../src/codec/index.js";
import { InvalidParameter, InvalidQuery, RemoteProtocolError } from "../src/errors.js";
import { fromHex, joined, toHex } from "../src/integers.js";
import { QuerySchema } from "../src/protos/askance_protos/v1/query_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { QueryKind, type GridValue, type Query, type Schema } from "../src/queries/index.js";

/** JSON as the kit has it: no number above 2^53. */
export type Json = { readonly [name: string]: any };

type Kind = (given: Json) => Json | Promise<Json>;

/** Kinds all of whose refusals are MALFORMED: they are no question. */
const SYNTAX = new Set(["schema", "study", "report", "check_in", "response"]);

export const KINDS: { [kind: string]: Kind } = {
  loss: (given) => ({
    nano_nats: String(charge(BigInt(given.numerator), BigInt(given.denominator))),
  }),

  async schema(given) {
    const schema = schemaIn(given, "bytes");
    return { canonical: toHex(schema.canonical), digest: toHex(await schema.digest()) };
  },

  record(given) {
    const schema = schemaIn(given);
    const { values, present } = schema.encode(given.record);
    const texts = [...schema.fields].map(([name, { type }]) => [
      name,
      present.get(name) ? gridText(values.get(name)!, type.width) : null,
    ]);
    return { values: Object.fromEntries(texts) };
  },

  async query(given) {
    const query = queryIn(given, "bytes");
    return {
      canonical: toHex(query.canonical),
      digest: toHex(await query.digest(schemaIn(given))),
      fields: [...query.fieldsUsed].sort(),
      frac: query.frac,
    };
  },

  evaluate(given) {
    const [schema, query] = [schemaIn(given), queryIn(given)];
    const values = given.records.map((record: Json) => {
      const encoded = schema.encode(record);
      const vector = query.kind === QueryKind.VECTOR;
      return (vector ? query.evaluateVector(encoded) : [query.evaluate(encoded)]).map(String);
    });
    return { values };
  },

  async study(given) {
    const data = bytesIn(given);
    const study = decodeStudy(data);
    return {
      digest: toHex(await digestOf(data)),
      nonce: toHex(study.nonce),
      learner: study.learner,
      learner_version: study.learnerVersion,
      parameters: study.parameters,
      schema: toHex(await study.schema.digest()),
      budget_nano_nats: String(study.budgetNanoNats),
      expires_unix_s: String(study.expiresUnixS),
      purpose: study.purpose,
      fields: study.fields,
      distribution: study.distribution,
      repeat: study.repeat
        ? {
            every_days: study.repeat.everyDays,
            epochs: study.repeat.epochs,
            first: study.repeat.first,
          }
        : null,
    };
  },

  async signature(given) {
    const [study, publicKey, signature] = [
      bytesIn(given, "study"),
      bytesIn(given, "public_key"),
      bytesIn(given, "signature"),
    ];
    return { holds: await verifyStudy({ study, publicKey, signature }) };
  },
};

/** The answer to one case. */
export async function answer(kind: string, given: Json): Promise<Json> {
  const found = KINDS[kind];
  if (found === undefined) {
    return { unsupported: kind };
  }
  try {
    return await found(given);
  } catch (error) {
    if (error instanceof InvalidQuery) {
      return { refused: "INVALID_QUERY" };
    }
    if (error instanceof InvalidParameter) {
      return { refused: SYNTAX.has(kind) ? "MALFORMED" : "INVALID_RANDOMIZER" };
    }
    if (error instanceof RemoteProtocolError) {
      return { refused: "MALFORMED" };
    }
    throw error;
  }
}

export function bytesIn(given: Json, name = "bytes"): Uint8Array<ArrayBuffer> {
  const data: string | [string, number][] = given[name];
  const pairs: [string, number][] = typeof data === "string" ? [[data, 1]] : data;
  return joined(pairs.flatMap(([hex, times]) => new Array(times).fill(fromHex(hex))));
}

export function schemaIn(given: Json, name = "schema"): Schema {
  return decodeSchema(parse(SchemaSchema, bytesIn(given, name)));
}

function queryIn(given: Json, name = "query"): Query {
  return decodeQuery(parse(QuerySchema, bytesIn(given, name)), schemaIn(given));
}

function gridText(value: GridValue, width = 0): string {
  if (typeof value === "bigint") {
    return String(value);
  }
  const bits = value.map((word) => [...word.toString(2).padStart(32, "0")].reverse().join(""));
  return bits.join("").slice(0, width);
}
