"""The table for the mean of a bounded number at a budget, designed, rounded and proved."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, sqrt

import numpy as np

from askance_aggregator.families import TableFamily, makes
from askance_aggregator.families.fitting import check_positive
from askance_aggregator.table_design.integers import integer_table
from askance_aggregator.table_design.objectives import Conditional, Minimax, Objective, Terms
from askance_aggregator.table_design.programme import SYMBOLS, Dual, Solution
from askance_aggregator.table_design.recorded import LITTLE, PLACES, neighbours, recorded_optimum
from askance_aggregator.table_design.refinement import best_prices, by_windows, refine, refine_from
from askance_client.accounting import NANO_NATS_PER_NAT, format_nats
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Channel
from askance_client.randomizers.channel import MAX_LEVELS, MIN_SIDE

MIN_NANO_NATS = NANO_NATS_PER_NAT // 100
MAX_NANO_NATS = 16 * NANO_NATS_PER_NAT
"""The solver works in floats: it was tried from 0.01 to 16 nats."""

SAMPLE = "sample"  # name of the recorded optima of a sample's mean
LEVELS = 33  # of a sample's mean: random rounding onto them adds .00098 to a conditional variance
FINE_LEVELS = 64  # beyond 4 nats, at least: .00025
FINE_NANO_NATS = 4 * NANO_NATS_PER_NAT  # beyond, .00098 is .8 % of a conditional variance or more
PRICED_NANO_NATS = 10 * NANO_NATS_PER_NAT  # beyond, prices take over 2 s
LEAST_VARIANCE = 1.25  # times e^(-2 eps / 3): the least worst conditional variance, at large eps
ROUNDING_SHARE = 0.005  # part of that variance which random rounding may add


@dataclass(frozen=True, slots=True)
class DesignedTable:
    """A table that a device understands, with what it is worth.

    Privacy: that of the channel, which is exact and at most the budget it was designed for.
    Utility: the mean of the decode values of reports is unbiased for the moved grid, which runs
    from -1 to 1 exactly and is elsewhere off by at most `bias`.

    Args:
        nano: the budget; the channel spends it, or less (`design_sample`).
        values: a decode value a symbol.
        lower_bound: what no randomizer of this epsilon is below that is unbiased at the levels (and
            for a prior keeps their caps), whatever it sends. A float, true up to the rounding of
            some thousands of operations.
    """

    nano: int
    channel: Channel
    values: tuple[Fraction, ...]
    objective: Objective
    lower_bound: float

    @property
    def figure(self) -> Fraction:
        """Return what the integers attain of the objective, exactly, on the moved grid."""
        return figure_of(self.objective, self.channel, self.values)

    @property
    def bias(self) -> Fraction:
        """The most that an estimate is off in expectation."""
        return TableFamily(self.channel).bias(self.values)

    @property
    def worst_second_moment(self) -> Fraction:
        """Second moment of the worst population."""
        return Minimax().figure(self.channel, self.values)

    def estimate(self, counts: Sequence[int]) -> Fraction:
        """The mean of users' numbers, in [-1, 1] but for chance, from a count per symbol."""
        plain = [int(count) for count in counts]
        if len(plain) != len(self.values) or sum(plain) < 1 or min(plain) < 0:
            raise InvalidParameter(
                f"counts expect one number a symbol, {len(self.values)}, of 0 or more and one above"
                f" 0, found {len(plain)} numbers"
            )
        total = sum((a * count for a, count in zip(self.values, plain, strict=True)), Fraction())
        return total / sum(plain)


@lru_cache(maxsize=64)
def figure_of(objective: Objective, channel: Channel, values: tuple[Fraction, ...]) -> Fraction:
    """Return what a table with these decode values attains of an objective, exactly."""
    return objective.figure(channel, values)


@makes("designed-table")
def _of_least_worst_moment(levels: int, nano: int) -> Channel:
    """Return the table with the least worst second moment."""
    return design_table(levels, nano, Minimax()).channel


@lru_cache(maxsize=64)
def design_table(levels: int, nano: int, objective: Objective) -> DesignedTable:
    """The best table for the mean of numbers in [-1, 1] by an objective.

    Numbers are rounded at random onto equally spaced levels (`round_to_levels`), by a coin of their
    own, so the table's epsilon is kept.

    Privacy: pure eps-LDP, replace-one, with eps at most `nano`, exactly.
    Utility: up to 4 nats the second moments at the levels are within about 10^-4 of what is
    possible, which `lower_bound` proves; beyond, with at least 64 levels, within about 3 x 10^-3 up
    to 12 nats. Between levels random rounding adds a quarter of the step squared to a conditional
    variance, and the figure counts it: .00098 for 33 levels, .8 % of it at 4 nats; .00025 for 64,
    .5 % at 5 nats; 1.9 x 10^-6 for 720, .6 % at 12.5 nats and 7 % at 16.

    Args:
        levels: 2..64; for a worst-case objective at more than 4 nats 2..720.
        nano: nano-nats, from 0.01 to 16 nats.
        objective: `Minimax()`, `Conditional()` or `Prior(weights, slack)`.

    Raises:
        InvalidParameter: levels or nano is out of range, the objective is for other levels, or the
            solver finds no table.

    Source: the linear program over finite tables of Kairouz, Oh, Viswanath 2016, with unbiasedness
        at every level; second moments: Duchi, Jordan, Wainwright 2018.
    """
    check_positive(nano)
    if not MIN_NANO_NATS <= nano <= MAX_NANO_NATS:
        raise InvalidParameter(
            f"a table is designed for {format_nats(MIN_NANO_NATS)} to {format_nats(MAX_NANO_NATS)}"
            f" nats, found {format_nats(nano)}"
        )
    if not MIN_SIDE <= levels <= MAX_LEVELS:
        raise InvalidParameter(f"levels: expected {MIN_SIDE}..{MAX_LEVELS} levels, got {levels}")
    terms, ratio = _terms(levels, nano, objective)
    if levels > SYMBOLS and not by_windows(terms, ratio):
        raise InvalidParameter(
            f"levels: expected {MIN_SIDE}..{SYMBOLS} levels for this objective and epsilon,"
            f" got {levels}"
        )
    found = refine(terms, ratio)
    return _of_solution(nano, found.solution, objective, found.lower_bound)


