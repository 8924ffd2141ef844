"""Quantiles of a number by binary search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isnan, nan
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import (
    MISSING,
    Assessment,
    JointInterval,
    Reach,
    Users,
    assess,
    chunks,
)
from askance_aggregator.learners.encodings import MAX_BINS, Cells, cells
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Adaptive, Learner, adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Learning, Question
from askance_aggregator.learners.missing import MissingShare, excludes_missing, named_share
from askance_aggregator.learners.parameters import (
    Missing,
    Parameter,
    ParameterKind,
    Present,
    Tau,
    one_of,
)
from askance_aggregator.learners.presentation import Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import field_of
from askance_aggregator.learners.shapes import DistributionFunction, DistributionPoint
from askance_aggregator.numbers import Rational, plain_arguments, rational
from askance_aggregator.queries import among_present, predicate
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Integer, Query, Real, Schema

_ROUNDING = 1e-12  # of floats


@dataclass(frozen=True, slots=True)
class Quantile(JsonObject):
    """Value below which a share of users lies.

    Args:
        level: the share, in (0, 1).
        low: the least value of the cell that was found, or of the cells of an interval.
        high: where these cells end; of whole numbers, their greatest value.
        value: the estimate; if it is not given, the middle.
        within: of a cell, the most by which the level may lie outside of the cell's ranks; it holds
            jointly with the other levels'. None: low and high are an interval of the value.
    """

    json_keys: ClassVar = ("level", "value", "low", "high", "within?")

    level: Fraction
    low: float
    high: float
    value: float = nan
    within: float | None = None

    def __post_init__(self) -> None:
        if isnan(self.value):
            object.__setattr__(self, "value", (self.low + self.high) / 2)

    @property
    def cell(self) -> str:
        """Text of the cell, and of what is known of its rank."""
        ends = f"{self.low:g}" if self.low == self.high else f"{self.low:g} .. {self.high:g}"
        return ends if self.within is None else f"{ends} (within {self.within:.2g} in rank)"


@hypothesis_of("quantiles")
@dataclass(frozen=True, slots=True)
class Quantiles(JsonObject):
    """Some quantiles of a number, by rising level.

    Args:
        missing: estimated share of users without the number; the quantiles are those of the others.
            None: users without it count as above all.
    """

    json_name: ClassVar = "quantiles"
    json_keys: ClassVar = ("summary", "column", "quantiles", "missing")

    column: str
    quantiles: tuple[Quantile, ...]
    missing: MissingShare | None = None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per quantile: its level, value, cell and distance in rank."""
        return [
            {**quantile.to_json(), "level": float(quantile.level)} for quantile in self.quantiles
        ]

    def present(self) -> Presentation:
        """Return a line per quantile."""
        told = (f"{item.level} of users: {item.cell}" for item in self.quantiles)
        missing = named_share(self.missing)
        unseen = (
            f"a user without {self.column}, a required field or one with missing=default, counts as"
            " above all, unseen: a rank is off by at most the share of such users"
        )
        notes = () if missing else (unseen,)
        return Presentation(lines=tuple(told), notes=notes, missing=missing, subject=self.column)

    def to_shape(self) -> DistributionFunction:
        """Return the levels at the cells that hold their quantiles."""
        points = (
            DistributionPoint(item.low, item.high, level, level, level)
            for item in self.quantiles
            for level in (float(item.level),)
        )
        return DistributionFunction(self.column, tuple(points))

    def __str__(self) -> str:
        told = (f"{item.level}: {item.cell}" for item in self.quantiles)
        missing = "" if self.missing is None else f"; {self.missing}"
        return f"quantiles of {self.column}: {', '.join(told)}{missing}"


@adaptive("quantiles", version=2)
def _quantiles(
    schema: Schema,
    column: str,
    levels: Sequence[Fraction],
    steps: int,
    tau: Fraction | None,
    missing: str | None,
    present: Rational | None,
) -> Learning[Quantiles]:
    parts = _parts(schema, column, steps)
    excluded = excludes_missing("quantiles", schema[column], missing)
    if not levels or not all(0 < level < 1 for level in levels):
        given = ", ".join(str(float(level)) for level in levels) or "none"
        raise InvalidParameter(f"levels: expected shares between 0 and 1, as 0.5, got {given}")
    return _search(schema, parts, levels, tau, excluded, present)


