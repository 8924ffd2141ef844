/**
 * Canonical bytes: fixed-width integers and length-prefixed text, so that encodings are injective.
 *
 * Independent of protobuf, whose serialisation is not canonical.
 */

import { joined } from "../integers.js";

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
    return this.put(1, (view, at) => view.setUint8(at, value));
  }

  u32(value: number): this {
    return this.put(4, (view, at) => view.setUint32(at, value));
  }

  u64(value: bigint): this {
    return this.put(8, (view, at) => view.setBigUint64(at, value));
  }

  /** Two's complement. */
  i64(value: bigint): this {
    return this.put(8, (view, at) => view.setBigInt64(at, value));
  }

  raw(bytes: Uint8Array): this {
    return this.put(bytes.length, (_, at) => this.bytes.set(bytes, at));
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

  /** Write `size` bytes at the end, after making room for them. */
  private put(size: number, write: (view: DataView, at: number) => void): this {
    const at = this.length;
    this.length += size;
    if (this.length > this.bytes.length) {
      const grown = new Uint8Array(Math.max(2 * this.bytes.length, this.length));
      grown.set(this.bytes);
      this.bytes = grown;
      this.view = new DataView(grown.buffer);
    }
    write(this.view, at);
    return this;
  }
}

/** SHA-256 by WebCrypto. */
export async function sha256(...parts: readonly Uint8Array[]): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(parts)));
}
