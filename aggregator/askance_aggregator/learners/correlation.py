"""Pearson's correlation of two numbers.

**Asymptotic.** Among the users with both numbers let x and y be the means, q their share. A change
of the population changes the covariance times q by the mean of the centred product
(X - x)(Y - y), and the correlation r times q by that of

    Z W - r (Z^2 + W^2) / 2,    Z = (X - x) / s_x, W = (Y - y) / s_y.

Both are sums of the asked components with known weights. Their variance is that of the reports, of
the sample and the randomizer together; where it depends on mean products of components that were
not asked, these are taken at the worst that the moments allow (`mean_products`). No covariance is
tested by its estimate over this deviation, to which that of the second order is added: the product
of both means' errors. The interval of r is its estimate and the normal law's quantile times the
deviation, where both variances are five standard errors or more above zero.

**For every number of users.** If each moment lies in an interval, the correlation lies between its
least and its greatest value over the box of all of them. Both are at one of finitely many points:
for fixed E[xy] = h, E[x^2] = L and E[y^2] = M the logarithm of

    (h - x y) / sqrt((L - x^2) (M - y^2)),    x = E[x], y = E[y],

has the derivative (x h - y L) / ((h - x y)(L - x^2)) by x, and the like by y. So an inner extreme
is at x = y = 0, one on an edge at x = y L / h or y = x M / h, and all others are corners. The
moments h, L and M enter monotonically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, log, sqrt
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved
from askance_aggregator.learners import assessments, learning
from askance_aggregator.learners.asymptotic import (
    IN_WAVES,
    MOST_SKEW,
    STANDS,
    TOO_FEW,
    ForEverySize,
    chance_of,
    detectable,
    quantile,
)
from askance_aggregator.learners.encodings import Number, numbers
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.missing import MissingShare, complete_rows, named_share
from askance_aggregator.learners.parameters import Parameter, ParameterKind, Present, two_of
from askance_aggregator.learners.presentation import EstimateRow, Null, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import some_fields
from askance_aggregator.learners.schemas import plane_schema
from askance_aggregator.learners.shapes import Effect
from askance_aggregator.numbers import Rational, positive
from askance_aggregator.queries import has_all, number_of_complete, vector, where
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Expression, Integer, Query, Real, Schema

Reals = NDArray[np.float64]

_TINY = 1e-9  # a share that is divided by is greater
_GRID = 20  # bits of a product of two numbers on multiples of 2^-10
_LONGEST = Fraction(49, 20)
"""The length of the vector that is asked, at most: 1 each for xy and for the presence, and
x^2 + (2 x^2 - 1)^2 <= 2 for each number, so sqrt(6) in all."""

_PART = 0.75  # of alpha for an asymptotic interval; the rest is for the share of complete cases


@hypothesis_of("correlation")
@dataclass(frozen=True, slots=True)
class Correlation(JsonObject):
    """Pearson's correlation of two numbers, over the users who have both.

    Args:
        estimate: from the raw moments, in the interval; consistent, not unbiased.
        p_value: of the hypothesis that the covariance is zero; None: the answers have no law.
        missing: estimated share of users without one of the numbers, or both; its interval and
            that of the correlation hold together.
        every_size: interval and p-value that hold for every number of users, where `p_value` is
            asymptotic; None: it holds for every number itself.
        asymptotic: whether the interval is asymptotic, too.
        detectable: correlation that so many users find with a chance of 80 %; None: not known.
        undetermined: reason for which the interval, or the test too, is not asymptotic; empty: both
            are, or there is no law.
    """

    json_name: ClassVar = "correlation"
    json_keys: ClassVar = (
        "summary",
        "columns",
        "estimate",
        "low",
        "high",
        "p_value",
        "every_size?",
        "asymptotic?",
        "detectable?",
        "undetermined?",
        "missing",
    )

    columns: tuple[str, str]
    estimate: float
    low: float
    high: float
    p_value: float | None
    missing: MissingShare
    every_size: ForEverySize | None = None
    asymptotic: bool = False
    detectable: float | None = None
    undetermined: str = ""

    def present(self) -> Presentation:
        """Return one row, the correlation."""
        return Presentation(
            (EstimateRow("correlation", self.estimate, self.low, self.high),),
            missing=named_share(self.missing),
            null=Null(
                "the correlation",
                p_value=self.p_value,
                asymptotic=self.every_size is not None,
                detectable=self.detectable,
                undetermined=self.undetermined,
            ),
            asymptotic=self.asymptotic,
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
        if self.p_value is None:
            return told
        sure = f"= {self.p_value:.2g}, asymptotic" if self.every_size else f"<= {self.p_value:.2g}"
        return f"{told}, p {sure}"


@catalogued(
    summary="Pearson's correlation of two numbers",
    error="distance of the estimated correlation from the population's",
    guess="no correlation",
    success=assessments.ALL_COVER,
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
) -> tuple[learning.Batch, Callable[[learning.Answers], Correlation]]:
    """Estimate the correlation of two numbers, over the users who have both.

    One vector question of all users: x, y, 2 x^2 - 1, 2 y^2 - 1, xy and 1, with x and y on [-1, 1]
    by the schema's bounds, and 0 for a user who lacks one of the two. (The square of a bit is
    known and not asked.) Fisher's transform is not used: it assumes that moments have the noise of
    a normal sample, and here they have the randomizer's.

    Utility: the p-value and the interval are asymptotic (see the module): the p-value where the
    share of users with both numbers is five standard errors above 0, no report weighs too much
    (`asymptotic.MOST_SKEW`) and all users were asked at once, the interval where both variances are
    five standard errors above 0, too. An interval and a p-value that hold for every population and
    every number of users stand beside them in JSON, and take their place elsewhere: the moments'
    intervals hold together, and the correlation's is the image of their box (`Moments`).
    `benchmarks/association.py` has the power and the errors of both. Intervals are narrow where the
    numbers vary over much of their ranges: noise is relative to the range's square, so bounds in
    the schema matter more than for a mean.

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
    question = learning.Question(query, _tolerance(tau, deviation, present), length=_LONGEST)
    names = (pair[0].name, pair[1].name)

    def conclude(answers: learning.Answers) -> Correlation:
        (answer,) = answers
        interval = _moments(answer.lows, answer.highs, squares)
        exact = _moments(answer.values, answer.values, squares)
        low, high = (-1.0, 1.0) if interval is None else interval.correlation
        value = 0.0 if exact is None else sum(exact.correlation) / 2
        share = MissingShare.outside(answer.values[-1], answer.lows[-1], answer.highs[-1])
        chance = p_value(answers, lambda each: _excludes_zero(each[0], squares))
        found = Correlation(names, min(max(value, low), high), low, high, chance, share)
        return found if answer.law is None else _with_law(found, answer, answer.law, squares)

    return learning.Batch([question]), conclude


