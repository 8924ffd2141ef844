/** Adapter of this package: the kit's cases, answered by its modules. */

import { charge } from "../src/accounting/index.js";
import {
  decodeQuery,
  decodeRandomizer,
  decodeReport,
  decodeRequest,
  decodeSchema,
  decodeStudy,
  digestOf,
  parse,
  studyOf,
  verifyStudy,
} from "../src/codec/index.js";
import { InvalidParameter, InvalidQuery, RemoteProtocolError } from "../src/errors.js";
import { fromHex, joined, toHex } from "../src/integers.js";
import { Reason, Refusal } from "../src/messages.js";
import { CheckInRequestSchema } from "../src/protos/askance_protos/v1/exchange_pb.js";
import { QuerySchema } from "../src/protos/askance_protos/v1/query_pb.js";
import { RandomizerSchema } from "../src/protos/askance_protos/v1/randomizer_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { QueryKind, sha256, type GridValue, type Query, type Schema } from "../src/queries/index.js";
import { roundToLevels, type Randomizer } from "../src/randomizers/index.js";
import {
  MAX_KNOWN_STUDIES,
  MAX_REPORTS,
  checkCount,
  checkDigest,
  decodeResponse,
} from "../src/service/exchange.js";
import { valid } from "./exact_laws.js";
import { answerScript, type Place } from "./ledger_kinds.js";

/** JSON as the kit has it: no number above 2^53. */
export type Json = { readonly [name: string]: any };

type Kind = (given: Json) => Json | Promise<Json>;

/** Bytes of a device's message at a port that requires no certificates. */
const MAX_REQUEST_MESSAGE_BYTES = 1024 * 1024;

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
      parameters: study.parameters.map(({ name, value }) => [name, value]),
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

  async randomizer(given) {
    const randomizer = randomizerIn(given, "bytes");
    const { loss } = randomizer;
    return {
      digest: toHex(await sha256(randomizer.canonical)),
      levels: randomizer.levels.toString(16),
      coins: randomizer.coins,
      width: randomizer.width,
      loss: [String(loss.numerator), String(loss.denominator)],
      nano_nats: String(loss.nanoNats),
    };
  },

  draw(given) {
    const randomizer = randomizerIn(given);
    const reports = given.draws.map((draw: Json) =>
      toHex(randomizer.randomize(BigInt(`0x${draw.level}`), wordsIn(draw))),
    );
    return { reports };
  },

  alphabet(given) {
    const randomizer = randomizerIn(given);
    return { valid: given.reports.map((report: string) => valid(randomizer, fromHex(report))) };
  },

  level(given) {
    const [randomizer, words] = [randomizerIn(given), wordsIn(given)];
    const [low, high] = [BigInt(given.low), BigInt(given.high)];
    const values: bigint[] = given.values.map(BigInt);
    const level = randomizer.vectorComponents
      ? randomizer.vectorLevel(values, low, high, words)
      : roundToLevels(values[0]!, low, high, randomizer.levels, words[0]!);
    return { level: level.toString(16) };
  },

  async request(given) {
    const [data, schema] = [bytesIn(given), schemaIn(given)];
    studyOf(data);
    const request = decodeRequest(data, schema);
    const query = await request.query.digest(schema);
    return {
      digest: toHex(await digestOf(data)),
      study: toHex(request.studyDigest),
      round: request.round,
      group: request.group,
      query: toHex(query),
      coins: request.coins,
      nano_nats: String(request.randomizer.loss.nanoNats),
      question: toHex(await sha256(query, request.randomizer.canonical)),
    };
  },

  report(given) {
    const report = decodeReport(bytesIn(given));
    return {
      request_digest: toHex(report.requestDigest),
      symbol: report.outcome instanceof Refusal ? null : toHex(report.outcome),
      refusal: report.outcome instanceof Refusal ? Reason[report.outcome.reason] : null,
      charged_nano_nats: String(report.chargedNanoNats),
      spent_nano_nats: String(report.spentNanoNats),
      sequence: String(report.sequence),
    };
  },

  check_in(given) {
    const message = parse(CheckInRequestSchema, bytesIn(given), MAX_REQUEST_MESSAGE_BYTES);
    checkCount("reports", message.reports.length, MAX_REPORTS);
    checkCount("known studies", message.knownStudies.length, MAX_KNOWN_STUDIES);
    message.knownStudies.forEach((digest) => checkDigest("a known study", digest));
    return { reports: message.reports.map(toHex), known_studies: message.knownStudies.map(toHex) };
  },

  async response(given) {
    const message = decodeResponse(bytesIn(given));
    const studies = await Promise.all(message.studies.map(({ study }) => digestOf(study)));
    return {
      acks: message.acks.map(({ requestDigest, status }) => [toHex(requestDigest), status]),
      studies: studies.map(toHex),
      requests: message.requests.map(toHex),
      retry_after_ms: message.retryAfterMs,
      acknowledged_sequence: String(message.acknowledgedSequence),
    };
  },
};

/** The answer to a case. */
export type Answer = (kind: string, given: Json) => Promise<Json>;

/** Answer cases; the platform gives each script of the ledger a new place. */
export function adapter(newPlace: () => Promise<Place>): Answer {
  return async (kind, given) => {
    try {
      if (kind === "ledger") {
        return await answerScript(given, await newPlace());
      }
      return (await KINDS[kind]?.(given)) ?? { unsupported: kind };
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
  };
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

function randomizerIn(given: Json, name = "randomizer"): Randomizer {
  return decodeRandomizer(parse(RandomizerSchema, bytesIn(given, name)));
}

/** Words of a case. */
export function wordsIn({ coins }: Json): BigUint64Array {
  return BigUint64Array.from(coins, BigInt);
}

function gridText(value: GridValue, width = 0): string {
  if (typeof value === "bigint") {
    return String(value);
  }
  const bits = value.map((word) => [...word.toString(2).padStart(32, "0")].reverse().join(""));
  return bits.join("").slice(0, width);
}
