"""The mean of several numbers at once: of vectors that are bounded, each number or in length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt, sqrt
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np

from askance_aggregator.learners import assessments
from askance_aggregator.learners.hypotheses import Document, JsonObject, hypothesis_of, named_rows
from askance_aggregator.learners.learner import Learner, non_adaptive
from askance_aggregator.learners.learning import Answers, Batch, Question
from askance_aggregator.learners.missing import (
    EXCLUDE,
    MissingShare,
    RequiredDefault,
    excludes_missing,
    required_notes,
)
from askance_aggregator.learners.parameters import Columns, Missing, Parameter, Present
from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_aggregator.learners.registry import SmallSettings, catalogued
from askance_aggregator.learners.rows import some_fields
from askance_aggregator.learners.scaled_vectors import Scaled, ScaledVector
from askance_aggregator.learners.schemas import vectors_schema
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.queries import among_present, as_query, evaluate_columns, real, vector
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text
from askance_client.queries import MAX_COMPONENTS, Bit, Integer, Real, Schema

NORMS = ("linf", "l2")


@hypothesis_of("mean-vector")
@dataclass(frozen=True, slots=True)
class MeanVector(JsonObject):
    """A mean a field, in real units.

    Args:
        estimates: raw and unbiased; all intervals hold together.
        radius: of l2 only: the length of the error is at most this, with the same confidence.
        missing: for each field the estimated share of users without it, whose intervals hold
            together with the others; each mean is over the users who have the field. None: users
            without the field count with its public default; as a whole: all fields are so.
        required: for each field that default, if the field is required; as a whole None: none is.
    """

    json_name: ClassVar = "mean-vector"

    fields: tuple[str, ...]
    estimates: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    radius: float | None = None
    missing: tuple[MissingShare | None, ...] | None = None
    required: tuple[RequiredDefault | None, ...] | None = None

    def __post_init__(self) -> None:
        parts = (self.fields, self.estimates, self.lows, self.highs, self.missing, self.required)
        sizes = {len(part) for part in parts if part is not None}
        if len(sizes) != 1:
            raise InvalidParameter("a mean vector expects an estimate and an interval a field")

    def to_json(self) -> dict[str, Any]:
        """Return {"means": {FIELD: {"estimate", "low", "high"}}, "radius"}.

        A FIELD whose mean leaves users out has their "missing" share too, and one that is required
        the "required" default.
        """
        rows = named_rows(self.fields, estimate=self.estimates, low=self.lows, high=self.highs)
        for key, parts in (("missing", self.missing), ("required", self.required)):
            for name, part in zip(self.fields, parts or (), strict=False):
                if part is not None:
                    rows[name][key] = part.to_json()
        return {"means": rows, "radius": self.radius}

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the means, which have the names of the fields."""
        means = document.part("means")
        rows = [means.part(name) for name in means.data]
        shares = tuple(row.read("missing", MissingShare | None) for row in rows)
        defaults = tuple(row.read("required", RequiredDefault | None) for row in rows)
        estimates, lows, highs = means.columns("estimate", "low", "high")
        radius = document.read("radius", float | None)
        fields = tuple(means.data)
        return cls(fields, estimates, lows, highs, radius, _any(shares), _any(defaults))

    def present(self) -> Presentation:
        """Return a row per field, in the order of the fields."""
        rows = zip(self.fields, self.estimates, self.lows, self.highs, strict=True)
        notes: tuple[str, ...] = ()
        if self.radius is not None:
            notes = (f"the length of the error is at most {self.radius:.5g}, joint with these",)
        return Presentation(
            tuple(EstimateRow(*row) for row in rows),
            ranked=False,
            notes=notes + required_notes(self.required or ()),
            missing=tuple(
                (name, share)
                for name, share in zip(self.fields, self.missing or (), strict=False)
                if share is not None
            ),
        )

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name} {value:.4g}"
            for name, value in zip(self.fields[:8], self.estimates, strict=False)
        )
        return shown + (", ..." if len(self.fields) > 8 else "")


T = TypeVar("T")


def _any(parts: tuple[T | None, ...]) -> tuple[T | None, ...] | None:
    """Return the parts, or None if each of them is None."""
    return parts if any(part is not None for part in parts) else None


