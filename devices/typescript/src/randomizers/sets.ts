/** Reports that are sets of items: a bitmap, or sorted indices where these are shorter. */

import { fromBytes } from "../integers.js";
import { Randomizer } from "./randomizer.js";

/**
 * A randomizer whose report is a set of `size` of the items 0..items-1.
 *
 * A report has the shorter of two forms, the bitmap if both are equally long. The form and its
 * length are functions of `items` and `size` alone. Each set has one report:
 *
 * - a bitmap of ceil(items / 8) bytes: item v is bit 7 - v % 8 of byte v / 8, trailing bits are 0,
 *   exactly `size` bits are 1;
 * - indices: the `size` items in ascending order, in the bytes that hold the number of items each
 *   (1 up to 255 items, 2 up to 65,535, else 3), big-endian.
 *
 * No report is all ones: a bitmap has a bit free, and no index is as great as the number of items.
 */
export abstract class SetRandomizer extends Randomizer {
  abstract readonly size: number;
  /** Number of items, at least `size`. */
  abstract readonly items: number;

  /** Bytes per index; 0 where a report is a bitmap. */
  get indexBytes(): number {
    const needed = Math.ceil((32 - Math.clz32(this.items)) / 8);
    return needed * this.size < Math.ceil(this.items / 8) ? needed : 0;
  }

  /** Bytes of the bitmap or of the indices. */
  get width(): number {
    return this.indexBytes * this.size || Math.ceil(this.items / 8);
  }

  /** The items of a report, in its order. */
  itemsOf(report: Uint8Array): number[] {
    const items: number[] = [];
    for (let at = 0; this.indexBytes && at < report.length; at += this.indexBytes) {
      items.push(Number(fromBytes(report.subarray(at, at + this.indexBytes))));
    }
    for (let item = 0; !this.indexBytes && item < 8 * report.length; item++) {
      if ((report[item >> 3]! >> (7 - (item & 7))) & 1) {
        items.push(item);
      }
    }
    return items;
  }

  /** Serialise a set, given as 1 per item that is in it, else 0. */
  protected encode(members: Uint8Array): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.width);
    const each = this.indexBytes;
    if (each === 0) {
      for (let item = 0; item < members.length; item++) {
        bytes[item >> 3]! |= members[item]! << (7 - (item & 7));
      }
      return bytes;
    }
    for (let i = 0, item = -1; i < this.size; i++) {
      item = members.indexOf(1, item + 1);
      for (let place = 0; place < each; place++) {
        bytes[i * each + place] = item >> (8 * (each - 1 - place));
      }
    }
    return bytes;
  }
}
