/** A randomizer as a finite table of integers: the most general one, for small alphabets. */

import { expect } from "../errors.js";
import { toBytes } from "../integers.js";
import { Halves, type Words } from "./coins.js";
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
  readonly levels: bigint;
  readonly coins = 1;
  readonly reports: bigint;
  readonly drawCost: number;
  readonly loss: PrivacyLoss;
  private readonly symbols: number;

  /**
   * @param levels number of rows, 2..720.
   * @param entries row by row, integers >= 1; 2..720 a row, which sum to 2^64.
   * @throws InvalidParameter: it is no such table; a zero beside a non-zero in a column is an
   * infinite loss, and a column of zeros an unused symbol.
   */
  constructor(
    levels: number,
    readonly entries: Words,
  ) {
    const symbols = entries.length / levels;
    super("channel", [levels, symbols]);
    checkSides(levels, symbols);
    checkRows(levels, symbols, new Halves(entries));
    this.symbols = symbols;
    this.levels = BigInt(levels);
    this.reports = BigInt(symbols);
    this.drawCost = DRAW_COST + Math.floor(symbols / 4);
    this.loss = worstRatio(levels, symbols, entries);
  }

  /** Levels, symbols, and the table row by row. */
  override get parameters(): readonly bigint[] {
    return [...super.parameters, ...this.entries];
  }

  /** The smallest y with U < T[level][0] + ... + T[level][y]; every entry is added up. */
  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    const start = Number(level) * this.symbols;
    let [symbol, sum] = [0, 0n];
    for (let y = 0; y < this.symbols - 1; y++) {
      sum += this.entries[start + y]!;
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

/** Refuse a row whose entries do not sum to 2^64; sums of at most 720 halves are exact in floats. */
function checkRows(levels: number, symbols: number, halves: Halves): void {
  for (let x = 0; x < levels; x++) {
    let [high, low] = [0, 0];
    for (let i = x * symbols; i < (x + 1) * symbols; i++) {
      high += halves.high(i);
      low += halves.low(i);
    }
    expect(low % 2 ** 32 === 0 && high + low / 2 ** 32 === 2 ** 32, `row ${x} must sum to 2^64`);
  }
}

/** The greatest ratio in a column. */
function worstRatio(levels: number, symbols: number, entries: Words): PrivacyLoss {
  let [most, least] = [1n, 1n];
  for (let y = 0; y < symbols; y++) {
    let [high, low] = [entries[y]!, entries[y]!];
    for (let x = 1; x < levels; x++) {
      const entry = entries[x * symbols + y]!;
      high = entry > high ? entry : high;
      low = entry < low ? entry : low;
    }
    expect(low !== 0n, `privacy loss is infinite: column ${y} has a 0`);
    if (high * least > most * low) {
      [most, least] = [high, low];
    }
  }
  return new PrivacyLoss(most, least);
}
