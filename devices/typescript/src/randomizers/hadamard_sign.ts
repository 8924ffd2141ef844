/** Sign of a random row of a Hadamard matrix: signed values by one bit, for any number of values. */

import { greatest, least, toBytes } from "../integers.js";
import { COIN_SPACE, Halves, type Words } from "./coins.js";
import { PrivacyLoss } from "./loss.js";
import { DRAW_COST, NumberedRandomizer, checkInteger, checkThreshold } from "./randomizer.js";
import { MAX_VALUES, signedLevels } from "./signed_levels.js";

/**
 * Reports a uniform row r of the 2^m x 2^m Hadamard matrix H and one randomized sign.
 *
 * 2^m is the least power of two with a column for each value; H[r, j] = (-1)^(ones in r & j). The
 * sign is s H[r, j] for a user at s of value j, kept with probability threshold / 2^64; of a
 * neutral user it is a fair coin. The report is 2 r + b, b = 1 for -.
 *
 * Privacy: pure eps-LDP, replace-one; the row is even, exactly, whatever the level, so that the
 * loss is exactly that of the sign, Warner's; attained by every report.
 * Source: Nguyen et al. 2016 and Acharya, Sun and Zhang 2019 (Hadamard responses).
 */
export class HadamardSign extends NumberedRandomizer {
  readonly levels: bigint;
  readonly coins = 2;
  readonly reports: bigint;
  readonly drawCost = DRAW_COST;
  readonly loss: PrivacyLoss;
  /** m: number of bits of a row's index. */
  readonly rowBits: number;

  /**
   * @param values 1..32767.
   * @param threshold 1..2^64-1.
   * @throws InvalidParameter: they are not.
   */
  constructor(
    readonly values: number,
    readonly threshold: bigint,
  ) {
    super("hadamard-sign", [values, threshold]);
    checkInteger("values", values, 1, MAX_VALUES);
    checkThreshold(threshold);
    this.rowBits = 32 - Math.clz32(values - 1);
    this.levels = signedLevels(values);
    this.reports = 2n << BigInt(this.rowBits);
    const lie = COIN_SPACE - threshold;
    this.loss = new PrivacyLoss(greatest(threshold, lie), least(threshold, lie));
  }

  /** Number of the 2^64 coins that report + in that row. */
  plusCoins(level: number, row: number): bigint {
    if (level === 2 * this.values) {
      return COIN_SPACE / 2n;
    }
    const minus = (ones(row & (level >> 1)) ^ level) & 1;
    return minus ? COIN_SPACE - this.threshold : this.threshold;
  }

  /** The row is the first coin's leading m bits; the second one is held against the sign. */
  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    const row = Math.floor(new Halves(coins).high(0) / 2 ** (32 - this.rowBits));
    const minus = coins[1]! >= this.plusCoins(Number(level), row);
    return toBytes(2 * row + (minus ? 1 : 0), this.width);
  }
}

/** The number of ones of a number below 2^32. */
function ones(bits: number): number {
  let count = 0;
  for (; bits; bits &= bits - 1) {
    count += 1;
  }
  return count;
}
