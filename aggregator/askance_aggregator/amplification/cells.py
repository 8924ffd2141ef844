"""Certified ends of delta for k-ary response in small batches, over all populations.

The target is at cell 0 or 1; of the others i are at 0, j at 1 and t at third cells. Where these t
are at one third cell, a reader learns of third cells how many reports are in it. Where they are at
several, a reader learns no more, as long as third cells hold no more than t reports. If they hold
more, the bound is what a reader would learn if t of them held all reports of the t users.

Source: docs/math/shuffled_batches.md section 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from askance_aggregator.amplification.bits import Ints, binomials
from askance_aggregator.amplification.sums import UNDERFLOW, UNIT, Floats
from askance_aggregator.families.comparisons import EvenCells

LISTED = 60  # answers up to which all populations are listed: 2 seconds, 0.2 for 30


@dataclass(frozen=True)
class AllCells:
    """All populations of a batch of k-ary response.

    Args:
        law: of one report.
        answers: n, >= 1.
    """

    law: EvenCells
    answers: int

    def blocks(self) -> Iterator[CellBlock]:
        """Make the populations with t others at third cells, for each t from n - 1 down to 0."""
        n, chances = self.answers, self.chances
        own, other, third = (chances[name] for name in ("own", "other", "third"))
        sides = binomials(chances["sides"], chances["rest"], n)
        halves = binomials(0.5, 0.5, n)
        law: Floats = np.ones((1, 1, 1))
        for fixed in range(n):
            if fixed:  # one more at 0; or, if none is there, at 1
                law = np.concatenate(
                    (_added(law[:1], other, own, third), _added(law, own, other, third))
                )
            t = n - 1 - fixed
            yield CellBlock(self, t, _joined(law, n, halves, sides[t, : t + 1]))

    def slots(self, reports: int, most: int) -> Floats:
        """Return the law of how many reports in third cells look as if in their users' own ones.

        Args:
            reports: in third cells.
            most: of them by others at third cells, at most; shape (most + 1, reports + 1).
        """
        law = np.zeros((most + 1, reports + 1))
        found = self._slots[reports][: most + 1]
        law[: len(found)] = found
        return law

    @property
    def error(self) -> float:
        """Relative error of a chance, of some 8 n products and sums of positive floats."""
        return 16 * UNIT * (self.answers + 8)

    @cached_property
    def chances(self) -> dict[str, float]:
        """Chances of a report, each to half a unit.

        `own` of the own cell, `other` of each other one, `third` of cells but 0 and 1 for a user at
        one of these; of a user at a third cell `sides` of 0 and 1 together, `rest` of third cells,
        and of these `kept` the own one and `moved` the others.
        """
        own = Fraction(self.law.own, self.law.denominator)
        other = (1 - own) / (self.law.cells - 1)
        rest = 1 - 2 * other
        exact = {
            "own": own,
            "other": other,
            "third": (self.law.cells - 2) * other,
            "sides": 2 * other,
            "rest": rest,
            "kept": own / rest,
            "moved": 1 - own / rest,
        }
        return {name: float(chance) for name, chance in exact.items()}

    @cached_property
    def _slots(self) -> list[Floats]:
        """Laws of `slots` for each number of reports, with a row for each count of them."""
        own, even = self._own_cells
        laws = [np.empty((reports + 1, reports + 1)) for reports in range(self.answers + 1)]
        for reports, law in enumerate(laws):
            for count in range(reports + 1):
                left = reports - count
                law[count] = np.convolve(own[count, : count + 1], even[left, : left + 1])
        return laws

    @cached_property
    def _own_cells(self) -> tuple[Floats, Floats]:
        """Laws of the own cells among third reports of third users, and among even ones."""
        cells, size = self.law.cells - 2, self.answers + 1
        return (
            binomials(self.chances["kept"], self.chances["moved"], size),
            binomials(1 / cells, (cells - 1) / cells, size),
        )


@dataclass(frozen=True)
class CellBlock:
    """Populations with one number of others at third cells.

    Args:
        batch: all populations.
        thirds: t.
        law: chances of the others' reports, one array per number of reports in the cells 0 and 1
            together: by the number of others at 0, of reports in 0, and of reports in third cells
            by others at third cells.
    """

    batch: AllCells
    thirds: int
    law: list[Floats]

    def beyond(self, ratio: float, delta: float) -> list[CellNumbers]:
        """Return the populations that may have more than `delta` at an e^epsilon of `ratio`.

        The others have at most that even towards a reader who is shown how many third reports are
        of third users.
        """
        own, other, third = (self.batch.chances[name] for name in ("own", "other", "third"))
        error = self.batch.error
        weights = (
            own - ratio * other + 2 * UNIT * (own + ratio * other),
            other - ratio * own + 2 * UNIT * (other + ratio * own),
            (1 - ratio) * third,
        )
        outward = [each * (1 + error if each > 0 else 1 - error) for each in weights]
        every = slice(None)
        told = np.zeros(self.batch.answers - self.thirds)
        for sides in range(self.batch.answers + 1):
            told += np.maximum(self._weighed(sides, every, *outward), 0).sum(axis=(1, 2))
        at = np.flatnonzero(told * (1 + error) + UNDERFLOW > delta)
        return self._populations(at) if len(at) else []

    def _populations(self, at: Ints) -> list[CellNumbers]:
        """Merge third reports that a reader cannot tell apart."""
        n, t = self.batch.answers, self.thirds
        own, other, third = (self.batch.chances[name] for name in ("own", "other", "third"))
        exact, bound = [], []
        for sides in range(n + 1):
            laws = [
                self._weighed(sides, at, *target, third) for target in ((own, other), (other, own))
            ]
            slots = self.batch.slots(n - sides, t)
            exact.append([law @ slots for law in laws])
            if t > 1 and n - sides > t:  # more third reports than others there
                slots = self.batch.slots(t, t)
                bound.append([law @ slots for law in laws])
            else:
                bound.append(exact[-1])
        return [
            CellNumbers(
                f"cell 0 against 1, {i} others at 0, {n - 1 - t - i} at 1 and {t} at 2",
                _row(exact, row),
                _row(bound, row),
                self.batch.error,
            )
            for row, i in enumerate(at.tolist())
        ]

    def _weighed(
        self, sides: int, at: Ints | slice, zero: float, one: float, third: float
    ) -> Floats:
        """Add the target's report in cell 0, in cell 1 or in a third cell to the others' law."""
        if sides == 0:
            return np.asarray(third * self.law[0][at])
        before = self.law[sides - 1][at]
        if sides < self.batch.answers:
            found = third * self.law[sides][at]
        else:
            found = np.zeros((len(before), sides + 1, self.thirds + 1))
        found[:, 1:] += zero * before
        found[:, :-1] += one * before
        return np.asarray(found)


@dataclass(frozen=True)
class CellNumbers:
    """Ends of delta of the populations with given numbers of others at 0, at 1 and at third cells.

    Args:
        name: of the one whose others at third cells are at one.
        exact: its laws of what a reader learns, for the target at 0 and at 1.
        bound: laws that bound all of these populations.
        error: relative, of each chance.
    """

    name: str
    exact: tuple[Floats, Floats]
    bound: tuple[Floats, Floats]
    error: float

    def upper(self, ratio: float) -> float:
        """Bound delta at every e^epsilon >= `ratio` from above."""
        return min(1.0, self._excess(self.bound, ratio, self.error) + UNDERFLOW)

    def lower(self, ratio: float) -> float:
        """Bound delta at every e^epsilon <= `ratio` from below."""
        return max(0.0, self._excess(self.exact, ratio, -self.error))

    def _excess(self, laws: tuple[Floats, Floats], ratio: float, error: float) -> float:
        change = laws[0] * (1 + error) - laws[1] * (ratio * (1 - error))
        return float(np.maximum(change, 0).sum()) * (1 + error)


def _row(laws: list[list[Floats]], row: int) -> tuple[Floats, Floats]:
    """Join what all numbers of reports have for one population, for both of the target's cells."""
    first, second = ([pair[side][row].ravel() for pair in laws] for side in (0, 1))
    return np.concatenate(first), np.concatenate(second)


