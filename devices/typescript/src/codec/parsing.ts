/**
 * Parsing of untrusted bytes.
 *
 * The library skips what it does not know and trusts wire types and lengths. So `checkWire` first
 * reads the bytes against the message's descriptor and refuses whatever version 1 does not have: a
 * field, a wire type, a length beyond its message, a group, a text that is not UTF-8.
 */

import { fromBinary, type DescField, type DescMessage, type MessageShape } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";

import { RemoteProtocolError } from "../errors.js";
import { sha256 } from "../queries/index.js";

/** A 64 x 64 table of 64-bit entries takes about 40 kB; a query of 4,096 nodes stays below this. */
export const MAX_MESSAGE_BYTES = 256 * 1024;

const MAX_VARINT = 10;
const TEXT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The name of a payload: SHA-256 of its bytes as they travelled. */
export function digestOf(payload: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  return sha256(payload);
}

/**
 * Parse `data` as a message, whole and understood to the last field.
 *
 * @throws RemoteProtocolError: too long, no such message, or with fields that this version lacks.
 */
export function parse<D extends DescMessage>(
  kind: D,
  data: Uint8Array,
  limit = MAX_MESSAGE_BYTES,
): MessageShape<D> {
  if (data.length > limit) {
    throw new RemoteProtocolError(
      `${kind.name}: expected at most ${limit} bytes, found ${data.length}`,
    );
  }
  checkWire(kind, data, 0, data.length);
  return fromBinary(kind, data, { readUnknownFields: false });
}

/** Forms that a field's records may have on the wire. */
interface Form {
  readonly wire: WireType;
  readonly packed: boolean;
  readonly text: boolean;
  readonly message: DescMessage | undefined;
}

const forms = new WeakMap<DescMessage, ReadonlyMap<number, Form>>();

function formsOf(kind: DescMessage): ReadonlyMap<number, Form> {
  let found = forms.get(kind);
  if (found === undefined) {
    found = new Map(kind.fields.map((field) => [field.number, formOf(field)]));
    forms.set(kind, found);
  }
  return found;
}

function formOf(field: DescField): Form {
  const message = field.message;
  const scalar = field.scalar; // of a list: of its items; undefined of messages and enumerations
  const text = scalar === ScalarType.STRING;
  const long = message !== undefined || text || scalar === ScalarType.BYTES;
  return {
    wire: long ? WireType.LengthDelimited : WireType.Varint,
    packed: field.fieldKind === "list" && !long,
    text,
    message,
  };
}

/** Refuse bytes from..to unless they are a message of fields that this version has. */
function checkWire(kind: DescMessage, data: Uint8Array, from: number, to: number): void {
  const known = formsOf(kind);
  for (let at = from; at < to; ) {
    const tag = varintEnd(data, at, to);
    const number = smallVarint(data, at, tag);
    at = tag;
    const form = known.get(number >>> 3);
    const wire = number & 7;
    if (form === undefined || (wire !== form.wire && !(form.packed && wire === 2))) {
      throw malformed(kind);
    }
    let end = varintEnd(data, at, to);
    if (wire === WireType.LengthDelimited) {
      const start = end;
      end = start + smallVarint(data, at, start);
      if (end > to) {
        throw malformed(kind);
      }
      checkContent(form, kind, data, start, end);
    }
    at = end;
  }
}

function checkContent(form: Form, kind: DescMessage, data: Uint8Array, from: number, to: number): void {
  if (form.message !== undefined) {
    checkWire(form.message, data, from, to);
  } else if (form.text) {
    try {
      TEXT.decode(data.subarray(from, to));
    } catch {
      throw malformed(kind);
    }
  } else if (form.packed) {
    for (let at = from; at < to; ) {
      at = varintEnd(data, at, to);
    }
  }
}

/** The position after a varint of at most ten bytes. */
function varintEnd(data: Uint8Array, from: number, to: number): number {
  const most = Math.min(to, from + MAX_VARINT);
  for (let at = from; at < most; at++) {
    if (data[at]! < 0x80) {
      return at + 1;
    }
  }
  throw new RemoteProtocolError("message: expected a number of at most ten bytes, found none");
}

/** The value of a varint that is a tag or a length: below 2^32, in at most five bytes. */
function smallVarint(data: Uint8Array, from: number, to: number): number {
  let value = 0;
  for (let at = to - 1; at >= from; at--) {
    value = value * 128 + (data[at]! & 0x7f);
  }
  if (to - from > 5 || value >= 2 ** 32) {
    throw new RemoteProtocolError("message: expected a tag or a length below 2^32, found more");
  }
  return value;
}

function malformed(kind: DescMessage): RemoteProtocolError {
  return new RemoteProtocolError(`${kind.name}: expected a message of known fields, found other bytes`);
}
