"""Averages of columns."""

from __future__ import annotations

from fractions import Fraction
from math import floor, log10

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.curator.budgets import read_probability
from askance_aggregator.curator.mechanisms import Query, fine_step, laplace_at, means
from askance_simulation.curate.request import Curated, Request
from askance_simulation.curate.sheet import Numeric, Sheet

CLIPPED = (
    "numbers outside their bounds were moved to them: the averages and their intervals are of those"
)


def curate(request: Request) -> Curated:
    """Release the average of each column, each by the Laplace mechanism at epsilon / columns.

    Privacy: epsilon-DP: the releases' budgets add up.

    Raises:
      InvalidParameter, InvalidRecord: a column without bounds, or values that do not keep to them.
    """
    names = request.names("columns")
    confidence = read_probability(request.text("confidence"), "confidence")
    sheet, each = request.sheet, request.epsilon / len(names)
    step = fine_step(min(_span(sheet.numeric(name)) for name in names))
    queries = [_query(sheet, name) for name in names]
    found = means(queries, sheet, laplace_at(each), request.words, step=step)
    result, lines = {}, []
    for name, release in zip(names, found, strict=True):
        lows, highs = release.intervals(confidence, len(names))
        told = {"estimate": release.values[0], "low": lows[0], "high": highs[0]}
        result[name] = {part: float(value) for part, value in told.items()}
        lines.append(f"{name}: {_rounded(**told)}")
    note = f"intervals hold for all columns together with probability {float(confidence):g}"
    notes = (note, CLIPPED) if sheet.clip else (note,)
    told_of = {"means": result, "confidence": float(confidence)}
    return Curated(told_of, tuple(lines), tuple(one.event for one in found), notes=notes)


def _rounded(estimate: float, low: float, high: float) -> str:
    """Format a number in a line, to some hundredths of the interval."""
    places = max(2 - floor(log10(high - low)), 0)
    return f"{estimate:,.{places}f} ({low:,.{places}f} .. {high:,.{places}f})"


def _query(sheet: Sheet, name: str) -> Query[Sheet]:
    kind = sheet.numeric(name)

    def of(records: Sheet) -> NDArray[np.float64]:
        return records.numbers(name)

    return Query(name, of, float(kind.low), float(kind.high))


def _span(kind: Numeric) -> Fraction:
    return kind.high - kind.low