@catalogued(
    summary="the values below which given shares of people lie, by binary search",
    error="greatest distance of a found cell's ranks from its level, 0 if the level is in the cell",
    guess="the cells where values spread evenly between the bounds have these quantiles",
    success="every cell's rank is within tau, or its stated distance, of the level",
    example=lambda: Schema("quantiles", 1, number=Real(0, 1)),
    population="numbers",
    small=SmallSettings(
        oracles={"levels": "1/4,3/4", "steps": "16", "tau": "1/10"},
        fleets={"levels": "1/4,3/4", "steps": "8", "tau": "1/4"},
    ),
    made_by=_quantiles,
)
@plain_arguments
def quantiles(
    schema: Schema,
    column: Annotated[
        str,
        Parameter(
            "the number (default: the only one)", ParameterKind.FIELD, read=one_of(Integer, Real)
        ),
    ],
    levels: Annotated[
        Sequence[Rational], Parameter("shares in (0, 1), with commas", ParameterKind.NUMBERS)
    ] = ("1/2",),
    steps: Annotated[int, "into how many cells the bounds are cut"] = 64,
    tau: Tau = None,
    missing: Missing = None,
    present: Present = None,
) -> Adaptive[Quantiles]:
    """Return for each level the cell in which the share of users below passes it.

    Users are those who have the number; the share who have none is estimated too.

    Utility: the bounds of the schema are cut into `steps` cells of equal width (of whole numbers
    that are fewer, one each); a binary search over them takes ceil(log2 steps) rounds of one
    predicate a level, each on fresh users. If every answer is within tau, then fewer than
    level + tau of all users lie below the cell that is found, and more than level - tau lie below
    its end: its rank is right to within tau, and no data were looked at to choose cells. Users: of
    the order levels log(steps) / (epsilon tau)^2, about 15,000 for one level in 64 steps at
    tau = 1/20, epsilon = 2. Without a tau rounds share all users evenly, and each cell states the
    distance in rank that the intervals of the answers at its two ends leave.

    With missing="default" users without the number count as above all. No answer relies on
    `present`; it sizes the plan.

    Raises:
        InvalidParameter: no such number, levels outside (0, 1), steps outside 2 .. 1024, or
            another parameter out of range.

    Source: notes, section 1.2; binary search over statistical queries.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 127))
        >>> oracle = ask.ExactOracle(schema, {"age": list(range(100))})
        >>> found = ask.learn(ask.learners.quantiles(schema, "age", levels=["1/2"]), oracle)
        >>> print(found.quantiles[0].cell)
        48 .. 49 (within 0 in rank)
    """
    asked = sorted({rational(level, "levels") for level in levels})
    exact = None if tau is None else rational(tau, "tau")
    made = _quantiles(schema, column, asked, steps, exact, missing, present)
    parts = _parts(schema, column, steps)
    excluded = excludes_missing("quantiles", schema[column], missing)
    return replace(made, rehearsal=_Rehearsal(schema, parts, tuple(asked), excluded))


