"""Sufficient numbers of runs and examples."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log

from askance_aggregator.numbers import Rational, read_probability
from askance_client.errors import InvalidParameter

_PARTS = 3  # of beta: every run gave up by its coin; too few were kept; what was kept misled


def runs_needed(beta: Rational) -> int:
    """Return k = ceil(log2(3 / beta)): the chance that every run gives up by its coin is beta / 3.

    Raises:
      InvalidParameter: no number between 0 and 1.

    Source: KLNRS08 Theorem 3.8. Deviation: the printed beta / 2 sums to 3 beta', beta' = beta / 2:
      a run that passes its coin fails with 2 beta', for Lemma 3.1 counts the coin in.
    """
    part = read_probability(beta, "beta") / _PARTS
    runs = 0
    while part * (1 << runs) < 1:
        runs += 1
    return runs


def examples_needed(d: int, keep: Fraction, alpha: Rational, beta: Rational) -> int:
    """Compute a number of examples with which A* succeeds: error above alpha at most with beta.

    n = (2 / (p alpha)) (d ln 2 + ln(1 / beta')), beta' = beta / 3. Then at least p n / 2 examples
    are kept but with e^(-p n / 8), and that number leaves no parity of error above alpha that fits
    but with beta'. Both are at most beta'; where alpha is above 1/4 the first one may ask for more,
    8 ln(1 / beta') / p.

    Args:
      d: the length of an x.
      keep: p.
      alpha: the error allowed, between 0 and 1.
      beta: the failure allowed, between 0 and 1.

    Raises:
      InvalidParameter: a number out of range.

    Source: KLNRS08 Lemma 3.1. Deviations: any p (the printed 8 / (eps alpha) is p = eps / 4); the
      printed e^(-eps n / 16) is false, and is e^(-eps n / 32).
    """
    if isinstance(d, bool) or not isinstance(d, int) or d < 1:
        raise InvalidParameter("d: expected a whole number of 1 or more")
    if not 0 < keep < 1:
        raise InvalidParameter(f"keep: expected between 0 and 1, found {float(keep):g}")
    error = float(read_probability(alpha, "alpha"))
    surprise = -log(read_probability(beta, "beta") / _PARTS)
    enough_to_learn = 2 / error * (d * log(2) + surprise)
    return ceil(max(enough_to_learn, 8 * surprise) / float(keep))
