"""Checks that the curator's estimators share with scikit-learn; importing this module is slow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text


def read_classes(given: Any) -> NDArray[Any]:
    """Two stated labels, the second the positive one, shape (2,).

    Raises:
      InvalidParameter: they are not two, or the same.
    """
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
