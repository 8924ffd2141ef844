/** Numbers from a seed, and messages that they damage. */

/** Numbers that follow from a seed (mulberry32); the test is the same each time. */
export function numbers(seed: number): (below: number) => number {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** A message with some bytes changed, taken away, doubled or put in. */
export function damaged(data: Uint8Array, draw: (below: number) => number): Uint8Array {
  const bytes = [...data];
  for (let times = 1 + draw(4); times > 0; times--) {
    const at = draw(bytes.length + 1);
    const part = bytes.slice(at, at + 1 + draw(20));
    switch (draw(4)) {
      case 0:
        bytes[at % Math.max(1, bytes.length)] = draw(256);
        break;
      case 1:
        bytes.splice(at, part.length);
        break;
      case 2:
        bytes.splice(at, 0, ...part);
        break;
      default:
        bytes.splice(at, 0, draw(256));
    }
  }
  return Uint8Array.from(bytes);
}
