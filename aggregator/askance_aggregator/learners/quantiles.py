"""Quantiles of a number by search: each round cuts the ranges that are left into parts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isnan, nan
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import assessments, parameters
from askance_aggregator.learners.conditions import Conditions
from askance_aggregator.learners.decisions import Crossing
from askance_aggregator.learners.encodings import MAX_BINS, Cells, binned, cells, joint
from askance_aggregator.learners.hypotheses import JsonObject, hypothesis_of
from askance_aggregator.learners.learner import Adaptive, Learner, Rehearsal, adaptive
from askance_aggregator.learners.learning import Answer, Answers, Batch, Learning, Question
from askance_aggregator.learners.missing import MissingShare, excludes_missing, named_share
from askance_aggregator.learners.presentation import Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import field_of
from askance_aggregator.learners.shapes import DistributionFunction, DistributionPoint
from askance_aggregator.numbers import Rational, plain_arguments, positive, rational, whole_within
from askance_aggregator.queries import among_present, category, predicate, real, where
from askance_client.errors import InvalidParameter
from askance_client.queries import Expression, Integer, Query, Real, Schema, constant

_ROUNDING = 1e-12  # of floats
_DIGITS = 12  # of a sum of shares
_PLANNED = 0  # parts of a round that the plan chooses
_FRAC = 20  # grid of a level beside which users state a side

Distances = NDArray[np.float64]
"""Estimates, low and high ends, one row each; a column per cut."""


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


def _settle(arguments: Mapping[str, Any], conditions: Conditions) -> Mapping[str, Any]:
    """Set the parts of a round, for a tau: those with which the fewest users are needed."""
    # The study signs that the plan chooses the parts: a study that was signed without it halves
    # ranges, with answers that are each within tau.
    if conditions.signing:
        is_open = arguments["ways"] is None and arguments["tau"] is not None
        return {"ways": _PLANNED} if is_open else {}
    if arguments["ways"] != _PLANNED:
        return {}
    count = len(_parts(arguments["schema"], arguments["column"], arguments["steps"]))
    depth = (count - 1).bit_length()
    fewest = {
        next(ways for ways in range(2, max(count, 2) + 1) if ways**rounds >= count)
        for rounds in range(1, depth + 1)
    }
    ways = conditions.fewest_users(
        sorted(fewest), lambda ways: _quantiles(**{**arguments, "ways": ways})
    )
    return {} if ways is None else {"ways": ways}


def _rehearse(arguments: Mapping[str, Any]) -> Rehearsal:
    schema, column = arguments["schema"], arguments["column"]
    if arguments["ways"] is not None:
        return _rehearsed
    parts = _parts(schema, column, arguments["steps"])
    excluded = excludes_missing("quantiles", schema[column], arguments["missing"])
    return _Rehearsal(schema, parts, tuple(arguments["levels"]), excluded)


@adaptive("quantiles", version=2, settle=_settle, rehearse=_rehearse)
def _quantiles(
    schema: Schema,
    column: str,
    levels: Sequence[Fraction],
    steps: int,
    tau: Fraction | None,
    missing: str | None,
    present: Rational | None,
    ways: int | None,
) -> Learning[Quantiles]:
    parts = _parts(schema, column, steps)
    excluded = excludes_missing("quantiles", schema[column], missing)
    if not levels or not all(0 < level < 1 for level in levels):
        given = ", ".join(str(float(level)) for level in levels) or "none"
        raise InvalidParameter(f"levels: expected shares between 0 and 1, as 0.5, got {given}")
    if ways is None:
        return _search(schema, parts, levels, tau, excluded, present)
    if isinstance(ways, bool) or ways != _PLANNED:
        whole_within(ways, 2, MAX_BINS, "ways")
    share = Fraction(1) if present is None else positive(present, "present")
    return _Cutting(schema, parts, tau, excluded, share, ways or 2).search(levels)


@catalogued(
    summary="the values below which given shares of people lie, by binary search",
    error="greatest distance of a found cell's ranks from its level, 0 if the level is in the cell",
    guess="the cells where values spread evenly between the bounds have these quantiles",
    success="every cell's rank is within tau, or its stated distance, of the level",
    example=lambda: Schema("quantiles", 1, number=Real(0, 1)),
    population="numbers",
    small=SmallSettings(
        oracles={"levels": "1/4,3/4", "steps": "16", "tau": "1/10", "ways": "2"},
        fleets={"levels": "1/4,3/4", "steps": "8", "tau": "1/4", "ways": "2"},
    ),
    made_by=_quantiles,
)
@plain_arguments
def quantiles(
    schema: Schema,
    column: Annotated[
        str,
        parameters.Parameter(
            "the number (default: the only one)",
            parameters.ParameterKind.FIELD,
            read=parameters.one_of(Integer, Real),
        ),
    ],
    levels: Annotated[
        Sequence[Rational],
        parameters.Parameter("shares in (0, 1), with commas", parameters.ParameterKind.NUMBERS),
    ] = ("1/2",),
    steps: Annotated[int, "into how many cells the bounds are cut"] = 64,
    tau: parameters.Tau = None,
    missing: parameters.Missing = None,
    present: parameters.Present = None,
    ways: Annotated[
        int | None, "into how many parts a round cuts a range (default: what needs fewest users)"
    ] = None,
) -> Adaptive[Quantiles]:
    """Return for each level the cell in which the share of users below passes it.

    Users are those who have the number; the share who have none is estimated too.

    Utility: the bounds of the schema are cut into `steps` cells of equal width (of whole numbers
    that are fewer, one each). A round cuts each range that is left into `ways` parts and asks fresh
    users in which part they are, so it takes log(steps) / log(ways) rounds; the first question
    serves all levels. The part of a level is found by the signs of share - level at the cuts. If
    each that is tau or more away from zero is right, then fewer than level + tau of all users lie
    below the cell that is found, and more than level - tau up to its end: its rank is right to
    within tau, and no data were looked at to choose cells. A round is planned for these signs only:
    each fails to one side, at a share that is known (`planning.crossing`). Users: of the order
    levels log(steps) / (epsilon tau)^2 where epsilon is small, 26,162 for the median in 64 steps at
    tau = 1/20, epsilon = 1; 1,083 at epsilon 8, where one question asks for all cells.

    Without `ways` the plan of a study with a tau takes what needs the fewest users; one that was
    signed without it halves ranges, with every answer within tau. Without a tau ranges are halved,
    rounds share all users evenly, and each cell states the distance in rank that the intervals of
    the answers at its two ends leave.

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
    return _quantiles(schema, column, asked, steps, exact, missing, present, ways)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Cutting:
    """A search that cuts ranges of cells."""

    # Where users without the number are left out, the first round has a cell for them, which tells
    # how many they are. Later, at a single cut for a single level, each user gives the number
    # 1 - level (below the cut), -level (above it) or 0 (has none): its mean is the signed distance
    # times the share of users who have the number, by one coin.
    #
    # All levels share the first question; later each has its own, for its own range.
    #
    # ways: parts of a range, 2 or more.

    schema: Schema
    parts: Cells
    tau: Fraction | None
    excluded: bool
    present: Fraction
    ways: int

    def search(self, levels: Sequence[Fraction]) -> Learning[Quantiles]:
        left = {level: (0, len(self.parts) - 1) for level in levels}
        off = dict.fromkeys(levels, (-1.0, 1.0))  # greatest below the cell, least up to its end
        asked = [(tuple(levels), self._cuts(0, len(self.parts) - 1))]
        missing: MissingShare | None = None
        first = True
        while asked:
            questions = [self._question(*one, first) for one in asked]
            answers = yield Batch(questions)
            if first and self.excluded:
                missing = MissingShare.of_cell(answers[0], len(answers[0].values) - 1)
            for (among, cuts), answer in zip(asked, answers, strict=True):
                decision = self._crossing(among, cuts, first)
                for level, distances in _distances(decision, among, answer).items():
                    left[level], off[level] = _narrowed(left[level], off[level], cuts, distances)
            ranges = ((level, self._cuts(*ends)) for level, ends in left.items())
            asked = [((level,), cuts) for level, cuts in ranges if cuts]
            first = False
        having = 1.0 if missing is None else 1 - missing.high
        found = (
            Quantile(
                level,
                *_ends(self.schema, self.parts, cell),
                within=_within(off[level], having),
            )
            for level, (cell, _) in left.items()
        )
        return Quantiles(self.parts.name, tuple(found), missing)

    def _cuts(self, low: int, high: int) -> tuple[int, ...]:
        """Return the last cells of all parts of a range but the last; the largest parts first."""
        size = high - low + 1
        ways = min(self.ways, size)
        return tuple(low - 1 + size - (size * part // ways) for part in range(ways - 1, 0, -1))

    def _crossing(
        self, levels: tuple[Fraction, ...], cuts: tuple[int, ...], first: bool
    ) -> Crossing:
        """Return the conclusion that is drawn about the levels in one range."""
        if len(cuts) == 1 and not self.excluded:
            return Crossing(1, levels)
        if len(cuts) == 1 and not first:
            return Crossing(1, (Fraction(0),))
        return Crossing(len(cuts) + 1 + int(self.excluded), levels, self.excluded)

    def _question(
        self, levels: tuple[Fraction, ...], cuts: tuple[int, ...], first: bool
    ) -> Question:
        """Make the question about one range."""
        decision = self._crossing(levels, cuts, first)
        tau = self.tau
        if decision.values == 1 and not self.excluded:
            query = _up_to(self.schema, self.parts, cuts[0], False)
        elif decision.values == 1:
            (level,) = levels
            near = Fraction(round(level * (1 << _FRAC)), 1 << _FRAC)
            tau = None if tau is None else tau - abs(near - level)
            below = _below(self.schema, self.parts, cuts[0])
            number = where(below, constant(1 - near, _FRAC), constant(-near, _FRAC))
            query = real(number, -near, 1 - near, default=0)
        else:
            part = binned(self.schema, self.parts.field, [self.parts.edges[cut] for cut in cuts])
            query = category(part.expression, len(cuts))
            if decision.missing:
                query = joint(part)[0]
        if self.excluded and tau is not None:
            tau *= self.present
        return Question(query, tau=tau, present=self.present, decision=decision)


def _narrowed(
    left: tuple[int, int], off: tuple[float, float], cuts: Sequence[int], distances: Distances
) -> tuple[tuple[int, int], tuple[float, float]]:
    """Find the part of a range in which a level is passed, by a binary search over its cuts."""
    values, lows, highs = distances
    below = bisect_left(values, 0.0, 0, len(cuts))
    (low, high), (most, least) = left, off
    if below > 0:
        low, most = cuts[below - 1] + 1, float(highs[below - 1])
    if below < len(cuts):
        high, least = cuts[below], float(lows[below])
    return (low, high), (most, least)


def _distances(
    decision: Crossing, levels: Sequence[Fraction], answer: Answer
) -> dict[Fraction, Distances]:
    """Return for each level its signed distances at the cuts, and the ends of their intervals."""
    # Distances of cells are share - level, times the share of the users who have the number.
    if decision.values == 1:
        ends = np.array([answer.values, answer.lows, answer.highs])
        offsets = map(float, decision.levels)
        return {level: ends - off for level, off in zip(levels, offsets, strict=True)}
    before = np.tri(decision.cells - 1, decision.cells)
    weights = np.concatenate([before - float(level) for level in levels])
    weights = np.pad(weights, ((0, 0), (0, int(decision.missing))))
    sums = np.round(weights @ np.array(answer.values), _DIGITS)
    bounds = np.array([sums, *answer.sums(weights, 1.0)])
    return dict(zip(levels, np.split(bounds, len(levels), axis=1), strict=True))


def _within(off: tuple[float, float], having: float) -> float:
    """Return the most by which a level may lie outside of its cell's ranks."""
    distance = max(off[0], -off[1], 0.0)
    return min(distance / having, 1.0) if having > 0 else 1.0


def _rehearsed(batch: Batch) -> Answers:
    """Answer that all users are in the first part of a range, which is the largest."""
    shares = ((1.0, *[0.0] * (question.values - 1)) for question in batch.questions)
    return tuple(Answer(values, values, values) for values in shares)


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
    (parts,) = cells(schema, column, whole_within(steps, 2, MAX_BINS, "steps"))
    return parts


def _number(schema: Schema, column: str) -> Integer | Real:
    kind = field_of(schema, column)
    if not isinstance(kind, Integer | Real):
        raise InvalidParameter(f"quantiles expects a number as column, found {column}")
    return kind


def _up_to(schema: Schema, parts: Cells, cell: int, excluded: bool) -> Query:
    """Ask whether a value is in a cell or below it: of those who have one, or of all users."""
    below = _below(schema, parts, cell)
    return among_present(below) if excluded else predicate(below)


def _below(schema: Schema, parts: Cells, cell: int) -> Expression:
    """Return whether a value is in a cell or below it."""
    edge = parts.edges[cell]
    whole = isinstance(schema.fields[parts.field], Integer)
    return schema[parts.field] < (int(edge) if whole else edge)


def _ends(schema: Schema, parts: Cells, cell: int) -> tuple[float, float]:
    kind = _number(schema, parts.field)
    edges = [Fraction(kind.low), *parts.edges, Fraction(kind.high)]
    last = isinstance(kind, Integer) and cell + 1 < len(parts)
    return float(edges[cell]), float(edges[cell + 1] - (1 if last else 0))


@assessments.assess.register
def _(
    hypothesis: Quantiles, learner: Learner[Any], users: assessments.Users
) -> assessments.Assessment:
    """Judge each level by its distance to the ranks of its cell's ends."""
    # A level is right if its distance is below tau, or without a tau at most what the cell states.
    # Ranks are among the users who have the number, or, where those without it count, among all.
    # The interval of the missing share must hold too.
    kind = users.schema.fields[hypothesis.column]
    if not isinstance(kind, Integer | Real):
        return assessments.Assessment(None, None)
    given = learner.parameters.get("tau")
    stated = np.array([item.within or 0.0 for item in hypothesis.quantiles])
    tau = float(stated.max()) if given is None else float(Fraction(given))
    guess = _evenly_spread(hypothesis, users.schema, int(learner.parameters["steps"]))
    having = sum(
        int(columns.present[hypothesis.column].sum()) for columns in assessments.chunks(users)
    )
    share = hypothesis.missing
    counted = users.size if share is None else having
    if not counted:
        return assessments.Assessment(None, None)
    both = (*hypothesis.quantiles, *guess)
    missed = _ranks_missed(both, hypothesis.column, kind, users, counted)
    distances, guessed = np.split(missed, 2)
    error, baseline = float(distances.max()), float(guessed.max())
    right = bool((distances <= stated + _ROUNDING).all()) if given is None else error < tau
    reach = assessments.Reach(within=tau, unasked=0.5, excludes_guess=baseline >= tau)
    judged = assessments.Assessment(right, error, baseline=baseline, reach=reach)
    absent = 1 - having / users.size
    if share is None:
        return judged
    return judged.with_intervals(
        assessments.JointInterval(assessments.MISSING, share.holds(absent)), absent=[absent]
    )


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
    found: Sequence[Quantile],
    column: str,
    kind: Integer | Real,
    users: assessments.Users,
    counted: int,
) -> NDArray[np.float64]:
    """Compute each level's distance to the ranks of its cell's ends, 0 in between."""
    # Ranks are shares of `counted` users.
    below, up_to = np.zeros(len(found)), np.zeros(len(found))
    ends = [float(item.high) for item in found]
    for columns in assessments.chunks(users):
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
