/**
 * Messages as bytes and from JSON, by the tables that `./generate` makes of the .proto files.
 *
 * Reading is strict, since the bytes are untrusted: a field or a wire type that the table lacks, a
 * length beyond its message, and a text that is not UTF-8 are refused. Whatever may be written in
 * several ways (numbers packed or not, a message in parts) is read in each.
 */

import { InvalidParameter, RemoteProtocolError } from "../errors.js";
import { joined } from "../integers.js";
import { utf8 } from "../queries/canonical.js";

/** A message of the .proto files: its name, and its fields by ascending number. */
export interface MessageKind<M> {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly shape?: M; // never set: it ties the table to its type
}

/**
 * Number, name and kind of a field, an enumeration as int32; and `LIST` if it repeats, or the name of
 * the oneof that it is a case of.
 */
type Field = readonly [
  number: number,
  name: string,
  kind: keyof typeof VARINTS | "string" | "bytes" | MessageKind<unknown>,
  of?: string,
];

type Message = Record<string, any>;

const LIST = "[]";
const VARINT = 0;
const LENGTH = 2; // the wire type of what has a length
const MAX_VARINT = 10;
const MAX_SMALL = 5; // bytes of a tag or a length
const TEXT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The 64 bits of the number that was read last. */
const BITS = new DataView(new ArrayBuffer(8));

/** A number in a varint: its default, its value in `BITS`, and the bits of a value. */
interface Varint {
  readonly zero: number | bigint | boolean;
  read(): number | bigint | boolean;
  bits(value: bigint): bigint;
}

const plain = (value: bigint): bigint => value;
const zigzag = (value: bigint): bigint => (value << 1n) ^ (value >> 63n);
const unsigned32 = (): number => BITS.getUint32(4);
const unsigned64 = (): bigint => BITS.getBigUint64(0);

const VARINTS = {
  bool: { zero: false, read: () => unsigned64() !== 0n, bits: plain },
  int32: { zero: 0, read: () => BITS.getInt32(4), bits: plain },
  uint32: { zero: 0, read: unsigned32, bits: plain },
  sint32: { zero: 0, read: () => (unsigned32() >>> 1) ^ -(unsigned32() & 1), bits: zigzag },
  int64: { zero: 0n, read: () => BITS.getBigInt64(0), bits: plain },
  uint64: { zero: 0n, read: unsigned64, bits: plain },
  sint64: { zero: 0n, read: () => (unsigned64() >> 1n) ^ -(unsigned64() & 1n), bits: zigzag },
} as const satisfies Record<string, Varint>;

function varintOf([, , kind]: Field): Varint | undefined {
  return VARINTS[kind as keyof typeof VARINTS];
}

/**
 * The message in some bytes, understood to the last field.
 *
 * @throws RemoteProtocolError: no such message, or one with what this version lacks.
 */
export function decode<M>(kind: MessageKind<M>, data: Uint8Array): M {
  return read(kind, data, empty(kind)) as M;
}

/** The bytes of a message; fields that are not given have their defaults. */
export function encode<M>(kind: MessageKind<M>, message: Partial<M>): Uint8Array<ArrayBuffer> {
  return joined(kind.fields.flatMap((field) => written(field, message)));
}

/**
 * A message that is written as JSON, its names as in the .proto file or in camel case. No message
 * with bytes is.
 *
 * @throws InvalidParameter: no such message; the values are not told.
 */
export function fromJson<M>(kind: MessageKind<M>, json: unknown): M {
  const message = empty(kind);
  const given = new Set<string>();
  const expect = (holds: boolean, expected: string): void => {
    if (!holds) {
      throw new InvalidParameter(`${kind.name}: expected ${expected} in JSON, got another`);
    }
  };
  expect(typeof json === "object" && json !== null && !Array.isArray(json), "an object");
  for (const [key, value] of Object.entries(json as object)) {
    const name = key.replace(/_[a-z]/g, (found) => found[1]!.toUpperCase());
    const field = kind.fields.find(([, own]) => own === name);
    expect(field !== undefined, "known names");
    const [, , inner, of] = field!;
    const slot = of === undefined || of === LIST ? name : of;
    expect(!given.has(slot), "each field once");
    given.add(slot);
    if (value === null) {
      continue; // the default
    }
    expect(of !== LIST || Array.isArray(value), `a list for ${name}`);
    for (const item of of === LIST ? value : [value]) {
      const found = typeof inner === "object" ? fromJson(inner, item) : scalarIn(field!, item);
      expect(found !== undefined, `a value of the type of ${name}`);
      put(message, field!, found);
    }
  }
  return message as M;
}

/** A value of a field in JSON, numbers of 64 bits as a text; undefined if it has none. */
function scalarIn(field: Field, item: unknown): unknown {
  const varint = varintOf(field);
  if (varint === undefined || typeof varint.zero === "boolean") {
    return typeof item === (varint ? "boolean" : "string") ? item : undefined;
  }
  const isText = typeof item === "string" && /^-?[0-9]{1,20}$/.test(item);
  if (!isText && !Number.isSafeInteger(item)) {
    return undefined;
  }
  const number = BigInt(item as string | number);
  BITS.setBigUint64(0, BigInt.asUintN(64, varint.bits(number)));
  const value = varint.read();
  return BigInt(value) === number ? value : undefined;
}

