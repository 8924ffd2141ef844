/** Schemas: the names and types of a record's fields, and records encoded onto their grids. */

import { InvalidRecord, expect } from "../errors.js";
import { clamp } from "../integers.js";
import { isPrintable } from "../printable.js";
import { CanonicalBytes, sha256, utf8 } from "./canonical.js";
import { Bits, Category, FIELD_NAME, Label, type Field, type GridValue } from "./fields.js";
import { MAX_FIELDS } from "./limits.js";

const FORMAT = utf8("askance/schema/1");
const MAX_VERSION = 2 ** 32 - 1;
const MAX_NAME = 128;
const MUST = 7; // before the bytes of a required field, none of which begin with it

/** Record on the grid: by field the value, and whether the record has a valid one there. */
export interface EncodedRecord {
  readonly values: ReadonlyMap<string, GridValue>;
  readonly present: ReadonlyMap<string, boolean>;
}

/** The fields of a record, in order; two are equal when the canonical bytes are. */
export class Schema {
  readonly fields: ReadonlyMap<string, Field>;
  readonly canonical: Uint8Array<ArrayBuffer>;
  private hash?: Promise<Uint8Array<ArrayBuffer>>;

  /**
   * @param name printable, 1..128 characters.
   * @param version 0..2^32-1; a schema that changed is another version.
   * @param fields the types by field name, 1..4096 of them.
   * @throws InvalidParameter: a name, version or field is not what is documented.
   */
  constructor(
    readonly name: string,
    readonly version: number,
    fields: Iterable<readonly [string, Field]>,
  ) {
    const kept = new Map(fields);
    const length = [...name].length;
    const isName = length >= 1 && length <= MAX_NAME && isPrintable(name);
    expect(isName, `schema: expected a printable name of 1..${MAX_NAME} characters`);
    const isVersion = version >= 0 && version <= MAX_VERSION;
    expect(isVersion, `schema: expected a version in 0..${MAX_VERSION}, got ${version}`);
    const isFew = kept.size >= 1 && kept.size <= MAX_FIELDS;
    expect(isFew, `schema: expected 1..${MAX_FIELDS} fields, found ${kept.size}`);
    const bytes = new CanonicalBytes().raw(FORMAT).text(name).i64(BigInt(version)).u32(kept.size);
    for (const [key, field] of kept) {
      expect(FIELD_NAME.test(key), "schema: a field expects a name [A-Za-z_][A-Za-z0-9_]{0,63}");
      bytes.text(key);
      if (field.required) {
        bytes.u8(MUST);
      }
      field.write(bytes);
    }
    this.fields = shareLabels(kept);
    this.canonical = bytes.done();
  }

  /** SHA-256 of the canonical bytes. */
  digest(): Promise<Uint8Array<ArrayBuffer>> {
    return (this.hash ??= sha256(this.canonical));
  }

  /**
   * Encode one record on the grid; missing or unreadable values are not present.
   *
   * @throws InvalidRecord: the record has a field that the schema does not have.
   */
  encode(record: Readonly<Record<string, unknown>>): EncodedRecord {
    const unknown = Object.keys(record).filter((name) => !this.fields.has(name)).length;
    if (unknown > 0) {
      throw new InvalidRecord(`expected fields of the schema, found ${unknown} unknown`);
    }
    const values = new Map<string, GridValue>();
    const present = new Map<string, boolean>();
    for (const [name, field] of this.fields) {
      const value = Object.hasOwn(record, name) ? field.encode(record[name]) : undefined;
      present.set(name, value !== undefined);
      values.set(name, value ?? filler(field));
    }
    return { values, present };
  }
}

/** The value on the grid where nothing is present: the point nearest to 0. */
function filler(field: Field): GridValue {
  return field instanceof Bits
    ? new Array<number>(field.words).fill(0)
    : clamp(0n, field.type.low, field.type.high);
}

/** Make equal lists of labels one object, so that two fields with the same are compared at once. */
function shareLabels(fields: Map<string, Field>): ReadonlyMap<string, Field> {
  const lists = new Map<string, readonly string[]>();
  for (const [name, field] of fields) {
    if (field instanceof Category) {
      const text = JSON.stringify(field.labels);
      const shared = lists.get(text) ?? field.labels;
      lists.set(text, shared);
      if (shared !== field.labels) {
        const family = field instanceof Label ? Label : Category;
        fields.set(name, new family(shared, field.required));
      }
    }
  }
  return fields;
}
