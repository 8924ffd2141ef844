"""Labels of a population exchanged: what a question would say if its records were labelled so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.oracles.expectations import Weights
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, Schema

Rows = NDArray[np.bool_]


def label_count(schema: Schema, label: str) -> int:
    """Return the number of labels of a field."""
    field = schema.fields.get(label)
    if not isinstance(field, Category):
        raise InvalidParameter(f"label expects a category of the schema, found {label!r}")
    return len(field.labels)


def relabelled(
    columns: EncodedColumns, label: str, index: int | NDArray[np.int64]
) -> EncodedColumns:
    """Give records other labels; a label that is missing stays so.

    `index` is that of the label, one for all or shape (rows,).
    """
    values = {**columns.values, label: np.broadcast_to(np.int64(index), (columns.rows,))}
    return EncodedColumns(values, columns.present, columns.rows)


def with_free_labels(
    schema: Schema,
    label: str,
    columns: EncodedColumns,
    weights: Weights | None = None,
    rows: Rows | None = None,
) -> tuple[EncodedColumns, NDArray[np.int64]]:
    """The population in which labels are drawn uniformly, whatever the rest of the record says.

    The labels of `rows`, shape (rows,), are lost; None: of all rows. Weights are as of
    `ExactOracle`.

    Returns:
        Columns and weights for an `ExactOracle`: every row once for each label.
    """
    count = label_count(schema, label)
    mass = np.ones(columns.rows, np.int64) if weights is None else np.asarray(weights, np.int64)
    free = np.ones(columns.rows, np.bool_) if rows is None else rows
    repeated = columns.take(np.tile(np.arange(columns.rows), count))
    own = np.asarray(repeated.values[label])
    drawn = np.repeat(np.arange(count), columns.rows)
    labels = np.where(np.tile(free, count), drawn, own)
    return relabelled(repeated, label, labels), np.tile(mass, count)
