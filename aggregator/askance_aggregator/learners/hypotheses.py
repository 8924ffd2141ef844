"""Hypotheses as data: a learner's conclusion, written as JSON and read again.

Conventions of a hypothesis:

- A frozen dataclass. `to_json()` is what the command line prints under "hypothesis";
  `from_json(data)` makes an equal one of it, or raises one clear `InvalidParameter`. A `JsonObject`
  has both by its fields. Never pickle: an untrusted file is numbers and texts, and nothing in it is
  run.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from itertools import repeat
from math import inf, isfinite
from types import NoneType
from typing import (
    Any,
    ClassVar,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.rows import Rows
from askance_aggregator.names import ColumnNames, fields_in_json, named_schema
from askance_aggregator.numbers import rational
from askance_aggregator.queries.tables import table_from_schema
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import Schema
from askance_client.records import schema_from_table

H = TypeVar("H", bound="type[Readable]")


@dataclass(frozen=True, slots=True)
class Document:
    """JSON object from an untrusted source, read part by part.

    Each mistake is one error that names it.
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
        """Read an object inside."""
        return Document(f"{self.name}.{key}", self._get(key))

    def parts(self, key: str) -> tuple[Document, ...]:
        """Read a list of objects."""
        items = enumerate(self._items(key, self._get(key)))
        return tuple(Document(f"{self.name}.{key}[{place}]", item) for place, item in items)

    def text(self, key: str) -> str:
        """Read a text."""
        return str(self.read(key, str))

    def whole(self, key: str) -> int:
        """Read a whole number."""
        return int(self.read(key, int))

    def number(self, key: str) -> float:
        """Read a finite number."""
        return float(self.read(key, float))

    def columns(self, *keys: str) -> tuple[tuple[float, ...], ...]:
        """Read finite numbers by name and key; return one tuple per key, a number per name."""
        rows = [self.part(name) for name in self.data]
        return tuple(tuple(row.number(key) for row in rows) for key in keys)

    def read(self, key: str, kind: Any) -> Any:
        """Read the value of a key.

        Args:
            key: the key; it may be absent if None is a value of the type.
            kind: its type: float (finite), int, str, bool (as 0 or 1), Fraction (as text), Schema,
                a `JsonObject` or any other dataclass with `json_keys`, a NamedTuple (as a list),
                or a tuple or union of such.

        Raises:
            InvalidParameter: the value is absent, or not of the type.
        """
        if key not in self.data and NoneType in get_args(kind):
            return None
        return self._read(key, kind, self._get(key), f"{self.name}.{key}")

    def _read(self, key: str, kind: Any, value: Any, path: str) -> Any:
        if get_origin(kind) is tuple:
            return self._tuple(key, get_args(kind), value, path)
        if get_args(kind):  # a union
            if value is None and NoneType in get_args(kind):
                return None
            return self._read(key, _alternative(get_args(kind), value), value, path)
        if kind is str or kind is Fraction:
            if not isinstance(value, str):
                raise self.error(f"a text as {key}", value)
            return value if kind is str else rational(value, key)
        if kind is float:
            return self._number(key, value)
        if kind is int or kind is bool:
            return kind(self._whole(key, value))
        if kind is Schema:
            return _schema_in(Document(path, value))
        if issubclass(kind, tuple):
            types = tuple(get_type_hints(kind).values())
            return kind(*self._tuple(key, types, value, path))
        document = Document(path, value)
        return kind.read(document) if hasattr(kind, "read") else kind(**parts_in(kind, document))

    def _tuple(self, key: str, types: Sequence[Any], value: Any, path: str) -> tuple[Any, ...]:
        items = self._items(key, value)
        every = types[-1] is Ellipsis
        if not every and len(items) != len(types):
            raise InvalidParameter(
                f"{self.name}: expected {len(types)} values in {key}, got {len(items)}"
            )
        kinds: Iterable[Any] = repeat(types[0], len(items)) if every else types
        return tuple(
            self._read(key, kind, item, f"{path}[{place}]")
            for place, (kind, item) in enumerate(zip(kinds, items, strict=True))
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


class JsonObject:
    """Base of a frozen dataclass that is written as a JSON object and read again.

    Its keys are the dataclass's fields, or those that the class states as `json_keys`, in their
    order: "label" is the attribute of that name, "scaled=centres" the attribute `centres`, and
    "estimate=v.value" an attribute of the attribute `v`; "of?" may be absent from what is read.
    Keys of attributes that are no fields are for readers, and are not read again. A class that
    checks its parts raises `InvalidParameter` where they do not fit together.
    """

    __slots__ = ()
    json_name: ClassVar[str] = "hypothesis"
    """Its name in errors, where it is no part of another."""
    json_keys: ClassVar[tuple[str, ...]] = ()

    @property
    def summary(self) -> str:
        """Text for a reader."""
        return str(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, as `from_json` reads it: no NaN, no infinity."""
        return written(self)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the object that `to_json` wrote.

        Raises:
            InvalidParameter: the data is not of that form; the key is named.
        """
        return cls.read(Document(cls.json_name, data))

    @classmethod
    def read(cls, document: Document) -> Self:
        """Read the object; a class whose keys do not tell all overrides this and `to_json`."""
        return cls(**parts_in(cls, document))


class _Key(NamedTuple):
    """Key of a JSON object, and the attribute whose value it has (or an attribute of that)."""

    name: str
    attribute: str
    inner: str
    may_be_absent: bool


def written(value: Any, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Write an object by its keys, or by these; see `JsonObject`."""
    kind: type = type(value)
    found: dict[str, Any] = {}
    for key in _keys(kind, tuple(keys)):
        part = getattr(value, key.attribute)
        found[key.name] = _plain(getattr(part, key.inner, None) if key.inner else part)
    return found


def parts_in(kind: type, document: Document, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Read the fields of an object by its keys, or by these; see `JsonObject`."""
    hints, known = _hints(kind), _field_names(kind)
    found: dict[str, Any] = {}
    inside: dict[str, list[_Key]] = {}
    for key in _keys(kind, tuple(keys)):
        if key.attribute not in known or (key.may_be_absent and key.name not in document):
            continue
        if key.inner:
            inside.setdefault(key.attribute, []).append(key)
        else:
            found[key.attribute] = document.read(key.name, hints[key.attribute])
    for attribute, some in inside.items():
        types = get_args(hints[attribute]) or (hints[attribute],)
        if NoneType in types and all(document.data.get(key.name) is None for key in some):
            found[attribute] = None
        else:
            hints_inside = _hints(types[0])
            parts = {key.inner: document.read(key.name, hints_inside[key.inner]) for key in some}
            found[attribute] = types[0](**parts)
    return found


def named_rows(names: Iterable[str], **columns: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return an object per name, with one value of each column; `Document.columns` reads them."""
    rows = zip(*columns.values(), strict=True)
    return {
        name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)
    }


def _plain(value: Any) -> Any:
    """Write a value as JSON; see `Document.read`."""
    match value:
        case bool():
            return int(value)
        case None | int() | float() | str():
            return value
        case np.ndarray():
            return value.tolist()
        case tuple() | list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case Schema():  # its fields are a list, for in JSON an object has no order
            table = table_from_schema(value)
            items = [{"field": name, **item} for name, item in table["fields"].items()]
            return {**table, "fields": items}
    if hasattr(value, "to_json"):
        return value.to_json()
    return written(value) if hasattr(value, "json_keys") else str(value)


def _schema_in(document: Document) -> Schema:
    items = {item.text("field"): dict(item.data) for item in document.parts("fields")}
    own = {}
    for name, item in items.items():
        del item["field"]
        own[name] = str(item.pop("column", name))
    try:
        schema = schema_from_table({**document.data, "fields": items}, document.name)
        return named_schema(schema, own)
    except InvalidRecord as error:
        raise InvalidParameter(str(error)) from None


def _alternative(kinds: Sequence[Any], value: Any) -> Any:
    """Return the type of a union that a value has, or else its first."""
    fits = (kind for kind in kinds if isinstance(kind, type) and isinstance(value, kind))
    return next(fits, kinds[0])


@cache
def _keys(kind: type, keys: tuple[str, ...]) -> tuple[_Key, ...]:
    stated = keys or getattr(kind, "json_keys", ()) or _field_names(kind)
    found = []
    for text in stated:
        name, _, path = text.partition("=")
        attribute, _, inner = (path or name.rstrip("?")).partition(".")
        found.append(_Key(name.rstrip("?"), attribute, inner, name.endswith("?")))
    return tuple(found)


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.init)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


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

    Its text has columns' own names, as far as the schemas that it holds know them.

    Raises:
        InvalidParameter: one of these names is taken.
    """

    def decorate(kind: H) -> H:
        for learner in learners:
            if learner in _KINDS:
                raise InvalidParameter(f"the hypothesis of {learner!r} is registered already")
            _KINDS[learner] = kind
        plain = kind.__str__

        def text(self: Any) -> str:
            return ColumnNames.together(_schemas_of(self)).in_text(plain(self))

        kind.__str__ = text  # type: ignore[method-assign]  # where a schema has them
        return kind

    return decorate


def _schemas_of(hypothesis: Any) -> Iterable[Schema]:
    parts = (getattr(hypothesis, one.name, None) for one in fields(hypothesis))
    return (part for part in parts if isinstance(part, Schema))


def with_column_names(learner: str, hypothesis: Any, names: ColumnNames) -> Any:
    """Return what a learner concluded with columns' own names, in attributes and in its text.

    One that cannot be read from JSON is returned as it is.
    """
    if not names.renamed or type(hypothesis) is not _KINDS.get(learner):
        return hypothesis
    with suppress(InvalidParameter):
        return hypothesis_from_json(learner, names.in_json(hypothesis_json(hypothesis)))
    return hypothesis


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

    A printed result has columns' own names, from which it is read as well.

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
    return _KINDS[learner].from_json(fields_in_json(data))


def _import_learner(name: str) -> None:
    """Import the module of a learner that an installed distribution lists."""
    from askance_aggregator.learners.registry import find

    find(name)
