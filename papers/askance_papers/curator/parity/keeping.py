"""Privacy loss of keeping each example with probability p, and the largest p within a budget.

Let P(h) and q be a run's probabilities of h and of giving up, on a data set z, and P'(h), q' the
same on a neighbour z'. With the example in which they differ left out, let them be a and b; b >=
1/2. Kept, an example at most doubles a and raises b to at most 1. So

    P(h) / P'(h) <= ((1 - p) a + 2 p a) / ((1 - p) a) = (1 + p) / (1 - p),
    q <= (1 - p) b + p,  q' >= b,  hence q / q' <= 1 + p.

k runs give up with probability q^k, and say h with P(h) S(q), S(q) = 1 + q + ... + q^(k-1). And
S((1 - p) b + p) / S(b) falls in b: 1 - q shrinks by the factor 1 - p whatever b is, so the ratio is
1 / (1 - p) times (1 - q^k) / (1 - b^k), whose logarithm has a derivative in b of the sign of
b^(k-1) / S(b) - q^(k-1) / S(q) <= 0. So b = 1/2 is the worst, and the loss of k runs is at most the
logarithm of

    max((1 + p)^k, (1 + p) / (1 - p) * S((1 + p) / 2) / S(1/2)),

a rational number, which integers hold against e^eps. For k = 1 it is (1 + p) / (1 - p).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from askance_aggregator.bisection import least_whole
from askance_client.accounting import NANO_NATS_PER_NAT, ratio_within
from askance_client.errors import InvalidParameter

Keeping = Callable[[Fraction, int], Fraction]
"""How p follows from epsilon (nats, in whole nano-nats) and the number of runs."""

_STEPS = 1 << 64  # p is a multiple of 1 / 2^64, so one word decides a coin


def likelihood_ratio(keep: Fraction, runs: int) -> Fraction:
    """e^loss of k runs, at most; of one run exactly, by enumeration.

    Raises:
      InvalidParameter: a probability that is not below 1, or no runs.
    """
    if not 0 <= keep < 1:
        raise InvalidParameter(f"keep: expected a probability below 1, found {float(keep):g}")
    if runs < 1:
        raise InvalidParameter(f"runs: expected at least 1, found {runs}")
    # In integers, since fractions would reduce at every step: with p = v / u, S((1 + p) / 2) is
    # `grown` / (2 u)^(k-1) and S(1/2) is `halves` / 2^(k-1).
    v, u = keep.numerator, keep.denominator
    grown, halves = _geometric(u + v, 2 * u, runs), _geometric(1, 2, runs)
    said = Fraction((u + v) * grown, (u - v) * halves * u ** (runs - 1))
    return max(said, (1 + keep) ** runs)


def printed_keeping(epsilon: Fraction, runs: int) -> Fraction:
    """Return p = eps / (4 k), as printed: each run is to cost eps / k.

    It costs ln((1 + p) / (1 - p)) a run, about half of that. Nothing is checked here:
    `PrivateParity` refuses what passes eps (one run does from about 3.83 on).

    Source: KLNRS08 section 3.2; its condition eps <= 1/2 is not needed.
    """
    return epsilon / (4 * runs)


def even_keeping(epsilon: Fraction, runs: int) -> Fraction:
    """The largest p for which k runs, each charged for any output alike, cost eps: tanh(eps / 2k).

    For one run it is exact: the loss is eps, but for p's 64 bits.

    Source: ours; the run's loss is that of KLNRS08 Lemma 3.2.
    """
    return _largest(epsilon, lambda keep: ((1 + keep) / (1 - keep)) ** runs)


def sharper_keeping(epsilon: Fraction, runs: int) -> Fraction:
    """The largest p for which k runs cost eps, by what they say together.

    Only one of k runs says anything, and giving up costs ln(1 + p): p = e^(eps/k) - 1 wherever
    giving up is the dearest (at eps = 1 from k = 4 on), about twice that of an even split. The
    loss is then eps, by enumeration too.

    Source: ours; see the module.
    """
    return _largest(epsilon, lambda keep: likelihood_ratio(keep, runs))


def costs_at_most(keep: Fraction, runs: int, epsilon: Fraction) -> bool:
    """Decide, with integers, whether `likelihood_ratio` is at most e^eps."""
    return _within(likelihood_ratio(keep, runs), epsilon)


def _geometric(x: int, y: int, runs: int) -> int:
    """y^(k-1) (1 + x/y + ... + (x/y)^(k-1))."""
    total, power = 0, 1
    for _ in range(runs):
        total = total * y + power
        power *= x
    return total


def _within(ratio: Fraction, epsilon: Fraction) -> bool:
    nano = epsilon * NANO_NATS_PER_NAT
    return ratio_within(ratio.numerator, ratio.denominator, nano.numerator // nano.denominator)


def _largest(epsilon: Fraction, ratio: Callable[[Fraction], Fraction]) -> Fraction:
    """The largest multiple of 2^-64 below 1 whose ratio, which grows with it, is at most e^eps."""
    beyond = least_whole(
        lambda step: not _within(ratio(Fraction(step, _STEPS)), epsilon), 0, _STEPS
    )
    return Fraction(beyond - 1, _STEPS)
