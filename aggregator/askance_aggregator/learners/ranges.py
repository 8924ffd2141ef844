"""The shares of ranges of a number, and its quantiles, from one round about a tree of ranges.

Raw estimates of different levels are of different users, so they disagree by chance. The tree that
is nearest to all of them is found exactly in two passes, up and down, and so is what their joint
intervals leave possible.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, inf, log10
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.learners import assessments
from askance_aggregator.learners.encodings import binned, cells, joint
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Learner, NonAdaptive, non_adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.missing import MissingShare, named_share
from askance_aggregator.learners.parameters import Parameter, ParameterKind, Tau, one_of
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.quantiles import Quantile
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import field_of
from askance_aggregator.learners.shapes import DistributionFunction, DistributionPoint
from askance_aggregator.numbers import Rational, rational, whole_within
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Integer, Real, Schema


@hypothesis_of("ranges")
@dataclass(frozen=True, slots=True)
class Ranges(JsonObject):
    """The shares of a number's cells, consistent with those of ever greater ranges.

    Args:
        ends: cell j has the values from ends[j] up to below ends[j + 1], the last one of a real
            number with its end; rising.
        whole: whether values are whole numbers.
        arity: of the tree.
        answers: raw, one a level, the coarsest first: a value a range, and that of users without
            a number. They are unbiased and have the intervals that hold jointly.
        levels: the nearest estimates that add up, and what all intervals together leave possible.
        cumulative: shares below each end of a cell but the first, of the users who have a number:
            the nearest that rise, with intervals that rise and hold jointly.
    """

    json_name: ClassVar = "ranges"
    json_keys: ClassVar = (
        "summary",
        "column",
        "ends",
        "whole",
        "arity",
        "shares",
        "missing=missing_share",
        "levels=answers",
    )

    column: str
    ends: tuple[float, ...]
    whole: bool
    arity: int
    answers: tuple[Answer, ...]
    levels: tuple[Answer, ...] = field(init=False, repr=False, compare=False)
    cumulative: Answer = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tree = self._tree
        if not all(a < b for a, b in pairwise(self.ends)):
            raise InvalidParameter(
                f"ranges expects rising ends of cells, got {value_text(self.ends)}"
            )
        raw = [answer.values for answer in self.answers]
        lows, highs = tree.tightened(
            [answer.lows for answer in self.answers], [answer.highs for answer in self.answers]
        )
        values = tree.consistent(raw, [1.0] * len(raw))
        levels = (
            Answer(*(tuple(part.tolist()) for part in parts))
            for parts in zip(values, lows, highs, strict=True)
        )
        object.__setattr__(self, "levels", tuple(levels))
        start, *ends = self.ends
        object.__setattr__(self, "cumulative", _rising([self.share(start, end) for end in ends]))

    @property
    def shares(self) -> tuple[float, ...]:
        """Consistent shares of the cells; some may be negative, like raw ones."""
        return self.levels[-1].values[:-1]

    @property
    def missing(self) -> float:
        """Return the consistent share of users without a number."""
        return self.levels[-1].values[-1]

    @property
    def missing_share(self) -> MissingShare:
        """Return the share of users without a number, with its interval."""
        last = self.levels[-1]
        share = min(max(last.values[-1], 0.0), 1.0)
        return MissingShare(share, max(last.lows[-1], 0.0), min(last.highs[-1], 1.0))

    def share(self, low: float, high: float) -> Answer:
        """Return the share with a value in [low, high) of the users who have a number.

        Utility: the interval holds, jointly for all ranges and with that of the missing share,
        wherever all raw intervals do: it follows from the sums of those of few ranges, inside and
        outside, and from what they leave.

        Raises:
            InvalidParameter: low and high are not two of `ends`, the greater one last.
        """
        if low not in self.ends or high not in self.ends or not low < high:
            raise InvalidParameter(
                f"{self.column}: expected two rising ends of cells,"
                f" got {value_text(low)} and {value_text(high)}"
            )
        first, stop = self.ends.index(low), self.ends.index(high)
        cells_in_all, tree = len(self.ends) - 1, self._tree
        inside = tree.nodes(first, stop)
        outside = (*tree.nodes(0, first), *tree.nodes(stop, cells_in_all))
        here, there = self._between(inside, outside), self._between(outside, inside)
        least, most = _part(here[0], there[1], 0.0), _part(here[1], there[0], 1.0)
        value = self._sum("values", inside)
        return Answer(
            (min(max(_part(value, self._sum("values", outside), value), 0.0), 1.0),),
            (min(least, most),),
            (max(least, most),),
        )

    def _between(
        self, nodes: tuple[tuple[int, int], ...], others: tuple[tuple[int, int], ...]
    ) -> tuple[float, float]:
        """The interval of a sum over nodes, by their own and by what the others leave of all."""
        last = len(self.levels) - 1
        rest = (*others, (last, len(self.levels[last].values) - 1))
        least = max(self._sum("lows", nodes), 1 - self._sum("highs", rest), 0.0)
        return least, min(self._sum("highs", nodes), 1 - self._sum("lows", rest), 1.0)

    def quantile(self, level: Rational) -> Quantile:
        """Return a quantile of the users who have a number, with its interval.

        Utility: the interval is made of whole cells, t_(a-1) up to t_b, where t_a is the first end
        up to which the share may reach the level, by the upper ends of `cumulative`, and t_b the
        first up to which it does, by the lower ends. The intervals of all levels hold wherever all
        raw intervals do. The value is where the shares reach the level, if a cell's users are
        spread evenly over it.

        Raises:
            InvalidParameter: the level is not in (0, 1).
        """
        asked = rational(level, "level")
        if not 0 < asked < 1:
            raise InvalidParameter(f"level expects a share in (0, 1), got {value_text(level)}")
        shares, lows, highs = self.cumulative.values, self.cumulative.lows, self.cumulative.highs
        first, cell, last = (_reached(some, float(asked)) for some in (highs, shares, lows))
        start, width = self.ends[cell], self.ends[cell + 1] - self.ends[cell]
        before = shares[cell - 1] if cell else 0.0
        along = min(_part(float(asked) - before, shares[cell] - float(asked), 1.0), 1.0) * width
        value = start + (max(ceil(along - _SLACK), 1) - 1 if self.whole else along)
        low, high = self.ends[first], self.ends[last + 1] - int(self.whole)
        return Quantile(asked, low, high, min(max(value, low), high))

    def present(self) -> Presentation:
        """Return a row per end of a cell: the share of users below it, or up to it."""
        names = (f"up to {end - 1:g}" if self.whole else f"below {end:g}" for end in self.ends[1:])
        parts = zip(names, *self._band, strict=True)
        _, lows, highs = self._band
        return Presentation(
            tuple(EstimateRow(*part) for part in parts),
            shares=True,
            ranked=False,
            missing=named_share(self.missing_share),
            lines=(f"quartiles (joint intervals): {self._quartiles()}",),
            subject=self.column,
            apart=_apart(lows[:-1], highs[:-1]),  # the share up to the last end is known
        )

    def to_shape(self) -> DistributionFunction:
        """Return the share of users below each end of a cell."""
        values = [end - int(self.whole) for end in self.ends[1:]]
        return DistributionFunction(
            self.column,
            tuple(
                DistributionPoint(value, value, *part)
                for value, *part in zip(values, *self._band, strict=True)
            ),
        )

    def _quartiles(self) -> str:
        """Format the quartiles with their intervals; an end at a bound tells nothing."""
        told = []
        for name, place in (("1/4: ", 1), ("median ", 2), ("3/4: ", 3)):
            item = self.quantile(Fraction(place, 4))
            step = min(b - a for a, b in pairwise(self.ends))
            value = min(max(round(item.value, -floor(log10(step))), item.low), item.high)
            told.append(f"{name}{value:g} ({self._interval(item)})")
        return ", ".join(told)

    def _interval(self, item: Quantile) -> str:
        below = item.low == self.ends[0]
        above = item.high == self.ends[-1] - int(self.whole)
        if below and above:
            return "anywhere within the bounds"
        if below or above:
            return f"at most {item.high:g}" if below else f"{item.low:g} or more"
        return f"{item.low:g}" if item.low == item.high else f"{item.low:g} to {item.high:g}"

    def __str__(self) -> str:
        cells_told = f"{self.column} in {len(self.shares)} cells"
        return f"{cells_told}; {self._quartiles()}; {self.missing_share}"

    @property
    def _band(self) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
        return self.cumulative.values, self.cumulative.lows, self.cumulative.highs

    @property
    def _tree(self) -> Hierarchy:
        return Hierarchy(len(self.ends) - 1, self.arity)

    def _sum(self, which: str, nodes: tuple[tuple[int, int], ...]) -> float:
        return float(sum(getattr(self.levels[level], which)[node] for level, node in nodes))


def _part(inside: float, outside: float, otherwise: float) -> float:
    """Return the part that one share is of two; of none, what is given."""
    return inside / (inside + outside) if inside + outside > 0 else otherwise


def _rising(shares: Sequence[Answer]) -> Answer:
    """Return shares of ever larger ranges as one answer that rises."""
    # Utility: the truth rises, so wherever all intervals hold, so do the greatest of the lower ends
    # before each and the least of the upper ends after it. Where these cross (then one interval
    # does not hold) the ends stay as they are. The values are the nearest in squares that rise,
    # each moved into its interval: no farther from a truth inside than the greatest given distance.
    given = np.array([answer.lows for answer in shares]), np.array([a.highs for a in shares])
    low = np.maximum.accumulate(given[0].ravel())
    high = np.minimum.accumulate(given[1].ravel()[::-1])[::-1]
    if (low > high + _SLACK).any():
        low, high = given[0].ravel(), given[1].ravel()
    blocks: list[tuple[float, int]] = []  # means of neighbours, and how many
    for answer in shares:
        mean, count = answer.value, 1
        while blocks and blocks[-1][0] > mean:
            other, size = blocks.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        blocks.append((mean, count))
    means, counts = zip(*blocks, strict=True)
    values = np.clip(np.repeat(means, counts), np.minimum(low, high), np.maximum(low, high))
    return Answer(tuple(values.tolist()), tuple(low.tolist()), tuple(high.tolist()))


def _apart(lows: Sequence[float], highs: Sequence[float]) -> tuple[int, ...]:
    """Return places of intervals that do not overlap, as many as there can be."""
    # Ends rise, so the next is the first that begins above the last one's end. From the last on,
    # each is then moved to the narrowest interval that ends below the next: many begin at 0, and
    # are wide.
    places: list[int] = []
    for place, low in enumerate(lows):
        if not places or low > highs[places[-1]]:
            places.append(place)
    stop = len(lows)
    for number in range(len(places) - 1, -1, -1):
        found = range(places[number], stop)
        places[number] = min(found, key=lambda place: (highs[place] - lows[place], -place))
        stop = bisect_left(highs, lows[places[number]])
    return tuple(places) if len(places) > 1 else ()


def _reached(shares: Sequence[float], level: float) -> int:
    """Return the first cell up to whose end shares reach a level; if none, the last cell."""
    places = (place for place, share in enumerate(shares) if share >= level - _SLACK)
    return next(places, len(shares) - 1)


@catalogued(
    summary="the shares of all ranges of a number, and its quantiles, asked all at once",
    error="greatest distance of a share up to a cell's end from the population's",
    guess="values spread evenly between the bounds",
    success=assessments.ALL_COVER,
    example=lambda: Schema("ranges", 1, number=Real(0, 1)),
    population="numbers",
    small=SmallSettings(
        oracles={"steps": "16", "tau": "1/10"}, fleets={"steps": "4", "arity": "2", "tau": "1/4"}
    ),
)
@non_adaptive("ranges", version=1)
def ranges(
    schema: Schema,
    column: Annotated[
        str,
        Parameter(
            "the number (default: the only one)", ParameterKind.FIELD, read=one_of(Integer, Real)
        ),
    ],
    steps: Annotated[int, "into how many cells the bounds are cut"] = 64,
    arity: Annotated[int, "how many ranges of a level make one of the next"] = 4,
    tau: Tau = None,
) -> tuple[Batch, Callable[[Answers], Ranges]]:
    """All ranges of a number at once: a histogram of each level of a tree, made consistent.

    Utility: the bounds of the schema are cut into `steps` cells of equal width (of whole numbers
    that are fewer, one each); a level has ranges of arity, arity^2, ... of them, and each is one
    categorical question. All are asked in one round. Raw shares are unbiased and each is within
    tau. The consistent ones are nearest to them in squares over all ranges, so they are unbiased
    too, and in all no farther from the truth: the root of their mean squared error is less than
    tau. A range of 100 of 256 cells has a quarter of the squared error that one histogram of the
    same users would give it, and a third of that of the raw sums (20,000 users, epsilon 1).

    An arity of `steps` or more makes one histogram.

    Raises:
        InvalidParameter: no such number, or steps or arity is outside 2 .. 1024.

    Source: hierarchical histograms (Hay et al. 2010), in the local model with a group of users
        a level.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 127))
        >>> oracle = ask.ExactOracle(schema, {"age": [10, 40, 80, 90]})
        >>> len(ask.learn(ask.learners.ranges(schema, "age", steps=4), oracle).present().rows)
        4
    """
    kind = field_of(schema, column)
    if not isinstance(kind, Integer | Real):
        raise InvalidParameter(f"ranges expects a number as column, found {column}")
    (parts,) = cells(schema, column, steps)
    tolerance = None if tau is None else rational(tau, "tau")
    whole = isinstance(kind, Integer)
    bounds = (Fraction(kind.low), *parts.edges, Fraction(kind.high) + int(whole))
    ends = tuple(map(float, bounds))
    batch = Batch(
        Question(joint(binned(schema, column, parts.edges[width - 1 :: width]))[0], tau=tolerance)
        for width in Hierarchy(len(parts), arity).widths
    )

    def conclude(answers: Answers) -> Ranges:
        return Ranges(column, ends, whole, arity, tuple(answers))

    return batch, conclude


@assessments.assess.register
def _(
    hypothesis: Ranges, learner: Learner[Any], users: assessments.Users
) -> assessments.Assessment:
    """Judge shares from the first cell up to another's end, and the missing share."""
    # Shares are of the users who have a number, as in the hypothesis. It is right if the intervals
    # of all levels hold: those of all ranges and of the missing share follow from them.
    if not isinstance(learner, NonAdaptive):
        return assessments.Assessment(None, None)
    queries = [question.query for question in learner.batch.questions]
    totals = users.totals(queries)
    *cells, absent = totals[-1].cells.tolist()
    present = users.size - absent
    if not present:
        return assessments.Assessment(None, None)
    first, last = hypothesis.ends[0], hypothesis.ends[-1]
    told = hypothesis.cumulative
    assessment = assessments.covers(
        told.values,
        told.lows,
        told.highs,
        tuple((np.cumsum(cells) / present).tolist()),
        tuple((end - first) / (last - first) for end in hypothesis.ends[1:]),
    )
    levels = zip(hypothesis.answers, totals, strict=True)
    held = all(
        assessments.covers(answer.values, answer.lows, answer.highs, truth.shares()).success
        for answer, truth in levels
    )
    missing = absent / users.size
    return replace(assessment, success=held).with_intervals(
        assessments.JointInterval(assessments.MISSING, hypothesis.missing_share.holds(missing)),
        absent=[missing],
    )


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
    """

    cells: int
    arity: int

    def __post_init__(self) -> None:
        whole_within(self.arity, 2, MAX_ARITY, "arity")
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

        Ends are one array a level, of `sizes`; `total` is the value of the root.
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
