"""The generic agnostic learner: KLNRS08's Theorem 3.7."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.composition import BoundedRange, Pure
from askance_aggregator.numbers import Rational, read_epsilon, read_probability
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter
from askance_papers.curator.mechanisms.hypotheses import FiniteClass, Hypothesis, Mistakes
from askance_papers.curator.mechanisms.selection import PermuteAndFlip, Selection

_DIGITS = 60


@dataclass(frozen=True, slots=True)
class Learned:
    """Result of agnostic learning."""

    number: int
    hypothesis: Hypothesis
    size: int
    n: int
    event: BoundedRange | Pure


@dataclass(frozen=True, slots=True)
class Losses:
    """A class as candidates: a hypothesis scores minus what it gets wrong."""

    size: int
    mistakes: Mistakes

    def scores(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Their scores."""
        return -self.mistakes(chosen).astype(np.int64)  # unsigned ones would wrap around


def learn_agnostically(
    hypotheses: FiniteClass,
    x: ArrayLike,
    y: ArrayLike,
    epsilon: Rational,
    words: Words,
    *,
    selection: Callable[[Rational, Rational], Selection] = PermuteAndFlip.of,
) -> Learned:
    """Release a hypothesis that gets about as few examples wrong as any of its class.

    Privacy: epsilon-DP, for replacing one labelled example moves each count of mistakes by at most
      1 (sensitivity 1).
    Utility: with `sample_size` examples from any distribution, its error there is at most the
      class's best plus alpha, but with probability beta.

    Args:
      hypotheses: the class; public.
      x: the examples' features, as the class takes them; their number is public.
      y: the examples' labels, as the class takes them.
      epsilon: above 0, nats.
      words: source of random words.
      selection: `PermuteAndFlip.of` (never worse) or `Exponential.of` (as in the paper).

    Raises:
      InvalidParameter, InvalidRecord: an epsilon or examples that are none; nothing is drawn.

    Source: KLNRS08 Theorem 3.7; deviations: the sample size, see there; permute-and-flip.
    """
    mechanism = selection(read_epsilon(epsilon), 1)
    rows, labels = np.asarray(x), np.asarray(y)
    losses = Losses(hypotheses.size, hypotheses.mistakes(rows, labels))
    number = mechanism.choose(losses, words)
    chosen = hypotheses.hypothesis(number)
    return Learned(number, chosen, hypotheses.size, len(labels), mechanism.event)


def sample_size(size: int, *, alpha: Rational, beta: Rational, epsilon: Rational) -> int:
    """Compute a sufficient number of examples.

    Args:
      size: |H|, 1 or more.
      alpha: excess error, between 0 and 1.
      beta: chance of failure, between 0 and 1.
      epsilon: above 0, nats.
    """
    # n >= (ln |H| + ln(2/beta)) max{6/(eps alpha), 4.5/alpha^2}.
    #
    # Proof. Let h* be the class's best, OPT its error; h is bad if its error is above OPT + alpha.
    # By Hoeffding each bad h has training error above OPT + 2 alpha/3 but with probability
    # e^(-2 n alpha^2 / 9), and h* has at most OPT + alpha/3 but with the same. There are at most
    # |H| - 1 bad ones, so all of this holds but with |H| e^(-2 n alpha^2 / 9) <= beta/2. Then a bad
    # h gets more than n alpha/3 examples more wrong than the best in training, so its coin comes up
    # with probability below e^(-eps n alpha / 6); one of them is chosen with at most |H| times
    # that, <= beta/2 (by the exponential mechanism, whose weights are divided by at least 1; and by
    # permute-and-flip, where a candidate must at least win its own coin).
    #
    # The print's max{4/(eps alpha), 2/alpha^2} bounds the training error of bad h by alpha/2, but
    # not how far the best in training is above 0 or h* above OPT: it proves the theorem for OPT = 0
    # only.
    if size < 1:
        raise InvalidParameter(f"size: expected 1 hypothesis or more, found {size}")
    budget, a = read_epsilon(epsilon), read_probability(alpha, "alpha")
    b = read_probability(beta, "beta")
    rate = max(6 / (budget * a), Fraction(9, 2) / a**2)
    with localcontext(prec=_DIGITS):
        logarithm = (Decimal(size) * 2 * b.denominator / b.numerator).ln()
        found = logarithm * rate.numerator / rate.denominator * (1 + Decimal(10) ** -40)
        return int(found.to_integral_value(rounding=ROUND_CEILING))
