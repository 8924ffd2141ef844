"""Estimators with scikit-learn's conventions: `fit` runs a study on simulated devices.

    from askance.estimators import LocalNaiveBayes

    model = LocalNaiveBayes(epsilon=4.0, random_state=0).fit(X, y)
    model.score(X_test, y_test), model.epsilon_spent_

They need scikit-learn: `pip install 'askance[curator]'`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator import learners
from askance_aggregator.learners import Learner, assess, find, presentation_of
from askance_aggregator.reports.verdict import Placement, ResultVerdict
from askance_aggregator.studies.study import Epsilon, Study
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text
from askance_client.queries import Category, Field, Schema
from askance_client.records import Table, field_names, is_missing
from askance_simulation.experiments import simulate
from askance_simulation.populations import Population
from askance_simulation.populations.arrow_tables import columns_of_frame
from askance_simulation.populations.cells import cells_of_objects
from askance_simulation.populations.population import people_of
from askance_simulation.randomness import Seed

try:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        ClusterMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        assert_all_finite,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError:
    raise ImportError(
        "askance.estimators: expected scikit-learn installed, got none: pip install"
        " 'askance[curator]'"
    ) from None

__all__ = [
    "LocalDecisionTree",
    "LocalHistogram",
    "LocalKMeans",
    "LocalLinearRegression",
    "LocalLogisticRegression",
    "LocalNaiveBayes",
    "LocalPCA",
]

Columns = Mapping[str, NDArray[Any]]
_SOURCE = Path("rows")  # stands for a file's path in messages


def columns_of(rows: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a table by field name.

    Args:
        rows: a DataFrame, whose columns' names become fields' names if all are texts; or an array
            of shape (n, d). Other columns are called x0, x1, ...
    """
    if not hasattr(rows, "columns"):
        table = np.asarray(rows)
        return {f"x{place}": table[:, place] for place in range(table.shape[1])}
    columns = columns_of_frame(rows)
    texts = all(isinstance(name, str) for name, _ in columns)
    if not columns:
        raise InvalidParameter("columns: expected one or more, got none")
    try:
        own = [name if texts else f"x{place}" for place, (name, _) in enumerate(columns)]
        names = field_names("columns", own)
    except InvalidRecord as error:
        raise InvalidParameter(str(error)) from None
    return {name: _array(name, column) for name, (_, column) in zip(names, columns, strict=True)}


def population_of(
    columns: Columns, seed: Seed, schema: Schema | None, label: str | None = None
) -> Population:
    """Make a population of columns, one user per row."""
    cells = [cells_of_objects(column.tolist()) for column in columns.values()]
    names = tuple(columns)
    table = Table(_SOURCE, names, names, list(zip(*cells, strict=True)))
    keep: Collection[str] = names
    return people_of(table, seed, schema=schema, label=label, keep=keep)


def _array(name: str, column: Any) -> NDArray[Any]:
    """Return a column as an array of numbers, truth values or texts; None where one is missing."""
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if isinstance(kind, str) and kind in tuple("biuf"):
        found = np.asarray(column)
        if found.dtype.kind in "biuf":
            return found
    try:
        cells = cells_of_objects(column.to_pylist() if hasattr(column, "to_pylist") else column)
    except Exception:  # of any library, with a value in its text perhaps
        cells = "values that cannot be read"
    if isinstance(cells, str):
        raise InvalidParameter(
            f"columns: expected numbers, truth values, text or times in {value_text(name)},"
            f" got {cells}"
        )
    return np.array(cells, dtype=object)


_SEEDS = (1 << 31) - 1

MakeLearner = Callable[[Schema, list[str]], Learner[Any]]
"""Makes the learner from the population's schema and the names of the columns to ask about."""


