"""Private logistic regression with scikit-learn's conventions."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.numbers import Rational, rational
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter
from askance_papers.curator.conventions import PrivateClassifier, read_classes, read_examples
from askance_papers.curator.logistic.examples import Examples, LongRows
from askance_papers.curator.logistic.mechanisms import (
    LogisticCalibration,
    ObjectivePerturbation,
    OutputPerturbation,
)

_MECHANISMS = ("objective", "output")

_Kind = TypeVar("_Kind", LogisticCalibration, LongRows)


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLogisticRegression(PrivateClassifier):
    """Fits the coefficients of a linear classifier, which may then be published.

    Privacy: each call of `fit` is one release, epsilon-DP for the rows and labels it was given
    (replace-one; n, the columns and the classes' names are public). Two fits cost two epsilons, and
    so does a search for parameters: `GridSearchCV` fits once a fold and a candidate. Predictions
    cost nothing more. The package's docstring lists what is not float-safe. A clone has a copy of
    `words`: words that repeat (an experiment's) give a clone the same noise.
    Utility: no intercept, as in the paper; a constant column does for one, inside the norm.

    Args:
      epsilon: nats, above 0.
      regularisation: lambda of lambda/2 ||w||^2 + mean loss, 1e-9 .. 1e6, where rows are measured
        in units of `norm` (scikit-learn's C is 1/(n lambda)). More of it takes less noise.
      mechanism: "objective" (perturbation), or "output".
      calibration: of objective perturbation: "joint", "rank-one" or "jmlr"; see
        `LogisticCalibration`.
      norm: what no row's Euclidean norm is above; stated, never taken from the data.
      longer: what becomes of longer rows: "refuse" is an error, "clip" scales each down by itself.
      classes: the two labels, stated, for which labels occur is private too; the second is the
        positive one.
      words: where chance comes from; None: the operating system.

    Attributes:
      coef_: shape (1, d), in units of the rows as they were given.
      intercept_: shape (1,): 0.
      classes_: shape (2,): `classes`.
      event_: what the fit cost.
      privacy_: the same in words.
      n_features_in_: d.

    Source: CM08, Algorithms 1 and 2, corrected; see `mechanisms`.
    """

    epsilon: Rational = field(default=1, kw_only=False)
    regularisation: Rational = 0.01
    mechanism: str = "objective"
    calibration: str = "joint"
    norm: Rational = 1
    longer: str = "refuse"
    classes: tuple[Any, Any] = (-1, 1)
    words: Words | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803  # scikit-learn's name
        """Release the coefficients.

        Args:
          X: shape (n, d).
          y: shape (n,), of `classes`.
        """
        chosen = self._chosen()
        longer = _one_of(LongRows, self.longer, "longer")
        classes = read_classes(self.classes)
        rows, signs = read_examples(self, X, y, classes)
        examples = Examples.of(rows, signs, self.norm, longer)
        self.coef_ = chosen.release(examples, self._chance())[None, :] / float(
            rational(self.norm, "norm")
        )
        self.intercept_ = np.zeros(1)
        self.classes_ = classes
        self.event_ = chosen.event
        self.privacy_ = _guarantee_text(chosen.epsilon, examples.count, self.mechanism)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803  # scikit-learn's name
        """w.x, shape (n,): above 0 is the second class."""
        rows = self._rows(X)
        values: NDArray[np.float64] = rows @ self.coef_[0]
        return values

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803  # scikit-learn's name
        """The likelier class of each row, shape (n,)."""
        above = self.decision_function(X) > 0
        found: NDArray[Any] = self.classes_[above.astype(int)]
        return found

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803  # scikit-learn's name
        """The model's probabilities of both classes, shape (n, 2); the noise is in them too."""
        values = self.decision_function(X)
        return np.exp(-np.logaddexp(0.0, np.column_stack([values, -values])))

    def _chosen(self) -> ObjectivePerturbation | OutputPerturbation:
        calibration = _one_of(LogisticCalibration, self.calibration, "calibration")
        if self.mechanism == "output":
            return OutputPerturbation.of(self.epsilon, self.regularisation)
        if self.mechanism == "objective":
            return ObjectivePerturbation.of(self.epsilon, self.regularisation, calibration)
        raise InvalidParameter(
            f"mechanism: expected one of {', '.join(_MECHANISMS)}, found {self.mechanism!r}"
        )


def _one_of(kinds: type[_Kind], given: str, name: str) -> _Kind:
    try:
        return kinds(given)
    except ValueError:
        expected = ", ".join(kinds)
        raise InvalidParameter(f"{name}: expected one of {expected}, found {given!r}") from None


def _guarantee_text(epsilon: Fraction, count: int, mechanism: str) -> str:
    return (
        f"{float(epsilon):g}-differentially private by {mechanism} perturbation, towards replacing "
        f"one of the {count} rows (their number is public); as real numbers, not as floats"
    )
