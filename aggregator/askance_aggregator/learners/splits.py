"""Splits of a leaf of a decision tree, by counts that are off by no more than a tolerance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.reach import CHANCE_PART

Table = NDArray[np.float64]
"""Shares of users by cell and class, shape (cells, classes), none below 0."""


@dataclass(frozen=True, slots=True)
class SplitRule:
    """When a split is taken.

    Args:
        min_share: at least this share of all users on either side.
        promised: whether every count is off by less than its tolerance whatever happens (then
            errors add up as badly as they can), or by chance (then they add up as squares do, and
            half of the intervals is enough).
    """

    min_share: float
    promised: bool


@dataclass(frozen=True, slots=True)
class Split:
    """Two groups of a field's cells.

    Args:
        part: which encoding, by its name.
        cells: those of the one group, ascending; all others are the other one.
    """

    part: str
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Split and its gain.

    Bits of information about the class, times the share of users in the leaf.
    """

    cells: tuple[int, ...]
    gain: float


def best_split(table: Table, tolerance: float, rule: SplitRule, ordered: bool) -> Candidate | None:
    """Find the binary split with the greatest gain, among those beyond the counts' error.

    The cells of a number are cut between two neighbours; those of a category are first ordered by
    their share of the commonest class, for then one of the cuts is the best of all splits in two
    (of two classes; of more it is a good one).

    Returns:
        None where no split's gain exceeds the error.

    Source: the gain is ID3's (Quinlan 1986); the order is Breiman et al. 1984, theorem 4.5.
    """
    mass = table.sum(axis=1)
    if mass.sum() <= 0:
        return None
    order = np.arange(len(table)) if ordered else _by_share(table)
    left = np.cumsum(table[order], axis=0)[:-1]
    right = table.sum(axis=0) - left
    enough = np.minimum(left.sum(axis=1), right.sum(axis=1)) >= rule.min_share
    clear = _clear(left, table.sum(axis=0), len(table), tolerance, rule.promised)
    gains = _bits(table.sum(axis=0)) - _bits(left) - _bits(right)
    gains = np.where(enough & clear, gains, 0.0)
    cut = int(gains.argmax())
    if gains[cut] <= 0:
        return None
    return Candidate(tuple(sorted(int(cell) for cell in order[: cut + 1])), float(gains[cut]))


def _by_share(table: Table) -> NDArray[np.int64]:
    mass = table.sum(axis=1)
    commonest = int(table.sum(axis=0).argmax())
    share = np.divide(table[:, commonest], mass, out=np.full(len(table), np.inf), where=mass > 0)
    return np.argsort(share, kind="stable")


def _bits(counts: Table) -> NDArray[np.float64]:
    """The entropy of the classes times their mass, along the last axis."""
    total = counts.sum(axis=-1, keepdims=True)
    safe = np.where(counts > 0, counts, 1.0)
    shares = np.where(counts > 0, counts / np.where(total > 0, total, 1.0), 1.0)
    return np.asarray(-(safe * np.log2(shares) * (counts > 0)).sum(axis=-1))


def _clear(
    left: Table, total: NDArray[np.float64], cells: int, tolerance: float, promised: bool
) -> NDArray[np.bool_]:
    """For each cut whether some class tilts to one side by more than the counts may be off.

    With q the share of a class, its tilt is D = (its users on the left) - q (users on the left),
    which is minus the tilt of the right. Were the class as common on both sides, the true tilts for
    this q would have one sign, so one of the two estimates, D or -D, would be off by |D| or more.
    Each is a sum over the side's cells of counts with weights 1 - q and -q.
    """
    mass = total.sum()
    share = total / mass
    side = left.sum(axis=1)
    tilt = np.abs(left - side[:, None] * share[None, :])
    first = np.arange(1, cells)
    others = len(total) - 1
    if promised:
        weight = (1 - share) + others * share
        reach = np.maximum(first, cells - first)[:, None] * weight[None, :] * tolerance
    else:
        part = side / mass
        spread = first * (1 - part) ** 2 + (cells - first) * part**2
        weight = (1 - share) ** 2 + others * share**2
        reach = np.sqrt(spread[:, None] * weight[None, :]) * tolerance * CHANCE_PART
    return np.asarray((tilt > reach).any(axis=1))
