"""Pearson's correlation of two numbers, with an interval that holds for every number of users.

If each moment lies in an interval, the correlation lies between its least and its greatest value
over the box of all of them. Both are at one of finitely many points: for fixed E[xy] = h,
E[x^2] = L and E[y^2] = M the logarithm of

    (h - x y) / sqrt((L - x^2) (M - y^2)),    x = E[x], y = E[y],

has the derivative (x h - y L) / ((h - x y)(L - x^2)) by x, and the like by y. So an inner extreme
is at x = y = 0, one on an edge at x = y L / h or y = x M / h, and all others are corners. The
moments h, L and M enter monotonically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, log, sqrt
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from askance_aggregator.learners.assessments import (
    ALL_COVER,
    MISSING,
    NO_SPREAD,
    Assessment,
    JointInterval,
    Users,
    assess,
    chunks,
    covers,
)
from askance_aggregator.learners.encodings import Number, numbers
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.missing import MissingShare, complete_rows, named_share
from askance_aggregator.learners.parameters import (
    Parameter,
    ParameterKind,
    Present,
    two_of,
)
from askance_aggregator.learners.presentation import EstimateRow, Null, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import some_fields
from askance_aggregator.learners.schemas import plane_schema
from askance_aggregator.learners.shapes import Effect
from askance_aggregator.numbers import Rational, positive
from askance_aggregator.queries import has_all, number_of_complete, vector, where
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Expression, Integer, Query, Real, Schema

_GRID = 20  # bits of a product of two numbers on multiples of 2^-10
_LONGEST = Fraction(49, 20)
"""The length of the vector that is asked, at most: 1 each for xy and for the presence, and
x^2 + (2 x^2 - 1)^2 <= 2 for each number, so sqrt(6) in all."""


@hypothesis_of("correlation")
@dataclass(frozen=True, slots=True)
class Correlation(JsonObject):
    """Pearson's correlation of two numbers, over the users who have both.

    Args:
        estimate: from the raw moments, in the interval; consistent, not unbiased.
        p_value: of the hypothesis that the covariance is zero; None: the answers have no law.
        missing: estimated share of users without one of the numbers, or both; its interval and
            that of the correlation hold together.
    """

    json_name: ClassVar = "correlation"
    json_keys: ClassVar = ("summary", "columns", "estimate", "low", "high", "p_value", "missing")

    columns: tuple[str, str]
    estimate: float
    low: float
    high: float
    p_value: float | None
    missing: MissingShare

    def present(self) -> Presentation:
        """Return one row, the correlation."""
        return Presentation(
            (EstimateRow("correlation", self.estimate, self.low, self.high),),
            missing=named_share(self.missing),
            null=Null("the correlation", p_value=self.p_value),
            whole=(-1.0, 1.0),
            subject=" and ".join(self.columns),
        )

    def to_shape(self) -> Effect:
        """Return the correlation against none."""
        first, second = self.columns
        return Effect(
            f"Correlation of {first} and {second}",
            "correlation",
            0.0,
            "no correlation",
            (-1.0, 1.0),
        )

    def __str__(self) -> str:
        first, second = self.columns
        told = f"correlation of {first} and {second}: {self.estimate:.3g}"
        told = f"{told} ({self.low:.3g} .. {self.high:.3g})"
        return told if self.p_value is None else f"{told}, p <= {self.p_value:.2g}"


@catalogued(
    summary="Pearson's correlation of two numbers",
    error="distance of the estimated correlation from the population's",
    guess="no correlation",
    success=ALL_COVER,
    example=lambda: plane_schema(1),
    population="plane",
    small=SmallSettings(
        oracles={"d": "1", "columns": "x0,y", "tau": "1", "deviation": "1"},
        fleets={"d": "1", "columns": "x0,y", "tau": "1", "deviation": "1"},
    ),
)
@non_adaptive("correlation", version=1)
def correlation(
    schema: Schema,
    columns: Annotated[
        Sequence[str],
        Parameter(
            "two numbers or bits, with a comma (default: the first two)",
            ParameterKind.FIELDS,
            read=two_of(Integer, Real),
        ),
    ],
    tau: Annotated[Rational | None, "its tolerance (default: what the users allow)"] = None,
    deviation: Annotated[
        Rational | None,
        "the standard deviation of each number, as a part of half its range, at least: sizes"
        " the plan, no interval relies on it (default: 1/2)",
    ] = None,
    present: Present = None,
) -> tuple[Batch, Callable[[Answers], Correlation]]:
    """Estimate the correlation of two numbers, over the users who have both.

    One vector question of all users: x, y, 2 x^2 - 1, 2 y^2 - 1, xy and 1, with x and y on [-1, 1]
    by the schema's bounds, and 0 for a user who lacks one of the two. (The square of a bit is
    known and not asked.) Fisher's transform is not used: it assumes that moments have the noise of
    a normal sample, and here they have the randomizer's.

    Utility: the moments' intervals hold together, and the correlation's is the image of their box
    (`Moments`): it holds for every population and every number of users. It is wider than an
    asymptotic one, by about 1.3 to 2.4 where means are near the middle of their ranges
    (`benchmarks/association.py`). It is narrow where the numbers vary over much of their ranges:
    noise is relative to the range's square, so bounds in the schema matter more than for a mean.
    The p-value is the least level at which the interval excludes 0: valid and conservative.

    `tau` is kept if two promises, from public knowledge, hold: each number's standard deviation is
    at least `deviation` of half its range, in (0, 1] (None: one half), and at least a share
    `present` of users has both numbers (None: all). No interval relies on them.

    Raises:
        InvalidParameter: not two numbers or bits, or a parameter out of range.

    Example:
        >>> people = ask.read("census")
        >>> learner = ask.learners.correlation(["age", "hours"])
        >>> study = ask.Study(learner, people.schema, epsilon=4)
        >>> study
        <Study: correlation of census, epsilon 4, schema census>
    """
    pair = _two_numbers(schema, columns)
    fields = {name: schema[name] for name in columns}
    squares = tuple(place for place, number in enumerate(pair) if not number.is_truth)
    query = _asked(pair, squares, fields)
    question = Question(query, _tolerance(tau, deviation, present), length=_LONGEST)
    names = (pair[0].name, pair[1].name)

    def conclude(answers: Answers) -> Correlation:
        (answer,) = answers
        interval = _moments(answer.lows, answer.highs, squares)
        exact = _moments(answer.values, answer.values, squares)
        low, high = (-1.0, 1.0) if interval is None else interval.correlation
        value = 0.0 if exact is None else sum(exact.correlation) / 2
        share = MissingShare.outside(answer.values[-1], answer.lows[-1], answer.highs[-1])
        found = p_value(answers, lambda each: _excludes_zero(each[0], squares))
        return Correlation(names, min(max(value, low), high), low, high, found, share)

    return Batch([question]), conclude


def _two_numbers(schema: Schema, columns: Sequence[str]) -> tuple[Number, Number]:
    kinds = some_fields(schema, columns).fields
    if len(kinds) != 2 or not all(
        isinstance(kind, Integer | Real | Bit) for kind in kinds.values()
    ):
        raise InvalidParameter(
            f"correlation: columns: expected two numbers or bits, got {', '.join(columns)}"
        )
    (first,), (second,) = (numbers(schema, name) for name in kinds)
    return first, second


def _asked(
    pair: tuple[Number, Number], squares: tuple[int, ...], fields: dict[str, Expression]
) -> Query:
    """Build the vector: both numbers, their squares, their product, and the presence of both."""
    x, y = (
        where(number.expression, 1, -1) if number.is_truth else number.expression for number in pair
    )
    parts = [x, y, *(2 * (x, y)[place] * (x, y)[place] - 1 for place in squares), x * y]
    complete = [number_of_complete(part, fields) for part in parts]
    presence = has_all(fields).expression
    return vector([*complete, presence], -1, 1, 0, _GRID)


def _moments(
    lows: Sequence[float], highs: Sequence[float], squares: tuple[int, ...]
) -> Moments | None:
    """Divide by the share of complete cases; None where that is not above zero."""
    *rest, share = (Interval(low, high) for low, high in zip(lows, highs, strict=True))
    share = share.within(0.0, 1.0)
    if share.low <= 0:
        return None
    over = [part.over(share).within(-1.0, 1.0) for part in rest]
    known = dict(zip(squares, over[2:-1], strict=True))
    ones = Interval(1.0, 1.0)
    doubled = (known.get(place, ones) for place in (0, 1))
    square = [Interval((part.low + 1) / 2, (part.high + 1) / 2) for part in doubled]
    return Moments(over[0], over[1], square[0], square[1], over[-1])


def _excludes_zero(answer: Answer, squares: tuple[int, ...]) -> bool:
    found = _moments(answer.lows, answer.highs, squares)
    return found is not None and (found.covariance.low > 0 or found.covariance.high < 0)


def _tolerance(
    tau: Rational | None, deviation: Rational | None, present: Rational | None
) -> Fraction | None:
    """Return the tolerance t of a component that keeps tau, if the promises hold.

    A moment over complete cases is off by less than u = 2 t / (q - t), a square's by u / 2. So a
    covariance is off by less than 3 u + u^2, a variance by 5/2 u + u^2, and a correlation by less
    than (11/2 u + 2 u^2) / (s^2 - 5/2 u - u^2), which is below tau for u = tau s^2 / (6 + 3 tau).
    """
    spread = Fraction(1, 2) if deviation is None else positive(deviation, "deviation", 1)
    share = Fraction(1) if present is None else positive(present, "present", 1)
    if tau is None:
        return None
    wanted = positive(tau, "tau", 1)
    off = wanted * spread * spread / (6 + 3 * wanted)
    return off * share / (2 + off)


@assess.register
def _(hypothesis: Correlation, learner: Learner[Any], users: Users) -> Assessment:
    """Judge by the distance of the correlation; right if it and the missing share are covered."""
    named = some_fields(users.schema, hypothesis.columns)
    pair = _two_numbers(users.schema, hypothesis.columns)
    sums, having = np.zeros(5), 0
    for columns in chunks(users):
        rows = complete_rows(columns, named)
        x, y = (number.of(columns)[rows] for number in pair)
        sums += [x.sum(), y.sum(), x @ x, y @ y, x @ y]
        having += int(rows.sum())
    absent = 1 - having / users.size
    if not having:
        return Assessment(None, None, summary=NO_SPREAD)
    mean_x, mean_y, square_x, square_y, product = sums / having
    variances = square_x - mean_x**2, square_y - mean_y**2
    if min(variances) <= 0:
        return Assessment(None, None, summary=NO_SPREAD)
    truth = (float((product - mean_x * mean_y) / np.sqrt(variances[0] * variances[1])),)
    ends = (hypothesis.low,), (hypothesis.high,)
    judged = covers((hypothesis.estimate,), *ends, truth, (0.0,), 1.0)
    return judged.with_intervals(
        JointInterval(MISSING, hypothesis.missing.holds(absent)), absent=[absent]
    )


class Interval(NamedTuple):
    """An interval, or a value with both ends equal."""

    low: float
    high: float

    def over(self, divisor: Interval) -> Interval:
        """Divide by a positive interval."""
        return Interval(
            min(self.low / divisor.low, self.low / divisor.high),
            max(self.high / divisor.low, self.high / divisor.high),
        )

    def within(self, low: float, high: float) -> Interval:
        """Return the part in a range; the nearest end of the range if there is none."""
        return Interval(min(max(self.low, low), high), min(max(self.high, low), high))

    @property
    def negated(self) -> Interval:
        """Return all values with the other sign."""
        return Interval(-self.high, -self.low)


class Moments(NamedTuple):
    """E[x], E[y], E[x^2], E[y^2] and E[xy] of numbers in [-1, 1]."""

    x: Interval
    y: Interval
    x_squared: Interval
    y_squared: Interval
    product: Interval

    @property
    def correlation(self) -> Interval:
        """The least and the greatest correlation that moments in these intervals allow."""
        mirrored = self._replace(y=self.y.negated, product=self.product.negated)
        return Interval(-_greatest(mirrored), _greatest(self))

    @property
    def covariance(self) -> Interval:
        """The least and the greatest covariance that moments in these intervals allow."""
        corners = [x * y for x in self.x for y in self.y]
        return Interval(self.product.low - max(corners), self.product.high - min(corners))


def _greatest(moments: Moments) -> float:
    """Return the greatest correlation in a box of moments."""
    positive = moments.covariance.high > 0
    # A covariance above zero is divided by the least variances, one below zero by the greatest.
    squares = moments.x_squared, moments.y_squared
    of_x, of_y = (square.low if positive else square.high for square in squares)
    product, found = moments.product.high, []
    for x, y in _extremes(moments, product, of_x, of_y):
        covariance, variances = product - x * y, (of_x - x * x, of_y - y * y)
        if (covariance > 0) is not positive and covariance != 0:
            continue
        if min(variances) <= 0:
            return 1.0 if positive else 0.0
        found.append(covariance / sqrt(variances[0] * variances[1]))
    return min(max(found), 1.0) if found else 1.0


def _extremes(
    moments: Moments, product: float, of_x: float, of_y: float
) -> list[tuple[float, float]]:
    """Return the points of a rectangle of means at which an extreme may be."""
    points = [(x, y) for x in moments.x for y in moments.y] + [(0.0, 0.0)]
    if product != 0:
        points += [(y * of_x / product, y) for y in moments.y]
        points += [(x, x * of_y / product) for x in moments.x]
    return [
        (x, y)
        for x, y in points
        if moments.x.low <= x <= moments.x.high and moments.y.low <= y <= moments.y.high
    ]


LEAST = 1e-12
"""The smallest p-value that is told: an interval at a smaller level rejects, too."""

_HALVINGS = 14  # of the logarithm's range: the level is exact to 0.2 %


def p_value(answers: Answers, rejected: Callable[[Sequence[Answer]], bool]) -> float | None:
    """Compute the least level at which the answers' intervals reject a hypothesis.

    The chance of a level is divided evenly over the answers. If the hypothesis is true, intervals
    at a level reject it with a chance of at most that level; so the p-value is valid whenever the
    intervals are, for every number of users.

    If some intervals reject, all narrower ones must. The value is in `LEAST` .. 1, rounded up;
    None where an answer has no law.
    """
    laws = [answer.law for answer in answers if answer.law is not None]
    if len(laws) < len(answers):
        return None

    def rejects(level: float) -> bool:
        return rejected([law.at(level / len(laws)) for law in laws])

    if rejects(LEAST):
        return LEAST
    low, high = log(LEAST), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rejects(exp(middle)) else (middle, high)
    return min(exp(high), 1.0)
