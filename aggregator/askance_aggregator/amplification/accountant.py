"""Certified ends of epsilon and delta of a shuffled batch of any registered randomizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, exp, inf, nextafter, sqrt
from typing import Protocol

import numpy as np

from askance_aggregator.amplification.bits import CONVOLVED, AllPopulations, Ints
from askance_aggregator.amplification.cells import LISTED, AllCells
from askance_aggregator.amplification.ends import Curve, Ends
from askance_aggregator.amplification.sums import UNIT, Law, ReportSum
from askance_aggregator.composition.events import upward
from askance_aggregator.families import family_of
from askance_aggregator.families.comparisons import Comparison, Comparisons, TwoSymbols
from askance_aggregator.numbers import at_least_one
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer

_LEAST_EPSILON = 1e-9  # below it no epsilon is sought
_CLOSE = 2e-6  # relative width of a search for epsilon
_SLACKS = (1e-5, 0.002, 0.005, 0.01, 0.02, 0.04, 0.1, 0.3, 1.0)  # between a bit's two ends
_CLOSE_DELTA = 0.02  # between a bit's two ends of delta, over the lower one
_FLOOR = 1e-20  # a delta below which ends are not sought closely, and a curve stays as it is
_OF_CURVES = 0.3  # the same for the points of a curve
_MORE = (1, 3, 10, 50, 1000)  # times the slack
_DELTAS = (1e-18, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1)  # where the lower end is small
_BESIDE = 40  # share of the populations, on each side, that are searched again
_LOST = Fraction(1, 10**16)  # of delta, by draws that are not quite even
_POINTS = 96  # of a curve


def epsilon_ends(randomizer: Randomizer, answers: int, delta: Fraction) -> Ends:
    """Bound the epsilon that a shuffled batch satisfies at `delta`, replace-one.

    Args:
        randomizer: of a registered family.
        answers: honest reports of the batch, the target's included, >= 1.
        delta: in (0, 1).

    Returns:
        Ends of the least epsilon; the upper one is at most the local epsilon, rounded upward.
    """
    _check(answers)
    if not 0 < delta < 1:
        raise InvalidParameter(f"delta: expected a number between 0 and 1, got {delta}")
    local, batch = local_epsilon(randomizer), _batch(randomizer, answers)
    if batch is None:
        return Ends(0.0, local)
    return batch.epsilon(_downward(delta), upward(delta), local)


def delta_ends(randomizer: Randomizer, answers: int, epsilon: Fraction) -> Ends:
    """Bound the delta that a shuffled batch satisfies at `epsilon` >= 0, replace-one."""
    _check(answers)
    if epsilon < 0:
        raise InvalidParameter(f"epsilon: expected 0 or more, got {epsilon}")
    local, batch = local_epsilon(randomizer), _batch(randomizer, answers)
    if epsilon >= local:
        return Ends(0.0, 0.0)
    ends = Ends(0.0, 1.0) if batch is None else batch.delta(float(epsilon))
    return Ends(ends.lower, min(ends.upper, _bounded(local, epsilon)), ends.population)


def curve(randomizer: Randomizer, answers: int) -> Curve:
    """Compute upper ends of delta of a shuffled batch on a grid from 0 to the local epsilon."""
    # The grid is dense where delta falls: its points are alike in ln epsilon.
    _check(answers)
    local, batch = local_epsilon(randomizer), _batch(randomizer, answers)
    first = min(local / 4, 0.1 / sqrt(answers))
    grid = [0.0, *(float(each) for each in np.geomspace(first, local, _POINTS)[:-1]), local]
    deltas: list[float] = []
    for epsilon in grid[:-1]:
        before = deltas[-1] if deltas else 1.0  # delta falls: it holds here too
        found = before
        if batch is not None and before > _FLOOR:
            found = batch.delta(epsilon, _OF_CURVES).upper
        deltas.append(min(found, _bounded(local, Fraction(epsilon)), before))
    return Curve(tuple(grid), (*deltas, 0.0))


class _Ends(Protocol):
    """Ends of one batch."""

    def epsilon(self, least: float, most: float, local: float) -> Ends:
        """Bound epsilon at a delta in [least, most]; the local epsilon holds for each delta."""

    def delta(self, epsilon: float, slack: float = _CLOSE_DELTA) -> Ends:
        """Bound delta at an epsilon that is correct to a unit."""
        # `slack`: how far apart the ends may be, over the lower one, where closer ones take longer.


@dataclass(frozen=True)
class _Pairs:
    """Ends by comparisons: the worst of them from above, the best attained one from below."""

    source: Comparisons
    answers: int

    def epsilon(self, least: float, most: float, local: float) -> Ends:
        """Search the first comparison, and then each that is not shown to be below delta there."""
        upper = 0.0
        for batch in self._upper:
            if not batch.stays_within(_ratio(upper, -1), least):
                upper = _least_epsilon(batch.upper, least, upper, local)
        lower, population = 0.0, ""
        for each, batch in self._attained:
            found = _greatest_epsilon(batch.lower, most, lower, upper)
            if found > lower or not population:
                lower, population = found, each.population
        return Ends(lower, upper, population)

    def delta(self, epsilon: float, slack: float = _CLOSE_DELTA) -> Ends:
        """Take the greatest end of each side; they are as close as they get."""
        upper, ratio = 0.0, _ratio(epsilon, -1)
        for batch in self._upper:
            if not batch.stays_within(ratio, upper):
                upper = max(upper, batch.upper(ratio))
        ratio = _ratio(epsilon, 1)
        found = [(batch.lower(ratio), each.population) for each, batch in self._attained]
        lower, population = max(found, key=lambda item: item[0], default=(0.0, ""))
        return Ends(lower, upper, population)

    @cached_property
    def _upper(self) -> list[ReportSum]:
        less = self.source.bias
        kept = float(1 - less) * (1 - UNIT * (less > 0))
        return [ReportSum(Law.of(each, less), self.answers, kept) for each in self.source.upper]

    @cached_property
    def _attained(self) -> list[tuple[Comparison, ReportSum]]:
        bias, n = self.source.bias, self.answers
        kept = float(1 - bias) * (1 - UNIT * (bias > 0))
        more = 0
        while (lost := comb(n + more - 1, more + 1) * bias ** (more + 1)) > _LOST:
            more += 1
        given_up = upward(lost)
        return [
            (each, ReportSum(Law.of(each), n + more, kept, given_up)) for each in self.source.lower
        ]


@dataclass(frozen=True)
class _Cells:
    """Ends over all populations of k-ary response, where the batch is small."""

    all: AllCells
    pairs: _Pairs

    def epsilon(self, least: float, most: float, local: float) -> Ends:
        """Search the populations that are not shown to be below delta at the best lower end."""
        by_pairs = self.pairs.epsilon(least, most, local)
        lower = upper = by_pairs.lower
        population = by_pairs.population
        for block in self.all.blocks():
            for each in block.beyond(_ratio(lower, -1), least):
                upper = _least_epsilon(each.upper, least, upper, local)
                found = _greatest_epsilon(each.lower, most, lower, upper)
                if found > lower:
                    lower, population = found, each.name
        return Ends(lower, min(upper, by_pairs.upper), population)

    def delta(self, epsilon: float, slack: float = _CLOSE_DELTA) -> Ends:
        """Take the greatest end of each side; by comparisons alone if they need not be close."""
        by_pairs = self.pairs.delta(epsilon, slack)
        if slack > _CLOSE_DELTA:
            return by_pairs
        lower = upper = by_pairs.lower
        population = by_pairs.population
        for block in self.all.blocks():
            for each in block.beyond(_ratio(epsilon, -1), lower):
                upper = max(upper, each.upper(_ratio(epsilon, -1)))
                found = each.lower(_ratio(epsilon, 1))
                if found > lower:
                    lower, population = found, each.name
        return Ends(lower, min(upper, by_pairs.upper), population)


@dataclass(frozen=True)
class _Populations:
    """Ends over all populations of a randomizer of two symbols."""

    all: AllPopulations

    def epsilon(self, least: float, most: float, local: float) -> Ends:
        """Search the populations of a grid, then near the best; cover all of them from above."""
        tried = self._grid
        lower = _greatest_epsilon(lambda ratio: self.all.lower(ratio, tried)[0], most, 0.0, local)
        tried = self._near(lower)
        lower = _greatest_epsilon(lambda ratio: self.all.lower(ratio, tried)[0], most, lower, local)
        population = self._named(lower, tried)
        start = max(lower, _LEAST_EPSILON)
        # The first slack takes too many cells where they are not convolved.
        for slack in _SLACKS[self.all.answers > CONVOLVED :]:
            upper = start * (1 + slack)
            if upper < local and self.all.upper(_ratio(upper, -1), least) is not None:
                return Ends(lower, upper, population)
        return Ends(lower, local, population)

    def delta(self, epsilon: float, slack: float = _CLOSE_DELTA) -> Ends:
        """Take the best of a grid and of what is near it; cover all populations from above."""
        ratio = _ratio(epsilon, 1)
        near = self._near(epsilon)
        tried = max(self._grid, near, key=lambda each: self.all.lower(ratio, each)[0])
        lower, population = self.all.lower(ratio, tried)[0], self._named(epsilon, tried)
        close = [lower * (1 + slack * more) for more in _MORE] if lower > _FLOOR else []
        for bound in (*close, *_DELTAS):
            upper = self.all.upper(_ratio(epsilon, -1), bound)
            if upper is not None:
                return Ends(lower, upper, population)
        return Ends(lower, 1.0, population)

    @property
    def _grid(self) -> Ints:
        return self.all.grid(0, self.all.answers - 1)

    def _named(self, epsilon: float, tried: Ints) -> str:
        """Name the population that attains the lower end."""
        _, best = self.all.lower(_ratio(epsilon, 1), tried)
        others = self.all.answers - 1
        return (
            f"{best} of {others} others at the greatest chance of a symbol, the rest at the least"
        )

    def _near(self, epsilon: float) -> Ints:
        """Populations beside the best of the grid."""
        n = self.all.answers
        _, best = self.all.lower(_ratio(epsilon, 1), self._grid)
        beside = n // _BESIDE
        return self.all.grid(max(0, best - beside), min(n - 1, best + beside))


def _batch(randomizer: Randomizer, answers: int) -> _Ends | None:
    reduction = family_of(randomizer).comparisons()
    return None if reduction is None else batch_of(reduction, answers)


def batch_of(reduction: Comparisons | TwoSymbols, answers: int) -> _Ends:
    """Return the ends of a batch of `answers` reports by a reduction of their randomizer."""
    if isinstance(reduction, TwoSymbols):
        return _Populations(AllPopulations(reduction, answers))
    pairs = _Pairs(reduction, answers)
    if reduction.cells is None or answers > LISTED:
        return pairs
    return _Cells(AllCells(reduction.cells, answers), pairs)


def _least_epsilon(
    upper: Callable[[float], float], delta: float, low: float, local: float
) -> float:
    """Search for the least epsilon above `low` at which an upper end is at most `delta`."""
    # What is returned is such an epsilon, or the local one; delta falls with epsilon, so that it is
    # an upper end.
    if upper(_ratio(low, -1)) <= delta:
        return low
    low, high = max(low, _LEAST_EPSILON), local
    while high > low * (1 + _CLOSE):
        middle = sqrt(low * high)
        if upper(_ratio(middle, -1)) <= delta:
            high = middle
        else:
            low = middle
    return high


def _greatest_epsilon(
    lower: Callable[[float], float], delta: float, low: float, high: float
) -> float:
    """Search [low, high] for the greatest epsilon at which a lower end of delta passes `delta`."""
    # The result is such an epsilon, or `low`: the true delta there is above `delta`, and falls.
    if low > 0 and lower(_ratio(low * (1 + _CLOSE), 1)) <= delta:
        return low
    for share in (0.9997, 0.99, 0.7):
        middle = high * share
        if middle <= low:
            break
        if lower(_ratio(middle, 1)) > delta:
            low = middle
            break
        high = middle
    if low == 0:
        low = _LEAST_EPSILON
        if high <= low or lower(_ratio(low, 1)) <= delta:
            return 0.0
    while high > low * (1 + _CLOSE):
        middle = sqrt(low * high)
        if lower(_ratio(middle, 1)) > delta:
            low = middle
        else:
            high = middle
    return low


def _ratio(epsilon: float, sign: int) -> float:
    """Return e^epsilon, rounded upward (`sign` 1) or downward, for an epsilon correct to a unit."""
    return max(1.0, exp(epsilon) * (1 + sign * UNIT * (4 + 2 * epsilon)))


def _check(answers: int) -> None:
    try:
        at_least_one(answers)
    except InvalidParameter as error:
        raise InvalidParameter(f"answers: {error}") from None


def local_epsilon(randomizer: Randomizer) -> float:
    """Return the local epsilon, nats, rounded upward."""
    return upward(Fraction(randomizer.loss.nano_nats, NANO_NATS_PER_NAT))


def _downward(exact: Fraction) -> float:
    near = float(exact)
    return near if near <= exact else nextafter(near, 0.0)


def _bounded(local: float, epsilon: Fraction) -> float:
    """The delta at epsilon of a release of which the local epsilon alone is known."""
    # (e^local - e^epsilon) / (e^local + 1), attained by randomized response; at most
    # local - epsilon times the derivative, which is below 1.
    return min(1.0, nextafter(float(Fraction(local) - epsilon), inf))
