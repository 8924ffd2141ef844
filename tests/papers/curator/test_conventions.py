"""Refusals that both estimators share, never with a record's value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sklearn")

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.boosting_classifier import (
    PrivateBoostingClassifier,
)
from askance_papers.curator.logistic.estimator import (
    PrivateLogisticRegression,
)


class Untouched:
    """Words of which none may be drawn."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"{count} words drawn")


ESTIMATORS = (
    PrivateLogisticRegression(words=Untouched()),
    PrivateBoostingClassifier(bounds=[(-1, 1), (-1, 1)], words=Untouched()),
)
SECRET = 0.7314159
GIVEN: dict[str, tuple[Any, Any]] = {
    "one dimension": ([SECRET, SECRET], [1, -1]),
    "complex numbers": (np.array([[SECRET + 1j, 0], [0, 0]]), [1, -1]),
    "text": ([["0.7314159", "0.7314159 or so"], ["0", "0"]], [1, -1]),
    "a label of NaN": ([[SECRET, 0], [0, 0]], [1, float("nan")]),
    "another number of labels": ([[SECRET, 0], [0, 0]], [1, -1, 1]),
    "nobody": (np.zeros((0, 2)), []),
    "a label of no class": ([[SECRET, 0], [0, 0]], [1, SECRET]),
}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("given", GIVEN)
def test_a_refusal_repeats_no_value(estimator: Any, given: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        estimator.fit(*GIVEN[given])
    assert "0.73" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_so_little_epsilon_that_floats_give_out_is_refused_before_the_noise() -> None:
    rows, labels = np.full((40, 2), 0.1), np.where(np.arange(40) % 2, 1, -1)
    model = PrivateLogisticRegression("1e-7", words=Untouched())
    with pytest.raises(InvalidParameter, match="epsilon: expected more"):
        model.fit(rows, labels)
    model = PrivateLogisticRegression("1e-4", words=Untouched())
    with pytest.raises(AssertionError, match="words drawn"):
        model.fit(rows, labels)
