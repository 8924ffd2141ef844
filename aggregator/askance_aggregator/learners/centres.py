"""Points in a box of numbers: where clusters are looked for, and how a question names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.assessments import (
    NO_SPREAD,
    NO_VALUES,
    UNSEEN_ROWS,
    Assessment,
    Users,
)
from askance_aggregator.learners.encodings import SCALE_BITS, Number, numbers
from askance_aggregator.learners.missing import complete_rows
from askance_aggregator.learners.rows import Rows, encoded, some_fields
from askance_aggregator.names import unknown_column
from askance_aggregator.numbers import whole_within
from askance_aggregator.queries import EncodedColumns, round_to
from askance_client.errors import InvalidParameter
from askance_client.queries import Expression, Integer, Real, Schema

MAX_CENTRES = 64
MAX_NUMBERS = 16
_SAMPLE = 2000  # rows behind centres in a picture; more hide each other

Points = NDArray[np.float64]
"""Points of the box [-1, 1]^d, shape (k, d), on the grid of scaled numbers."""

WITHIN = "the part of the variance that stays within clusters, on rows whose users were not asked"


def number_schema(learner: str, schema: Schema, columns: Sequence[str] | None) -> Schema:
    """Return the schema of the numbers to cluster by: these columns, or all Integer and Real."""
    fits = [name for name, kind in schema.fields.items() if isinstance(kind, Integer | Real)]
    names = fits if columns is None else list(columns)
    for name in names:
        if name not in fits:
            raise InvalidParameter(f"{learner}: columns: {unknown_column(name, fits)}")
    if not 1 <= len(names) <= MAX_NUMBERS:
        got = f"none, and {len(names)} suit" if columns is None else len(names)
        raise InvalidParameter(
            f"{learner}: columns: expected 1 to {MAX_NUMBERS} columns of numbers, got {got}"
        )
    return some_fields(schema, names)


def clusters_schema(d: int) -> Schema:
    """Numbers x0 .. x(d-1) in [-1, 1]; d is in 1..16."""
    whole_within(d, 1, MAX_NUMBERS, "d")
    return Schema.of("clusters", 1, {f"x{place}": Real(-1, 1) for place in range(d)})


def scaled(schema: Schema) -> tuple[Number, ...]:
    """Every field as one number in [-1, 1], by the schema's bounds."""
    return tuple(number for name in schema.fields for number in numbers(schema, name))


def scaled_rows(schema: Schema, rows: Rows) -> NDArray[np.float64]:
    """Rows as points of the box, shape (n, d); a number that is missing is 0, the middle."""
    columns = encoded(schema, rows)
    return np.stack([number.of(columns) for number in scaled(schema)], axis=1)


def squared_length(parts: Sequence[Number]) -> Expression:
    """|x|^2 of a record, on the grid of scaled numbers."""
    squares = [part.expression * part.expression for part in parts]
    return round_to(balanced(add, squares), SCALE_BITS)


def balanced(
    combine: Callable[[Expression, Expression], Expression], parts: Sequence[Expression]
) -> Expression:
    """Many expressions combined two by two: a balanced tree, for a device allows no deep one."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return combine(balanced(combine, parts[:middle]), balanced(combine, parts[middle:]))


def on_grid(points: NDArray[np.float64]) -> Points:
    """The nearest points of the box that lie on its grid."""
    bounded = np.clip(points, -1, 1)
    return np.asarray(np.ldexp(np.rint(np.ldexp(bounded, SCALE_BITS)), -SCALE_BITS))


def in_units(schema: Schema, points: Sequence[Sequence[float]]) -> list[dict[str, float]]:
    """Points as the fields have them."""
    parts = scaled(schema)
    return [
        {part.name: float(part.in_units(value)) for part, value in zip(parts, point, strict=True)}
        for point in points
    ]


def sample_in_units(schema: Schema, rows: EncodedColumns) -> tuple[tuple[float, ...], ...]:
    """Return the first rows that have all numbers, as points in the fields' units."""
    kept = np.flatnonzero(complete_rows(rows, schema))[:_SAMPLE]
    points = in_units(schema, scaled_rows(schema, rows.take(kept)).tolist())
    return tuple(tuple(point.values()) for point in points)


def shown(point: dict[str, Any]) -> str:
    """Return a point as text."""
    return ", ".join(f"{name} {value:.4g}" for name, value in point.items())


def within_clusters(hypothesis: Any, users: Users) -> Assessment:
    """Compute complete rows' mean squared distance to their centres, over that to the mean row."""
    if users.unseen is None:
        return Assessment(None, None)
    rows = users.unseen(UNSEEN_ROWS)
    rows = rows.take(np.flatnonzero(complete_rows(rows, hypothesis.schema)))
    if not len(rows):
        return Assessment(None, None, summary=NO_VALUES)
    points = hypothesis.points(rows)
    within = np.square(points - np.array(hypothesis.centres)[hypothesis.predict(rows)]).mean()
    variance = np.square(points - points.mean(axis=0)).mean()
    if variance <= 0:
        return Assessment(None, None, summary=NO_SPREAD)
    return Assessment(None, float(within / variance), baseline=1.0, margin=2 / sqrt(len(points)))
