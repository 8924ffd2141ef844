"""Decision stumps, and thresholds on a line: x at or above a cut, or below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_papers.curator.mechanisms.examples import SIGNS, check_features, check_labels
from askance_papers.curator.mechanisms.hypotheses import Mistakes, Weighs, check_weights, lookup


@dataclass(frozen=True, slots=True)
class Stump:
    """`sign` where the feature is at or above the cut, else -sign."""

    feature: int
    cut: float
    sign: int

    def __call__(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Labels of 1 and -1, shape (n,)."""
        column = x[:, self.feature].astype(np.float64)
        return np.where(column >= self.cut, self.sign, -self.sign).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        """For a result."""
        return {"feature": self.feature, "cut": self.cut, "above": self.sign, "below": -self.sign}


class Stumps(Weighs):
    """Every stump of stated cuts, both signs of each; labels are 1 and -1.

    The cuts are public: from the schema, never from the data.

    Args:
      cuts: for each feature its cuts, finite; at least one cut in all.

    Raises:
      InvalidParameter: there is none, or one is no finite number.
    """

    def __init__(self, cuts: Sequence[Sequence[float]]) -> None:
        self.cuts = tuple(tuple(sorted(map(float, of_one))) for of_one in cuts)
        if not any(self.cuts):
            raise InvalidParameter("class: expected one hypothesis or more, got no cuts")
        if not all(np.isfinite(cut) for of_one in self.cuts for cut in of_one):
            raise InvalidParameter(f"cuts: expected finite numbers, got {value_text(self.cuts)}")
        self._all = tuple(
            Stump(feature, cut, sign)
            for feature, of_one in enumerate(self.cuts)
            for cut in of_one
            for sign in SIGNS
        )

    labels = SIGNS

    @property
    def size(self) -> int:
        """Number of stumps."""
        return len(self._all)

    def hypothesis(self, number: int) -> Stump:
        """Return the stump with this number."""
        return self._all[number]

    def weighted_mistakes(
        self, x: NDArray[Any], y: NDArray[Any], weights: NDArray[np.int64]
    ) -> Mistakes:
        """Implement `WeightedClass` in one pass over each column, for any number of cuts."""
        check_labels(y, SIGNS)
        check_features(x, len(y), len(self.cuts))
        check_weights(weights, len(y))
        signed = weights * y.astype(np.int64)
        total, ones = int(weights.sum()), int(weights[y == 1].sum())
        wrong: list[int] = []
        for feature, of_one in enumerate(self.cuts):
            if not of_one:
                continue
            # Of the rows in bin b, b cuts are at or below the value. Sums below 2^52: floats hold.
            bins = np.searchsorted(np.array(of_one), x[:, feature], side="right")
            sums = np.bincount(bins, weights=signed, minlength=len(of_one) + 1)
            above = sums[::-1].cumsum()[::-1][1:].astype(np.int64)  # of the rows at or above a cut
            for lead in above.tolist():
                plus = ones - lead  # ones below the cut, and the others at or above it
                wrong += [total - plus, plus]
        return lookup(np.array(wrong, dtype=np.int64))


def thresholds(cuts: Sequence[float]) -> Stumps:
    """The thresholds on a line: stumps of one feature (x of shape (n, 1))."""
    return Stumps([cuts])


def even_cuts(low: float, high: float, count: int) -> tuple[float, ...]:
    """`count` cuts that divide stated bounds evenly.

    Raises:
      InvalidParameter: bounds out of order, or no cuts.
    """
    whole = isinstance(count, int) and not isinstance(count, bool)
    if not -inf < low < high < inf or not whole or count < 1:
        raise InvalidParameter(
            "cuts: expected low < high and one cut or more,"
            f" got {value_text(low)}, {value_text(high)} and {value_text(count)}"
        )
    return tuple(np.linspace(low, high, count + 2)[1:-1].tolist())
