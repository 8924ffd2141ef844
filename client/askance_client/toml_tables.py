"""Reading TOML so that every error names its place and no key goes unread."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from askance_client.errors import InvalidParameter

T = TypeVar("T")


class TomlTable:
    """A table of a file. What is taken out of it is read, checked and ticked off.

    Args:
      content: what is in it.
      place: the file, in errors.
      name: the table's own name with a dot behind it; nothing for the whole file.
    """

    def __init__(self, content: Mapping[str, Any], place: str, name: str = "") -> None:
        self._content = content
        self._place = place
        self._name = name
        self._known: set[str] = set()
        self._tables: list[TomlTable] = []

    @classmethod
    def of_file(cls, path: Path) -> TomlTable:
        """The whole of a file.

        Raises:
          InvalidParameter: it cannot be read, or is not TOML.
        """
        try:
            with path.open("rb") as file:
                return cls(tomllib.load(file), str(path))
        except OSError as error:
            raise InvalidParameter(f"{path}: cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidParameter(f"{path}: expected TOML, found something else: {error}") from (
                None
            )

    def get(self, key: str, read: Callable[[object], T]) -> T | None:
        """Read the value under a key; None if it is absent.

        Raises:
          InvalidParameter: `read` refuses it.
        """
        self._known.add(key)
        if key not in self._content:
            return None
        try:
            return read(self._content[key])
        except InvalidParameter as error:
            raise InvalidParameter(f"{self.place(key)}: {error}") from None

    def need(self, key: str, read: Callable[[object], T]) -> T:
        """Read the value under a key that must be present."""
        found = self.get(key, read)
        if found is None:
            raise InvalidParameter(f"{self.place(key)}: expected a value, found none")
        return found

    def table(self, key: str) -> TomlTable | None:
        """The table of that name, if there is one."""
        content = self.get(key, _mapping)
        if content is None:
            return None
        self._tables.append(TomlTable(content, self._place, f"{self._name}{key}."))
        return self._tables[-1]

    def finish(self) -> None:
        """Raise an error for the first unknown key, in this table or in a table read from it."""
        for key in self._content:
            if key not in self._known:
                known = ", ".join(sorted(self._known))
                raise InvalidParameter(f"{self.place(key)}: expected one of {known}")
        for table in self._tables:
            table.finish()

    def place(self, key: str) -> str:
        """Return the place of a key, as errors name it."""
        return f"{self._place}: {self._name}{key}"


def a_text(value: object) -> str:
    """A text of one character or more."""
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"expected a text, found {_kind(value)}")
    return value


def at_least_one(value: object) -> int:
    """A whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidParameter(f"expected a whole number of 1 or more, found {_kind(value)}")
    return value


def true_or_false(value: object) -> bool:
    """Read a boolean, true or false."""
    if not isinstance(value, bool):
        raise InvalidParameter(f"expected true or false, found {_kind(value)}")
    return value


def texts(value: object) -> list[str]:
    """An array of texts."""
    if not isinstance(value, list):
        raise InvalidParameter(f"expected an array of texts, found {_kind(value)}")
    return [a_text(item) for item in value]


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidParameter(f"expected a table, found {_kind(value)}")
    return value


def _kind(value: object) -> str:
    """Describe the type of a value in words, so that a misplaced secret is not repeated."""
    if value == "" or value == []:
        return "an empty one"
    kinds = {str: "a text", bool: "true or false", int: "a number", list: "an array"}
    return kinds.get(type(value), f"a {type(value).__name__}")
