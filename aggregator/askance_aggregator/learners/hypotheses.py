"""Hypotheses as data: a learner's conclusion, written as JSON and read again.

Conventions of a hypothesis:

- A frozen dataclass. `to_json()` is what the command line prints under "hypothesis";
  `from_json(data)` makes an equal one of it, or raises one clear `InvalidParameter`. Never pickle:
  an untrusted file is numbers and texts, and nothing in it is run.
- `@hypothesis_of("naive-bayes")` says which learners conclude it. `hypothesis_from_json` then reads
  it by its learner's name, and so any printed result: `result["learner"]`, `result["hypothesis"]`.
- What predicts takes `Rows` (see `rows`): columns by field name, a table of features in the
  schema's order, or encoded columns; a field that is missing in a row is no error. Names are
  scikit-learn's where they mean the same: `predict`, `predict_proba`, `classes_`, `coef_`,
  `intercept_`, `feature_names_in_`.
- `str(hypothesis)` is text for a reader. A classifier's JSON has it as "summary".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.rows import Rows
from askance_client.errors import InvalidParameter

H = TypeVar("H", bound="type[Readable]")


class Readable(Protocol):
    """A hypothesis that can be saved and loaded."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: no NaN, no infinity."""
        ...

    @classmethod
    def from_json(cls, data: Any) -> Any:
        """The hypothesis that `to_json` wrote."""
        ...


@runtime_checkable
class Classifier(Protocol):
    """A hypothesis that predicts one of finitely many classes."""

    @property
    def label(self) -> str:
        """The field that it predicts."""
        ...

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the schema's order."""
        ...

    def predict(self, rows: Rows) -> NDArray[Any]:
        """A class a row, shape (n,)."""
        ...


@runtime_checkable
class Regressor(Protocol):
    """A hypothesis that predicts a number."""

    @property
    def target(self) -> str:
        """The field that it predicts."""
        ...

    def predict(self, rows: Rows) -> NDArray[np.float64]:
        """A number a row, in the field's own units, shape (n,)."""
        ...


_KINDS: dict[str, type[Readable]] = {}


def hypothesis_of(*learners: str) -> Callable[[H], H]:
    """Declare which learners conclude a hypothesis of this class.

    Raises:
        InvalidParameter: one of these names is taken.
    """

    def decorate(kind: H) -> H:
        for learner in learners:
            if learner in _KINDS:
                raise InvalidParameter(f"the hypothesis of {learner!r} is registered already")
            _KINDS[learner] = kind
        return kind

    return decorate


def hypothesis_json(hypothesis: Any) -> Any:
    """A hypothesis as JSON: by its own `to_json`, as it is, or as its text."""
    if hasattr(hypothesis, "to_json"):
        return hypothesis.to_json()
    try:
        json.dumps(hypothesis, allow_nan=False)
    except (TypeError, ValueError):
        return str(hypothesis)
    return hypothesis


def hypothesis_from_json(learner: str, data: Any) -> Any:
    """The hypothesis that a learner concluded and `hypothesis_json` wrote.

    Args:
        learner: the learner's name.
        data: plain JSON.

    Raises:
        InvalidParameter: no learner of that name has a hypothesis that can be read, or the data is
            not of its form; the part is named.
    """
    if learner not in _KINDS:
        with suppress(InvalidParameter):
            _import_learner(learner)
    if learner not in _KINDS:
        known = ", ".join(sorted(_KINDS))
        raise InvalidParameter(f"expected the hypothesis of one of {known}, found {learner!r}")
    return _KINDS[learner].from_json(data)


def _import_learner(name: str) -> None:
    """Import the module of a learner that an installed distribution lists."""
    from askance_aggregator.learners.registry import find

    find(name)
