"""Base class and checks of the curator's scikit-learn estimators; importing this module is slow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from askance_aggregator.sampling import SystemWords, Words
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text


def read_classes(given: Any) -> NDArray[Any]:
    """Two stated labels, the second the positive one, shape (2,)."""
    classes: NDArray[Any] = np.asarray(given)
    if classes.shape != (2,) or classes[0] == classes[1]:
        raise InvalidParameter(
            f"classes: expected two different labels, got {value_text(classes.tolist())}"
        )
    return classes


def read_examples(
    estimator: Any, rows: ArrayLike, labels: ArrayLike, classes: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows of shape (n, d), and for each +1 (the second class) or -1; scikit-learn's checks done.

    Raises:
      InvalidRecord: what scikit-learn refuses, but for the values that its messages may end with;
        or a label of no class. Rows may hold NaN and infinities: a mechanism looks for itself.
    """
    try:
        read, given = validate_data(
            estimator, rows, labels, ensure_all_finite=False, dtype=np.float64
        )
    except ValueError as error:
        said = str(error).partition("\n")[0].rstrip(":")
        if said.startswith("could not convert"):
            said = said.partition(": ")[0]
        raise InvalidRecord(f"rows: {said}") from None
    positive = given == classes[1]
    strange = ~(positive | (given == classes[0]))
    if strange.any():
        raise InvalidRecord(
            f"row {int(np.argmax(strange))}: expected a label of classes={classes.tolist()},"
            " found another"
        )
    return read, np.where(positive, 1, -1)


class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Classifier of two stated classes whose `fit` is one or more private releases."""

    words: Words | None

    def _chance(self) -> Words:
        """Return the source of random words: the caller's, or the operating system."""
        return SystemWords() if self.words is None else self.words

    def _rows(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Return rows to predict, shape (n, d), after scikit-learn's checks."""
        check_is_fitted(self)
        read: NDArray[np.float64] = validate_data(self, rows, reset=False, dtype=np.float64)
        return read

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: two classes only, and results that vary by noise."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = True
        return tags
