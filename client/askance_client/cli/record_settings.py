"""Table `[records]` of a device's configuration: the schema, the source, and who is in it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from askance_client import records
from askance_client.errors import InvalidParameter
from askance_client.printable import nearest_text, value_text
from askance_client.toml_tables import TomlTable, a_text, a_word, texts, true_or_false, within

T = TypeVar("T")
_MAX_ROW = (1 << 31) - 1
_FILES = [name for name, kind in records.KINDS.items() if kind.key == "data"]


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """Records that a device answers from.

    Args:
      folder: of the configuration; relative paths are relative to it, and commands run in it.
      naming: which of them are answered for, under which names; None: as the kind of source has
        it.
      columns: the source's columns, by field; a field that is not here has its own name.
    """

    folder: Path
    schema: Path
    origin: records.Origin
    naming: records.Naming | None
    several: records.Several
    columns: Mapping[str, str]

    def source(self, limits: records.ReadLimits) -> records.RecordSource:
        """Make the source; nothing is read."""
        return records.open_source(
            self.origin, records.SourceSettings(self.folder, self.naming, self.several, limits)
        )


def record_settings(table: TomlTable, folder: Path) -> RecordSettings:
    """Read the table `[records]`."""
    schema = folder.joinpath(table.need("schema", a_text))
    origin = _origin(table)
    naming = _naming(table, origin)
    several = table.get("several", a_rule) or records.Several.REFUSE
    columns = table.get("fields", _a_field_map) or {}
    return RecordSettings(folder, schema, origin, naming, several, columns)


def an_origin(text: str) -> records.Origin:
    """Read KIND:WHERE, as of the option `--records`; a query is set elsewhere."""
    word, separator, where = text.partition(":")
    if word not in records.KINDS or not separator or not where:
        raise InvalidParameter(
            f"expected KIND:WHERE with one of {', '.join(records.KINDS)}, got {value_text(text)}"
            f"{nearest_text(word, records.KINDS)}"
        )
    if records.KINDS[word].key == "command":
        return records.Origin(word, command_words(where))
    return records.Origin(
        word, (records.an_endpoint(text) if records.KINDS[word].key == "url" else where,)
    )


def a_rule(value: object) -> records.Several:
    """Read the rule for several records of one member."""
    return records.Several(a_word(value, (rule.value for rule in records.Several)))


def command_words(text: str) -> tuple[str, ...]:
    """Split a command's text into words, as a shell does."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidParameter(
            f"expected a command's words, got {value_text(text)}: {error}"
        ) from None
    if not words:
        raise InvalidParameter("expected a command's words, got none")
    return words


def _origin(table: TomlTable) -> records.Origin:
    places: dict[str, tuple[str, ...]] = {}
    readers: Mapping[str, Callable[[object], tuple[str, ...]]] = {
        "data": _single(a_text),
        "command": _a_command,
        "url": _single(_an_endpoint),
        "environment": _single(a_text),
    }
    for key, read in readers.items():
        where = table.get(key, read)
        if where is not None:
            places[key] = where
    if not places:
        table.need("data", a_text)  # its error names a key that is perhaps misspelled
    if len(places) > 1:
        raise InvalidParameter(
            f"{table.place('data')}: expected one of {', '.join(readers)},"
            f" got {' and '.join(places)}"
        )
    ((key, where),) = places.items()
    named = table.get("kind", lambda value: a_word(value, records.KINDS))
    if key != "data":
        kind = next(word for word, kind in records.KINDS.items() if kind.key == key)
        if named not in (None, kind):
            raise InvalidParameter(
                f"{table.place('kind')}: expected {kind!r} or nothing beside {key}, got {named!r}"
            )
    else:
        kind = named or records.kind_of_path(where[0])
        if records.KINDS[kind].key != "data":
            raise InvalidParameter(
                f"{table.place('kind')}: expected one of {', '.join(_FILES)} beside data,"
                f" got {kind!r}"
            )
    return records.Origin(kind, where, _query(table, kind))


def _query(table: TomlTable, kind: str) -> str | None:
    if records.KINDS[kind].queried:
        return table.need("query", a_text)
    if table.get("query", a_text) is not None:
        databases = " and ".join(word for word, other in records.KINDS.items() if other.queried)
        raise InvalidParameter(
            f"{table.place('query')}: expected no query of {kind} (of {databases} only), got one"
        )
    return None


def _naming(table: TomlTable, origin: records.Origin) -> records.Naming | None:
    row, key = table.get("row", within(0, _MAX_ROW)), table.get("key", a_text)
    given: list[records.Naming] = []
    if row is not None:
        given.append(records.OneRow(row))
    if key is not None:
        given.append(records.ByColumn(key))
    if table.get("rows_may_only_be_appended", true_or_false):
        given.append(records.ByNumber())
    if table.get("one_person", true_or_false):
        given.append(records.AllRows())
    found = ", ".join(naming.text for naming in given) or "none"
    if records.KINDS[origin.kind].names:
        if given:
            raise InvalidParameter(
                f"{table.place('key')}: expected none beside kind = {origin.kind!r}, whose members"
                f" are file names, got {found}"
            )
        return None
    if len(given) != 1:
        raise InvalidParameter(
            f"{table.place('key')}: expected one of row (one person), key (the column that names"
            " people), one_person = true (all records are one person's) and"
            f" rows_may_only_be_appended = true (rows are named by number), got {found}"
        )
    if records.KINDS[origin.kind].queried and not given[0].orderless:
        raise InvalidParameter(
            f"{table.place('key')}: expected key or one_person = true, for the rows of a query have"
            f" no order, got {found}"
        )
    return given[0]


def _a_field_map(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise InvalidParameter(
            f"expected a table from fields to the source's columns, got {value_text(value)}"
        )
    content: dict[str, Any] = value
    return {name: a_text(column) for name, column in content.items()}


def _single(read: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    return lambda value: (read(value),)


def _an_endpoint(value: object) -> str:
    return records.an_endpoint(a_text(value))


def _a_command(value: object) -> tuple[str, ...]:
    words = texts(value)
    if not words:
        raise InvalidParameter("expected the words of a command, got []")
    return tuple(words)
