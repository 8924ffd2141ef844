"""Number of records in each cell of a column."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from askance_aggregator.learners import EstimateRow
from askance_aggregator.numbers import read_probability
from askance_client.errors import InvalidParameter
from askance_papers.curate.data_table import Numeric
from askance_papers.curate.request import Curated, CuratorRequest, shown
from askance_papers.curator.mechanisms import histogram, laplace_at

_MAX_BINS = 10_000


def curate(request: CuratorRequest) -> Curated:
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
