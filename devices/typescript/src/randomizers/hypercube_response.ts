/** Hypercube response: a random sign pattern that favours those near the own one. */

import { toBytes } from "../integers.js";
import type { Words } from "./coins.js";
import { certifiedRatio, drawFlips, patternsWithin, rankWords } from "./hypercube_draws.js";
import { PrivacyLoss } from "./loss.js";
import { DRAW_COST, NumberedRandomizer, checkInteger, checkThreshold } from "./randomizer.js";
import { signPattern } from "./rounding.js";

export const MAX_COMPONENTS = 1024;

/**
 * Reports one of 2^s sign patterns: near the own one with probability threshold / 2^64.
 *
 * A level is a pattern of s = components signs, the integer whose bit s-1-j says that component j is
 * +. Near is a Hamming distance of at most `radius`; the pattern is uniform among the near ones,
 * else among the far ones. A report is the reported integer in floor(s / 8) + 1 bytes.
 *
 * Privacy: pure eps-LDP, replace-one; the loss is ln of [t / N] / [(2^64 - t) / F], or of its
 * inverse, with N near and F far patterns, enlarged by what the draws are short of uniform
 * (`certifiedRatio`). One component is exact.
 * Source: Duchi, Jordan and Wainwright 2018 (radius (s-1)/2); Bhowmick et al. 2018 and Asi, Feldman
 * and Talwar, arXiv:2205.02466 (PrivUnit: a cap of the sphere, here of the cube).
 */
export class HypercubeResponse extends NumberedRandomizer {
  readonly levels: bigint;
  readonly coins: number;
  readonly reports: bigint;
  readonly drawCost: number;
  readonly loss: PrivacyLoss;
  private readonly within: readonly bigint[];

  /**
   * @param components 1..1024.
   * @param radius 0..components-1.
   * @param threshold 1..2^64-1.
   * @throws InvalidParameter: they are not.
   */
  constructor(
    readonly components: number,
    readonly radius: number,
    readonly threshold: bigint,
  ) {
    super("hypercube", [components, radius, threshold]);
    checkInteger("components", components, 1, MAX_COMPONENTS);
    checkInteger("radius", radius, 0, components - 1);
    checkThreshold(threshold);
    this.within = patternsWithin(components);
    this.levels = this.reports = 1n << BigInt(components);
    this.coins = 1 + rankWords(components) + Math.floor(components / 2);
    this.drawCost = DRAW_COST + 6 * components;
    this.loss = new PrivacyLoss(...certifiedRatio(this.within, radius, threshold));
  }

  override get vectorComponents(): number {
    return this.components;
  }

  /** One per component, which rounds it. */
  override get vectorCoins(): number {
    return this.components;
  }

  /** The signs, each rounded at random (see `signPattern`). */
  override vectorLevel(values: readonly bigint[], low: bigint, high: bigint, coins: Words): bigint {
    return signPattern(values, low, high, coins);
  }

  /** Draw which components differ from the own pattern's (see `drawFlips`). */
  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    return toBytes(level ^ drawFlips(this.within, this.radius, this.threshold, coins), this.width);
  }
}
