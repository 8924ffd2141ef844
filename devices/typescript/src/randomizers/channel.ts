/** A randomizer as a finite table of integers: the most general one, for small alphabets. */

import { InvalidParameter } from "../errors.js";
import { toBytes } from "../integers.js";
import { COIN_SPACE, type Words } from "./coins.js";
import { PrivacyLoss } from "./loss.js";
import { DRAW_COST, NumberedRandomizer, checkInteger } from "./randomizer.js";

const MIN_SIDE = 2;
export const MAX_LEVELS = 720; // a table of windows then takes 40 kB
export const MAX_SYMBOLS = 720;

/**
 * Pr[y | x] = table[x][y] / 2^64, exactly.
 *
 * One uniform coin U picks the smallest y with U < table[x][0] + ... + table[x][y].
 *
 * Privacy: pure eps-LDP, replace-one; eps = max_y ln(max_x T[x, y] / min_x T[x, y]), exactly.
 */
export class Channel extends NumberedRandomizer {
  readonly name = "channel";
  readonly levels: bigint;
  readonly coins = 1;
  readonly reports: bigint;
  readonly drawCost: number;
  readonly loss: PrivacyLoss;
  readonly parameters: readonly bigint[];

  /**
   * @param table levels x symbols integers >= 1, 2..720 of each; every row sums to 2^64.
   * @throws InvalidParameter: it is no such table; a zero beside a non-zero in a column is an
   * infinite loss, and a column of zeros an unused symbol.
   */
  constructor(readonly table: readonly (readonly bigint[])[]) {
    super();
    const symbols = table[0]?.length ?? 0;
    checkSides(table.length, symbols);
    for (const row of table) {
      if (row.length !== symbols || row.reduce((sum, entry) => sum + entry, 0n) !== COIN_SPACE) {
        throw new InvalidParameter("a row of a table expects as many entries, which sum to 2^64");
      }
    }
    this.levels = BigInt(table.length);
    this.reports = BigInt(symbols);
    this.drawCost = DRAW_COST + Math.floor(symbols / 4);
    this.loss = worstRatio(table);
    this.parameters = [this.levels, this.reports, ...table.flat()];
  }

  /** The smallest y with U < cumsum(T[level])[y]; every entry is added up. */
  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    const row = this.table[Number(level)]!;
    let symbol = 0;
    let sum = 0n;
    for (let y = 0; y < row.length - 1; y++) {
      sum += row[y]!;
      symbol += coins[0]! >= sum ? 1 : 0;
    }
    return toBytes(symbol, this.width);
  }
}

/** Refuse a table that is too small or too large. */
export function checkSides(levels: number, symbols: number): void {
  checkInteger("levels of a table", levels, MIN_SIDE, MAX_LEVELS);
  checkInteger("symbols of a table", symbols, MIN_SIDE, MAX_SYMBOLS);
}

/** The greatest ratio in a column. */
function worstRatio(table: readonly (readonly bigint[])[]): PrivacyLoss {
  let [most, least] = [1n, 1n];
  for (let y = 0; y < table[0]!.length; y++) {
    let [high, low] = [table[0]![y]!, table[0]![y]!];
    for (const row of table) {
      const entry = row[y]!;
      high = entry > high ? entry : high;
      low = entry < low ? entry : low;
    }
    if (low <= 0n) {
      throw new InvalidParameter(`privacy loss is infinite: column ${y} has a 0`);
    }
    if (high * least > most * low) {
      [most, least] = [high, low];
    }
  }
  return new PrivacyLoss(most, least);
}
