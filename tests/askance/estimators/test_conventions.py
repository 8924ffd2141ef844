"""The estimators keep scikit-learn's conventions, by scikit-learn's own checks."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sklearn")
from askance.estimators import (
    LocalDecisionTree,
    LocalHistogram,
    LocalKMeans,
    LocalLinearRegression,
    LocalLogisticRegression,
    LocalNaiveBayes,
    LocalPCA,
)


def _never(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, LocalPCA):
        return {"check_dtype_object": "the check has 20 rows; the plan needs 66 users and says so"}
    return {}


ESTIMATORS = [
    LocalNaiveBayes(epsilon=16),
    LocalLogisticRegression(epsilon=16, rounds=2),
    LocalDecisionTree(epsilon=16),
    LocalLinearRegression(epsilon=16, rounds=2),
    LocalKMeans(2, epsilon=16, max_iter=1),
    LocalPCA(1, epsilon=16),
    LocalHistogram(epsilon=16),
]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_scikit_learns_own_checks(estimator: Any) -> None:
    from sklearn.utils.estimator_checks import check_estimator  # a second of every collection

    results = check_estimator(estimator, expected_failed_checks=_never(estimator))
    assert len(results) >= 40
