"""A share or a mean over time, of values that change rarely: one answer per user for all epochs.

Discounted changes of a path: the code by which `trend` asks about all epochs at once.

A path x_1 .. x_T of numbers in [-1, 1] is coded as

    y_1 = s x_1,    y_t = x_t - r x_(t-1)    for t = 2 .. T,    0 <= r < 1, s^2 <= 1 - r^2,

the inverse of a first-order filter: x_1 = y_1 / s and x_t = r x_(t-1) + y_t.

Length. Let the squared steps of a path sum to at most 4 k: so do any k changes, and k changes from
one end of the range to the other attain it. For every t

    (x_t - r x_(t-1))^2 = r (x_t - x_(t-1))^2 + (1 - r) (x_t^2 - r x_(t-1)^2),

so that |y|^2 is r times the sum of squared steps and a sum of the x_t^2 with factors of at least 0,
which together are s^2 + (1 - r)^2 (T - 1). Hence

    |y|^2 <= s^2 + (T - 1 - k) (1 - r)^2 + k (1 + r)^2,

and every path of -1 and 1 with k changes attains it.

Error. A vector of length L that is asked with a randomizer of directions has errors of variance
c L^2 / n in every direction, where c depends on epsilon. That of x_t is c L^2 / n times its
squared weights, r^(2 (t-1)) / s^2 + r^0 + r^2 + .. + r^(2 (t-2)). These are 1 / (1 - r^2) if s is
exact: the same for all epochs. With z = (1 - r) / (1 + r) the variance is c N / n,

    N = 1 + (T - 1 - k) z + k / z.

It is least at z^2 = k / (T - 1 - k), where N = 1 + 2 sqrt(k (T - 1 - k)). From k = (T - 1) / 2 on
the best r is 0, and N = T: the values themselves.

Source: Edmonds, Nikolov and Ullman 2020 factorize queries in the local model; the code and its
bound for paths of few changes are derived above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import isqrt
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import (
    ALL_COVER,
    Assessment,
    Users,
    assess,
    chunks,
    covers,
    guess_of,
    sample_of,
    values_in,
)
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, named_rows
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Question
from askance_aggregator.learners.parameters import Parameter, ParameterKind
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import some_fields
from askance_aggregator.learners.scaled_vectors import Scaled
from askance_aggregator.learners.schemas import MAX_EPOCHS, paths_schema
from askance_aggregator.learners.shapes import TimeSeries
from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import among_present, dot, evaluate_columns, real, round_to, vector
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bit, Category, Expression, Integer, Real, Schema, constant

_GRID = 20  # bits of a component: rounding moves it by 2^-21 of half the range at most


@hypothesis_of("trend")
@dataclass(frozen=True, slots=True)
class Trend(JsonObject):
    """A mean per epoch, in real units; of a property the share of users who have it.

    Args:
        estimates: raw and unbiased for users with at most `changes` changes.
        lows: lower ends of intervals, which hold together over all epochs.
        range: the least and the greatest value of a user.
        value: of a category, whose share it is; empty: the fields are bits or numbers.
    """

    json_name: ClassVar = "trend"

    epochs: tuple[str, ...]
    estimates: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    range: tuple[float, float] = (0.0, 1.0)
    value: str = ""

    def __post_init__(self) -> None:
        if len({len(part) for part in (self.epochs, self.estimates, self.lows, self.highs)}) != 1:
            raise InvalidParameter("a trend expects an estimate and an interval per epoch")

    def to_json(self) -> dict[str, Any]:
        """Return {"epochs": {FIELD: {"estimate", "low", "high"}}, "low", "high", "value"}."""
        low, high = self.range
        rows = named_rows(self.epochs, estimate=self.estimates, low=self.lows, high=self.highs)
        return {"epochs": rows, "low": low, "high": high, "value": self.value}

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the trend, whose means have the names of the epochs."""
        epochs, ends = document.part("epochs"), (document.number("low"), document.number("high"))
        estimates, lows, highs = epochs.columns("estimate", "low", "high")
        return cls(tuple(epochs.data), estimates, lows, highs, ends, document.text("value"))

    def present(self) -> Presentation:
        """Return a row per epoch, in the order of time."""
        rows = zip(self.epochs, self.estimates, self.lows, self.highs, strict=True)
        return Presentation(
            tuple(EstimateRow(*row) for row in rows),
            shares=self.range == (0.0, 1.0),
            ranked=False,
            subject=self.value,
            shape=TimeSeries(),
        )

    def __str__(self) -> str:
        shown = zip(self.epochs[:8], self.estimates, strict=False)
        text = ", ".join(f"{name} {value:.4g}" for name, value in shown)
        return text + (", ..." if len(self.epochs) > 8 else "")


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """A user's values by epoch, on [-1, 1]."""

    names: tuple[str, ...]
    numbers: tuple[Scaled, ...]
    value: str

    @property
    def range(self) -> tuple[float, float]:
        return float(self.numbers[0].low), float(self.numbers[0].high)

    def trend(self, estimates: Sequence[float], ends: Sequence[Sequence[float]]) -> Trend:
        """Return the hypothesis; values are on [-1, 1]."""
        unit = self.numbers[0]
        lows, highs = ends
        return Trend(
            self.names,
            tuple(unit.at(value) for value in estimates),
            tuple(unit.within(low) for low in lows),
            tuple(unit.within(high) for high in highs),
            self.range,
            self.value,
        )


