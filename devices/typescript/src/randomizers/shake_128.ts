/** SHAKE-128 (FIPS 202), which WebCrypto does not have, on words of 32 bits. */

const RATE = 168; // bytes
const LANES = 25;
const ROUNDS = 24;

/** Rotation of each lane and the place that it moves to, and the constants of the rounds. */
const ROTATIONS = new Uint8Array(LANES);
const PLACES = new Uint8Array(LANES);
const CONSTANTS = new Uint32Array(2 * ROUNDS); // less half, greater half

for (let x = 1, y = 0, t = 0; t < 24; t++) {
  ROTATIONS[x + 5 * y] = (((t + 1) * (t + 2)) / 2) % 64;
  [x, y] = [y, (2 * x + 3 * y) % 5];
}
for (let x = 0; x < 5; x++) {
  for (let y = 0; y < 5; y++) {
    PLACES[x + 5 * y] = y + 5 * ((2 * x + 3 * y) % 5);
  }
}
for (let round = 0, register = 1; round < ROUNDS; round++) {
  for (let j = 0; j < 7; j++) {
    const bit = 2 ** j - 1;
    if (register & 1) {
      const half = 2 * round + (bit >> 5);
      CONSTANTS[half] = (CONSTANTS[half]! ^ (1 << (bit & 31))) >>> 0;
    }
    register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
  }
}

/** Expand a message of less than 168 bytes to `size` bytes. */
export function shake128(message: Uint8Array, size: number): Uint8Array {
  const state = new Uint32Array(2 * LANES); // lane i: less half 2 i, greater half 2 i + 1
  const absorb = (at: number, byte: number): void => {
    state[at >> 2]! ^= byte << (8 * (at & 3));
  };
  message.forEach((byte, at) => absorb(at, byte));
  absorb(message.length, 0x1f);
  absorb(RATE - 1, 0x80);
  const digest = new Uint8Array(size);
  for (let at = 0; at < size; at++) {
    if (at % RATE === 0) {
      permute(state);
    }
    const place = at % RATE;
    digest[at] = state[place >> 2]! >>> (8 * (place & 3));
  }
  return digest;
}

const COLUMNS = new Uint32Array(10);
const MOVED = new Uint32Array(2 * LANES);

/** Keccak-f[1600]. */
function permute(state: Uint32Array): void {
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < 10; i++) {
      COLUMNS[i] = state[i]! ^ state[i + 10]! ^ state[i + 20]! ^ state[i + 30]! ^ state[i + 40]!;
    }
    for (let x = 0; x < 5; x++) {
      const [before, after] = [2 * ((x + 4) % 5), 2 * ((x + 1) % 5)];
      const [low, high] = [COLUMNS[after]!, COLUMNS[after + 1]!];
      const less = COLUMNS[before]! ^ ((low << 1) | (high >>> 31));
      const greater = COLUMNS[before + 1]! ^ ((high << 1) | (low >>> 31));
      for (let i = 2 * x; i < 2 * LANES; i += 10) {
        state[i]! ^= less;
        state[i + 1]! ^= greater;
      }
    }
    for (let lane = 0; lane < LANES; lane++) {
      let [low, high] = [state[2 * lane]!, state[2 * lane + 1]!];
      const turn = ROTATIONS[lane]!;
      if (turn & 32) {
        [low, high] = [high, low];
      }
      const [left, place] = [turn & 31, 2 * PLACES[lane]!];
      MOVED[place] = left ? (low << left) | (high >>> (32 - left)) : low;
      MOVED[place + 1] = left ? (high << left) | (low >>> (32 - left)) : high;
    }
    for (let row = 0; row < 2 * LANES; row += 10) {
      for (let i = 0; i < 10; i++) {
        state[row + i] = MOVED[row + i]! ^ (~MOVED[row + ((i + 2) % 10)]! & MOVED[row + ((i + 4) % 10)]!);
      }
    }
    state[0]! ^= CONSTANTS[2 * round]!;
    state[1]! ^= CONSTANTS[2 * round + 1]!;
  }
}
