"""Labelled examples of a parity, checked and packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.parity.gf2 import Rows, pack, words_of


@dataclass(frozen=True, slots=True, eq=False)
class ParityExamples:
    """Examples (x, y), one per user: x in {0, 1}^d, y in {0, 1}.

    Made by `of_bits` or `of_words`, which check everything.

    Args:
      rows: shape (n, words_of(d + 1)): bit c is x_c, bit d is y.
      d: the length of an x.
    """

    rows: Rows
    d: int

    def __len__(self) -> int:
        """n, which is public."""
        return len(self.rows)

    @classmethod
    def of_bits(cls, x: ArrayLike, y: ArrayLike) -> ParityExamples:
        """Make examples from a table of zeros and ones.

        Args:
          x: shape (n, d), values {0, 1}, of a whole-number or truth-value type.
          y: shape (n,), values {0, 1}.

        Raises:
          InvalidParameter: no table of that shape or type, or an empty one.
          InvalidRecord: a value that is neither 0 nor 1, or not one label for each row.
        """
        table = np.asarray(x)
        _check_shape(table, "a table (n, d) of zeros and ones")
        labels = _labels(y, len(table))
        if table.dtype.kind not in "biu":
            raise InvalidParameter(f"examples: expected whole numbers, found type {table.dtype}")
        if table.dtype.kind != "b" and (table.min() < 0 or table.max() > 1):
            row, column = (int(place[0]) for place in np.nonzero((table < 0) | (table > 1)))
            raise InvalidRecord(
                f"examples: expected 0 or 1, found another number in row {row}, column {column}"
            )
        d = table.shape[1]
        rows = pack(table.astype(np.uint8, copy=False), words_of(d + 1))
        return cls(_labelled(rows, labels, d), d)

    @classmethod
    def of_words(cls, x: NDArray[np.uint64], y: ArrayLike, d: int) -> ParityExamples:
        """Make examples whose bits are packed already.

        Args:
          x: shape (n, ceil(d / 64)), dtype uint64: x_c is bit c mod 64 of word c // 64; 0 beyond.
          y: shape (n,), values {0, 1}.
          d: the length of an x.

        Raises:
          InvalidParameter: no array of that shape or type, or an empty one.
          InvalidRecord: a bit beyond d, a label that is neither 0 nor 1, or not one for each row.
        """
        packed = np.asarray(x)
        if isinstance(d, bool) or not isinstance(d, int) or d < 1:
            raise InvalidParameter("d: expected a whole number of 1 or more")
        _check_shape(packed, "packed rows (n, ceil(d / 64))")
        if packed.dtype != np.uint64 or packed.shape[1] != words_of(d):
            raise InvalidParameter(
                f"examples: expected {words_of(d)} words of type uint64 a row for d = {d},"
                f" found {packed.shape[1]} of type {packed.dtype}"
            )
        labels = _labels(y, len(packed))
        if d % 64 and (beyond := np.flatnonzero(packed[:, -1] >> np.uint64(d % 64))).size:
            raise InvalidRecord(f"examples: expected {d} bits, found more in row {int(beyond[0])}")
        rows = np.zeros((len(packed), words_of(d + 1)), dtype=np.uint64)
        rows[:, : packed.shape[1]] = packed
        return cls(_labelled(rows, labels, d), d)


def _check_shape(table: NDArray[Any], expected: str) -> None:
    if table.ndim != 2:
        raise InvalidParameter(f"examples: expected {expected}, found {table.ndim} dimensions")
    if 0 in table.shape:
        raise InvalidParameter(f"examples: expected {expected}, got the shape {table.shape}")


def _labels(y: ArrayLike, count: int) -> NDArray[np.uint64]:
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise InvalidParameter(
            "labels: expected one whole number for each row,"
            f" found {labels.ndim} dimensions of type {labels.dtype}"
        )
    if len(labels) != count:
        raise InvalidRecord(f"labels: expected one for each of {count} rows, found {len(labels)}")
    wrong = np.flatnonzero((labels != 0) & (labels != 1))
    if wrong.size:
        raise InvalidRecord(f"labels: expected 0 or 1, found another number in row {int(wrong[0])}")
    return labels.astype(np.uint64)


def _labelled(rows: Rows, labels: NDArray[np.uint64], d: int) -> Rows:
    rows[:, d // 64] |= labels << np.uint64(d % 64)
    return rows
