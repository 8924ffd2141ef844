/** Whole numbers of any size, and their bytes. */

/** The number of bits of n >= 0, without leading zeros. */
export function bitLength(n: bigint): number {
  return n === 0n ? 0 : n.toString(16).length * 4 - (Math.clz32(parseInt(n.toString(16)[0]!, 16)) - 28);
}

/** n / 2^shift, rounded up; n >= 0. */
export function ceilShift(n: bigint, shift: bigint): bigint {
  return -(-n >> shift);
}

/** n / divisor, rounded down; divisor > 0. */
export function floorDivide(n: bigint, divisor: bigint): bigint {
  const quotient = n / divisor;
  return n < 0n && quotient * divisor !== n ? quotient - 1n : quotient;
}

export function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

export function greatest(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

export function magnitude(a: bigint): bigint {
  return a < 0n ? -a : a;
}

/** The nearest number within low..high. */
export function clamp(n: bigint, low: bigint, high: bigint): bigint {
  return n < low ? low : n > high ? high : n;
}

/** The greatest common divisor of two numbers >= 0. */
export function gcd(a: bigint, b: bigint): bigint {
  while (b) {
    [a, b] = [b, a % b];
  }
  return a;
}

/** n >= 0, whole and below 2^53 if it is a number, as `width` bytes, big-endian. */
export function toBytes(n: bigint | number, width: number): Uint8Array<ArrayBuffer> {
  if (typeof n === "bigint" && width > 6) {
    return fromHex(n.toString(16).padStart(2 * width, "0"));
  }
  const bytes = new Uint8Array(width);
  let rest = Number(n);
  for (let at = width - 1; at >= 0; at--) {
    bytes[at] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  return bytes;
}

/** The number that bytes are, big-endian. */
export function fromBytes(bytes: Uint8Array): bigint {
  return bytes.length ? BigInt("0x" + toHex(bytes)) : 0n;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) {
    text += HEX[byte];
  }
  return text;
}

/** The bytes of pairs of hexadecimal digits. */
export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  }
  return bytes;
}

/** True if two sequences of bytes are equal. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** Parts joined to one sequence. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
