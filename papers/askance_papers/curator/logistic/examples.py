"""Labelled rows of a bounded norm, checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter, InvalidRecord

_ROUNDING = 1e-9  # by how much a row of norm 1 may seem longer, for it was scaled in floats
_INSIDE = 1 - 2.0**-40  # rows are made this much shorter, so that rounding cannot lengthen them
_NORMS = (1e-100, 1e100)


class LongRows(StrEnum):
    """Treatment of a row that is longer than the stated norm."""

    REFUSE = "refuse"  # an error: the norm was promised
    CLIP = "clip"  # it is scaled down to the norm, by itself


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Rows of norm at most 1, each times its label: the logistic loss sees nothing else.

    Args:
      signed: shape (n, d): y_i x_i.
    """

    signed: NDArray[np.float64]

    def __post_init__(self) -> None:
        _check_shape(self.signed)
        # What is not a number is not at most 1 either.
        fits = np.einsum("ij,ij->i", self.signed, self.signed) <= (1 + _ROUNDING) ** 2
        _all(fits, "a norm of at most 1, found a longer row")

    @property
    def count(self) -> int:
        """n, which is public."""
        return len(self.signed)

    @property
    def dimension(self) -> int:
        """The number of columns, which is public."""
        return int(self.signed.shape[1])

    @classmethod
    def of(
        cls,
        rows: ArrayLike,
        labels: ArrayLike,
        norm: Rational = 1,
        longer: LongRows = LongRows.REFUSE,
    ) -> Examples:
        """Checked rows, in units of the stated norm.

        Privacy: clipping looks at one row at a time, so neighbours stay neighbours. A bound taken
        from the data (its greatest norm) would reveal the longest row, and is not offered.

        Args:
          rows: shape (n, d), finite numbers.
          labels: shape (n,), +1 or -1.
          norm: above 0: what every row's Euclidean norm is at most.
          longer: what becomes of a longer row.

        Raises:
          InvalidParameter: no such norm.
          InvalidRecord: no rows, no columns, another shape; a number that is not finite, a label
            that is not +1 or -1, or (unless they are clipped) a row that is too long. The first
            such row is named by its place, not by its values.
        """
        bound = float(rational(norm, "norm"))
        if not _NORMS[0] <= bound <= _NORMS[1]:
            raise InvalidParameter(f"norm: expected 1e-100 .. 1e100, found {bound:g}")
        read = _numbers(rows, "rows", dimensions=2)
        signs = _numbers(labels, "labels", dimensions=1)
        _check_shape(read)
        if len(signs) != len(read):
            raise InvalidRecord(f"labels: expected {len(read)}, one a row, found {len(signs)}")
        _all(np.isfinite(read).all(axis=1), "finite numbers, found NaN or inf")
        _all(np.abs(signs) == 1, "a label of +1 or -1, found another")
        return cls(_bounded(read / bound, longer) * signs[:, None])


def _numbers(given: ArrayLike, name: str, dimensions: int) -> NDArray[np.float64]:
    array: NDArray[Any] = np.asarray(given)
    if array.dtype.kind not in "biuf":
        raise InvalidRecord(f"{name}: expected real numbers, found {array.dtype}")
    if array.ndim != dimensions:
        raise InvalidRecord(f"{name}: expected {dimensions} dimensions, found {array.ndim}")
    return array.astype(np.float64)


def _check_shape(rows: NDArray[np.float64]) -> None:
    if rows.ndim != 2 or not rows.size:
        raise InvalidRecord(
            f"rows: expected at least one row and one column, found a shape of {rows.shape}"
        )


def _all(good: Any, expected: str) -> None:
    """Args: good: shape (n,), whether a row is as expected."""
    if not good.all():
        raise InvalidRecord(f"row {int(np.argmin(good))}: expected {expected}")


def _bounded(rows: NDArray[np.float64], longer: LongRows) -> NDArray[np.float64]:
    """Scale rows longer than 1 down to length 1, without overflow of squares."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    largest[largest == 0] = 1
    shapes = rows / largest
    lengths = np.maximum(np.linalg.norm(shapes, axis=1, keepdims=True), 1)  # 0 is a row of zeros
    if longer is LongRows.REFUSE:
        fits = (largest * lengths <= 1 + _ROUNDING)[:, 0]
        _all(fits, "at most the stated norm, found a longer row")
    bounded: NDArray[np.float64] = shapes * np.minimum(largest, _INSIDE / lengths)
    return bounded
