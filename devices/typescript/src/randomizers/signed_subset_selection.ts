/** Signed subset selection: a random set of signed values that favours the own one. */

import { Halves, type Words } from "./coins.js";
import { drawMembers } from "./floyd.js";
import { PrivacyLoss } from "./loss.js";
import { DRAW_COST, checkInteger, checkThreshold } from "./randomizer.js";
import { SetRandomizer } from "./sets.js";
import { MAX_VALUES, signedLevels } from "./signed_levels.js";
import { certifiedRatio, evenCoins, oppositeCoins } from "./signed_sets.js";

/**
 * Reports `size` of the values, each with a sign: the own one with its own sign by preference.
 *
 * For a user at s of value j the report contains (j, s) with probability threshold / 2^64 and
 * (j, -s) with `opposite` / 2^64; the rest of it is even. To a neutral user all reports are alike:
 * value 0 stands for the own one, by even chances. The items are 2j for (j, +) and 2j + 1 for
 * (j, -), of which no value has both.
 *
 * Privacy: pure eps-LDP, replace-one; the loss is the greatest ratio of the levels' chances of a
 * report, enlarged by what the draws are short of even (`certifiedRatio`).
 * Source: Ye and Barg 2018 (subset selection), of signed values.
 */
export class SignedSubsetSelection extends SetRandomizer {
  readonly levels: bigint;
  readonly items: number;
  readonly coins: number;
  readonly drawCost: number;
  readonly loss: PrivacyLoss;

  /**
   * @param values d, 1..32767.
   * @param size 1..d.
   * @param threshold 1..2^64-1.
   * @throws InvalidParameter: they are not, or the threshold leaves no coin to the other reports.
   */
  constructor(
    readonly values: number,
    readonly size: number,
    readonly threshold: bigint,
  ) {
    super("signed-subset-selection", [values, size, threshold]);
    checkInteger("values", values, 1, MAX_VALUES);
    checkInteger("size", size, 1, values);
    checkThreshold(threshold);
    this.levels = signedLevels(values);
    this.items = 2 * values;
    this.coins = 1 + size + Math.ceil(values / 64);
    this.drawCost = DRAW_COST + 2 * size + Math.floor(values / 8);
    this.loss = new PrivacyLoss(...certifiedRatio(values, size, threshold));
  }

  /** Draw the set and its signs, and serialise it. */
  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    const [own, plus, either] = this.ownCoins(Number(level));
    const drawn = drawMembers(this.values, this.size, either, own, coins.subarray(0, 1 + this.size));
    const signs = new Halves(coins.subarray(1 + this.size));
    const members = new Uint8Array(this.items);
    for (let value = 0; value < this.values; value++) {
      const half = value & 32 ? signs.low(value >> 6) : signs.high(value >> 6);
      const isPlus = (half >>> (31 - (value & 31))) & 1;
      members[2 * value + 1 - isPlus] = drawn[value]!;
    }
    if (coins[0]! < either) {
      const ownPlus = coins[0]! < plus === (level % 2n === 0n);
      members[2 * own] = ownPlus ? 1 : 0;
      members[2 * own + 1] = ownPlus ? 0 : 1;
    }
    return this.encode(members);
  }

  /** [j, coins that report j with the own sign, coins that report j], for a level. */
  ownCoins(level: number): [number, bigint, bigint] {
    if (level === 2 * this.values) {
      const even = evenCoins(this.values, this.size);
      return [0, even, 2n * even];
    }
    const opposite = oppositeCoins(this.values, this.size, this.threshold);
    return [level >> 1, this.threshold, this.threshold + opposite];
  }
}
