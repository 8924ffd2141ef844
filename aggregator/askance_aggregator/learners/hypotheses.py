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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter

if TYPE_CHECKING:
    from askance_aggregator.learners.rows import Rows

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


@dataclass(frozen=True, slots=True)
class Document:
    """JSON object from an untrusted source, read part by part.

    Each mistake is one error that names it.

    Args:
        name: what it is, for errors.
        data: the object.
    """

    name: str
    data: Any

    def __post_init__(self) -> None:
        if not isinstance(self.data, Mapping):
            raise self.error("an object", self.data)

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def error(self, expected: str, found: Any) -> InvalidParameter:
        """Make the error for a part; it shows the value's type only."""
        return InvalidParameter(f"{self.name}: expected {expected}, found {type(found).__name__}")

    def part(self, key: str) -> Document:
        """An object inside."""
        return Document(f"{self.name}.{key}", self._get(key))

    def parts(self, key: str) -> tuple[Document, ...]:
        """A list of objects."""
        items = self._items(key, self._get(key))
        return tuple(
            Document(f"{self.name}.{key}[{place}]", item) for place, item in enumerate(items)
        )

    def text(self, key: str) -> str:
        """A text."""
        value = self._get(key)
        if not isinstance(value, str):
            raise self.error(f"a text as {key}", value)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        items = self._items(key, self._get(key))
        for item in items:
            if not isinstance(item, str):
                raise self.error(f"texts in {key}", item)
        return tuple(items)

    def whole(self, key: str) -> int:
        """A whole number."""
        return self._whole(key, self._get(key))

    def wholes(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        return tuple(self._whole(key, item) for item in self._items(key, self._get(key)))

    def number(self, key: str) -> float:
        """A finite number."""
        return self._number(key, self._get(key))

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of finite numbers."""
        return tuple(self._number(key, item) for item in self._items(key, self._get(key)))

    def table(self, key: str) -> tuple[tuple[float, ...], ...]:
        """A list of lists of finite numbers."""
        return tuple(
            tuple(self._number(key, item) for item in self._items(key, row))
            for row in self._items(key, self._get(key))
        )

    def _get(self, key: str) -> Any:
        if key not in self.data:
            raise InvalidParameter(f"{self.name}: expected {key}, got none")
        return self.data[key]

    def _items(self, key: str, value: Any) -> Sequence[Any]:
        if not isinstance(value, list | tuple):
            raise self.error(f"a list as {key}", value)
        return value

    def _whole(self, key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"whole numbers as {key}", value)
        return value

    def _number(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"finite numbers as {key}", value)
        try:
            number = float(value)
        except OverflowError:  # an integer of hundreds of digits
            number = inf
        if not isfinite(number):
            raise self.error(f"finite numbers as {key}", value)
        return number