/** A message all of whose fields have their defaults. */
function empty(kind: MessageKind<unknown>): Message {
  const message: Message = {};
  for (const field of kind.fields) {
    const [, name, inner, of] = field;
    if (of === LIST) {
      message[name] = [];
    } else if (of !== undefined) {
      message[of] = { case: undefined };
    } else if (typeof inner === "string") {
      message[name] = varintOf(field)?.zero ?? (inner === "string" ? "" : new Uint8Array());
    }
  }
  return message;
}

/** Keep a value of a field: the last one, or of a list all. */
function put(message: Message, [, name, , of]: Field, value: unknown): void {
  if (of === LIST) {
    message[name].push(value);
  } else if (of === undefined) {
    message[name] = value;
  } else {
    message[of] = { case: name, value };
  }
}

/** The value that a field has, of a list the list; undefined: none. */
function held(message: Message, [, name, , of]: Field): any {
  if (of === undefined || of === LIST) {
    return message[name];
  }
  return message[of]?.case === name ? message[of].value : undefined;
}

/** Read bytes into a message, whose fields have defaults or come from an earlier part of it. */
function read(kind: MessageKind<unknown>, data: Uint8Array, message: Message): Message {
  for (let at = 0; at < data.length; ) {
    at = readSmall(data, at);
    const tag = unsigned32();
    const field = kind.fields.find(([number]) => number === tag >>> 3);
    const varint = field && varintOf(field);
    const wire = tag & 7;
    const isPacked = wire === LENGTH && field?.[3] === LIST;
    if (field === undefined || (wire !== (varint ? VARINT : LENGTH) && !isPacked)) {
      throw malformed(kind);
    }
    if (varint && wire === VARINT) {
      at = readVarint(data, at);
      put(message, field, varint.read());
      continue;
    }
    const start = readSmall(data, at);
    at = start + unsigned32();
    if (at > data.length) {
      throw malformed(kind);
    }
    const content = data.subarray(start, at);
    if (varint) {
      for (let next = 0; next < content.length; ) {
        next = readVarint(content, next);
        put(message, field, varint.read());
      }
    } else {
      put(message, field, valueOf(kind, field, content, message));
    }
  }
  return message;
}

/** The value in a field's bytes: a text, bytes, or a message, which goes on from an earlier part. */
function valueOf(
  kind: MessageKind<unknown>,
  field: Field,
  content: Uint8Array,
  message: Message,
): unknown {
  const [, , inner, of] = field;
  if (typeof inner === "object") {
    return read(inner, content, (of !== LIST && held(message, field)) || empty(inner));
  }
  try {
    return inner === "bytes" ? content.slice() : TEXT.decode(content);
  } catch {
    throw malformed(kind);
  }
}

/** Read a varint of at most ten bytes into `BITS`, cut to 64; returns the position after it. */
function readVarint(data: Uint8Array, from: number): number {
  let [low, high] = [0, 0];
  const most = Math.min(data.length, from + MAX_VARINT);
  for (let at = from, shift = 0; at < most; at++, shift += 7) {
    const seven = data[at]! & 0x7f;
    if (shift < 32) {
      low |= seven << shift;
    }
    if (shift > 24) {
      high |= shift < 32 ? seven >> (32 - shift) : seven << (shift - 32);
    }
    if (data[at]! < 0x80) {
      BITS.setUint32(0, high);
      BITS.setUint32(4, low);
      return at + 1;
    }
  }
  throw new RemoteProtocolError("message: expected a number of at most ten bytes, found none");
}

/** Read a tag or a length: below 2^32, in at most five bytes. */
function readSmall(data: Uint8Array, from: number): number {
  const end = readVarint(data, from);
  if (end - from > MAX_SMALL || BITS.getUint32(0)) {
    throw new RemoteProtocolError("message: expected a tag or a length below 2^32, found more");
  }
  return end;
}

function malformed(kind: MessageKind<unknown>): RemoteProtocolError {
  return new RemoteProtocolError(`${kind.name}: expected its known fields, found other bytes`);
}

/** A field's records in a message; none for a default. */
function written(field: Field, message: Message): Uint8Array[] {
  const [number, , inner, of] = field;
  const varint = varintOf(field);
  const value = held(message, field);
  const isAbsent = typeof inner === "string" && of === undefined;
  if (value === undefined || (isAbsent && (value === varint?.zero || value.length === 0))) {
    return [];
  }
  if (varint && of !== LIST) {
    return [varintBytes(BigInt(number << 3)), numberBytes(varint, value)];
  }
  const withLength = (bytes: Uint8Array): Uint8Array[] => [
    varintBytes(BigInt((number << 3) | LENGTH)),
    varintBytes(BigInt(bytes.length)),
    bytes,
  ];
  if (varint) {
    const numbers = value.map((item: number | bigint) => numberBytes(varint, item));
    return value.length ? withLength(joined(numbers)) : [];
  }
  return (of === LIST ? value : [value]).flatMap((item: any) =>
    withLength(
      inner === "bytes"
        ? item
        : inner === "string"
          ? utf8(item)
          : encode(inner as MessageKind<unknown>, item),
    ),
  );
}

function numberBytes(varint: Varint, value: number | bigint): Uint8Array {
  return varintBytes(BigInt.asUintN(64, varint.bits(BigInt(value))));
}

function varintBytes(bits: bigint): Uint8Array {
  const bytes: number[] = [];
  for (; bits > 0x7fn; bits >>= 7n) {
    bytes.push(Number(bits & 0x7fn) | 0x80);
  }
  return Uint8Array.of(...bytes, Number(bits));
}