def _added(law: Floats, zero: float, one: float, third: float) -> Floats:
    """Add a user to others at 0 and 1, given the chances of a report in 0, in 1 and elsewhere."""
    populations, sides, zeros = law.shape
    found = np.zeros((populations, sides + 1, zeros + 1))
    found[:, 1:, 1:] += zero * law
    found[:, 1:, :-1] += one * law
    found[:, :-1, :-1] += third * law
    return found


def _joined(law: Floats, n: int, halves: Floats, sides: Floats) -> list[Floats]:
    """Join the reports of others at 0 and 1 with those of t others at third cells."""
    # law: by others at 0, reports in 0 and 1, reports in 0.
    # n: answers.
    # halves: laws of draws of one half, a row per number of draws.
    # sides: law of the number of third users' reports in 0 and 1; shape (t + 1,).
    size, t = len(law), len(sides) - 1
    flat = law.reshape(size * size, size)
    joined = [np.zeros((size, total + 1, t + 1)) for total in range(n)]
    for count, chance in enumerate(sides.tolist()):
        shifted = np.zeros((size, size + count))
        for zeros in range(size):
            shifted[zeros, zeros : zeros + count + 1] = chance * halves[count, : count + 1]
        both = (flat @ shifted).reshape(size, size, size + count)
        for own in range(size):
            joined[own + count][:, :, t - count] = both[:, own, : own + count + 1]
    return joined
