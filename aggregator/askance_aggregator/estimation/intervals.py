"""Confidence intervals that hold for every n: Clopper-Pearson, Hoeffding, Bernstein.

**Shares of all cells of a category.** They sum to 1. If the interval of a cell of share f misses
with a chance of at most

    alpha(f) = alpha (part / k + (1 - part) f),        0 < part <= 1,

then any of the k intervals misses with a chance of at most sum alpha(f_i) = alpha. The interval is
the set of all f whose test at the level alpha(f) does not reject: a cell with a half of all users
may miss far more often than 1 in k misses, which makes its interval shorter, and an empty one less
often, whose count varies least. `part` is fixed before any count is seen.

All hold for the population that users were drawn from. Clopper-Pearson is also kept for the
sample at hand: given their records, users answer with different probabilities, and such a count
strays less from its mean, beyond the nearest integers, than a binomial one (Hoeffding, Annals of
Mathematical Statistics 27, 1956, Theorem 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

_APART: ContextVar[bool] = ContextVar("shares_apart", default=False)
_SHARES = 64  # at which the widths of intervals are compared
_PARTS = 200
_LEAST_PART = 1e-4
_WORTH = 1.05  # what the widest interval may lose for shorter ones of small shares
_ROUNDS = 3  # each end is then within 1e-6 of its limit, on the outer side


def clopper_pearson(
    counts: NDArray[np.int64], n: int, alpha: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided intervals for the probability behind each count, alpha/2 on each side.

    Args:
        counts: each in 0..n.
        n: >= 1.
        alpha: the chance that one interval misses, in (0, 1); one for all, or one per count.

    Returns:
        The low and the high ends, of the shape of counts.
    """
    hits = np.asarray(counts, dtype=np.float64)
    return _low(hits, n - hits, alpha / 2), _high(hits, n - hits, alpha / 2)


def joint_shares(
    counts: NDArray[np.int64], n: int, alpha: float, own: float, other: float, cells: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided intervals for the shares of the cells of a category, which hold together.

    Utility: the widest is within 5 % of the shortest that any `part` gives, by the normal law.

    Args:
        counts: reports that contain the cell, for each cell that is wanted.
        n: >= 1.
        alpha: the chance that any interval misses, in (0, 1).
        own: probability that a report contains the user's cell; more than `other`.
        other: probability that it contains another given cell.
        cells: k, of the category.

    Returns:
        The low and the high ends, of the shape of counts, not clipped to [0, 1].
    """
    part = even_part(own, other, cells, alpha)
    seen, places = np.unique(counts, return_inverse=True)

    def level(shares: NDArray[np.float64]) -> NDArray[np.float64]:
        kept: NDArray[np.float64] = np.clip(shares, 0.0, 1.0)
        return alpha / 2 * (part / cells + (1 - part) * kept)

    def share(rates: NDArray[np.float64]) -> NDArray[np.float64]:
        return (rates - other) / (own - other)

    # Shares of the set that are at least `low` have levels of at least that of `low`, and so are
    # at least the low end by that level. A high end by the level of too great a share is too low,
    # and one by that of too small a share too high.
    hits, misses = seen.astype(np.float64), (n - seen).astype(np.float64)
    low = np.zeros(len(seen))
    high = share(_high(hits, misses, level(low)))
    for _ in range(_ROUNDS):
        low = share(_low(hits, misses, level(low)))
        short = share(_high(hits, misses, level(high)))
        high = share(_high(hits, misses, level(short)))
    return low[places], high[places]


def _low(
    hits: NDArray[np.float64], misses: NDArray[np.float64], tail: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the least rate at which so many hits or more have a chance of `tail`."""
    from askance_aggregator.special_functions import betaincinv

    # 1.0 stands in where the formula does not apply, and is replaced.
    low = betaincinv(np.where(hits == 0, 1.0, hits), misses + 1, tail)
    return np.where(hits == 0, 0.0, low)


def _high(
    hits: NDArray[np.float64], misses: NDArray[np.float64], tail: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the greatest rate at which so many hits or fewer have a chance of `tail`."""
    from askance_aggregator.special_functions import betainccinv

    high = betainccinv(hits + 1, np.where(misses == 0, 1.0, misses), tail)
    return np.where(misses == 0, 1.0, high)


@contextmanager
def shares_apart() -> Iterator[None]:
    """Give each share of a category an interval by itself, which misses with alpha / k.

    Results of versions before `joint_shares` are verified so; nothing else is computed so.
    """
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def are_apart() -> bool:
    """Return whether the caller is within `shares_apart`."""
    return _APART.get()


@lru_cache(maxsize=256)
def even_part(own: float, other: float, cells: int, alpha: float) -> float:
    """Choose the part of alpha that all cells share alike, by the normal law."""
    # The rest goes by share. It is the greatest part for which the widest interval is within 5 % of
    # the shortest.
    from askance_aggregator.special_functions import ndtri

    shares = np.linspace(0, 1, _SHARES + 1)
    rates = other + shares * (own - other)
    parts = np.geomspace(_LEAST_PART, 1, _PARTS)[:, None]
    levels = alpha * (parts / cells + (1 - parts) * shares)
    widths = (-ndtri(levels / 2) * np.sqrt(rates * (1 - rates))).max(axis=1)
    return float(parts[widths <= widths.min() * _WORTH, 0].max())


def hoeffding(span: float, n: int, alpha: float) -> float:
    """Half the width of a two-sided interval for the mean of n terms, each in a range of `span`."""
    return span * sqrt(log(2 / alpha) / (2 * n))


def bernstein(variance: float, reach: float, n: int, alpha: float) -> float:
    """Half the width of a two-sided interval for the mean of n terms of a known variance.

    Source: Bernstein's inequality, P[|mean - truth| >= t] <= 2 exp(-n t^2 / (2 (v + reach t / 3))).
    """
    each = log(2 / alpha) / n
    linear = each * reach / 3
    return linear + sqrt(linear * linear + 2 * each * variance)
