"""Logistic regression."""

from __future__ import annotations

from math import sqrt

import numpy as np

from askance_papers.curate.request import Curated, CuratorRequest
from askance_papers.curator.logistic.estimator import PrivateLogisticRegression

_INTERCEPT = "(intercept)"
_CAVEAT = "as real numbers, not as floats"


def curate(request: CuratorRequest) -> Curated:
    """Release a linear classifier of the features, each scaled by its bounds to -1 .. 1.

    A row of d features and the constant 1, divided by sqrt(d + 1), has a norm of at most 1; a float
    above that is scaled down.

    Privacy: epsilon-DP as real numbers (`PrivateLogisticRegression`).
    """
    table = request.table
    mechanism = request.one_of("mechanism", ("objective", "output"))
    classes = table.classes()
    names, bounds, x = table.features()
    lows = np.array([float(one.low) for one in bounds])
    highs = np.array([float(one.high) for one in bounds])
    scale = sqrt(len(names) + 1)
    scaled = np.column_stack([(2 * x - lows - highs) / (highs - lows), np.ones(table.n)]) / scale
    estimator = PrivateLogisticRegression(
        request.epsilon,
        regularisation=request.text("regularisation"),
        mechanism=mechanism,
        longer="clip",
        words=request.words,
    )
    estimator.fit(scaled, np.where(table.positive(), 1, -1))
    weights = (estimator.coef_[0] / scale).tolist()
    coefficients = dict(zip((*names, _INTERCEPT), weights, strict=True))
    summary = f"{classes[1]} where the sum of coefficient times feature is above 0"
    result = {
        "coefficients": coefficients,
        "features": "each scaled by its bounds to -1 .. 1",
        "classes": list(classes),
        "summary": summary,
    }
    lines = tuple(f"{name}: {value:.4g}" for name, value in coefficients.items())
    return Curated(result, (summary, *lines), (estimator.event_,), caveat=_CAVEAT)
