/**
 * The types of a record's fields, and how a value becomes an integer on the field's grid.
 *
 * A value that is missing, not a number, or not a label is *not present*: no error, for a query
 * over it answers its public default. A finite number out of range is clamped.
 */

import { expect } from "../errors.js";
import { clamp, greatest, magnitude } from "../integers.js";
import { CanonicalBytes, utf8 } from "./canonical.js";
import { exactRatio, stripped, toGrid } from "./exact.js";
import { Kind } from "./kinds.js";
import { MAX_BITS, MAX_FRAC, MAX_LABELS, MAX_LABEL_BYTES, MAX_MAGNITUDE, WORD } from "./limits.js";

export const FIELD_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
const NEVER_LABELS = new Set(["", "?"]); // how data files write "nothing here", whatever the column

/** Facts about a value before any record is seen. */
export interface ValueType {
  readonly kind: Kind;
  /** A value is an integer over 2^frac. */
  readonly frac: number;
  /** Lower bound of its integer (of BITS and VECTOR: each component). */
  readonly low: bigint;
  /** Upper bound of its integer. */
  readonly high: bigint;
  /** The names of a category's indices, where it has any. */
  readonly labels?: readonly string[];
  /** The number of components of BITS and VECTOR. */
  readonly width?: number;
}

/** A value on the grid; of BITS: words of 32 bits, component c is bit c % 32 of word c / 32. */
export type GridValue = bigint | readonly number[];

/** The type of a field. */
export interface Field {
  readonly type: ValueType;
  /** Every record is to have a value. A record without one is no error and is not told. */
  readonly required: boolean;
  /** Write the type's canonical bytes, without what `required` adds. */
  write(bytes: CanonicalBytes): void;
  /** The value on the grid; undefined where it is not present. */
  encode(value: unknown): GridValue | undefined;
}

/** A single 0 or 1. */
export class Bit implements Field {
  readonly type: ValueType = { kind: Kind.BOOLEAN, frac: 0, low: 0n, high: 1n };

  constructor(readonly required = false) {}

  write(bytes: CanonicalBytes): void {
    bytes.u8(1);
  }

  encode(value: unknown): bigint | undefined {
    const ratio = exactRatio(value);
    const bit = ratio !== undefined && ratio[0] % ratio[1] === 0n ? ratio[0] / ratio[1] : -1n;
    return bit === 0n || bit === 1n ? bit : undefined;
  }
}

/** A vector of `width` bits. */
export class Bits implements Field {
  readonly type: ValueType;

  constructor(
    readonly width: number,
    readonly required = false,
  ) {
    expect(width >= 1 && width <= MAX_BITS, `Bits expects a width in 1..${MAX_BITS}, found ${width}`);
    this.type = { kind: Kind.BITS, frac: 0, low: 0n, high: 1n, width };
  }

  get words(): number {
    return Math.ceil(this.width / WORD);
  }

  write(bytes: CanonicalBytes): void {
    bytes.u8(2).u32(this.width);
  }

  /** The words of a text "0110" or a list of 0/1, leftmost component 0. */
  encode(value: unknown): readonly number[] | undefined {
    const items: unknown = typeof value === "string" ? [...stripped(value)] : value;
    if (!Array.isArray(items) || items.length !== this.width) {
      return undefined;
    }
    const words: number[] = new Array(this.words).fill(0);
    for (const [component, item] of items.entries()) {
      const bit = BIT.encode(item);
      if (bit === undefined) {
        return undefined;
      }
      const word = Math.floor(component / WORD);
      words[word] = (words[word]! | (Number(bit) << component % WORD)) >>> 0;
    }
    return words;
  }
}

const BIT = new Bit();

/** Label from a finite list. */
export class Category implements Field {
  readonly type: ValueType;
  protected readonly tag: number = 3;
  private readonly indices = new Map<string, bigint>();

  constructor(
    readonly labels: readonly string[],
    readonly required = false,
  ) {
    const count = labels.length;
    expect(count >= 1 && count <= MAX_LABELS, `Category expects 1..${MAX_LABELS} labels, found ${count}`);
    for (const [position, label] of labels.entries()) {
      expect(!NEVER_LABELS.has(stripped(label)), `label ${position} stands for a missing value`);
      const size = utf8(label).length;
      expect(size <= MAX_LABEL_BYTES, `label ${position} expects at most ${MAX_LABEL_BYTES} bytes`);
      this.indices.set(label, BigInt(position));
    }
    expect(this.indices.size === labels.length, "Category expects distinct labels, found one twice");
    this.type = { kind: Kind.CATEGORY, frac: 0, low: 0n, high: BigInt(labels.length) - 1n, labels };
  }

  write(bytes: CanonicalBytes): void {
    bytes.u8(this.tag).u32(this.labels.length);
    for (const label of this.labels) {
      bytes.text(label);
    }
  }

  /**
   * The label's index.
   *
   * A number without a fraction is looked up by its digits: 1, 1.0 and true are the label "1" (a
   * truth value is first looked up as "True").
   */
  encode(value: unknown): bigint | undefined {
    if (typeof value === "string") {
      return this.indices.get(value);
    }
    if (typeof value === "boolean") {
      const named = this.indices.get(value ? "True" : "False");
      if (named !== undefined) {
        return named;
      }
    }
    const ratio = exactRatio(value);
    return ratio?.[1] === 1n ? this.indices.get(String(ratio[0])) : undefined;
  }
}

/** A Category that is the thing to be predicted. */
export class Label extends Category {
  protected override readonly tag = 4;
}

/** A number over 2^frac between two mantissas; one out of range is clamped. */
abstract class Numeric implements Field {
  readonly type: ValueType;
  abstract readonly required: boolean;

  constructor(low: bigint, high: bigint, frac: number) {
    expect(frac >= 0 && frac <= MAX_FRAC, `Real expects frac_bits in 0..${MAX_FRAC}, found ${frac}`);
    expect(low < high, "a number expects low < high, found low >= high");
    const farthest = greatest(magnitude(low), magnitude(high));
    expect(farthest < MAX_MAGNITUDE, "a number expects bounds below 2^62 grid units");
    this.type = { kind: Kind.NUMBER, frac, low, high };
  }

  abstract write(bytes: CanonicalBytes): void;

  encode(value: unknown): bigint | undefined {
    const { frac, low, high } = this.type;
    const ratio = exactRatio(value);
    return ratio === undefined ? undefined : clamp(toGrid(ratio, frac), low, high);
  }
}

/** A whole number in [low, high]; numbers with a fraction are rounded, half to even. */
export class Integer extends Numeric {
  constructor(
    readonly low: bigint,
    readonly high: bigint,
    readonly required = false,
  ) {
    super(low, high, 0);
  }

  write(bytes: CanonicalBytes): void {
    bytes.u8(5).i64(this.low).i64(this.high);
  }
}

/** A number, kept as an integer over 2^fracBits between two mantissas. */
export class Real extends Numeric {
  constructor(
    readonly lowMantissa: bigint,
    readonly highMantissa: bigint,
    readonly fracBits = 16,
    readonly required = false,
  ) {
    super(lowMantissa, highMantissa, fracBits);
  }

  write(bytes: CanonicalBytes): void {
    bytes.u8(6).u8(this.fracBits).i64(this.lowMantissa).i64(this.highMantissa);
  }
}
