/** k-ary randomized response: the own cell with one chance, every other cell with another. */

import { greatest, least, toBytes } from "../integers.js";
import { COIN_SPACE, type Words } from "./coins.js";
import { PrivacyLoss } from "./loss.js";
import { DRAW_COST, NumberedRandomizer, checkInteger } from "./randomizer.js";

export const MIN_CELLS = 2;
export const MAX_CELLS = 1 << 20; // as many as a query has: 3 bytes

/**
 * Reports each other cell with probability other / 2^64 exactly, and the own cell else.
 *
 * One coin U: below P = 2^64 - (cells - 1) other it is the own cell, above it the
 * floor((U - P) / other)-th of the others, which are intervals of exactly `other` coins each.
 *
 * Privacy: pure eps-LDP, replace-one; the ratio max(P / other, other / P) is exact, attained by
 * every report.
 * Source: Kairouz, Bonawitz and Ramage 2016.
 */
export class KaryResponse extends NumberedRandomizer {
  readonly levels: bigint;
  readonly coins = 1;
  readonly reports: bigint;
  readonly drawCost = DRAW_COST;
  readonly loss: PrivacyLoss;
  /** P: how many of the 2^64 coins report the own cell. */
  readonly own: bigint;

  /**
   * @param cells 2..2^20.
   * @param other >= 1, and (cells - 1) other < 2^64.
   * @throws InvalidParameter: they are not.
   */
  constructor(
    readonly cells: number,
    readonly other: bigint,
  ) {
    super("k-ary", [cells, other]);
    checkInteger("cells", cells, MIN_CELLS, MAX_CELLS);
    checkInteger("other", other, 1n, (COIN_SPACE - 1n) / BigInt(cells - 1));
    this.levels = this.reports = BigInt(cells);
    this.own = COIN_SPACE - BigInt(cells - 1) * other;
    this.loss = new PrivacyLoss(greatest(this.own, other), least(this.own, other));
  }

  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    return toBytes(respond(this.own, Number(level), this.other, coins[0]!), this.width);
  }
}

/** The own value if U < P, else the floor((U - P) / other)-th of the others. */
export function respond(own: bigint, value: number, other: bigint, coin: bigint): number {
  if (coin < own) {
    return value;
  }
  const rank = Number((coin - own) / other);
  return rank >= value ? rank + 1 : rank;
}
