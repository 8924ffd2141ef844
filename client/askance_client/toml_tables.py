"""TOML tables whose errors name the place and the value, and whose keys are all read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from askance_client.errors import AskanceError, InvalidParameter
from askance_client.printable import unknown_text, value_text

T = TypeVar("T")
_NEAR = 0.8  # share of letters in common; related keys, as day_epsilon and life_epsilon, have less

_DAYS = re.compile(r"([0-9]{1,4})d", re.ASCII)


def read_toml(
    path: Path, fault: type[AskanceError] = InvalidParameter, **reading: Any
) -> dict[str, Any]:
    """Read a TOML file, by `reading` of `tomllib.load`; a file that is none raises `fault`."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file, **reading)
    except OSError as error:
        raise fault(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # a number or a nest beyond Python's limits
        raise fault(f"{path}: expected TOML, got other text: {error}") from None


class TomlTable:
    """Table of a TOML file; a key that is read is checked and counts as known.

    Args:
      place: the file, in errors.
      name: the table's own name followed by a dot; empty for the whole file.
    """

    def __init__(self, content: Mapping[str, Any], place: str, name: str = "") -> None:
        self._content = content
        self._place = place
        self._name = name
        self._known: set[str] = set()
        self._tables: list[TomlTable] = []

    @classmethod
    def of_file(cls, path: Path) -> TomlTable:
        """Read a whole file."""
        return cls(read_toml(path), str(path))

    @property
    def content(self) -> Mapping[str, Any]:
        """Keys and values, unchecked."""
        return self._content

    def get(self, key: str, read: Callable[[object], T]) -> T | None:
        """Return the value of a key as `read` returns it; None if the key is absent."""
        self._known.add(key)
        if key not in self._content:
            return None
        try:
            return read(self._content[key])
        except InvalidParameter as error:
            raise InvalidParameter(f"{self.place(key)}: {error}") from None

    def need(self, key: str, read: Callable[[object], T]) -> T:
        """Return the value of a key that must be present."""
        found = self.get(key, read)
        if found is None:
            raise InvalidParameter(
                f"{self.place(key)}: expected a value, got none{self._written(key)}"
            )
        return found

    def table(self, key: str) -> TomlTable | None:
        """Return the table of that name; None if it is absent."""
        content = self.get(key, _mapping)
        if content is None:
            return None
        self._tables.append(TomlTable(content, self._place, f"{self._name}{key}."))
        return self._tables[-1]

    def finish(self) -> None:
        """Check that every key was read, in this table and in those taken from it."""
        for key in self._content:
            if key not in self._known:
                raise InvalidParameter(
                    f"{self.place(key)}: {unknown_text(key, sorted(self._known))}"
                )
        for table in self._tables:
            table.finish()

    def need_table(self, key: str) -> TomlTable:
        """Return the table of that name."""
        table = self.table(key)
        if table is None:
            raise InvalidParameter(
                f"{self.place(key)}: expected a table of that name, got none{self._written(key)}"
            )
        return table

    def place(self, key: str) -> str:
        """Format the place of a key for an error."""
        return f"{self._place}: {self._name}{key}"

    def _written(self, key: str) -> str:
        """Format a key of the file that is perhaps a misspelling of the key that is missing."""
        unread = [written for written in self._content if written not in self._known]
        near = get_close_matches(key, unread, n=1, cutoff=_NEAR)
        return f" (did you mean {key} by {value_text(near[0])}?)" if near else ""


def a_text(value: object) -> str:
    """Check that a value is a text of one character or more, and return it."""
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"expected a text, got {value_text(value)}")
    return value


def a_word(value: object, words: Iterable[str]) -> str:
    """Check that a value is one of some words, and return it."""
    if value not in (known := list(words)):
        raise InvalidParameter(unknown_text(value, known))
    return str(value)


def true_or_false(value: object) -> bool:
    """Check that a value is true or false, and return it."""
    if not isinstance(value, bool):
        raise InvalidParameter(f"expected true or false, got {value_text(value)}")
    return value


def texts(value: object) -> list[str]:
    """Check that a value is an array of texts, and return it."""
    if not isinstance(value, list):
        raise InvalidParameter(f"expected an array of texts, got {value_text(value)}")
    return [a_text(item) for item in value]


def within(least: int, most: int) -> Callable[[object], int]:
    """Return a reader of whole numbers of `least` to `most`."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidParameter(
                f"expected a whole number of {least} to {most}, got {value_text(value)}"
            )
        return value

    return read


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidParameter(f"expected a table, got {value_text(value)}")
    return value


def a_number_of_days(value: object) -> int:
    """Return a whole number of days that is written as "7d"."""
    text = a_text(value)
    found = _DAYS.fullmatch(text)
    if found is None:
        raise InvalidParameter(f'expected days as "7d", got {value_text(text)}')
    if int(found[1]) < 1:
        raise InvalidParameter(f"expected 1 day or more, got {value_text(text)}")
    return int(found[1])