@catalogued(
    summary="a share or a mean over time, of values that change rarely, by one answer per user",
    error="greatest distance of an epoch's estimate from the population's, over epochs, real units",
    guess="the middle of the span of 98 % of all epochs' values; of a share one half",
    success=ALL_COVER,
    example=paths_schema,
    population="paths",
    small=SmallSettings(
        oracles={"horizon": "4", "tau": "1/5"}, fleets={"horizon": "4", "tau": "2/5"}
    ),
)
@non_adaptive("trend", version=1)
def trend(
    schema: Schema,
    columns: Annotated[
        Sequence[str] | None,
        Parameter(
            "a field per epoch, oldest first, with commas (default: all that suit)",
            ParameterKind.FIELDS,
        ),
    ] = None,
    value: Annotated[str | None, "of categories: the value whose share is wanted"] = None,
    changes: Annotated[
        Rational, "of a user, at most: the sum of squared steps over the squared range"
    ] = 1,
    tau: Annotated[
        Rational | None, "tolerance of each epoch (default: what the users allow)"
    ] = None,
) -> tuple[Batch, Callable[[Answers], Trend]]:
    """Ask each user once about T epochs, for values that change at most k times.

    The record has the value of every epoch. A user answers one vector of discounted changes (see
    the module), whose length is bounded by the number of changes.

    Privacy: one answer per user, so that the study's epsilon is the loss of the whole path: pure
    epsilon-LDP, replace-one, for any two paths. It holds for every number of changes; the length is
    a promise for the estimates, and a longer vector counts as drawn back to it.

    Utility: unbiased for users whose squared steps sum to at most `changes` times the squared
    range: k changes of any size, or a drift in many small steps. A user with more counts as one
    with the same signs and smaller values. For values in [-1, 1] all epochs have the variance
    c N / n, where N = 1 + 2 sqrt(k (T - 1 - k)) for k < (T - 1) / 2, else T, and c is a codebook's
    (`random_codebook`; 6.3 at epsilon 1). Users who are split over T epochs, each asked once about
    the present value, have C^2 T / n (C^2 = 4.7 at epsilon 1); with the budget split over T epochs
    it is C(eps / T)^2 / n, about 4 T^2 / (eps^2 n). So one answer per path wins below a number of
    changes, which `benchmarks/trend.py` measures. Intervals are joint over all epochs.

    There are 2..256 columns of one type and range: bits, numbers or categories. A user who lacks
    one of them counts with the middle of the range in every epoch. If k is 0, the values never
    change, and one number is asked for all epochs. `tau`, in real units, is kept for every valid
    oracle, by the sum of all components' errors, which takes more users than the same interval.

    Raises:
        InvalidParameter: no such fields or value, fields of several ranges, or a parameter out of
            range.

    Source: Edmonds, Nikolov and Ullman 2020 for factorizations in the local model. Deviation from
    Erlingsson et al. 2019, where a user answers about dyadic intervals of one level: ADR 46.

    Example:
        >>> schema = ask.Schema("people", may=ask.Bit(), june=ask.Bit(), july=ask.Bit())
        >>> oracle = ask.ExactOracle(schema, {"may": [0, 1], "june": [1, 1], "july": [1, 1]})
        >>> found = ask.learn(ask.learners.trend(), oracle)
        >>> [round(share, 3) for share in found.estimates]
        [0.5, 1.0, 1.0]
    """
    path = _path(schema, columns, value)
    most = rational(changes, "changes")
    if most < 0:
        raise InvalidParameter(f"changes: expected 0 or more, got {value_text(changes)}")
    tolerance = None if tau is None else rational(tau, "tau") * path.numbers[0].factor
    return _constant(path, tolerance) if most == 0 else _changing(path, most, tolerance)


