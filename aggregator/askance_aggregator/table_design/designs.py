"""The table for the mean of a bounded number at a budget, designed, rounded and proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp

from askance_aggregator.families import TableFamily
from askance_aggregator.families.fitting import check_positive
from askance_aggregator.table_design.integers import integer_table
from askance_aggregator.table_design.objectives import Minimax, Objective
from askance_aggregator.table_design.programme import SYMBOLS
from askance_aggregator.table_design.refinement import by_windows, refine
from askance_client.accounting import NANO_NATS_PER_NAT, format_nats
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Channel
from askance_client.randomizers.channel import MAX_LEVELS, MIN_SIDE

MIN_NANO_NATS = NANO_NATS_PER_NAT // 100
MAX_NANO_NATS = 16 * NANO_NATS_PER_NAT
"""The solver works in floats: it was tried from 0.01 to 16 nats."""

_PLACES = 1 << 48  # of a decode value


@dataclass(frozen=True, slots=True)
class DesignedTable:
    """A table that a device understands, with what it is worth.

    Privacy: that of the channel, which is exact and at most the budget it was designed for.
    Utility: the mean of the decode values of reports is unbiased for the moved grid, which runs
    from -1 to 1 exactly and is elsewhere off by at most `bias`.

    Args:
        values: a decode value a symbol.
        figure: what it attains of that, exactly: of the integers, on the moved grid.
        lower_bound: what no randomizer of this epsilon is below that is unbiased at the levels (and
            for a prior keeps their caps), whatever it sends. A float, true up to the rounding of
            some thousands of operations.
    """

    nano: int
    channel: Channel
    values: tuple[Fraction, ...]
    objective: Objective
    figure: Fraction
    lower_bound: float

    @property
    def bias(self) -> Fraction:
        """The most that an estimate is off in expectation."""
        return TableFamily(self.channel).bias(self.values)

    @property
    def worst_second_moment(self) -> Fraction:
        """Second moment of the worst population."""
        return Minimax().figure(self.channel, self.values)

    def estimate(self, counts: Sequence[int]) -> Fraction:
        """The mean of users' numbers, in [-1, 1] but for chance.

        Args:
            counts: how many reports there are of each symbol (`TableFamily.tally`); at least one.

        Raises:
            InvalidParameter: there is no report, or not one count a symbol.
        """
        plain = [int(count) for count in counts]
        if len(plain) != len(self.values) or sum(plain) < 1 or min(plain) < 0:
            raise InvalidParameter(
                f"counts expect one number a symbol, {len(self.values)}, of 0 or more and one above"
                f" 0, found {len(plain)} numbers"
            )
        total = sum((a * count for a, count in zip(self.values, plain, strict=True)), Fraction())
        return total / sum(plain)


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
    ratio = exp(nano / NANO_NATS_PER_NAT)
    terms = objective.terms(levels, ((ratio + 1) / (ratio - 1)) ** 2)
    if levels > SYMBOLS and not by_windows(terms, ratio):
        raise InvalidParameter(
            f"levels: expected {MIN_SIDE}..{SYMBOLS} levels for this objective and epsilon,"
            f" got {levels}"
        )
    (table, decoded, _, _), bound = refine(terms, ratio)
    channel = integer_table(table, decoded.tolist(), nano)
    plain = [Fraction(round(value * _PLACES), _PLACES) for value in decoded.tolist()]
    values = TableFamily(channel).covering(plain)
    return DesignedTable(nano, channel, values, objective, objective.figure(channel, values), bound)
