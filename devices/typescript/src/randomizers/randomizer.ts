/** Interface of every randomizer: its law, a draw from coins, and the certified loss. */

import { InvalidParameter, expect } from "../errors.js";
import { bitLength } from "../integers.js";
import { CanonicalBytes, utf8 } from "../queries/canonical.js";
import { COIN_SPACE, type Words } from "./coins.js";
import type { PrivacyLoss } from "./loss.js";

/** Cost of the fixed part of a draw, in the unit of the Python client (`draw_cost`). */
export const DRAW_COST = 16;

/**
 * An epsilon-local randomizer from levels 0..levels-1 to reports of `width` bytes.
 *
 * Privacy: pure epsilon-LDP, replace-one, with the epsilon of `loss`, which is computed from the
 * randomizer's integers; no statement of an aggregator about it is used.
 *
 * A report that is all 0xFF is reserved for "missing" and is in no alphabet.
 * Source: KLNRS08 Definitions 4.3 and 4.7 (transparent).
 */
export abstract class Randomizer {
  /** Number of inputs. */
  abstract readonly levels: bigint;
  /** Number of 64-bit words of every draw, for every level and report. */
  abstract readonly coins: number;
  /** Number of bytes of every report. */
  abstract readonly width: number;
  /** Work of every draw: a function of the parameters alone. */
  abstract readonly drawCost: number;
  /** Privacy loss, exact or certified from above. */
  abstract readonly loss: PrivacyLoss;

  /**
   * @param name the family's, in `canonical`.
   * @param given integers below 2^64 that, with the name, determine the randomizer.
   */
  constructor(
    readonly name: string,
    private readonly given: readonly (number | bigint)[],
  ) {}

  /** Integers that, with the name, determine the randomizer. */
  get parameters(): readonly bigint[] {
    return this.given.map(BigInt);
  }

  /** Number of components, where levels are made from vectors; 0 if levels are cells. */
  get vectorComponents(): number {
    return 0;
  }

  /** Number of coins that make a vector a level (`vectorLevel`). */
  get vectorCoins(): number {
    return 0;
  }

  /**
   * The level of a vector.
   *
   * Privacy: the coins are others than those of the draw: the report then follows a mixture of the
   * laws of levels, and its epsilon is kept.
   *
   * @param values one per component, each in low..high.
   * @param coins exactly `vectorCoins` words.
   * @throws InvalidParameter: the levels are not made from vectors.
   */
  vectorLevel(_values: readonly bigint[], _low: bigint, _high: bigint, _coins: Words): bigint {
    throw new InvalidParameter(`levels of ${this.name} are cells, found a vector`);
  }

  /** Name and parameters as bytes, different for any two randomizers. */
  get canonical(): Uint8Array<ArrayBuffer> {
    const name = utf8(this.name);
    const { parameters } = this;
    const bytes = new CanonicalBytes().u8(name.length).raw(name).u32(parameters.length);
    parameters.forEach((parameter) => bytes.u64(parameter));
    return bytes.done();
  }

  /**
   * Draw a report for `level`: a pure function of level and coins.
   *
   * @param level 0..levels-1.
   * @param coins exactly `coins` words, independent and uniform.
   * @throws InvalidParameter: level or coins are not of that form; nothing is released. The message
   * does not tell the level: it is the user's.
   */
  randomize(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    const isLevel = level >= 0n && level < this.levels;
    expect(isLevel, "level: expected one of the randomizer's, got one outside");
    expect(coins.length === this.coins, `a draw takes ${this.coins} coins, found ${coins.length}`);
    return this.draw(level, coins);
  }

  protected abstract draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer>;
}

/**
 * A randomizer whose report is a number below `reports`, big-endian.
 *
 * A report has the fewest bytes that hold `reports` itself, so that it is never all ones.
 */
export abstract class NumberedRandomizer extends Randomizer {
  /** The number that every report lies below. */
  abstract readonly reports: bigint;

  get width(): number {
    return Math.ceil(bitLength(this.reports) / 8);
  }
}

/** Refuse a parameter that is out of range. */
export function checkInteger<N extends bigint | number>(name: string, n: N, least: N, most: N): void {
  expect(n >= least && n <= most, `${name}: expected ${least}..${most}, got ${n}`);
}

/** Refuse a number of coins out of 2^64 that is none or all: a loss without bound. */
export function checkThreshold(threshold: bigint): void {
  checkInteger("threshold", threshold, 1n, COIN_SPACE - 1n);
}