@catalogued(
    summary="the means of many numbers at once, bounded one by one or in length",
    error="greatest distance of a mean from the population's (l2: length of the error), real units",
    guess="the middle of the span of 98 % of each number's values (l2: zero)",
    success=assessments.ALL_COVER,
    example=vectors_schema,
    population="unit-vectors",
    small=SmallSettings(oracles={"d": "3", "tau": "1/5"}, fleets={"d": "5", "tau": "1/2"}),
)
@non_adaptive("mean-vector", version=4)
def mean_vector(
    schema: Schema,
    columns: Columns = None,
    norm: Annotated[
        str,
        Parameter(
            "linf: each number is bounded; l2: and so is their length", choices=("linf", "l2")
        ),
    ] = "linf",
    bound: Annotated[
        Rational | None, "of each number, or of the length (default: the fields' bounds; l2: 1)"
    ] = None,
    tau: Annotated[
        Rational | None,
        "tolerance of each mean (l2: of the error's length; default: what the users allow)",
    ] = None,
    missing: Missing = None,
    present: Present = None,
) -> tuple[Batch, Callable[[Answers], MeanVector]]:
    """The means of several numbers, asked as vectors: what a gradient step needs.

    Utility: d values in one round. `linf`: every number is scaled to [-1, 1] by its own range, and
    every estimate within tau; with s of d numbers to each user, as the plan chooses, n x
    E||error||^2 is about d^2 / (s m_s^2) of half the squared ranges. A number that may be missing
    is asked as two components; if all may be, d is twice the number of fields, and a tolerance
    takes up to twice the users of required ones or of missing="default". `l2`: the length of the
    error is below tau for vectors of length at most `bound`; where that has less variance, and from
    a few numbers on it has, one random codebook tells all of them, with PrivUnit's
    n x E||error||^2: d bound^2 times 25, 6.33, 1.61, .44 and .135 at eps .5, 1, 2, 4 and 8.

    There are 1..1024 columns, 512 if all may be missing. `bound` and `tau` are in real units. For
    `l2` the bound is a promise: a vector that is longer counts as drawn back to it by a codebook,
    and as clipped number by number by sign patterns. By default missing values are excluded for
    `linf`. For `l2` users without a field count as the middle of its range, in no other way.
    `present` is a promise about each field.

    Raises:
        InvalidParameter: no such field, or a parameter out of range.

    Source: Duchi, Jordan and Wainwright 2018; Bhowmick et al. 2018 (PrivUnit).

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120), height=ask.Integer(0, 250))
        >>> oracle = ask.ExactOracle(schema, {"age": [20, 40], "height": [160, 180]})
        >>> len(ask.learn(ask.learners.mean_vector(), oracle).present().rows)
        2
    """
    fields = _number_fields(schema, columns)
    if norm not in NORMS:
        raise InvalidParameter(f"norm: {unknown_text(norm, NORMS)}")
    numbers = [schema[name] for name in fields]
    length = None if bound is None else rational(bound, "bound")
    if length is not None and length <= 0:
        raise InvalidParameter("bound expects a positive number, found one that is not")
    tolerance = None if tau is None else rational(tau, "tau")
    if norm == "linf":
        scaled = ScaledVector(
            tuple(Scaled.of(number, length) for number in numbers),
            tuple(excludes_missing("mean-vector", number, missing) for number in numbers),
            Fraction(1) if present is None else rational(present, "present"),
        )
        return Batch([scaled.question(tolerance)]), lambda answers: _in_units(
            fields, scaled, answers
        )
    if missing == EXCLUDE:
        raise InvalidParameter("mean-vector: norm=l2 expects missing=default, got exclude")
    length = Fraction(1) if length is None else length
    # A root above the true one would ask for less than was wanted.
    each = None if tolerance is None else tolerance / (isqrt(len(fields) - 1) + 1)
    question = Question(vector(numbers, -length, length), each, length=length)
    ends = [_within(Scaled.of(number), length) for number in numbers]
    defaults = tuple(
        RequiredDefault.of(number, Fraction(0), *pair)
        for number, pair in zip(numbers, ends, strict=True)
    )
    return Batch([question]), lambda answers: _with_radius(_concluded(fields, answers, defaults))


def _in_units(fields: tuple[str, ...], scaled: ScaledVector, answers: Answers) -> MeanVector:
    """Decode each component in its own unit."""
    (answer,) = answers
    rows = scaled.decoded(answer)
    return MeanVector(
        fields,
        tuple(row.value for row in rows),
        tuple(row.low for row in rows),
        tuple(row.high for row in rows),
        missing=_any(tuple(row.missing for row in rows)),
        required=_any(scaled.required()),
    )


def _within(number: Scaled, length: Fraction) -> tuple[Fraction, Fraction]:
    """Return the bounds of a number of a vector that is at most so long."""
    return max(number.low, -length), min(number.high, length)


