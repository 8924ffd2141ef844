"""Regressors with scikit-learn's conventions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from askance.estimators.base import Supervised
from askance_aggregator import learners
from askance_aggregator.learners import Learner
from askance_client.queries import Schema

_TARGET = "target"


@dataclass(eq=False, repr=False, kw_only=True)
class LocalLinearRegression(RegressorMixin, Supervised):  # type: ignore[misc]  # scikit-learn ships no types
    """Linear regression by one vector question per round; see `LocalEstimator`.

    Args:
        epsilon: each user's whole budget, in nats.
        schema: see `LocalEstimator`.
        rounds: gradients that are asked for; None: by the users and the noise of an answer.
        random_state: see `LocalEstimator`.

    Attributes:
        coef_: change of the outcome per unit of each feature, shape (d,); a category has one
            coefficient per label but one.
        intercept_: the outcome where all features are 0.

    Example:
        >>> from askance.estimators import LocalLinearRegression
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2_000, 1))
        >>> model = LocalLinearRegression(epsilon=8.0, rounds=1, random_state=0)
        >>> model = model.fit(X, X[:, 0] * 0.8)
        >>> model.predict(X).shape
        (2000,)
    """

    _outcome_type = np.float64

    rounds: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803  # scikit-learn's name
        """Ask the rows' devices and learn the regression.

        Args:
            X: shape (n, d); a DataFrame may have texts, numbers and truth values.
            y: outcomes, shape (n,).

        Raises:
            ValueError: scikit-learn's checks, or one outcome in all rows and no schema.
            InvalidParameter: a parameter, or a column's name.
            PlanRefused: too few rows at this epsilon; no device was asked.
        """
        columns, outcome = self._examples(X, y)
        name = self._outcome_name(columns, _TARGET)
        if self.schema is None and (outcome == outcome[0]).all():
            raise ValueError("y: expected two different outcomes or more, got one")
        self._run(
            {**columns, name: outcome.astype(np.float64)},
            lambda schema, names: self._learner(schema, name, [n for n in names if n != name]),
        )
        self.coef_ = self.model_.coef_
        self.intercept_ = self.model_.intercept_
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803  # scikit-learn's name
        """Predict the outcome of each row, shape (n,)."""
        columns = self._features(X)
        return np.asarray(self.model_.predict(columns))

    def _learner(self, schema: Schema, outcome: str, names: list[str]) -> Learner[Any]:
        return learners.linear_regression(schema, outcome, names, rounds=self.rounds)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: few rows give a poor score."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
