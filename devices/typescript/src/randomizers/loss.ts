/** A privacy loss as the exact ratio that it is the logarithm of. */

import { charge } from "../accounting/index.js";
import { expect } from "../errors.js";
import { gcd } from "../integers.js";

/**
 * max_y max_x T[x, y] / min_x T[x, y], exact or bounded from above, in lowest terms.
 *
 * Privacy: the randomizer is pure (epsilon, 0)-LDP, replace-one, with epsilon the logarithm of
 * numerator / denominator. That bound holds also for tables that are chosen adaptively.
 * Source: KLNRS08 Definition 4.3.
 */
export class PrivacyLoss {
  readonly numerator: bigint;
  readonly denominator: bigint;
  private charged: bigint | undefined;

  constructor(numerator: bigint, denominator: bigint) {
    expect(denominator > 0n, "privacy loss is infinite: a ratio over zero");
    expect(numerator >= denominator, "a privacy loss is a ratio of at least 1, found less");
    const common = gcd(numerator, denominator);
    this.numerator = numerator / common;
    this.denominator = denominator / common;
  }

  /** Charge for the loss: the least N with numerator <= e^(N / 10^9) denominator. */
  get nanoNats(): bigint {
    return (this.charged ??= charge(this.numerator, this.denominator));
  }
}