def _constant(path: _Path, tau: Fraction | None) -> tuple[Batch, Callable[[Answers], Trend]]:
    """Ask for the sum of all epochs: the values are the same in all of them."""
    epochs = len(path.names)
    total = dot([1] * epochs, [number.component for number in path.numbers])
    question = Question(real(total, -epochs, epochs, 0), None if tau is None else tau * epochs)

    def conclude(answers: Answers) -> Trend:
        (answer,) = answers
        middle, low, high = (end / epochs for end in (answer.value, answer.low, answer.high))
        return path.trend([middle] * epochs, ([low] * epochs, [high] * epochs))

    return Batch([question]), conclude


def _changing(
    path: _Path, changes: Fraction, tau: Fraction | None
) -> tuple[Batch, Callable[[Answers], Trend]]:
    """Ask for the discounted changes as one vector."""
    code = DiscountedChanges.of(len(path.names), changes)
    reach = 1 + code.ratio  # of a component
    coded = vector(_components(path.numbers, code), -reach, reach, 0)
    question = Question(coded, None if tau is None else tau / code.spread, length=code.length)
    weights = code.weights

    def conclude(answers: Answers) -> Trend:
        (answer,) = answers
        return path.trend((weights @ np.asarray(answer.values)).tolist(), _ends(answer, weights))

    return Batch([question]), conclude


