/**
 * Canonical bytes: fixed-width integers and length-prefixed text, so that encodings are injective.
 *
 * Independent of protobuf, whose serialisation is not canonical.
 */

const UTF_8 = new TextEncoder();

/** A text as UTF-8. */
export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return UTF_8.encode(text);
}

/** Bytes that are written one value after another; numbers are big-endian. */
export class CanonicalBytes {
  private bytes = new Uint8Array(256);
  private view = new DataView(this.bytes.buffer);
  private length = 0;

  u8(value: number): this {
    const at = this.next(1); // may replace the view
    this.view.setUint8(at, value);
    return this;
  }

  u32(value: number): this {
    const at = this.next(4); // may replace the view
    this.view.setUint32(at, value);
    return this;
  }

  u64(value: bigint): this {
    const at = this.next(8); // may replace the view
    this.view.setBigUint64(at, value);
    return this;
  }

  /** Two's complement. */
  i64(value: bigint): this {
    const at = this.next(8); // may replace the view
    this.view.setBigInt64(at, value);
    return this;
  }

  raw(bytes: Uint8Array): this {
    const at = this.next(bytes.length);
    this.bytes.set(bytes, at);
    return this;
  }

  /** The number of UTF-8 bytes, then the bytes. */
  text(value: string): this {
    const bytes = utf8(value);
    return this.u32(bytes.length).raw(bytes);
  }

  /** All that was written. */
  done(): Uint8Array<ArrayBuffer> {
    return this.bytes.slice(0, this.length);
  }

  private next(size: number): number {
    const at = this.length;
    this.length += size;
    if (this.length > this.bytes.length) {
      const grown = new Uint8Array(Math.max(2 * this.bytes.length, this.length));
      grown.set(this.bytes);
      this.bytes = grown;
      this.view = new DataView(grown.buffer);
    }
    return at;
  }
}

/** SHA-256 by WebCrypto. */
export async function sha256(...parts: readonly Uint8Array[]): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}
