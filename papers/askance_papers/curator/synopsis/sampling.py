"""Sampled queries: exact draws by weight, and how many of them suffice (DRV10 Lemma V.1).

A candidate is drawn with probability proportional to e^(rate score). `mechanisms.selection` chooses
one of any number of candidates, proposing all alike. Here all scores are there and hundreds of
draws are made of the same distribution, also where a few candidates hold nearly all of it; so they
are proposed by weight.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log, log1p

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling import Bounds, Words, exp_minus, happens_each, integers_below
from askance_client.errors import InvalidParameter

_BITS = 40  # of a proposal's weight, relative to the best candidate's


def exponential_draws(
    words: Words, scores: NDArray[np.int64], rate: Fraction, count: int
) -> NDArray[np.int64]:
    """`count` independent candidates, P(i) proportional to e^(rate score_i), exactly.

    A candidate is proposed with a whole-number weight just above its true one (2^40 the best
    one's), and kept with probability true weight / proposed weight. So a draw takes about two
    words, and no float decides: floats only choose the proposal, which cancels out.

    Privacy: scores that a neighbour moves by at most D change the log-probability of any candidate
    by a range of at most 2 rate D over all candidates: `BoundedRange(2 rate D)`.

    `scores` are whole numbers, of at most 2^20 candidates. Returns indices, shape (count,).

    Source: McSherry, Talwar, "Mechanism design via differential privacy" (FOCS 2007).
    """
    below = (scores.max() - scores).astype(np.int64)
    weights = np.exp(-(float(rate) * below)) * 2.0**_BITS
    proposed = np.floor(weights).astype(np.int64) + 2  # above the true weight, despite rounding
    ends = np.cumsum(proposed)
    guesses = weights / proposed
    found = np.zeros(count, dtype=np.int64)
    left = np.arange(count)
    while left.size:
        drawn = np.searchsorted(ends, integers_below(words, int(ends[-1]), left.size), side="right")

        def kept_with(place: int, drawn: NDArray[np.intp] = drawn) -> Bounds:
            candidate = drawn[place]
            return _share(rate * int(below[candidate]), int(proposed[candidate]))

        kept = happens_each(words, guesses[drawn], kept_with)
        found[left[kept]] = drawn[kept]
        left = left[~kept]
    return found


def _share(exponent: Fraction, weight: int) -> Bounds:
    """The bounds of e^-x 2^40 / weight."""
    exact = exp_minus(exponent)

    def bounds(bits: int) -> tuple[int, int]:
        low, high = exact(bits + _BITS)
        return low // weight, -(-high // weight)

    return bounds


def queries_for(synopses: int, beta: float, advantage: float) -> int:
    """Number of queries to draw, so that a synopsis that fits them fits most.

    Except with probability beta over the draws, every one of the synopses that is within lambda on
    all drawn queries is within lambda on queries of probability 1/2 + eta or more, for any lambda
    and any distribution. A synopsis that is not has a chance below (1/2 + eta)^k to fit k draws;
    this is the least k for which all of them together have beta.

    Args:
      synopses: number of synopses there can be: 2^m of m bits, 1 or more.
      beta: above 0, below 1.
      advantage: eta, 0 or more and below 1/2.

    Source: DRV10 Lemma V.1, whose 2 (ln(1/beta) + m)/(1 - 2 eta) it improves on: ln synopses
      instead of m = log2 synopses, and ln(1/(1/2 + eta)) instead of 1/2 - eta.
    """
    if synopses < 1 or not 0 < beta < 1 or not 0 <= advantage < 0.5:
        raise InvalidParameter(
            "generalisation: expected 1 synopsis or more, 0 < beta < 1 and 0 <= advantage < 1/2,"
            f" got {synopses}, {beta:g} and {advantage:g}"
        )
    return max(1, ceil((log(synopses) - log(beta)) / -log1p(advantage - 0.5)))
