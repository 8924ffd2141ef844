"""Groups of a field's cells: which fields tell most about a class, and by which few groups.

Every field is screened by a table of its own, cell by class. Its cells are joined to two or a few
groups that keep most of the information about the class, and the fields of the greatest gain are
kept until their joint table is as large as the noise of its answers allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.encodings import Cells
from askance_aggregator.learners.splits import Table, bits_of, by_share
from askance_aggregator.queries import first, index_of
from askance_client.queries import Expression, Kind

MOST_GROUPS = 4  # of a field; a fifth group adds less than another field
_LEAST_GAIN = 1e-6  # bits per doubling of the table; below it is the rounding of floats
_CATEGORY_REACH = 0.8  # sum of the positive ones of m normals, over m / 2


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Partition of a field's cells."""

    part: Cells
    groups: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def ordered(self) -> bool:
        """Return whether the groups are ranges of a number."""
        return bool(self.part.edges)

    @property
    def index(self) -> Expression:
        """The group's number, as a number."""
        if len(self.groups) == len(self.part) and self.ordered:
            return self.part.index
        return index_of(first([is_in(self.part, group) for group in self.groups[:-1]]))

    def cells_of(self, groups: Sequence[int]) -> tuple[int, ...]:
        """Return the cells of some groups, ascending."""
        return tuple(sorted(cell for group in groups for cell in self.groups[group]))


@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """Estimated table of a field: raw shares, (cells, classes), and the deviation of one share."""

    part: Cells
    shares: Table
    noise: float

    def groupings(self) -> list[tuple[float, Grouping]]:
        """Return the best partition in 1, 2, .. `MOST_GROUPS` groups, each with its gain."""
        clipped = np.clip(self.shares, 0.0, None)
        order = np.arange(len(clipped)) if self.part.edges else by_share(clipped)
        found = []
        for ends in _partitions(clipped[order], min(MOST_GROUPS, len(clipped))):
            ranges = [order[a:b] for a, b in zip((0, *ends), ends, strict=False)]
            groups = tuple(tuple(sorted(int(cell) for cell in group)) for group in ranges)
            found.append((self._gain(groups), Grouping(self.part, groups)))
        return found

    def _gain(self, groups: Sequence[Sequence[int]]) -> float:
        """Compute the gain of groups in bits, less what noise alone shows in the mean.

        The tilt of a class in a group, D = (its users there) - q (users there), q its share of all,
        is shrunk to D (1 - (t / D)^2), 0 below t: t is about what pure noise of deviation s shows
        in a group of m cells. Cells of a number were joined because they are neighbours, so t = s
        sqrt(m); cells of a category because they tilt alike, so their noise adds up: t = .8 s m.

        Source: the non-negative garrotte, Breiman 1995.
        """
        table = np.array([self.shares[list(group)].sum(axis=0) for group in groups])
        share = np.clip(table.sum(axis=0), 0.0, None)
        if len(groups) == 1 or share.sum() <= 0:
            return 0.0
        share /= share.sum()
        cells = np.array([len(group) for group in groups])
        mass = np.clip(table.sum(axis=1), 0.0, None)[:, None]
        tilt = table - share * table.sum(axis=1)[:, None]
        spread = self.noise * np.sqrt((1 - share) ** 2 + (len(share) - 1) * share**2)
        reach = spread * (np.sqrt(cells) if self.part.edges else _CATEGORY_REACH * cells)[:, None]
        kept = np.clip(1 - (reach / np.where(tilt == 0, 1.0, tilt)) ** 2, 0.0, None)
        shrunk = np.clip(share * mass + kept * tilt, 0.0, None)
        return float(bits_of(shrunk.sum(axis=0)) - bits_of(shrunk).sum())


def choose_groupings(screens: Sequence[Screen], limit: int) -> tuple[Grouping, ...]:
    """Choose fields and their groups for one joint table.

    Step by step, the field is refined that gains most bits per doubling of the table. A field that
    tells nothing may still enter, with the little that noise shows, if the limit allows it.

    The limit bounds the product of the numbers of groups. Fields are in the order of the screens;
    there is none if none tells.
    """
    options = [screen.groupings() for screen in screens]
    chosen, size = [0] * len(options), 1
    while True:
        best, taken = _LEAST_GAIN, None
        for place, option in enumerate(options):
            now = chosen[place]
            for more in range(now + 1, len(option)):
                grown = size // (now + 1) * (more + 1)
                gain = (option[more][0] - option[now][0]) / log2((more + 1) / (now + 1))
                if grown <= limit and gain > best:
                    best, taken = gain, (place, more, grown)
        if taken is None:
            break
        chosen[taken[0]], size = taken[1], taken[2]
    pairs = zip(options, chosen, strict=True)
    return tuple(option[count][1] for option, count in pairs if count > 0)


def largest_shape(parts: Sequence[Cells], limit: int) -> tuple[int, ...]:
    """Return numbers of groups with the greatest product that is not above a limit."""
    shapes: dict[int, tuple[int, ...]] = {1: ()}
    for part in parts:
        grown: dict[int, tuple[int, ...]] = {}
        for size, shape in shapes.items():
            for count in range(1, min(MOST_GROUPS, len(part)) + 1):
                if size * count <= limit:
                    grown.setdefault(size * count, (*shape, count))
        shapes = grown
    return shapes[max(shapes)]


def even_grouping(part: Cells, count: int) -> Grouping:
    """Return a partition into groups of neighbours of about equal size."""
    ends = [place * len(part) // count for place in range(count + 1)]
    return Grouping(part, tuple(tuple(range(a, b)) for a, b in pairwise(ends)))


def is_in(part: Cells, cells: tuple[int, ...]) -> Expression:
    """Build the predicate of a cell in `cells`, by the shorter list."""
    if part.expression.kind is Kind.BOOLEAN:
        return part.expression if cells == (1,) else ~part.expression
    if part.edges and cells == tuple(range(len(cells))):
        return part.index < len(cells)
    rest = tuple(set(range(len(part))) - set(cells))
    if len(rest) < len(cells):
        return ~_any([part.index == cell for cell in sorted(rest)])
    return _any([part.index == cell for cell in cells])


def _any(predicates: Sequence[Expression]) -> Expression:
    """Build the disjunction as a balanced tree, since a device refuses deep ones."""
    if len(predicates) == 1:
        return predicates[0]
    middle = len(predicates) // 2
    return _any(predicates[:middle]) | _any(predicates[middle:])


def _partitions(table: Table, most: int) -> list[tuple[int, ...]]:
    """Find the partitions of a list of cells into 1 .. most ranges that keep most information."""
    count = len(table)
    sums = np.concatenate([np.zeros((1, table.shape[1])), np.cumsum(table, axis=0)])
    cost: NDArray[np.float64] = np.full((count + 1, count + 1), np.inf)
    for start in range(count):
        cost[start, start + 1 :] = bits_of(np.clip(sums[start + 1 :] - sums[start], 0.0, None))
    least = cost[0]
    ends: list[tuple[int, ...]] = [(stop,) for stop in range(count + 1)]
    found = [ends[count]]
    for _ in range(1, most):
        through = least[:, None] + cost
        start_of = through.argmin(axis=0)
        least = through.min(axis=0)
        ends = [(*ends[int(start)], stop) for stop, start in enumerate(start_of)]
        found.append(ends[count])
    return found
