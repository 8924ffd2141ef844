/** Coins of a test build; `tests/devices/seeded_coins.py` has the stream's other half. */

import { fromHex } from "../src/integers.js";
import type { Coins, Words } from "../src/randomizers/index.js";
import { shake128 } from "../src/randomizers/shake_128.js";

/** The coins of one device: SHAKE-128 of seed, number of words, request and device id. */
export class SeededCoins implements Coins {
  constructor(
    private readonly seed: bigint,
    private readonly deviceId: string,
  ) {
    Object.assign(globalThis, { seededDevice: deviceId }); // by which a test knows a page's device
  }

  words(request: Uint8Array, count: number): Words {
    const id = fromHex(this.deviceId);
    const message = new Uint8Array(12 + request.length + id.length);
    const view = new DataView(message.buffer);
    view.setBigUint64(0, this.seed);
    view.setUint32(8, count);
    message.set(request, 12);
    message.set(id, 12 + request.length);
    const stream = new DataView(shake128(message, 8 * count).buffer);
    return BigUint64Array.from({ length: count }, (_, word) => stream.getBigUint64(8 * word, true));
  }
}
