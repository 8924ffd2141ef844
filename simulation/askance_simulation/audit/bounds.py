"""From counts to statements that hold except with a stated chance, for every n."""

from __future__ import annotations

from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved
from askance_aggregator.estimation import clopper_pearson

Counted = NDArray[np.int64]
Bounds = NDArray[np.float64]

_UNLUCKY = 0.05  # how unlucky each of two counts may be for a loss still to count as detectable
_MOST_NATS = 64.0  # past what 64-bit coins express
_BISECTIONS = 40


def losses_at_least(first: Counted, second: Counted, n: tuple[int, int], alpha: float) -> Bounds:
    """Compute lower bounds of ln(Pr[event | first] / Pr[event | second]), one per event.

    The one-sided Clopper-Pearson bounds of the two probabilities each miss with alpha/2.

    `first` and `second` say how many of n[0] and n[1] reports showed each event; `alpha` is the
    chance that one bound is above the truth.

    Returns:
      In nats; -inf for an event that was not seen under the first.

    Source: Clopper and Pearson, Biometrika 26 (1934).
    """
    low, _ = clopper_pearson(first, n[0], alpha)
    _, high = clopper_pearson(second, n[1], alpha)
    with np.errstate(divide="ignore"):
        return np.log(low) - np.log(high)


def detectable(nats: float, share: float, n: tuple[int, int], alpha: float) -> float:
    """Compute the least loss above `nats` that would be detected with probability 9/10 or more.

    In an event that is seen with probability `share` under the likelier record; both counts may be
    as unlucky as 1 in 20.

    Returns:
      In nats; inf where so few reports do not distinguish a loss from `nats` in such an event.
    """
    if not _told_apart(_MOST_NATS, nats, share, n, alpha):
        return inf
    return halved(
        lambda loss: _told_apart(loss, nats, share, n, alpha), nats, _MOST_NATS, _BISECTIONS
    )[1]


def _told_apart(loss: float, nats: float, share: float, n: tuple[int, int], alpha: float) -> bool:
    from scipy.stats import binom  # slow to import, and only needed here

    few = np.array([binom.ppf(_UNLUCKY, n[0], share)], dtype=np.int64)
    many = np.array([binom.ppf(1 - _UNLUCKY, n[1], share * exp(-loss))], dtype=np.int64)
    return bool(losses_at_least(few, many, n, alpha)[0] > nats)


def improbable(counts: Counted, n: int, shares: Bounds, alpha: float) -> NDArray[np.bool_]:
    """Return which counts n reports with these shares would give with a chance below alpha.

    Exact binomial tails, alpha/2 on each side. A share of 0 or 1 allows one count only.
    """
    from askance_aggregator.special_functions import bdtr, bdtrc

    certain = (shares <= 0) | (shares >= 1)
    inner = np.where(certain, 0.5, shares)  # stands in where the tails are not needed
    below = bdtr(counts, n, inner)  # Pr[X <= count]
    above = np.where(counts > 0, bdtrc(np.maximum(counts, 1) - 1, n, inner), 1.0)  # Pr[X >= count]
    unlikely = np.minimum(below, above) < alpha / 2
    wrong: NDArray[np.bool_] = np.where(certain, counts != np.rint(shares * n), unlikely)
    return wrong
