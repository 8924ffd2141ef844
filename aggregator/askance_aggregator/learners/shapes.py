"""Shapes of a hypothesis: the data of a picture, by kind.

A hypothesis states its shape by a method `to_shape()`, as it states its JSON by `to_json()`; so a
picture of a stored result needs its JSON only. One that can be tested on rows of users who were not
asked states that by `tested_shape(rows)`; a classifier has one without it (`shape_on_rows`). One
without either is drawn by the rows of its presentation.

Pictures know shapes and no learner. The unit of an axis is in its name, where a shape has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.hypotheses import Classifier
from askance_aggregator.learners.missing import complete_rows, of_complete_cases
from askance_aggregator.queries import EncodedColumns
from askance_client.queries import Category, Schema


class ResultShape:
    """Base of all shapes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NoShape(ResultShape):
    """Reason for which a hypothesis has no own picture, in a few words without a full stop."""

    reason: str


@dataclass(frozen=True, slots=True)
class Intervals(ResultShape):
    """Rows of the presentation, each with its interval."""


@dataclass(frozen=True, slots=True)
class TimeSeries(ResultShape):
    """Rows of the presentation as points in time, oldest first."""


@dataclass(frozen=True, slots=True)
class Effect(ResultShape):
    """Rows of the presentation against the value that stands for no effect.

    Args:
        limits: least and greatest possible value; None: not known.
    """

    heading: str
    unit: str
    null: float
    null_name: str
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class FrequentValues(ResultShape):
    """Rows of the presentation against the share from which on a value counts as frequent."""

    threshold: float


@dataclass(frozen=True, slots=True)
class TwoWayTable:
    """Two-way table; its values have the shape (rows, columns)."""

    up: str
    across: str
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Tables(ResultShape):
    """Two-way tables of shares; the unit is what a value is a share of."""

    heading: str
    unit: str
    tables: tuple[TwoWayTable, ...]


@dataclass(frozen=True, slots=True)
class DistributionPoint:
    """Point of a distribution function.

    Args:
        value_low: least value at which the function may have the share.
        value_high: greatest value; the same where the value is known.
        low: lower end of the share's interval; the share itself where that is known.
    """

    value_low: float
    value_high: float
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DistributionFunction(ResultShape):
    """Distribution function of a number, at some points, by rising share."""

    column: str
    points: tuple[DistributionPoint, ...]


@dataclass(frozen=True, slots=True)
class Centres(ResultShape):
    """Centres of clusters.

    Args:
        centres: in the fields' units, shape (k, numbers).
        weights: share of users per centre, shape (k,).
        deviations: standard deviation of a component along each number, shape (k, numbers); empty:
            clusters have none.
        points: sample of rows in the same units, shape (n, numbers); empty: none.
    """

    names: tuple[str, ...]
    centres: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    deviations: tuple[tuple[float, ...], ...] = ()
    points: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """Node of a tree.

    Args:
        text: the condition of a split, or the outcome of a leaf.
        outcome: index of the outcome of a leaf; None: a split.
        children: of a split, where the condition holds and where it does not.
    """

    text: str
    detail: str = ""
    outcome: int | None = None
    children: tuple[Branch, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree(ResultShape):
    """Binary tree of conditions."""

    label: str
    root: Branch


@dataclass(frozen=True, slots=True)
class RuleList(ResultShape):
    """Conditions in order, each with its outcome and index; the first that holds decides."""

    label: str
    rules: tuple[tuple[str, str, int], ...]
    default: str
    default_index: int


@dataclass(frozen=True, slots=True)
class ConfusionTable(ResultShape):
    """Counts of users who were not asked, rows by true and columns by predicted class."""

    label: str
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Predictions(ResultShape):
    """True and predicted numbers of users who were not asked, in the field's units."""

    target: str
    truth: tuple[float, ...]
    predicted: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Coefficients(ResultShape):
    """Weights of scaled features, so that they can be compared."""

    outcome: str
    names: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Components(ResultShape):
    """Principal components; the loadings have the shape (components, numbers)."""

    names: tuple[str, ...]
    explained: tuple[float, ...]
    loadings: tuple[tuple[float, ...], ...]


def shape_with_texts(shape: ResultShape, text: Callable[[str], str]) -> ResultShape:
    """Return a shape whose texts are what a function makes of them."""

    def changed(part: Any) -> Any:
        if isinstance(part, str):
            return text(part)
        if isinstance(part, tuple):
            return tuple(map(changed, part))
        if is_dataclass(part) and not isinstance(part, type):
            return replace(
                part, **{one.name: changed(getattr(part, one.name)) for one in fields(part)}
            )
        return part

    found: ResultShape = changed(shape)
    return found


def shape_of(hypothesis: Any) -> ResultShape | None:
    """Return the shape that a hypothesis states; None: it states none."""
    if not hasattr(hypothesis, "to_shape"):
        return None
    found: ResultShape = hypothesis.to_shape()
    return found


def shape_on_rows(hypothesis: Any, rows: EncodedColumns, schema: Schema) -> ResultShape | None:
    """Return the shape of a hypothesis that is tested on rows; None: it predicts nothing."""
    if hasattr(hypothesis, "tested_shape"):
        found: ResultShape | None = hypothesis.tested_shape(rows)
        return found
    return _confusion(hypothesis, rows, schema) if isinstance(hypothesis, Classifier) else None


def _confusion(
    hypothesis: Classifier, rows: EncodedColumns, users_schema: Schema
) -> ConfusionTable | None:
    """Count true and predicted classes over the rows that the classifier is about."""
    kept = rows.present[hypothesis.label].copy()
    schema = getattr(hypothesis, "schema", None)
    if of_complete_cases(hypothesis) and isinstance(schema, Schema):
        kept &= complete_rows(rows, schema)
    chosen = rows.take(np.flatnonzero(kept))
    classes: list[Any] = hypothesis.classes_.tolist()
    kind = users_schema.fields[hypothesis.label]
    code = [kind.encode(name) if isinstance(kind, Category) else int(name) for name in classes]
    predicted = _codes(hypothesis.predict(chosen), classes)
    true = _codes(np.asarray(chosen.values[hypothesis.label]), code)
    known = (true >= 0) & (predicted >= 0)
    if not known.any():
        return None
    size = len(classes)
    counts = np.bincount(true[known] * size + predicted[known], minlength=size * size)
    table = counts.reshape(size, size).tolist()
    return ConfusionTable(hypothesis.label, tuple(map(str, classes)), tuple(map(tuple, table)))


def _codes(values: NDArray[Any], names: list[Any]) -> NDArray[np.int64]:
    """Return the index of each value among the names; -1: it is none of them."""
    codes = np.full(len(values), -1, np.int64)
    for index, name in enumerate(names):
        codes[np.asarray(values) == name] = index
    return codes