def _search(
    schema: Schema,
    parts: Cells,
    levels: Sequence[Fraction],
    tau: Fraction | None,
    excluded: bool,
    present: Rational | None,
) -> Learning[Quantiles]:
    """The quantile is in a cell low .. high; the share up to high passes the level, or is all."""
    left = [(0, len(parts) - 1) for _ in levels]
    ranks = [(0.0, 1.0) for _ in levels]  # most below the cell, least up to its end
    shares: list[MissingShare] = []
    while searched := [place for place, (low, high) in enumerate(left) if low < high]:
        middles = [sum(left[place]) // 2 for place in searched]
        answers = yield Batch(
            Question(_up_to(schema, parts, middle, excluded), tau=tau, present=present)
            for middle in middles
        )
        shares += [share for answer in answers if (share := MissingShare.of(answer))]
        for place, middle, answer in zip(searched, middles, answers, strict=True):
            (low, high), (least, most) = left[place], ranks[place]
            below = answer.value < levels[place]
            left[place] = (middle + 1, high) if below else (low, middle)
            ranks[place] = (answer.high, most) if below else (least, answer.low)
    found = (
        Quantile(
            level,
            *_ends(schema, parts, cell),
            within=max(below - float(level), float(level) - up_to, 0.0),
        )
        for level, (cell, _), (below, up_to) in zip(levels, left, ranks, strict=True)
    )
    # All intervals of a run hold together, so the narrowest does.
    narrowest = min(shares, key=lambda share: share.high - share.low, default=None)
    return Quantiles(parts.name, tuple(found), narrowest)


@dataclass(frozen=True, slots=True)
class _Rehearsal:
    """People whose quantiles lie far apart, so that the searches part as soon as they can."""

    schema: Schema
    parts: Cells
    levels: tuple[Fraction, ...]
    excluded: bool

    def __call__(self, batch: Batch) -> Answers:
        shares = self._shares()
        values = [shares[question.query] for question in batch.questions]
        return tuple(Answer((value,), (value,), (value,)) for value in values)

    def _shares(self) -> dict[Query, float]:
        count = len(self.parts)
        shares = {}
        for cell in range(count - 1):
            passed = (cell + 1) * (len(self.levels) + 1) // count  # how many levels lie below
            share = float(self.levels[passed - 1]) if passed else 0.0
            shares[_up_to(self.schema, self.parts, cell, self.excluded)] = share
        return shares


def _parts(schema: Schema, column: str, steps: int) -> Cells:
    _number(schema, column)
    if isinstance(steps, bool) or not isinstance(steps, int) or not 2 <= steps <= MAX_BINS:
        raise InvalidParameter(
            f"steps expects a whole number in 2..{MAX_BINS}, got {value_text(steps)}"
        )
    (parts,) = cells(schema, column, steps)
    return parts


def _number(schema: Schema, column: str) -> Integer | Real:
    kind = field_of(schema, column)
    if not isinstance(kind, Integer | Real):
        raise InvalidParameter(f"quantiles expects a number as column, found {column}")
    return kind


def _up_to(schema: Schema, parts: Cells, cell: int, excluded: bool) -> Query:
    """Ask whether a value is in a cell or below it: of those who have one, or of all users."""
    edge = parts.edges[cell]
    whole = isinstance(schema.fields[parts.field], Integer)
    below = schema[parts.field] < (int(edge) if whole else edge)
    return among_present(below) if excluded else predicate(below)


def _ends(schema: Schema, parts: Cells, cell: int) -> tuple[float, float]:
    kind = _number(schema, parts.field)
    edges = [Fraction(kind.low), *parts.edges, Fraction(kind.high)]
    last = isinstance(kind, Integer) and cell + 1 < len(parts)
    return float(edges[cell]), float(edges[cell + 1] - (1 if last else 0))


@assess.register
def _(hypothesis: Quantiles, learner: Learner[Any], users: Users) -> Assessment:
    """Judge each level by its distance to the ranks of its cell's ends.

    It is right if that is below tau, or without a tau at most what the cell states. Ranks are among
    the users who have the number, or, where those without it count, among all. The interval of the
    missing share must hold too.
    """
    kind = users.schema.fields[hypothesis.column]
    if not isinstance(kind, Integer | Real):
        return Assessment(None, None)
    given = learner.parameters.get("tau")
    stated = np.array([item.within or 0.0 for item in hypothesis.quantiles])
    tau = float(stated.max()) if given is None else float(Fraction(given))
    guess = _evenly_spread(hypothesis, users.schema, int(learner.parameters["steps"]))
    having = sum(int(columns.present[hypothesis.column].sum()) for columns in chunks(users))
    share = hypothesis.missing
    counted = users.size if share is None else having
    if not counted:
        return Assessment(None, None)
    both = (*hypothesis.quantiles, *guess)
    missed = _ranks_missed(both, hypothesis.column, kind, users, counted)
    distances, guessed = np.split(missed, 2)
    error, baseline = float(distances.max()), float(guessed.max())
    right = bool((distances <= stated + _ROUNDING).all()) if given is None else error < tau
    reach = Reach(within=tau, unasked=0.5, excludes_guess=baseline >= tau)
    judged = Assessment(right, error, baseline=baseline, reach=reach)
    absent = 1 - having / users.size
    if share is None:
        return judged
    return judged.with_intervals(JointInterval(MISSING, share.holds(absent)), absent=[absent])


def _evenly_spread(hypothesis: Quantiles, schema: Schema, steps: int) -> tuple[Quantile, ...]:
    """Return the constant guess: the cells where values spread evenly have their quantiles."""
    parts = _parts(schema, hypothesis.column, steps)
    levels = [item.level for item in hypothesis.quantiles]
    cells = [min(int(level * len(parts)), len(parts) - 1) for level in levels]
    return tuple(
        Quantile(level, *_ends(schema, parts, cell))
        for level, cell in zip(levels, cells, strict=True)
    )


def _ranks_missed(
    found: Sequence[Quantile], column: str, kind: Integer | Real, users: Users, counted: int
) -> NDArray[np.float64]:
    """Compute each level's distance to the ranks of its cell's ends, 0 in between.

    Ranks are shares of `counted` users.
    """
    below, up_to = np.zeros(len(found)), np.zeros(len(found))
    ends = [float(item.high) for item in found]
    for columns in chunks(users):
        present = columns.present[column]
        grid = np.asarray(columns.values[column], dtype=np.float64)
        values = np.ldexp(grid, -kind.type.frac)[present]
        below += [(values < item.low).sum() for item in found]
        closed = [isinstance(kind, Integer) or end >= Fraction(kind.high) for end in ends]
        pairs = zip(ends, closed, strict=True)
        up_to += [((values <= end) if last else (values < end)).sum() for end, last in pairs]
    levels = np.array([float(item.level) for item in found])
    missed = np.maximum(levels - up_to / counted, below / counted - levels)
    return np.asarray(np.maximum(missed, 0.0))
