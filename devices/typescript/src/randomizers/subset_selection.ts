/** Subset selection: a random set of cells that favours the own one. */

import type { Words } from "./coins.js";
import { certifiedRatio, drawMembers } from "./floyd.js";
import { MAX_CELLS, MIN_CELLS } from "./k_ary.js";
import { PrivacyLoss } from "./loss.js";
import { DRAW_COST, checkInteger, checkThreshold } from "./randomizer.js";
import { SetRandomizer } from "./sets.js";

const MAX_MEMBERS = 1 << 13; // of a set: a draw takes as long as it has members
const MAX_WIDTH = 1 << 13; // bytes: a report fits a message

/**
 * Reports a set of `size` cells: the own one with probability threshold / 2^64, others evenly.
 *
 * Privacy: pure eps-LDP, replace-one; the loss is ln of threshold (cells - size) over
 * (2^64 - threshold) size, or of its inverse, enlarged by what the draws are short of uniform
 * (`certifiedRatio`).
 * Source: Ye and Barg 2018; Wang et al. 2016.
 */
export class SubsetSelection extends SetRandomizer {
  readonly levels: bigint;
  readonly items: number;
  readonly coins: number;
  readonly drawCost: number;
  readonly loss: PrivacyLoss;

  /**
   * @param cells 2..2^20.
   * @param size 1..cells-1, at most 8192; such that a report has at most 8192 bytes.
   * @param threshold 1..2^64-1.
   * @throws InvalidParameter: they are not.
   */
  constructor(
    readonly cells: number,
    readonly size: number,
    readonly threshold: bigint,
  ) {
    super("subset-selection", [cells, size, threshold]);
    this.items = cells;
    checkInteger("cells", cells, MIN_CELLS, MAX_CELLS);
    checkInteger("size", size, 1, Math.min(cells - 1, MAX_MEMBERS));
    checkInteger("bytes of a report", this.width, 1, MAX_WIDTH);
    checkThreshold(threshold);
    this.levels = BigInt(cells);
    this.coins = 1 + size;
    this.drawCost = DRAW_COST + 2 * size + Math.floor(cells / 64);
    this.loss = new PrivacyLoss(...certifiedRatio(cells, size, threshold));
  }

  /** Draw the set and serialise it. */
  protected draw(level: bigint, coins: Words): Uint8Array<ArrayBuffer> {
    return this.encode(drawMembers(this.cells, this.size, this.threshold, Number(level), coins));
  }
}