@dataclass(eq=False, repr=False, kw_only=True)
class LocalEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Estimator whose `fit` runs a study on simulated devices, one per row.

    Privacy: pure epsilon-LDP per row, as of `askance.simulate`: each device spends at most epsilon.
        Without a schema the bounds and labels are inferred from the rows, which is not private and
        which `notes_` states.

    Args:
        epsilon: each user's whole budget, in nats; > 0.
        schema: fields, bounds and labels, known before any row is read; None: inferred.
        random_state: of the devices' coins, as scikit-learn takes it; None: new ones at each fit.

    Attributes:
        study_: the simulated study (`askance.Simulation`); it is not pickled.
        model_: its hypothesis.
        n_users_: the number of rows.
        epsilon_spent_: the most that a user spent, in nats.
        notes_: facts that a reader of the result must know.

    Warns:
        UserWarning: what was learned is no better, on the rows of the fit, than the most frequent
            class, the mean or one centre. Only a simulation can tell: on devices the rows are not
            known.
    """

    epsilon: Epsilon = 1.0
    schema: Schema | None = None
    random_state: Any = None

    def _run(self, columns: Columns, make: MakeLearner, label: str | None = None) -> None:
        """Run the study and keep its results."""
        # columns: of the rows, with the field to be predicted where there is one.
        # make: makes the learner.
        # label: the category to be predicted; None: there is none.
        words = check_random_state(self.random_state).randint(_SEEDS, size=2)
        people = population_of(columns, Seed.of(int(words[0])), self.schema, label)
        names = [name for name in columns if name in people.schema.fields]
        study = Study(make(people.schema, names), people.schema, epsilon=self.epsilon)
        self.study_ = simulate(study, people, fleet="columns", seed=int(words[1]))
        self.model_ = self.study_.hypothesis
        self.n_users_ = people.size
        self.epsilon_spent_ = self.study_.epsilon_spent.max
        poor = self._no_better(people)
        self.notes_ = (*self.study_.notes, *people.warnings, *filter(None, [poor]))
        if poor:
            warnings.warn(f"{type(self).__name__}: {poor}", UserWarning, stacklevel=3)

    def _no_better(self, people: Population) -> str:
        """Say that a constant would do as well on the rows of the fit; empty: it would not."""
        learner = self.study_.study.learner
        if not find(learner.name).held_out:
            return ""
        rows = replace(people, unseen=lambda most: people.columns(0, min(most, people.size)))
        found = ResultVerdict(
            presentation_of(self.model_),
            float(self.study_.study.confidence),
            people.size,
            assessments=(assess(self.model_, learner, rows),),
        )
        if found.placement is not Placement.NO_BETTER:
            return ""
        where = f"the {people.size:,} rows of the fit, epsilon {self.study_.study.epsilon:g}"
        return f"{str(found).removesuffix('.')} ({where})"

    def _features(self, rows: Any) -> dict[str, NDArray[Any]]:
        """Return the columns of rows to predict, after scikit-learn's checks."""
        check_is_fitted(self)
        return self._checked(rows, reset=False)

    def _checked(self, rows: Any, *, reset: bool) -> dict[str, NDArray[Any]]:
        if hasattr(rows, "columns"):  # a frame keeps its columns' types
            columns = columns_of(rows)
            validate_data(self, rows, reset=reset, skip_check_array=True)
            return columns
        read = validate_data(
            self,
            rows,
            reset=reset,
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
        if np.isinf(read.astype(np.float64, copy=False)).any():
            raise ValueError("expected finite numbers or NaN (missing), got infinity")
        return columns_of(read)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: missing numbers are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the study, which holds the rows' devices."""
        return {name: value for name, value in super().__getstate__().items() if name != "study_"}


class Supervised(LocalEstimator):
    """Estimator that predicts one field from the others.

    With a schema, the field to be predicted is the one that the rows do not have.
    """

    _outcome_type: type[np.float64] | None = None  # what is predicted is read as; None: as it is

    @abstractmethod
    def _learner(self, schema: Schema, outcome: str, names: list[str]) -> Learner[Any]:
        """Make the learner that predicts a field from columns."""

    def _examples(self, rows: Any, outcome: Any) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
        """Return the columns and what is to be predicted, shape (n,), after the checks."""
        columns = self._checked(rows, reset=True)
        if outcome is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        try:
            checked = column_or_1d(outcome, warn=True, dtype=self._outcome_type)
        except (TypeError, ValueError) as error:
            if np.ndim(outcome) != 1:
                raise
            kind = type(error).__name__  # its text has a value of a user
            raise InvalidParameter(
                f"y: expected numbers, got values that are none ({kind})"
            ) from None
        assert_all_finite(checked, input_name="y")
        check_consistent_length(next(iter(columns.values())), checked)
        return columns, checked

    def _outcome_name(self, columns: Columns, usual: str) -> str:
        """Return the name of the field to be predicted."""
        if self.schema is not None:
            others = [name for name in self.schema.fields if name not in columns]
            if len(others) != 1:
                raise InvalidParameter(
                    "schema: expected one field that is no column of the rows, the one to be"
                    f" predicted, got {value_text(others)}"
                )
            return others[0]
        if usual in columns:
            raise InvalidParameter(
                f"columns: expected none of the name of what is predicted, got {usual!r}; rename it"
            )
        return usual


_LABEL = "label"


class LocalClassifier(ClassifierMixin, Supervised):  # type: ignore[misc]  # scikit-learn ships no types
    """Classifier that is learned from simulated devices; see `LocalEstimator`.

    Attributes:
        classes_: the classes, sorted, shape (classes,): those of y and all labels of the schema.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803  # scikit-learn's name
        """Ask each row's device once and learn the classifier.

        Args:
            X: shape (n, d); a DataFrame may have texts, numbers and truth values.
            y: classes as texts or numbers, shape (n,).

        Raises:
            ValueError: scikit-learn's checks, or fewer than two classes.
            InvalidParameter: a parameter, a column's name, or a class that is no label of the
                schema or reads as a missing value.
            PlanRefused: too few rows at this epsilon; no device was asked.
        """
        columns, outcome = self._examples(X, y)
        check_classification_targets(outcome)
        name = self._outcome_name(columns, _LABEL)
        kind = None if self.schema is None else self.schema.fields[name]
        self.classes_ = _classes_of(outcome, kind)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y: expected two classes or more, got one class: {self.classes_.tolist()}"
            )
        if len(self.classes_) > 2 and not self.__sklearn_tags__().classifier_tags.multi_class:
            raise ValueError(
                f"Only binary classification is supported: expected two classes in y, got"
                f" {len(self.classes_)}"
            )
        self._run(
            {**columns, name: np.array([str(value) for value in outcome.tolist()], dtype=object)},
            lambda schema, names: self._learner(schema, name, [n for n in names if n != name]),
            label=name,
        )
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803  # scikit-learn's name
        """Predict a class per row, shape (n,)."""
        texts = [str(value) for value in self._classes()]
        places = {text: place for place, text in enumerate(texts)}
        predicted = self.model_.predict(self._features(X))
        return np.asarray(self.classes_[[places[text] for text in predicted.tolist()]])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class per row, shape (n, classes)."""
        columns = self._features(X)
        order = [self.model_.classes_.tolist().index(str(value)) for value in self._classes()]
        return np.asarray(self.model_.predict_proba(columns)[:, order])

    def _classes(self) -> list[Any]:
        check_is_fitted(self)
        return list(self.classes_.tolist())

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: few rows give a poor score."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    @abstractmethod
    def _learner(self, schema: Schema, outcome: str, names: list[str]) -> Learner[Any]:
        """Make the learner that predicts a label from columns."""


def _classes_of(outcome: NDArray[Any], kind: Field | None) -> NDArray[Any]:
    """Return the classes of y, with those of a schema's field that no row has."""
    classes = np.unique(outcome)
    texts = [str(value) for value in classes.tolist()]
    missing = [text for text in texts if is_missing(text)]
    if missing:
        raise InvalidParameter(
            f"y: expected classes that do not read as missing, got {value_text(missing[0])}"
        )
    if kind is None:
        return classes
    labels = kind.labels if isinstance(kind, Category) else ()
    strange = [text for text in texts if text not in labels]
    if strange:
        raise InvalidParameter(
            f"y: expected the labels of the schema, {value_text(list(labels))}, got"
            f" {value_text(strange[0])}"
        )
    absent = [label for label in labels if label not in texts]
    if not absent:
        return classes
    try:
        others = np.array(absent, dtype=None if classes.dtype.kind == "U" else classes.dtype)
    except ValueError:
        others = np.array([], dtype=classes.dtype)
    if [str(value) for value in others.tolist()] != absent:
        raise InvalidParameter(
            f"y: expected classes of a type that holds the schema's labels {value_text(absent)},"
            f" got {value_text(str(classes.dtype))}"
        )
    return np.unique(np.concatenate([classes, others]))


@dataclass(eq=False, repr=False, kw_only=True)
class LocalNaiveBayes(LocalClassifier):
    """Naive Bayes by one-round tables of each column and the label; see `LocalClassifier`.

    Args:
        epsilon: each user's whole budget, in nats.
        schema: see `LocalEstimator`.
        bins: cells that a number is divided into; 2 or more.
        random_state: see `LocalEstimator`.

    Example:
        >>> from askance.estimators import LocalNaiveBayes
        >>> draws = np.random.default_rng(0)
        >>> y = draws.choice(["no", "yes"], 5_000)
        >>> X = (y == "yes")[:, None] + draws.normal(0, 0.3, (5_000, 1))
        >>> model = LocalNaiveBayes(epsilon=4.0, random_state=0).fit(X, y)
        >>> bool(model.score(X, y) > 0.8)
        True
    """

    bins: int = 8

    def _learner(self, schema: Schema, outcome: str, names: list[str]) -> Learner[Any]:
        return learners.naive_bayes(schema, outcome, names, self.bins)


@dataclass(eq=False, repr=False, kw_only=True)
class LocalLogisticRegression(LocalClassifier):
    """Logistic regression by one vector question per round; see `LocalClassifier`.

    Args:
        epsilon: each user's whole budget, in nats.
        schema: see `LocalEstimator`.
        rounds: gradients that are asked for; None: by the users and the noise of an answer.
        random_state: see `LocalEstimator`.

    Example:
        >>> from askance.estimators import LocalLogisticRegression
        >>> draws = np.random.default_rng(0)
        >>> y = draws.choice(["no", "yes"], 2_000)
        >>> X = (y == "yes")[:, None] + draws.normal(0, 0.3, (2_000, 1))
        >>> model = LocalLogisticRegression(epsilon=8.0, rounds=1, random_state=0).fit(X, y)
        >>> model.classes_.tolist()
        ['no', 'yes']
    """

    rounds: int | None = None

    def _learner(self, schema: Schema, outcome: str, names: list[str]) -> Learner[Any]:
        return learners.logistic_regression(schema, outcome, names, rounds=self.rounds)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class LocalDecisionTree(LocalClassifier):
    """Decision tree; see `LocalClassifier`.

    Args:
        epsilon: each user's whole budget, in nats.
        schema: see `LocalEstimator`.
        max_depth: splits between the root and a leaf, at most.
        random_state: see `LocalEstimator`.

    Example:
        >>> from askance.estimators import LocalDecisionTree
        >>> draws = np.random.default_rng(0)
        >>> y = draws.choice(["no", "yes"], 5_000)
        >>> X = (y == "yes")[:, None] + draws.normal(0, 0.3, (5_000, 1))
        >>> model = LocalDecisionTree(epsilon=4.0, random_state=0).fit(X, y)
        >>> bool(model.score(X, y) > 0.8)
        True
    """

    max_depth: int = 3

    def _learner(self, schema: Schema, outcome: str, names: list[str]) -> Learner[Any]:
        return learners.decision_tree(schema, outcome, names, self.max_depth)


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
