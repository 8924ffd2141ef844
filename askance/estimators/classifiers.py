"""Classifiers with scikit-learn's conventions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from askance.estimators.base import Supervised
from askance_aggregator import learners
from askance_aggregator.learners import Learner
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Category, Field, Schema
from askance_client.records import is_missing

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
    """Return the classes of y, with those of a schema's field that no row has.

    Raises:
        InvalidParameter: a class reads as a missing value or is no label of the field, the field
            has no labels, or a label cannot be written as a class of y's type.
    """
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
