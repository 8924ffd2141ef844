"""Splits of a leaf of a decision tree, by the shares of its cells and classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
"""Shares of users by cell and class, shape (cells, classes), none below 0."""


@dataclass(frozen=True, slots=True)
class Split:
    """Two groups of a field's cells.

    Args:
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


def best_split(table: Table, min_share: float, ordered: bool) -> Candidate | None:
    """Find the binary split with the greatest gain.

    The cells of a number are cut between two neighbours; those of a category are first ordered by
    their share of the commonest class, for then one of the cuts is the best of all splits in two
    (of two classes; of more it is a good one).

    The cells of a number are `ordered`. None: no split has a gain.

    Source: the gain is ID3's (Quinlan 1986); the order is Breiman et al. 1984, theorem 4.5.
    """
    if table.sum() <= 0:
        return None
    order = np.arange(len(table)) if ordered else by_share(table)
    left = np.cumsum(table[order], axis=0)[:-1]
    right = table.sum(axis=0) - left
    enough = np.minimum(left.sum(axis=1), right.sum(axis=1)) >= min_share
    gains = bits_of(table.sum(axis=0)) - bits_of(left) - bits_of(right)
    gains = np.where(enough, gains, 0.0)
    if not len(gains) or gains.max() <= 0:
        return None
    cut = int(gains.argmax())
    return Candidate(tuple(sorted(int(cell) for cell in order[: cut + 1])), float(gains[cut]))


def by_share(table: Table) -> NDArray[np.int64]:
    """Return the cells in the order of their share of the commonest class, shape (cells,)."""
    mass = table.sum(axis=1)
    commonest = int(table.sum(axis=0).argmax())
    share = np.divide(table[:, commonest], mass, out=np.full(len(table), np.inf), where=mass > 0)
    return np.argsort(share, kind="stable")


def bits_of(counts: Table) -> NDArray[np.float64]:
    """Compute the entropy of the classes times their mass, along the last axis."""
    total = counts.sum(axis=-1, keepdims=True)
    safe = np.where(counts > 0, counts, 1.0)
    shares = np.where(counts > 0, counts / np.where(total > 0, total, 1.0), 1.0)
    return np.asarray(-(safe * np.log2(shares) * (counts > 0)).sum(axis=-1))