def _ends(answer: Answer, weights: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    lows, highs = answer.sums(weights, 1.0)  # values are in [-1, 1]
    return lows.tolist(), highs.tolist()


def _components(numbers: tuple[Scaled, ...], code: DiscountedChanges) -> list[Expression]:
    """Return y_1 = s x_1 and y_t = x_t - r x_(t-1), on one grid."""
    # A component that lacks a field is 0. Each has all fields, so that all are 0 or none is: else a
    # change to or from a missing value would be lost, and move all later epochs.
    values = [number.component for number in numbers]
    nothing = dot([0] * len(values), values)
    found = [values[0] * constant(code.first, code.bits) + nothing]
    for before, now in pairwise(values):
        found.append(now - before * constant(code.ratio, code.bits) + nothing)
    return [round_to(each, _GRID) if each.frac > _GRID else each for each in found]


def _path(schema: Schema, columns: Sequence[str] | None, value: str | None) -> _Path:
    """Return the fields as numbers on [-1, 1]."""
    suits = (Bit, Integer, Real) if value is None else (Category,)
    named = columns is not None
    if columns is None:
        columns = [
            name
            for name, kind in schema.fields.items()
            if isinstance(kind, suits) and (not isinstance(kind, Category) or value in kind.labels)
        ]
    if not columns or not 2 <= len(columns) <= MAX_EPOCHS:
        wanted = "a bit or a number" if value is None else f"a category with the value {value!r}"
        raise InvalidParameter(
            f"trend: columns: expected 2..{MAX_EPOCHS} fields, oldest first, {wanted} per epoch,"
            f" got {len(columns)}"
        )
    for name, kind in some_fields(schema, columns).fields.items():
        if not isinstance(kind, suits):
            wanted = "a bit or a number" if value is None else "a category, as value is set"
            raise InvalidParameter(f"{name}: expected {wanted}, got {type(kind).__name__}")
        if isinstance(kind, Category) and value not in kind.labels:
            raise unknown_name(f"trend: value of {name}", str(value), [str(x) for x in kind.labels])
    fields = [schema[name] for name in columns]
    numbers = tuple(Scaled.of(field if value is None else field == value) for field in fields)
    if len({(number.low, number.high) for number in numbers}) > 1:
        shown = ", ".join(
            f"{name} {float(number.low):g}..{float(number.high):g}"
            for name, number in list(zip(columns, numbers, strict=True))[:3]
        )
        raise InvalidParameter(
            f"trend: columns: expected fields of one range, got {shown}; give them the same bounds"
            " in the schema"
            if named
            else "trend: columns: expected the epochs' columns by name, oldest first"
            f" (--columns), as those that suit have several ranges: {shown}"
        )
    return _Path(tuple(columns), numbers, value or "")


@assess.register
def _(hypothesis: Trend, learner: Learner[Any], users: Users) -> Assessment:
    """Judge all epochs; a user without a value in some epoch counts with the middle in all."""
    path = _path(users.schema, hypothesis.epochs, hypothesis.value or None)
    low, high = hypothesis.range
    middle = (low + high) / 2
    totals = np.zeros(len(path.names))
    for columns in chunks(users):
        complete = np.logical_and.reduce([columns.present[name] for name in path.names])
        for place, number in enumerate(path.numbers):
            query = real(number.number)
            values = np.ldexp(evaluate_columns(query, columns).astype(float), -query.frac)
            totals[place] += np.where(complete, values, middle).sum()
    truth = tuple((totals / users.size).tolist())
    guess, spread = _guess(hypothesis, users) or (middle, None)
    ends = hypothesis.lows, hypothesis.highs
    guesses = (guess,) * len(truth)
    return covers(hypothesis.estimates, *ends, truth, guesses, (high - low) / 2, spread)


def _guess(hypothesis: Trend, users: Users) -> tuple[float, float | None] | None:
    """Return the constant guess of every epoch, and half of the span whose middle it is."""
    # None where no user has a value: all count with the middle of the range.
    fields = [users.schema[name] for name in hypothesis.epochs]
    kinds = {type(users.schema.fields[name]) for name in hypothesis.epochs}
    if hypothesis.value or kinds == {Bit}:
        return 0.5, None
    sample = sample_of(users)
    values = np.concatenate([values_in(among_present(field, 1), sample) for field in fields])
    return guess_of(values) if values.size else None


_BITS = 12  # of r and s; N changes by less than a thousandth
_UNIT = 1 << _BITS
_LENGTH_BITS = 20  # of the length, rounded upward


@dataclass(frozen=True, slots=True)
class DiscountedChanges:
    """Code of paths of T epochs with at most k changes, k above 0.

    Args:
        epochs: T, 2 or more.
        changes: k; the sum of squared steps over the squared range.
        ratio: r, in [0, 1), on a grid of 2^-12.
        first: s, above 0, likewise.
    """

    epochs: int
    changes: Fraction
    ratio: Fraction
    first: Fraction

    @classmethod
    def of(cls, epochs: int, changes: Fraction) -> DiscountedChanges:
        """Return the code with the least error for these paths, but for the grid."""
        others = epochs - 1 - changes
        if changes >= others:
            return cls(epochs, changes, Fraction(0), Fraction(1))
        odds = changes / others
        # z, then r on the grid; at most the greatest number below 1
        root = Fraction(isqrt(odds.numerator * odds.denominator << 4 * _BITS), odds.denominator)
        z = root / (1 << 2 * _BITS)
        ratio = min(int((1 - z) / (1 + z) * _UNIT), _UNIT - 1)
        first = isqrt(_UNIT * _UNIT - ratio * ratio)
        return cls(epochs, changes, Fraction(ratio, _UNIT), Fraction(first, _UNIT))

    @property
    def bits(self) -> int:
        """Grid bits of r and s."""
        return _BITS

    @property
    def length(self) -> Fraction:
        """The greatest length of a coded path, rounded upward."""
        kept = max(self.epochs - 1 - self.changes, Fraction(0))
        changed = self.epochs - 1 - kept
        square = self.first**2 + kept * (1 - self.ratio) ** 2 + changed * (1 + self.ratio) ** 2
        scaled = square * (1 << 2 * _LENGTH_BITS)
        return Fraction(isqrt(int(scaled)) + 1, 1 << _LENGTH_BITS)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights that decode, shape (T, T): x_t = sum over j of weights[t, j] y_j."""
        ages = np.arange(self.epochs)[:, None] - np.arange(self.epochs)[None, :]
        kept = float(self.ratio) ** np.maximum(ages, 0)  # 0 ** 0 is 1
        found = np.where(ages >= 0, kept, 0.0)
        found[:, 0] /= float(self.first)
        return found

    @property
    def spread(self) -> Fraction:
        """The most by which an epoch is off if no component of the code is off by more than 1."""
        ends = (self.ratio**age for age in (0, self.epochs - 1))
        return max(end / self.first + (1 - end) / (1 - self.ratio) for end in ends)
