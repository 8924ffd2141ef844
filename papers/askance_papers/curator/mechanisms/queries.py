"""Sums, averages, counts and histograms of per-record functions with stated bounds.

A record's value is put on the grid before anything is summed, so the sum is one of whole numbers:
exact, in any order, and its sensitivity is the whole number of steps between the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.numbers import Rational, rational
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text
from askance_papers.curator.mechanisms.grid import read_step, steps
from askance_papers.curator.mechanisms.release import Additive, Calibration, Release, add

Records = TypeVar("Records")
"""What the functions of queries take: an array, a table, whatever the curator holds."""

_MAX_BOUND = 1 << 52  # so that a float or int64 beside it is compared without rounding
_MAX_SUM = 1 << 60
_MAX_CELLS = 1 << 24


@dataclass(frozen=True, slots=True)
class CuratorQuery(Generic[Records]):
    """A function of a record with stated bounds.

    A value outside is an error when the query is asked, and nothing is drawn: bounds are a promise
    about all records, which the noise relies on. `clipped` makes one that keeps it.

    Args:
      name: for errors.
      of: the records to shape (n,), each entry a function of its own record alone.
      low, high: the bounds, low < high; they are rounded to the nearest floats.
    """

    name: str
    of: Callable[[Records], NDArray[np.generic]] = field(repr=False)
    low: Rational
    high: Rational

    def __post_init__(self) -> None:
        low, high = self.bounds
        if not -_MAX_BOUND <= low < high <= _MAX_BOUND:
            raise InvalidParameter(
                f"query {self.name!r}: expected low < high, both within 2^52,"
                f" got {low:g} and {high:g}"
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """(low, high), as floats."""
        low = rational(self.low, f"query {self.name!r}: low")
        high = rational(self.high, f"query {self.name!r}: high")
        return float(low), float(high)

    def span(self, step: Fraction) -> int:
        """Distance of the bounds in steps: the most that replacing one record moves the sum."""
        if max(map(abs, self.bounds)) / step >= _MAX_SUM:
            raise InvalidParameter(
                f"query {self.name!r}: expected a step of which 2^60 go beyond the bounds,"
                f" got {value_text(step)}"
            )
        low, high = (int(steps(bound, step)) for bound in self.bounds)
        if low == high:
            raise InvalidParameter(
                f"query {self.name!r}: expected a step below high - low, got {value_text(step)}"
            )
        return high - low

    def total(self, records: Records, step: Fraction) -> tuple[int, int, Fraction]:
        """(sum of the records' values in steps, number of records, how far each may be rounded)."""
        values = np.asarray(self.of(records))
        if values.ndim != 1 or not values.size or values.dtype.kind not in "buif":
            raise InvalidRecord(
                f"query {self.name!r}: expected a number a record, found {values.dtype} of shape"
                f" {values.shape}"
            )
        if isinstance(records, np.ndarray) and values.size != len(records):
            # The number of records that a filter leaves would be an answer without a charge.
            raise InvalidRecord(
                f"query {self.name!r}: expected a value for each record, found fewer or more (count"
                " with a predicate instead of leaving records out)"
            )
        low, high = self.bounds
        outside = np.flatnonzero(~((values >= low) & (values <= high)))  # NaN is outside
        if outside.size:
            raise InvalidRecord(
                f"query {self.name!r}: expected values in {low:g} .. {high:g}, found another in"
                f" {outside.size} of {values.size} rows, row {outside[0]} the first"
            )
        if max(abs(low), abs(high)) / step * values.size >= _MAX_SUM:
            raise InvalidParameter(
                f"query {self.name!r}: expected a sum below 2^60 steps, found more: take a coarser"
                " step"
            )
        on_grid = values.dtype.kind in "bui" and step.numerator == 1
        moved = Fraction(0) if on_grid else step / 2
        return int(steps(values, step).sum()), values.size, moved


def clipped(
    of: Callable[[Records], NDArray[np.generic]], low: float, high: float
) -> Callable[[Records], NDArray[np.generic]]:
    """The function, its values outside the bounds moved to the nearer bound; NaN stays NaN."""
    if not low < high:
        raise InvalidParameter(
            f"clipping: expected low < high, got {value_text(low)} and {value_text(high)}"
        )

    def inside(records: Records) -> NDArray[np.generic]:
        return np.clip(np.asarray(of(records)), low, high)

    return inside


def predicate(name: str, of: Callable[[Records], NDArray[np.generic]]) -> CuratorQuery[Records]:
    """A query that is 0 or 1 (or between) of every record: its sum is a count, its mean a share."""
    return CuratorQuery(name, of, 0, 1)


def sums(
    queries: Sequence[CuratorQuery[Records]],
    records: Records,
    calibration: Calibration,
    words: Words,
    *,
    step: Rational = 1,
) -> tuple[Release, ...]:
    """Release every query's sum over the records.

    Privacy: each release by itself is what its event says; all of them together is what an
    accountant says of the list of their events (for `laplace_at(eps)`: k eps at most).

    Args:
      queries: one or more.
      records: what the queries' functions take; how many there are is public.
      calibration: the budget of *each* query: `laplace_at(epsilon)` or `gaussian_at(rho)`.
      words: source of random words.
      step: the grid that values are rounded onto.

    Raises:
      InvalidParameter, InvalidRecord: see `CuratorQuery`; all are evaluated before anything is
      drawn.
    """
    return tuple(
        add(mechanism, np.array([total]), grain, rows * moved, words)
        for mechanism, total, grain, rows, moved in _ready(queries, records, calibration, step)
    )


def means(
    queries: Sequence[CuratorQuery[Records]],
    records: Records,
    calibration: Calibration,
    words: Words,
    *,
    step: Rational = 1,
) -> tuple[Release, ...]:
    """Release every query's average over the records: its sum over n, which is public.

    Privacy, Args, Raises: as of `sums`.
    """
    return tuple(
        add(mechanism, np.array([total]), grain / rows, moved, words)
        for mechanism, total, grain, rows, moved in _ready(queries, records, calibration, step)
    )


def histogram(codes: ArrayLike, cells: int, calibration: Calibration, words: Words) -> Release:
    """Release how many records are in each cell.

    Privacy: replacing a record takes one from a cell and adds one to another: L1 sensitivity 2, L2
    sqrt(2).

    Args:
      codes: shape (n,), each record's cell, 0 .. cells-1. The cells are public.
      cells: number of cells, 1 or more; public.
      calibration: budget of the histogram: `laplace_at(epsilon)` or `gaussian_at(rho)`.
      words: source of random words.

    Returns:
      A release of `cells` answers.

    Raises:
      InvalidParameter, InvalidRecord: no cells, no records, or a code that is none.
    """
    if isinstance(cells, bool) or not isinstance(cells, int) or not 2 <= cells <= _MAX_CELLS:
        raise InvalidParameter(
            f"cells: expected a whole number 2 .. {_MAX_CELLS}, got {value_text(cells)}"
        )
    found = np.asarray(codes)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "bui":
        raise InvalidRecord(
            f"codes: expected a cell a record, found {found.dtype} of shape {found.shape}"
        )
    outside = np.flatnonzero((found < 0) | (found >= cells))
    if outside.size:
        raise InvalidRecord(
            f"codes: expected 0 .. {cells - 1}, found another in {outside.size} of {found.size}"
            f" rows, row {outside[0]} the first"
        )
    counts = np.bincount(found.astype(np.int64), minlength=cells).astype(np.int64)
    return add(calibration(2, 2), counts, Fraction(1), Fraction(0), words)


def _ready(
    queries: Sequence[CuratorQuery[Records]],
    records: Records,
    calibration: Calibration,
    step: Rational,
) -> list[tuple[Additive, int, Fraction, int, Fraction]]:
    """Everything that can fail, before anything is drawn."""
    if not queries:
        raise InvalidParameter("queries: expected one or more, got none")
    grain = read_step(step)
    spans = [query.span(grain) for query in queries]
    mechanisms = [calibration(span, span * span) for span in spans]
    totals = [query.total(records, grain) for query in queries]
    return [
        (mechanism, total, grain, rows, moved)
        for mechanism, (total, rows, moved) in zip(mechanisms, totals, strict=True)
    ]
