"""Averages, histograms and synthetic tables: answers about columns."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import EstimateRow
from askance_aggregator.numbers import read_probability
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_papers.curate.data_table import DataTable, Labelled, Numeric
from askance_papers.curate.request import Curated, CuratorRequest, shown
from askance_papers.curator.mechanisms import CuratorQuery, fine_step, histogram, laplace_at, means
from askance_papers.curator.synopsis import (
    Answered,
    Histogram,
    MarginalFamily,
    Universe,
    gaussian_fit,
    mwem,
)

CLIPPED = (
    "numbers outside their bounds were moved to them: the averages and their intervals are of those"
)


def release_means(request: CuratorRequest) -> Curated:
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


_MAX_BINS = 10_000


def release_histogram(request: CuratorRequest) -> Curated:
    """Release the counts of a column's labels, or of bins between its bounds.

    Privacy: epsilon-DP: replacing a record moves two counts by one each.
    """
    name, table = request.text("column"), request.table
    confidence = read_probability(request.text("confidence"), "confidence")
    kind = table.columns.get(name)
    if isinstance(kind, Numeric):
        bins = request.whole("bins", _MAX_BINS)
        edges = np.linspace(float(kind.low), float(kind.high), bins + 1)
        if len({shown(edge) for edge in edges}) <= bins:
            raise InvalidParameter(f"bins: expected fewer, whose ends differ, got {bins}")
        inner = edges[1:-1]
        codes = np.searchsorted(inner, table.numbers(name), side="right").astype(np.int64)
        cells = [f"{shown(low)} .. {shown(high)}" for low, high in pairwise(edges)]
    else:
        codes = table.codes(name)
        cells = list(kind.labels) if kind is not None else []
    release = histogram(codes, len(cells), laplace_at(request.epsilon), request.words)
    lows, highs = release.intervals(confidence, len(cells))
    found = {
        cell: {"estimate": float(value), "low": float(low), "high": float(high)}
        for cell, value, low, high in zip(cells, release.values, lows, highs, strict=True)
    }
    rows = tuple(
        EstimateRow(cell, one["estimate"], max(one["low"], 0.0), max(one["high"], 0.0))
        for cell, one in found.items()
    )
    note = f"intervals hold for all cells together with probability {float(confidence):g}"
    result = {"counts": found, "confidence": float(confidence)}
    return Curated(result, (), (release.event,), notes=(note,), rows=rows)


_MAX_ROWS = 100_000
_SHOWN = 10


def release_table(request: CuratorRequest) -> Curated:
    """Release rows of labels, drawn from a distribution that was fitted to private marginals.

    Privacy: epsilon-DP by MWEM, (epsilon, delta)-DP by Gaussian answers and a fit; drawing rows of
    it costs nothing more.
    """
    table, rows = request.table, request.whole("rows", _MAX_ROWS)
    method = request.one_of("method", ("mwem", "gaussian"))
    columns = {name: one for name, one in table.columns.items() if isinstance(one, Labelled)}
    if not columns:
        raise InvalidParameter(
            f"columns: expected columns of labels, got {value_text(list(table.columns))}"
        )
    universe = Universe(tuple(len(kind.labels) for kind in columns.values()))
    family = MarginalFamily(universe, request.whole("way", len(columns)))
    delta = read_probability(request.text("delta"), "delta") if method == "gaussian" else None
    cells = np.stack([table.codes(name) for name in columns], axis=1)
    histogram = Histogram.of(universe, cells)
    release: Answered
    if delta is None:
        release = mwem(histogram, family, request.epsilon, request.words)
    else:
        release = gaussian_fit(histogram, family, request.epsilon, delta, request.words)
    drawn = [
        [kind.labels[code] for kind, code in zip(columns.values(), row, strict=True)]
        for row in release.table(rows, request.words).tolist()
    ]
    lines = [", ".join(columns), *(", ".join(row) for row in drawn[:_SHOWN])]
    if rows > _SHOWN:
        lines.append(f"and {rows - _SHOWN:,} rows more (--out FILE.json has all)")
    return Curated(
        {"columns": list(columns), "rows": drawn, "queries": family.size, "method": method},
        tuple(lines),
        release.events,
        delta=None if delta is None else float(delta),
    )
