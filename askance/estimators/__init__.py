"""Estimators with scikit-learn's conventions: `fit` runs a study on simulated devices.

    from askance.estimators import LocalNaiveBayes

    model = LocalNaiveBayes(epsilon=4.0, random_state=0).fit(X, y)
    model.score(X_test, y_test), model.epsilon_spent_

They need scikit-learn: `pip install 'askance[curator]'`.
"""

from __future__ import annotations

try:
    import sklearn  # noqa: F401  # of the estimators' base classes
except ImportError:
    raise ImportError(
        "askance.estimators: expected scikit-learn installed, got none: pip install"
        " 'askance[curator]'"
    ) from None

from askance.estimators.classifiers import (
    LocalDecisionTree,
    LocalLogisticRegression,
    LocalNaiveBayes,
)
from askance.estimators.regressors import LocalLinearRegression
from askance.estimators.unsupervised import LocalHistogram, LocalKMeans, LocalPCA

__all__ = [
    "LocalDecisionTree",
    "LocalHistogram",
    "LocalKMeans",
    "LocalLinearRegression",
    "LocalLogisticRegression",
    "LocalNaiveBayes",
    "LocalPCA",
]
