"""Clusters, components and histograms with scikit-learn's conventions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from askance.estimators.base import LocalEstimator
from askance_aggregator import learners


@dataclass(eq=False, repr=False, kw_only=True)
class LocalKMeans(ClusterMixin, LocalEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """k-means; see `LocalEstimator`. Distances are in coordinates that are scaled to [0, 1].

    Args:
        n_clusters: centres; 2 or more.
        epsilon: each user's whole budget, in nats.
        schema: see `LocalEstimator`.
        max_iter: rounds after which the centres are concluded.
        random_state: see `LocalEstimator`.

    Attributes:
        cluster_centers_: in the fields' units, shape (clusters, d).
        labels_: the nearest centre of each row, shape (n,). It is computed from the rows, which
            only a simulation has.
        n_iter_: rounds that were asked.

    Example:
        >>> from askance.estimators import LocalKMeans
        >>> draws = np.random.default_rng(0)
        >>> parts = [draws.normal(place, 0.2, (2_000, 1)) for place in (-1, 1)]
        >>> X = np.concatenate(parts)
        >>> LocalKMeans(2, epsilon=8.0, max_iter=1, random_state=0).fit(X).cluster_centers_.shape
        (2, 1)
    """

    n_clusters: int = field(default=3, kw_only=False)
    max_iter: int = 5

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Ask the rows' devices and place the centres.

        Args:
            X: numbers, shape (n, d).
            y: ignored.

        Raises:
            ValueError: scikit-learn's checks.
            PlanRefused: too few rows at this epsilon; no device was asked.
        """
        columns = self._checked(X, reset=True)
        self._run(
            columns,
            lambda schema, names: learners.k_means(schema, self.n_clusters, names, self.max_iter),
        )
        self.cluster_centers_ = self.model_.cluster_centers_
        self.labels_ = self.model_.predict(columns)
        self.n_iter_ = self.study_.trials[0].outcome.rounds
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:  # noqa: N803  # scikit-learn's name
        """Return the nearest centre of each row, shape (n,)."""
        columns = self._features(X)
        return np.asarray(self.model_.predict(columns))


@dataclass(eq=False, repr=False, kw_only=True)
class LocalPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LocalEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Principal components of columns that are scaled to [-1, 1]; see `LocalEstimator`.

    Args:
        n_components: 1 or more, at most the columns.
        epsilon: each user's whole budget, in nats.
        schema: see `LocalEstimator`.
        random_state: see `LocalEstimator`.

    Attributes:
        components_: directions, shape (components, d).
        explained_variance_: along each of them, shape (components,).

    Example:
        >>> from askance.estimators import LocalPCA
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2_000, 1)) * [1, 0.5]
        >>> LocalPCA(1, epsilon=8.0, random_state=0).fit(X).transform(X).shape
        (2000, 1)
    """

    n_components: int = field(default=2, kw_only=False)

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Ask the rows' devices and find the directions.

        Args:
            X: numbers, shape (n, d).
            y: ignored.

        Raises:
            ValueError: scikit-learn's checks.
            PlanRefused: too few rows at this epsilon; no device was asked.
        """
        self._run(
            self._checked(X, reset=True),
            lambda schema, names: learners.principal_components(schema, names, self.n_components),
        )
        self.components_ = self.model_.components_
        self.explained_variance_ = self.model_.explained_variance_
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803  # scikit-learn's name
        """Return the coordinates of each row along the directions, shape (n, components)."""
        columns = self._features(X)
        return np.asarray(self.model_.transform(columns))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


@dataclass(eq=False, repr=False, kw_only=True)
class LocalHistogram(LocalEstimator):
    """Shares of the values of each column, with joint intervals; see `LocalEstimator`.

    The users are divided between the columns: each device answers about one of them.

    Args:
        bins: cells of equal width that a number is divided into; 2 or more. A text has a cell per
            label.
        epsilon: each user's whole budget, in nats.
        schema: see `LocalEstimator`.
        random_state: see `LocalEstimator`.

    Attributes:
        columns_: the columns that were asked about, by field name.
        cells_: names of the cells, an array per column.
        shares_: unbiased estimates, so some may be negative, an array per column.
        intervals_: 95 % intervals that hold jointly, an array of shape (cells, 2) per column.
        missing_: the estimated share of rows without a value, per column.

    Example:
        >>> from askance.estimators import LocalHistogram
        >>> X = np.random.default_rng(0).integers(0, 4, (5_000, 1)).astype(float)
        >>> model = LocalHistogram(bins=4, epsilon=4.0, random_state=0).fit(X)
        >>> model.n_users_, model.epsilon_spent_
        (5000, 4.0)
    """

    bins: int = field(default=10, kw_only=False)

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Ask each row's device once.

        Args:
            X: shape (n, d); a DataFrame may have texts, numbers and truth values.
            y: ignored.

        Raises:
            ValueError: scikit-learn's checks.
            PlanRefused: too few rows at this epsilon; no device was asked.
        """
        self._run(
            self._checked(X, reset=True),
            lambda schema, names: learners.marginals(schema, names, way=1, bins=self.bins),
        )
        tables = self.model_.tables
        self.columns_ = [table.columns[0] for table in tables]
        self.cells_ = [np.array(table.labels[0]) for table in tables]
        self.shares_ = [table.table for table in tables]
        self.intervals_ = [
            np.stack([table.answer.lows[:-1], table.answer.highs[:-1]], axis=1) for table in tables
        ]
        self.missing_ = np.array([table.missing for table in tables])
        return self