def _with_law(
    found: Correlation, answer: learning.Answer, law: learning.SamplingLaw, squares: tuple[int, ...]
) -> Correlation:
    """Put the asymptotic p-value and interval in the place of those for every number of users."""
    if law.look_share < 1:
        return replace(found, undetermined=IN_WAVES)
    sample = _Sample.of(np.array(answer.values), squares, law)
    if isinstance(sample, str):
        return replace(found, undetermined=sample)
    null = sample.null_deviation
    if null is None:
        return replace(found, undetermined=TOO_FEW)
    found = replace(
        found,
        p_value=chance_of(sample.covariance / null),
        every_size=ForEverySize(found.low, found.high, found.p_value),
    )
    deviation = sample.deviation
    if isinstance(deviation, str):
        return replace(found, undetermined=deviation)
    half = quantile(law.alpha * _PART / 2) * deviation
    ends = (min(max(sample.correlation + side * half, -1.0), 1.0) for side in (-1, 1))
    low, high = ends
    rest = law.at(law.alpha * (1 - _PART))
    return replace(
        found,
        estimate=min(max(sample.correlation, low), high),
        low=low,
        high=high,
        asymptotic=True,
        missing=MissingShare.outside(rest.values[-1], rest.lows[-1], rest.highs[-1]),
        detectable=detectable(null / sample.spread, law.alpha),
    )


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


