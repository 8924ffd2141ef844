"""Median of whole numbers by binary search: a learner in a distribution of its own."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np

import askance as ask
from askance.learners import (
    Assessment,
    JsonObject,
    Parameter,
    ParameterKind,
    SmallSettings,
    Users,
    assess,
    catalogued,
    hypothesis_of,
)


@hypothesis_of("median")
@dataclass(frozen=True)
class Median(JsonObject):
    """Cell of a grid of whole numbers that holds the median of a column."""

    column: str
    value: int

    def __str__(self) -> str:
        return f"median of {self.column}: {self.value}"


def ages() -> ask.Schema:
    """Make the schema to plan with where there is no data."""
    return ask.Schema("ages", 1, age=ask.Integer(0, 127))


@catalogued(
    summary="the median of a whole number, by binary search",
    error="distance of the value's rank from one half",
    guess="the middle of the column's range",
    success="a rank within tau of one half",
    example=ages,
    population="traits",
    small=SmallSettings(oracles={"tau": "1/10"}, fleets={"tau": "1/4"}),
)
@ask.adaptive("median", version=2)
def median(
    schema: ask.Schema,
    column: Annotated[str, Parameter("the whole number", ParameterKind.FIELD)] = "age",
    tau: Annotated[
        str, Parameter("how exactly each rank is wanted", ParameterKind.NUMBER)
    ] = "1/10",
) -> ask.Learning[Median]:
    """Find a value whose rank is within tau of one half, among the whole numbers of a column."""
    kind = schema.fields[column]
    if not isinstance(kind, ask.Integer):
        raise ask.InvalidParameter(f"column: expected a whole number, got {column!r}")
    low, high = kind.low, kind.high
    while low < high:
        middle = (low + high) // 2
        asked = ask.predicate(schema[column] <= middle)
        (share,) = yield ask.Batch([ask.Question(asked, tau=tau)])
        if share.value >= 0.5:
            high = middle
        else:
            low = middle + 1
    return Median(column, low)


@assess.register
def _(hypothesis: Median, learner: ask.Learner[Any], users: Users) -> Assessment:
    """Judge by the distance of the value's rank from one half; right if within tau."""
    values = np.concatenate(
        [users.columns(*part).values[hypothesis.column] for part in parts(users)]
    )
    kind = users.schema.fields[hypothesis.column].type
    guess = (kind.low + kind.high) // 2
    error, baseline = (rank_missed(values, value) for value in (hypothesis.value, guess))
    return Assessment(error < float(Fraction(learner.parameters["tau"])), error, baseline=baseline)


def rank_missed(values: np.ndarray[Any, Any], value: int) -> float:
    """Compute the distance of one half from the ranks of a value."""
    return float(max(0.5 - (values <= value).mean(), (values < value).mean() - 0.5, 0.0))


def parts(users: Users) -> list[tuple[int, int]]:
    """List the stretches of users."""
    return list(users.stretches())
