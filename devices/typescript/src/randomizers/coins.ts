/** Sources of coins: uniform 64-bit words, passed in and never drawn on the side. */

export const COIN_SPACE = 1n << 64n;

/** Uniform 64-bit words. */
export type Words = BigUint64Array<ArrayBufferLike>;

/** A source of uniform 64-bit words. */
export interface Coins {
  /**
   * Draw `count` independent uniform words.
   *
   * @param request the request's 32-byte digest: seeded coins are a function of it.
   */
  words(request: Uint8Array, count: number): Words;
}

const MOST = 8192; // words that `getRandomValues` gives at once: 64 KiB

/**
 * The operating system's randomness, by `crypto.getRandomValues`: what every device uses.
 *
 * Privacy: every call is fresh; nothing is derived from a stored secret, so nothing that is stolen
 * later decodes an old report. A retry resends the stored report and does not come here.
 */
export class SystemCoins implements Coins {
  words(_request: Uint8Array, count: number): Words {
    const words = new BigUint64Array(count);
    for (let from = 0; from < count; from += MOST) {
      crypto.getRandomValues(words.subarray(from, from + MOST));
    }
    return words;
  }
}

const LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** Words as their halves of 32 bits, from which small products are exact in floats. */
export class Halves {
  private readonly halves: Uint32Array;

  constructor(words: Words) {
    this.halves = new Uint32Array(words.buffer, words.byteOffset, 2 * words.length);
  }

  /** The greater half of word i. */
  high(i: number): number {
    return this.halves[2 * i + (LITTLE_ENDIAN ? 1 : 0)]!;
  }

  /** The lesser half of word i. */
  low(i: number): number {
    return this.halves[2 * i + (LITTLE_ENDIAN ? 0 : 1)]!;
  }

  /**
   * floor(word i * n / 2^64), exactly, for n <= 2^20.
   *
   * With word = h 2^32 + l it is floor((h n + floor(l n / 2^32)) / 2^32): both products are below
   * 2^52 and the sum below 2^53, so no float rounds.
   */
  share(i: number, n: number): number {
    return Math.floor((this.high(i) * n + Math.floor((this.low(i) * n) / 2 ** 32)) / 2 ** 32);
  }
}
