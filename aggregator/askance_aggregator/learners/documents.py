"""JSON from an untrusted source, read part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from askance_client.errors import InvalidParameter


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
