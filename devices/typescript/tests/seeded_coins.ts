import { createHash } from "node:crypto";

import type { Coins, Words } from "../src/randomizers/index.js";

/** Coins that are a function of a number and the request, as `HashCoins` of the Python tests. */
export class HashCoins implements Coins {
  constructor(private readonly ordinal: number) {}

  words(request: Uint8Array, count: number): Words {
    const ordinal = Buffer.alloc(8);
    ordinal.writeBigUInt64BE(BigInt(this.ordinal));
    return BigUint64Array.from({ length: count }, (_, word) => {
      const hash = createHash("sha256").update(request).update(ordinal);
      return hash.update(Buffer.from([word])).digest().readBigUInt64BE(0);
    });
  }
}
