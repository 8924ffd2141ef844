"""Labelled examples, checked before anything is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidRecord

BITS = (0, 1)
SIGNS = (-1, 1)


def check_labels(y: NDArray[Any], labels: tuple[int, int]) -> None:
    """Check that each of at least one example has one of two labels."""
    if y.ndim != 1 or not y.size or y.dtype.kind not in "buif":
        raise InvalidRecord(f"labels: expected one a record, found {y.dtype} of shape {y.shape}")
    wrong = np.flatnonzero((y != labels[0]) & (y != labels[1]))
    if wrong.size:
        raise InvalidRecord(
            f"labels: expected {labels[0]} or {labels[1]}, found another in {wrong.size} of"
            f" {y.size} rows, row {wrong[0]} the first"
        )


def check_features(x: NDArray[Any], rows: int, columns: int) -> None:
    """Check that each record has a finite number in each column."""
    if x.shape != (rows, columns) or x.dtype.kind not in "buif":
        raise InvalidRecord(
            f"features: expected numbers of shape ({rows}, {columns}), found {x.dtype} of shape"
            f" {x.shape}"
        )
    wrong = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if wrong.size:
        raise InvalidRecord(
            f"features: expected finite numbers, found another in {wrong.size} of {rows} rows, row"
            f" {wrong[0]} the first"
        )


def check_bits(x: NDArray[Any], rows: int, columns: int) -> None:
    """Check that each record has 0 or 1 in each column."""
    check_features(x, rows, columns)
    wrong = np.flatnonzero(((x != 0) & (x != 1)).any(axis=1))
    if wrong.size:
        raise InvalidRecord(
            f"features: expected 0 or 1, found another in {wrong.size} of {rows} rows, row"
            f" {wrong[0]} the first"
        )
