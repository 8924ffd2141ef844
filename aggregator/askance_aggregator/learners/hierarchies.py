"""Estimates over a tree of ranges, put right so that every part is the sum of its parts.

Raw estimates of different levels are of different users, so they disagree by chance. The tree that
is nearest to all of them is found exactly in two passes, up and down, and so is what their joint
intervals leave possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

Floats = NDArray[np.float64]
Levels = tuple[Floats, ...]

MAX_ARITY = 1024
_SLACK = 1e-9  # sums of floats that are equal in theory differ by less


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Tree over ordered cells, and one separate cell for records that are in none.

    Level 1 is the coarsest, the last one has the cells themselves; above them is the root with all
    users. A node has `arity` parts, the last one of a level perhaps fewer. Each level's last node
    is the separate cell, whole, under the one of the level above.

    Args:
        cells: how many; 2 or more.
        arity: 2 .. 1024.

    Raises:
        InvalidParameter: a number is out of range.
    """

    cells: int
    arity: int

    def __post_init__(self) -> None:
        if isinstance(self.arity, bool) or not 2 <= self.arity <= MAX_ARITY:
            raise InvalidParameter(
                f"arity expects a whole number in 2..{MAX_ARITY}, found {self.arity}"
            )
        if self.cells < 2:
            raise InvalidParameter(f"a hierarchy expects 2 or more cells, found {self.cells}")

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of cells per node, level by level, the coarsest first."""
        widths = [1]
        while widths[-1] * self.arity < self.cells:
            widths.append(widths[-1] * self.arity)
        return tuple(reversed(widths))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of nodes per level, including the separate one."""
        return tuple(-(-self.cells // width) + 1 for width in self.widths)

    @property
    def _starts(self) -> tuple[NDArray[np.intp], ...]:
        """First part of each node, for each level and the root."""
        below = [np.array([0])]
        for parts in self.sizes[1:]:
            below.append(np.append(np.arange(0, parts - 1, self.arity), parts - 1))
        return tuple(below)

    def consistent(
        self, values: Sequence[ArrayLike], variances: Sequence[float], total: float = 1.0
    ) -> Levels:
        """Compute the consistent estimates, one per node, that are nearest to the raw ones.

        Utility: they minimise the sum over nodes of (estimate - raw)^2 / variance among all that
        add up to `total`. They are linear in the raw ones, so unbiased where those are; if errors
        have these variances and are uncorrelated, no unbiased linear estimate of any range has less
        variance (Gauss-Markov).

        Args:
            values: raw estimates, one array a level, of `sizes`.
            variances: of each level's errors, up to a common factor; finite, > 0.
            total: the value of the root.

        Raises:
            InvalidParameter: arrays of other sizes, or a variance that is not positive and finite.

        Source: least squares on a tree by two passes (Hay et al. 2010), here for unequal
            variances and ragged nodes.
        """
        raw = self._checked(values)
        if len(variances) != len(raw) or not all(0 < one < inf for one in variances):
            raise InvalidParameter(
                f"expected {len(raw)} finite variances above zero, one per level,"
                f" got {value_text(list(variances))}"
            )
        starts = self._starts
        best, unsure = [raw[-1]], [np.full(len(raw[-1]), float(variances[-1]))]
        for level in range(len(raw) - 2, -1, -1):  # from what is below a node and its own
            parts = np.add.reduceat(best[0], starts[level + 1])
            spread = np.add.reduceat(unsure[0], starts[level + 1])
            weight = spread / (spread + variances[level])
            best.insert(0, weight * raw[level] + (1 - weight) * parts)
            unsure.insert(0, weight * variances[level])
        whole = np.array([total])
        found = []
        for first, part, spread in zip(starts, best, unsure, strict=True):  # what is left over
            counts = np.diff(np.append(first, len(part)))
            missing = (whole - np.add.reduceat(part, first)) / np.add.reduceat(spread, first)
            whole = part + np.repeat(missing, counts) * spread
            found.append(whole)
        return tuple(found)

    def tightened(
        self, lows: Sequence[ArrayLike], highs: Sequence[ArrayLike], total: float = 1.0
    ) -> tuple[Levels, Levels]:
        """Tighten joint intervals of the nodes by the sums of their parts.

        Utility: wherever all given intervals hold, so do these, and none is longer. Where no tree
        lies in them all (then one of them does not hold) they are returned as they are.

        Args:
            lows: one array a level, of `sizes`.
            highs: likewise.
            total: the value of the root.

        Raises:
            InvalidParameter: arrays of other sizes.
        """
        given = self._checked(lows), self._checked(highs)
        low, high = list(given[0]), list(given[1])
        starts = self._starts
        for level in range(len(low) - 2, -1, -1):
            low[level] = np.maximum(low[level], np.add.reduceat(low[level + 1], starts[level + 1]))
            high[level] = np.minimum(
                high[level], np.add.reduceat(high[level + 1], starts[level + 1])
            )
        above = np.array([total]), np.array([total])
        for level, first in enumerate(starts):
            counts = np.diff(np.append(first, len(low[level])))
            rest_low = np.repeat(above[0] - np.add.reduceat(high[level], first), counts)
            rest_high = np.repeat(above[1] - np.add.reduceat(low[level], first), counts)
            above = (
                np.maximum(low[level], rest_low + high[level]),
                np.minimum(high[level], rest_high + low[level]),
            )
            low[level], high[level] = above
        if any((a > b + _SLACK).any() for a, b in zip(low, high, strict=True)):
            return given
        return tuple(map(np.minimum, low, high)), tuple(map(np.maximum, low, high))

    def nodes(self, first: int, stop: int) -> tuple[tuple[int, int], ...]:
        """The fewest nodes that make up the cells first .. stop - 1: (level from 0, node)."""
        found: list[tuple[int, int]] = []
        at = first
        while at < stop:
            for level, width in enumerate(self.widths):
                if at % width == 0 and min(at + width, self.cells) <= stop:
                    found.append((level, at // width))
                    at = min(at + width, self.cells)
                    break
        return tuple(found)

    def _checked(self, levels: Sequence[ArrayLike]) -> Levels:
        arrays = tuple(np.asarray(level, dtype=np.float64) for level in levels)
        if tuple(array.shape for array in arrays) != tuple((size,) for size in self.sizes):
            raise InvalidParameter(
                f"expected levels of {self.sizes} values, got {[array.shape for array in arrays]}"
            )
        return arrays