@lru_cache(maxsize=64)
def design_sample(nano: int) -> DesignedTable:
    """The table for the mean of the sample at hand (`Conditional`), on as many levels as suit.

    It is recorded for the epsilons of a grid. Between two of them the lower one's table is used
    where that costs less than a hundredth of the figure, and is charged for what it is; else one is
    designed, beyond 4 nats from a neighbour in the grid (`refine_from`).

    Utility: that of `design_table`, and between epsilons of the grid within about a hundredth of
    it. The lower bound is proved for that epsilon up to 10 nats; beyond, between two epsilons of
    the grid, it is that of the greater one. It is for randomizers that are unbiased at its levels.

    Args:
        nano: nano-nats, from 0.01 to 16 nats.
    """
    known = recorded_optimum(SAMPLE, nano)
    if known is not None:
        return _of_table(nano, known.channel, known.scores[0], Conditional(), sample_bound(nano))
    between = neighbours(SAMPLE, nano)
    if between is None:
        return design_table(sample_levels(nano), nano, Conditional())
    above = sample_bound(between.above)
    bound = max(above, _priced_bound(nano)) if nano <= PRICED_NANO_NATS else above
    if between.cost(sample_bound(between.below), above) < LITTLE:
        return replace(design_sample(between.below), nano=nano, lower_bound=bound)
    for near in between.by_promise:
        if near > FINE_NANO_NATS:
            with suppress(InvalidParameter):  # no table of these windows
                return _stretched(nano, near, bound)
    return design_table(sample_levels(nano), nano, Conditional())


@lru_cache(maxsize=16)
def sample_bound(nano: int) -> float:
    """Return what the recorded prices of a sample's mean prove, at an epsilon of the grid."""
    dual, _ = _recorded(nano)
    terms, ratio = _terms(len(dual.rows), nano, Conditional())
    return dual.lower_bound(terms, ratio)


def _priced_bound(nano: int) -> float:
    """Compute the bound of a sample's mean at an epsilon that is not recorded."""
    terms, ratio = _terms(sample_levels(nano), nano, Conditional())
    return best_prices(terms, ratio).dual.lower_bound(terms, ratio)


def _recorded(nano: int) -> tuple[Dual, tuple[Fraction, ...]]:
    """Return the prices and the decode values of a sample's mean, at an epsilon of the grid."""
    known = recorded_optimum(SAMPLE, nano)
    if known is None or known.dual is None:
        raise InvalidParameter(f"epsilon: expected one of the grid, got {format_nats(nano)} nats")
    return known.dual, known.scores[0]


def sample_levels(nano: int) -> int:
    """Return the number of levels of a table for a sample's mean."""
    # Beyond 4 nats they are so many that rounding adds half a percent to about the least variance,
    # 1.25 e^(-2 eps / 3), or as many as a table can have.
    if nano <= FINE_NANO_NATS:
        return LEVELS
    least = LEAST_VARIANCE * exp(-2 / 3 * min(nano, MAX_NANO_NATS) / NANO_NATS_PER_NAT)
    needed = 1 + ceil(1 / sqrt(ROUNDING_SHARE * least))  # it adds 1 / (levels - 1)^2
    return min(max(FINE_LEVELS, needed), MAX_LEVELS)


def _stretched(nano: int, nearest: int, bound: float) -> DesignedTable:
    dual, scores = _recorded(nearest)
    terms, ratio = _terms(len(dual.rows), nano, Conditional())
    values = np.array([float(value) for value in scores])
    near_ratio = exp(nearest / NANO_NATS_PER_NAT)
    solution = refine_from(terms, ratio, dual, values, near_ratio)
    return _of_solution(nano, solution, Conditional(), bound)


def _terms(levels: int, nano: int, objective: Objective) -> tuple[Terms, float]:
    """Return the terms of the programme, and e^eps."""
    ratio = exp(nano / NANO_NATS_PER_NAT)
    return objective.terms(levels, ((ratio + 1) / (ratio - 1)) ** 2), ratio


def _of_solution(
    nano: int, solution: Solution, objective: Objective, bound: float
) -> DesignedTable:
    decoded = solution.values.tolist()
    channel = integer_table(solution.table, decoded, nano)
    plain = [Fraction(round(value * PLACES), PLACES) for value in decoded]
    return _of_table(nano, channel, plain, objective, bound)


def _of_table(
    nano: int, channel: Channel, plain: Sequence[Fraction], objective: Objective, bound: float
) -> DesignedTable:
    values = TableFamily(channel).covering(plain)
    return DesignedTable(nano, channel, values, objective, bound)
