"""Averages of columns."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import EstimateRow
from askance_aggregator.numbers import read_probability
from askance_papers.curate.data_table import DataTable, Numeric
from askance_papers.curate.request import Curated, CuratorRequest
from askance_papers.curator.mechanisms import CuratorQuery, fine_step, laplace_at, means

CLIPPED = (
    "numbers outside their bounds were moved to them: the averages and their intervals are of those"
)


def curate(request: CuratorRequest) -> Curated:
    """Release the average of each column, each by the Laplace mechanism at epsilon / columns.

    Privacy: epsilon-DP: the releases' budgets add up.
    """
    names = request.names("columns")
    confidence = read_probability(request.text("confidence"), "confidence")
    table, each = request.table, request.epsilon / len(names)
    step = fine_step(min(_span(table.numeric(name)) for name in names))
    queries = [_query(table, name) for name in names]
    found = means(queries, table, laplace_at(each), request.words, step=step)
    result, rows = {}, []
    for name, release in zip(names, found, strict=True):
        lows, highs = release.intervals(confidence, len(names))
        estimate, low, high = float(release.values[0]), float(lows[0]), float(highs[0])
        result[name] = {"estimate": estimate, "low": low, "high": high}
        rows.append(EstimateRow(name, estimate, low, high))
    note = f"intervals hold for all columns together with probability {float(confidence):g}"
    notes = (note, CLIPPED) if table.clip else (note,)
    told_of = {"means": result, "confidence": float(confidence)}
    events = tuple(one.event for one in found)
    return Curated(told_of, (), events, notes=notes, rows=tuple(rows))


def _query(table: DataTable, name: str) -> CuratorQuery[DataTable]:
    kind = table.numeric(name)

    def of(records: DataTable) -> NDArray[np.float64]:
        return records.numbers(name)

    return CuratorQuery(name, of, float(kind.low), float(kind.high))


def _span(kind: Numeric) -> Fraction:
    return kind.high - kind.low
