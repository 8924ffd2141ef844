/** Messages by the generated tables, held against protobuf-es: random ones, and damaged bytes. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { create, createFileRegistry, fromBinary, toBinary, type DescMessage } from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FileDescriptorProtoSchema,
} from "@bufbuild/protobuf/wkt";

import { decode, encode, fromJson, type MessageKind } from "../src/codec/wire.js";
import { InvalidParameter, RemoteProtocolError } from "../src/errors.js";
import { CheckInResponseSchema, EnrolRequestSchema, ReportSchema, RequestSchema } from "../src/protos/askance_protos/v1/exchange_pb.js";
import { SchemaSchema } from "../src/protos/askance_protos/v1/schema_pb.js";
import { StudySchema } from "../src/protos/askance_protos/v1/study_pb.js";
import { damaged, numbers } from "./damaged_bytes.js";

type Kind = MessageKind<any>;
type Draw = (below: number) => number;

const KINDS: readonly Kind[] = [RequestSchema, ReportSchema, StudySchema, CheckInResponseSchema, EnrolRequestSchema];

/** A table and those of the messages in it. */
function within(kind: Kind): Kind[] {
  const inner = kind.fields.flatMap(([, , of]) => (typeof of === "object" ? within(of as Kind) : []));
  return [...new Set([kind, ...inner])];
}

/** The library's descriptor of the message that a table is of. */
function descriptor(kind: Kind): DescMessage {
  const messageType = within(kind).map(({ name, fields }) => {
    const oneofs = [...new Set(fields.flatMap(([, , , of]) => (of === undefined || of === "[]" ? [] : [of])))];
    return {
      name,
      oneofDecl: oneofs.map((name) => ({ name })),
      field: fields.map(([number, name, inner, of]) => ({
        number,
        name,
        jsonName: name,
        label: of === "[]" ? Label.REPEATED : Label.OPTIONAL,
        ...(typeof inner === "object"
          ? { type: Type.MESSAGE, typeName: `.test.${inner.name}` }
          : { type: Type[inner.toUpperCase() as "BOOL"] }),
        ...(of === undefined || of === "[]" ? {} : { oneofIndex: oneofs.indexOf(of) }),
      })),
    };
  });
  const file = create(FileDescriptorProtoSchema, { name: "t", package: "test", syntax: "proto3", messageType });
  return createFileRegistry(file, () => undefined).getMessage(`test.${kind.name}`)!;
}

/** Values at the ends of their types, and some between. */
const VALUES: Record<string, readonly unknown[]> = {
  bool: [false, true],
  int32: [0, 1, 19, -1, 2 ** 31 - 1, -(2 ** 31)],
  uint32: [0, 1, 127, 128, 2 ** 28, 2 ** 32 - 1],
  sint32: [0, -1, 1, 63, -64, 64, 2 ** 31 - 1, -(2 ** 31)],
  int64: [0n, 1n, -1n, 2n ** 63n - 1n, -(2n ** 63n)],
  uint64: [0n, 1n, 2n ** 28n, 2n ** 32n + 5n, 2n ** 56n, 2n ** 63n, 2n ** 64n - 1n],
  sint64: [0n, -1n, 1n, 2n ** 31n, -(2n ** 32n), 2n ** 63n - 1n, -(2n ** 63n)],
  string: ["", "a", "\u{10000}\uffee\ufeff", "\0".repeat(200)],
  bytes: [new Uint8Array(), Uint8Array.of(0), new Uint8Array(300).fill(255)],
};

/** A message of a kind; each of its values may be the default. */
function random({ fields }: Kind, draw: Draw): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  for (const [, name, inner, of] of fields) {
    const value = () =>
      typeof inner === "object" ? random(inner as Kind, draw) : VALUES[inner]![draw(VALUES[inner]!.length)];
    if (of === "[]") {
      message[name] = Array.from({ length: draw(4) }, value);
    } else if (of === undefined) {
      const isAbsent = typeof inner === "object" && draw(2) === 0;
      Object.assign(message, isAbsent ? {} : { [name]: value() });
    } else if (message[of] === undefined || draw(3) === 0) {
      message[of] = draw(8) ? { case: name, value: value() } : { case: undefined };
    }
  }
  return message;
}

for (const kind of KINDS) {
  test(`messages are written and read as by the library: ${kind.name}`, () => {
    const draw = numbers(2);
    const theirs = descriptor(kind);
    for (let n = 0; n < 150; n++) {
      const message = random(kind, draw);
      const bytes = encode(kind, message);
      assert.deepEqual(bytes, new Uint8Array(toBinary(theirs, create(theirs, message))));
      assert.deepEqual(decode(kind, bytes), message);
    }
  });

  test(`damaged bytes are refused or read as by the library: ${kind.name}`, () => {
    const draw = numbers(3);
    const theirs = descriptor(kind);
    let read = 0;
    for (let n = 0; n < 1_000; n++) {
      const bytes = damaged(encode(kind, random(kind, draw)), draw);
      let found: Uint8Array;
      try {
        found = encode(kind, decode(kind, bytes));
      } catch (error) {
        assert.ok(error instanceof RemoteProtocolError, String(error));
        continue;
      }
      read += 1;
      assert.deepEqual(found, new Uint8Array(toBinary(theirs, fromBinary(theirs, bytes))));
    }
    assert.ok(read > 20, `${read} of 1,000 were read`);
  });
}

test("a schema is read from JSON by either spelling of its names", () => {
  const fields = [
    { name: "a", real: { low: "-8", high: 8, frac_bits: 3 } },
    { name: "b", real: { low: "-9007199254740993", high: "9007199254740993", fracBits: "0" }, required: true },
    { name: "c", category: { labels: ["x", "y"] }, title: null },
  ];
  const schema = fromJson(SchemaSchema, { name: "s", version: 7, fields });
  const plain = { required: false, title: "" };
  assert.deepEqual(schema, {
    name: "s",
    version: 7,
    fields: [
      { ...plain, name: "a", type: { case: "real", value: { low: -8n, high: 8n, fracBits: 3 } } },
      {
        ...plain,
        name: "b",
        type: { case: "real", value: { low: -9007199254740993n, high: 9007199254740993n, fracBits: 0 } },
        required: true,
      },
      { ...plain, name: "c", type: { case: "category", value: { labels: ["x", "y"] } } },
    ],
  });
});

const UNREADABLE: Record<string, unknown> = {
  "no object": [],
  "a name that is not known": { names: "s" },
  "a name of the language": JSON.parse('{"__proto__": 1}'),
  "a text in place of a number": { version: "one" },
  "a number with a fraction": { version: 1.5 },
  "a number below its type": { version: -1 },
  "a number above its type": { version: 2 ** 32 },
  "a number of 64 bits above its type": { fields: [{ integer: { low: "9223372036854775808" } }] },
  "a number in place of a text": { name: 1 },
  "a number in place of a truth value": { fields: [{ required: 1 }] },
  "an object in place of a list": { fields: {} },
  "a null in a list": { fields: [null] },
  "two types of one field": { fields: [{ bit: {}, bits: { length: 1 } }] },
  "a field in both spellings": { fields: [{ real: { frac_bits: 1, fracBits: 1 } }] },
};

for (const [name, json] of Object.entries(UNREADABLE)) {
  test(`refused as JSON: ${name}`, () => {
    assert.throws(() => fromJson(SchemaSchema, json), InvalidParameter);
  });
}