def _concluded(
    fields: tuple[str, ...], answers: Answers, defaults: tuple[RequiredDefault | None, ...]
) -> MeanVector:
    (answer,) = answers
    found = answer.values, answer.lows, answer.highs
    return MeanVector(fields, *found, required=_any(defaults))


def _with_radius(found: MeanVector) -> MeanVector:
    """The length of the error is at most that of all its intervals' parts."""
    parts = _farthest(found.estimates, found.lows, found.highs)
    return replace(found, radius=sqrt(sum(part * part for part in parts)))


def _farthest(
    values: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> list[float]:
    """Bound each value's distance from the truth, given that the truth is in the interval."""
    rows = zip(values, lows, highs, strict=True)
    return [max(high - value, value - low) for value, low, high in rows]


def _number_fields(schema: Schema, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The fields to ask about: those named, or all that are numbers or bits."""
    suits = (Integer, Real, Bit)
    if columns is None:
        columns = [name for name, kind in schema.fields.items() if isinstance(kind, suits)]
    named = some_fields(schema, columns)
    for name, kind in named.fields.items():
        if not isinstance(kind, suits):
            raise InvalidParameter(f"{name}: expected a number or a bit, got {type(kind).__name__}")
    if not 1 <= len(named.fields) <= MAX_COMPONENTS:
        raise InvalidParameter(
            f"mean-vector expects 1..{MAX_COMPONENTS} fields, found {len(named.fields)}"
        )
    return tuple(named.fields)


@assessments.assess.register
def _(
    hypothesis: MeanVector, learner: Learner[Any], users: assessments.Users
) -> assessments.Assessment:
    """Judge an l2 mean by the length of its error, right if that is within the radius, too."""
    # Else by the greatest; the intervals of the missing shares must hold too.
    defaults = hypothesis.required or (None,) * len(hypothesis.fields)
    numbers = [real(users.schema[name]) for name in hypothesis.fields]
    shares = hypothesis.missing or (None,) * len(hypothesis.fields)
    total, having = np.zeros(len(numbers)), np.zeros(len(numbers))
    for columns in assessments.chunks(users):
        for place, (query, name) in enumerate(zip(numbers, hypothesis.fields, strict=True)):
            values, present = evaluate_columns(query, columns), columns.present[name]
            known = defaults[place]
            kept = values if shares[place] is None and known is None else values[present]
            total[place] += float(np.ldexp(float(kept.sum()), -query.frac))
            having[place] += int(present.sum())
            if known is not None:
                total[place] += known.default * int((~present).sum())
    counted = np.where([share is None for share in shares], users.size, having)
    if not counted.all():
        return assessments.Assessment(None, None, summary=assessments.NO_VALUES)
    truth = tuple((total / counted).tolist())
    guess, unasked = _middles(hypothesis, learner, users)
    covered = assessments.covers(
        hypothesis.estimates, hypothesis.lows, hypothesis.highs, truth, guess, unasked
    )
    if hypothesis.radius is None:
        absent = (1 - having / users.size).tolist()
        parts = [
            (name, share, one)
            for name, share, one in zip(hypothesis.fields, shares, absent, strict=True)
            if share is not None
        ]
        held = (
            assessments.JointInterval(f"the share of users without {name}", share.holds(one))
            for name, share, one in parts
        )
        return covered.with_intervals(*held, absent=[one for *_, one in parts])
    error = float(np.linalg.norm(np.array(hypothesis.estimates) - np.array(truth)))
    return replace(
        covered,
        success=bool(covered.success) and error <= hypothesis.radius,
        error=error,
        baseline=float(np.linalg.norm(np.array(guess) - np.array(truth))),
    )


def _middles(
    hypothesis: MeanVector, learner: Learner[Any], users: assessments.Users
) -> tuple[tuple[float, ...], float]:
    """Return the constant guess, the middle of each number's span, and half the widest range."""
    bound = learner.parameters.get("bound")
    if hypothesis.radius is not None or bound is not None:
        return (0.0,) * len(hypothesis.fields), 1.0 if bound is None else float(Fraction(bound))
    ranges = [Question(as_query(users.schema[name])).bounds for name in hypothesis.fields]
    sample = assessments.sample_of(users)
    guesses = (
        assessments.guess_of(assessments.values_in(among_present(users.schema[name], 1), sample))[0]
        for name in hypothesis.fields
    )
    return tuple(guesses), float(max(high - low for low, high in ranges) / 2)
