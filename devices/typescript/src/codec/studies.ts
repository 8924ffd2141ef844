/** Studies on the wire, and the analyst's signature over them. */

import { InvalidParameter, RemoteProtocolError } from "../errors.js";
import { gcd, joined } from "../integers.js";
import type { SignedStudy, StudyTerms } from "../messages.js";
import { DEFAULT_ANSWERS, MAX_WAVES, Repeat } from "../messages.js";
import {
  SchemaSchema,
  type Field as FieldMessage,
  type Schema as SchemaMessage,
} from "../protos/askance_protos/v1/schema_pb.js";
import { StudySchema, type Conduct } from "../protos/askance_protos/v1/study_pb.js";
import { Bit, Bits, Category, Integer, Label, Real, Schema, type Field } from "../queries/index.js";
import { utf8 } from "../queries/canonical.js";
import { parse } from "./parsing.js";
import { fromJson } from "./wire.js";

/** A signature made for anything else is not one for a study. */
export const STUDY_CONTEXT = utf8("askance study v1\0");
const NONCE_BYTES = 16;
const MAX_FRACTION = 64;
const MAX_I63 = 1n << 63n;
const DISTRIBUTION = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}==[A-Za-z0-9.!+_-]{1,128}$/;
const FRACTION = /^([0-9]+)\/([1-9][0-9]*)$/;

/**
 * The schema in a message.
 *
 * @throws RemoteProtocolError: a field has no type, or two fields have one name.
 * @throws InvalidParameter: a name, bound or label that no schema may have.
 */
export function decodeSchema(message: SchemaMessage): Schema {
  const fields = new Map(message.fields.map((field) => [field.name, decodeField(field)]));
  if (fields.size < message.fields.length) {
    throw new RemoteProtocolError("schema: expected distinct names, found one twice");
  }
  return new Schema(message.name, message.version, fields);
}

/**
 * The schema in an `askance.v1.Schema` as JSON, of a configuration.
 *
 * @throws InvalidParameter, RemoteProtocolError: it is none.
 */
export function schemaFromJson(json: unknown): Schema {
  return decodeSchema(fromJson(SchemaSchema, json));
}

function decodeField({ type, required }: FieldMessage): Field {
  switch (type.case) {
    case "bit":
      return new Bit(required);
    case "bits":
      return new Bits(type.value.length, required);
    case "category":
      return new Category(type.value.labels, required);
    case "label":
      return new Label(type.value.labels, required);
    case "integer":
      return new Integer(type.value.low, type.value.high, required);
    case "real":
      return new Real(type.value.low, type.value.high, type.value.fracBits, required);
    default:
      throw new RemoteProtocolError("schema: expected a type for a field, found none");
  }
}

/**
 * The terms in a study's bytes (its signature is `verifyStudy`'s business).
 *
 * @throws RemoteProtocolError: not a study, one without a nonce, a budget or an expiry, fields that
 * are not its schema's, sorted, none twice, or a distribution that is not name==version.
 * @throws InvalidParameter: its schema, its conduct or its epochs are none.
 */
export function decodeStudy(data: Uint8Array): StudyTerms {
  const message = parse(StudySchema, data);
  expect(message.nonce.length === NONCE_BYTES, `a nonce of ${NONCE_BYTES} bytes`);
  expect(message.budgetNanoNats > 0n, "a budget above 0 nano-nats, found 0");
  expect(message.expiresUnixS > 0n, "an expiry, found none");
  const parameters = message.parameters.map(({ name }) => name);
  expect(isSorted(parameters), "parameters sorted by name, none twice");
  const schema = decodeSchema(message.schema ?? { name: "", version: 0, fields: [] });
  expect(isSorted(message.fields), "fields sorted, none twice");
  expect(message.fields.every((name) => schema.fields.has(name)), "fields of its schema");
  const { distribution } = message;
  expect(distribution === "" || DISTRIBUTION.test(distribution), "a distribution as name==version");
  if (message.conduct !== undefined) {
    checkConduct(message.conduct);
  }
  const { repeat } = message;
  return {
    ...message,
    schema,
    repeat: repeat && new Repeat(repeat.everyDays, repeat.epochs, repeat.first),
    mostAnswers: message.mostAnswers || DEFAULT_ANSWERS,
  };
}

/** Throw RemoteProtocolError unless a condition holds. */
function expect(holds: boolean, expected: string): asserts holds {
  if (!holds) {
    throw new RemoteProtocolError(`study: expected ${expected}`);
  }
}

/** True if texts ascend by code points, which UTF-8 keeps and UTF-16 does not. */
function isSorted(texts: readonly string[]): boolean {
  return texts.every((text, i) => i === 0 || compareBytes(utf8(texts[i - 1]!), utf8(text)) < 0);
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const differs = a.findIndex((byte, i) => byte !== b[i]);
  return differs < 0 ? a.length - b.length : a[differs]! - (b[differs] ?? -1);
}

function checkConduct({ beta, confidence, leastAnswers, waves }: Conduct): void {
  expect(waves !== 1 && waves <= MAX_WAVES, `0 or 2 to ${MAX_WAVES} waves`);
  expect(leastAnswers < MAX_I63, "less than 2^63 least answers");
  for (const text of [beta, confidence]) {
    const found = text.length <= MAX_FRACTION ? FRACTION.exec(text) : null;
    const [numerator, denominator] = [BigInt(found?.[1] ?? "0"), BigInt(found?.[2] ?? "1")];
    const lowest = gcd(numerator, denominator) === 1n && text === `${numerator}/${denominator}`;
    if (!lowest || numerator <= 0n || numerator >= denominator) {
      throw new InvalidParameter("study: expected a fraction between 0 and 1 in lowest terms");
    }
  }
}

/** True if the signature is the key's over exactly these bytes. */
export async function verifyStudy(signed: SignedStudy): Promise<boolean> {
  try {
    const raw = new Uint8Array(signed.publicKey);
    const key = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
    const message = joined([STUDY_CONTEXT, signed.study]);
    return await crypto.subtle.verify("Ed25519", key, new Uint8Array(signed.signature), message);
  } catch (error) {
    if (error instanceof DOMException && error.name !== "NotSupportedError") {
      return false; // no key, or no signature of its length
    }
    throw error;
  }
}
