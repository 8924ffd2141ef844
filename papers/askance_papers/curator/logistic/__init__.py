"""Logistic regression, and linear classifiers of other convex losses, that may be published.

Rules of the package:

- A row has a norm of at most 1 (in units of a bound that was stated beforehand, never taken from
  the data) and a label of +1 or -1; the classifier is the sign of w.x, without an intercept.
- Replace-one neighbours; n, the number of columns and the labels' names are public.
- The noise is a vector with density proportional to exp(-||b|| / scale): a Gamma(d) length in a
  uniform direction. (A Laplace length, as CM08 prints it, is not private for d > 1.)

Theory of operation: the regularised mean loss has one minimiser. Output perturbation moves it
by noise as large as one row can move it; objective perturbation tilts the loss by a random linear
term and publishes the exact minimiser of that, which hides a row with far less of an error. How
much noise, and how much more regularisation, is the calibration's matter.

Not float-safe: the guarantees are of real numbers. The noise is drawn in floats (Mironov, CCS 2012,
on what their gaps may reveal), and a minimiser is found to a gradient of 1e-10.

The scikit-learn estimator is in `estimator`, which imports scikit-learn; nothing else here does.
"""

from askance_papers.curator.logistic.examples import Examples, LongRows
from askance_papers.curator.logistic.losses import (
    LOGISTIC,
    HuberHinge,
    LogisticLoss,
    MarginLoss,
    ModifiedHuber,
)
from askance_papers.curator.logistic.mechanisms import (
    GRADIENT,
    Calibrated,
    LogisticCalibration,
    ObjectivePerturbation,
    OutputPerturbation,
    calibrate,
    minimise,
)

__all__ = [
    "GRADIENT",
    "LOGISTIC",
    "Calibrated",
    "Examples",
    "HuberHinge",
    "LogisticCalibration",
    "LogisticLoss",
    "LongRows",
    "MarginLoss",
    "ModifiedHuber",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "calibrate",
    "minimise",
]