def _excludes_zero(answer: learning.Answer, squares: tuple[int, ...]) -> bool:
    found = _moments(answer.lows, answer.highs, squares)
    return found is not None and (found.covariance.low > 0 or found.covariance.high < 0)


def _tolerance(
    tau: Rational | None, deviation: Rational | None, present: Rational | None
) -> Fraction | None:
    """Return the tolerance t of a component that keeps tau, if the promises hold."""
    # A moment over complete cases is off by less than u = 2 t / (q - t), a square's by u / 2. So a
    # covariance is off by less than 3 u + u^2, a variance by 5/2 u + u^2, and a correlation by less
    # than (11/2 u + 2 u^2) / (s^2 - 5/2 u - u^2), which is below tau for u = tau s^2 / (6 + 3 tau).
    spread = Fraction(1, 2) if deviation is None else positive(deviation, "deviation", 1)
    share = Fraction(1) if present is None else positive(present, "present", 1)
    if tau is None:
        return None
    wanted = positive(tau, "tau", 1)
    off = wanted * spread * spread / (6 + 3 * wanted)
    return off * share / (2 + off)


@assessments.assess.register
def _(
    hypothesis: Correlation, learner: Learner[Any], users: assessments.Users
) -> assessments.Assessment:
    """Judge by the distance of the correlation; right if it and the missing share are covered."""
    named = some_fields(users.schema, hypothesis.columns)
    pair = _two_numbers(users.schema, hypothesis.columns)
    sums, having = np.zeros(5), 0
    for columns in assessments.chunks(users):
        rows = complete_rows(columns, named)
        x, y = (number.of(columns)[rows] for number in pair)
        sums += [x.sum(), y.sum(), x @ x, y @ y, x @ y]
        having += int(rows.sum())
    absent = 1 - having / users.size
    if not having:
        return assessments.Assessment(None, None, summary=assessments.NO_SPREAD)
    mean_x, mean_y, square_x, square_y, product = sums / having
    variances = square_x - mean_x**2, square_y - mean_y**2
    if min(variances) <= 0:
        return assessments.Assessment(None, None, summary=assessments.NO_SPREAD)
    truth = (float((product - mean_x * mean_y) / np.sqrt(variances[0] * variances[1])),)
    ends = (hypothesis.low,), (hypothesis.high,)
    judged = assessments.covers((hypothesis.estimate,), *ends, truth, (0.0,), 1.0)
    return judged.with_intervals(
        assessments.JointInterval(assessments.MISSING, hypothesis.missing.holds(absent)),
        absent=[absent],
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Sample:
    """Estimated moments of the users with both numbers, and the law of their estimates."""

    # values: of the answer: both numbers, their squares (2 x^2 - 1), the product, the share.
    # squares: which of the numbers have a square; that of a bit is 1.
    # means: of both numbers.
    # variances: of both numbers.

    values: Reals
    squares: tuple[int, ...]
    law: learning.SamplingLaw
    means: tuple[float, float]
    variances: tuple[float, float]

    @classmethod
    def of(
        cls, values: Reals, squares: tuple[int, ...], law: learning.SamplingLaw
    ) -> _Sample | str:
        """Return the sample, or the reason for which nothing asymptotic is known of it."""
        share = float(values[-1])
        weights = np.zeros(len(values))
        weights[-1] = 1.0
        spread = law.sum_law(weights, values, mean_products(values, squares))
        if spread is None:
            return "the randomizer's law has no second moments"
        if share < STANDS * sqrt(spread.variance):
            return (
                "the share of users with both numbers is less than"
                f" {STANDS:.0f} standard errors above 0"
            )
        x, y = float(values[0]) / share, float(values[1]) / share
        known = {place: (float(values[2 + at]) / share + 1) / 2 for at, place in enumerate(squares)}
        variances = known.get(0, 1.0) - x * x, known.get(1, 1.0) - y * y
        return cls(values, squares, law, (x, y), variances)

    @property
    def share(self) -> float:
        """Share of users with both numbers."""
        return float(self.values[-1])

    @property
    def covariance(self) -> float:
        """The covariance of both numbers."""
        return float(self.values[-2]) / self.share - self.means[0] * self.means[1]

    @property
    def spread(self) -> float:
        """The product of both standard deviations."""
        return sqrt(self.variances[0] * self.variances[1])

    @property
    def correlation(self) -> float:
        """The estimated correlation, which may lie outside -1 .. 1."""
        return self.covariance / self.spread

    @property
    def null_deviation(self) -> float | None:
        """Deviation of the estimated covariance, if there is none; None: its law is not normal."""
        x, y = self.means
        first = self._law(x_part=-y, y_part=-x, product=1.0, one=x * y)
        of_x, of_y = self._law(x_part=1.0, one=-x), self._law(y_part=1.0, one=-y)
        if first is None or of_x is None or of_y is None or first.skew > MOST_SKEW:
            return None
        return sqrt(first.variance + of_x.variance * of_y.variance)

    @property
    def deviation(self) -> float | str:
        """Deviation of the estimated correlation, or why it is not known."""
        for place in (0, 1):
            mean, variance = self.means[place], self.variances[place]
            parts = {"x_part": -2 * mean} if place == 0 else {"y_part": -2 * mean}
            squared = {"x_square": 1.0} if place == 0 else {"y_square": 1.0}
            law = self._law(**parts, **squared, one=mean * mean - variance)
            if law is None or variance < STANDS * sqrt(law.variance):
                return f"a variance is less than {STANDS:.0f} standard errors above 0"
        (x, y), (of_x, of_y), r = self.means, self.variances, self.correlation
        law = self._law(
            x_part=-y / self.spread + r * x / of_x,
            y_part=-x / self.spread + r * y / of_y,
            x_square=-r / 2 / of_x,
            y_square=-r / 2 / of_y,
            product=1 / self.spread,
            one=x * y / self.spread - r / 2 * (x * x / of_x + y * y / of_y),
        )
        return TOO_FEW if law is None or law.skew > MOST_SKEW else sqrt(law.variance)

    def _law(
        self,
        x_part: float = 0.0,
        y_part: float = 0.0,
        x_square: float = 0.0,
        y_square: float = 0.0,
        product: float = 0.0,
        one: float = 0.0,
    ) -> learning.SumLaw | None:
        """Return the law of the mean of a polynomial of both numbers, over those who have them."""
        factors, weights = (x_square, y_square), [x_part, y_part]
        for place, factor in enumerate(factors):
            if place in self.squares:  # x^2 = ((2 x^2 - 1) + 1) / 2
                weights.append(factor / 2)
                one += factor / 2
            else:
                one += factor
        found = np.array([*weights, product, one]) / self.share
        return self.law.sum_law(found, self.values, mean_products(self.values, self.squares))


def mean_products(values: Reals, squares: tuple[int, ...]) -> learning.Ends:
    """Bound the mean products of two components that a population with these means can have.

    Args:
        values: means of the components, 0 for a user who lacks a number; the last is their share.
        squares: places of the numbers that have a square; that of a bit is 1.

    Returns:
        The least and the greatest, shape (values, values) each.
    """
    # Among users with both numbers a component v_i lies in -1 .. 1 and has the mean m_i. So
    # |E[v_i v_j] - m_i m_j| is at most the product of both deviations (Cauchy and Schwarz), and
    # (1 +- v_i)(1 +- v_j) is never below 0 (Frechet):
    #
    #     |m_i + m_j| - 1 <= E[v_i v_j] <= 1 - |m_i - m_j|.
    #
    # Some products are components themselves, and x (x y) is ((2 x^2 - 1) y + y) / 2.
    size, share = len(values), float(np.clip(values[-1], 0.0, 1.0))
    product, one = size - 2, size - 1
    means = np.clip(values / max(share, _TINY), -1.0, 1.0)
    means[one] = 1.0
    most_square = np.ones(size)  # of a component
    for at, place in enumerate(squares):
        most_square[place] = (means[2 + at] + 1) / 2
    most_square[product] = min(most_square[0], most_square[1])
    deviations = np.sqrt(np.maximum(most_square - means**2, 0.0))
    middles, reach = np.outer(means, means), np.outer(deviations, deviations)
    least = np.maximum(middles - reach, np.abs(np.add.outer(means, means)) - 1)
    most = np.minimum(middles + reach, 1 - np.abs(np.subtract.outer(means, means)))
    for at, place in enumerate(squares):
        _link(least, most, (place, product), (2 + at, 1 - place), means[1 - place])
    known = {(0, 1): means[product]}
    known |= {(place, product): means[1 - place] for place in (0, 1) if place not in squares}
    for pair, value in known.items():
        for turned in (pair, pair[::-1]):
            least[turned] = most[turned] = value
    np.fill_diagonal(least, means**2)
    for place in (*squares, one):  # squares of what is no square itself are known
        least[place, place] = most_square[place]
    for place in {0, 1} - {*squares}:
        least[place, place] = 1.0
    np.fill_diagonal(most, most_square)
    return share * np.minimum(least, most), share * np.maximum(least, most)


def _link(least: Reals, most: Reals, of: tuple[int, int], by: tuple[int, int], mean: float) -> None:
    """Narrow the bounds of E[x (x y)] and E[(2 x^2 - 1) y] by each other."""
    low = max(least[of], (least[by] + mean) / 2)
    high = min(most[of], (most[by] + mean) / 2)
    for pair, (start, end) in ((of, (low, high)), (by, (2 * low - mean, 2 * high - mean))):
        for turned in (pair, pair[::-1]):
            least[turned], most[turned] = start, end


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
    of_x, of_y = (max(square.low if positive else square.high, 0.0) for square in squares)
    product, found = moments.product.high, []
    for x, y in _extremes(moments, product, of_x, of_y, without_variance=positive):
        covariance, variances = product - x * y, (of_x - x * x, of_y - y * y)
        if (covariance > 0) is not positive and covariance != 0:
            continue
        if min(variances) <= 0:
            return 1.0 if positive else 0.0
        found.append(covariance / sqrt(variances[0] * variances[1]))
    return min(max(found), 1.0) if found else 1.0


def _extremes(
    moments: Moments, product: float, of_x: float, of_y: float, *, without_variance: bool
) -> list[tuple[float, float]]:
    """Return the points of a rectangle of means at which an extreme may be."""
    # Points without a variance are among them on request: a covariance above zero may be there.
    points = [(x, y) for x in moments.x for y in moments.y] + [(0.0, 0.0)]
    if without_variance:
        points += [(x, y) for x in (-sqrt(of_x), sqrt(of_x)) for y in moments.y]
        points += [(x, y) for x in moments.x for y in (-sqrt(of_y), sqrt(of_y))]
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


def p_value(
    answers: learning.Answers, rejected: Callable[[Sequence[learning.Answer]], bool]
) -> float | None:
    """Compute the least level at which the answers' intervals reject a hypothesis."""
    # The chance of a level is divided evenly over the answers. If the hypothesis is true, intervals
    # at a level reject it with a chance of at most that level; so the p-value is valid whenever the
    # intervals are, for every number of users.
    #
    # If some intervals reject, all narrower ones must. The value is in `LEAST` .. 1, rounded up;
    # None where an answer has no law.
    laws = [answer.law for answer in answers if answer.law is not None]
    if len(laws) < len(answers):
        return None

    def rejects(level: float) -> bool:
        return rejected([law.at(level / len(laws)) for law in laws])

    if rejects(LEAST):
        return LEAST
    _, high = halved(lambda level: rejects(exp(level)), log(LEAST), 0.0, _HALVINGS)
    return min(exp(high), 1.0)
