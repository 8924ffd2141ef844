"""A study from a TOML file.

learner = "frequency"
epsilon = "1"                   # each user's whole budget, in nats
schema = "people.toml"          # a path beside this file, or a table [schema] of the same form
purpose = "Schooling of users."
beta = "0.01"                   # this and all below are optional
confidence = "0.95"
days = 7                        # devices refuse the study after this many days

fields = ["education"]          # that may be asked about; left out: those that the learner needs
most_answers = 4096             # of a user, all rounds and epochs together; devices refuse more

[parameters]                    # of the learner, as `--set` takes them; ["a", "b"] is a list
column = "education"

[rounds]
deadline_s = 86400              # a round closes so long after it opened; 0: when all have answered
least_answers = 1               # in every group of a round; fewer end the study
waves = 1                       # parts in which a round's users are asked, while it needs them

[repeat]                        # left out: the study collects once
every = "7d"                    # an epoch; the first is that of the day of signing
epochs = 12                     # epsilon is per epoch

[schedule]                      # left out: it begins at once
start = "2026-12-01T08:00Z"     # UTC; days and epochs are counted from it

[population]                    # left out: all devices
tags = ["eu", "v2"]             # only devices that have all of these; devices do not see them

[keep]                          # days after its end; left out: the operator's
reports_days = 30               # single reports; results, counts and transcripts stay
results_days = 365              # these too
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from askance_aggregator.analyst.submission import Every, StudyDefinition
from askance_aggregator.learners import Learner, find
from askance_aggregator.names import (
    named_schema_from_table,
    named_schema_from_toml,
    names_of,
    names_text,
)
from askance_aggregator.numbers import at_least_one
from askance_aggregator.store.tagged_population import checked_tags
from askance_aggregator.studies.keep import Keep
from askance_aggregator.studies.schedule import parse_start
from askance_aggregator.studies.study import Epsilon, Study
from askance_aggregator.study_options import OPTIONS, OptionKind
from askance_client.errors import AskanceError, InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Schema
from askance_client.toml_tables import TomlTable, a_number_of_days, a_text

_STUDY = "a study (TOML with learner, schema and epsilon)"
_OWN_KEYS = ("learner", "epsilon", "parameters")  # no other file has one of them
_SHOWN_KEYS = 4
_PLAIN = 40  # letters of a key that is shown without quotation marks

_TABLES: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "a schema of records, which a study names by its key schema": (
        lambda table: isinstance(table.get("fields"), dict)
    ),
    "a device's configuration": lambda table: {"policy", "records"} <= set(table),
    "an aggregator's configuration": lambda table: {"listen", "store"} <= set(table),
}
"""Tests of a TOML file that is no study, by the kind of file."""

_EXPORT = "askance export"  # begins the format that an export states


def read_study_table(path: Path) -> TomlTable:
    """Read the TOML file of a study."""
    try:
        table = TomlTable.of_file(path)
    except InvalidParameter:
        kind = _kind_of_other(path)
        if kind is None:
            raise
        raise InvalidParameter(f"{path}: expected {_STUDY}, got {kind}") from None
    if not any(key in table.content for key in _OWN_KEYS):
        raise InvalidParameter(f"{path}: expected {_STUDY}, got {_kind_of_table(table.content)}")
    return table


def _kind_of_table(content: Mapping[str, Any]) -> str:
    """Name a TOML file that is no study."""
    for kind, fits in _TABLES.items():
        if fits(content):
            return kind
    if not content:
        return "an empty file"
    shown = [_key_text(key) for key in list(content)[:_SHOWN_KEYS]]
    return f"a file of {', '.join(shown)}{', ...' if len(content) > len(shown) else ''}"


def _key_text(key: str) -> str:
    return key if len(key) <= _PLAIN and key.isidentifier() else value_text(key)


def _kind_of_other(path: Path) -> str | None:
    """Name a file that is no TOML; None: it cannot be read, or may be TOML with a mistake."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if data.lstrip().startswith(b"-----BEGIN"):
        return "PEM text"
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(content, dict) and str(content.get("format", "")).startswith(_EXPORT):
        return "a study's export (study verify reads it)"
    return "JSON"


T = TypeVar("T")


def read_definition(path: Path) -> StudyDefinition:
    """The study in a TOML file of the form above.

    Raises:
      InvalidParameter, InvalidRecord: no such file, not TOML, or not a study; the place is named.
    """
    return _definition(read_study_table(path), path)


def definition_of_table(content: Mapping[str, Any]) -> StudyDefinition:
    """The study in a table of the form above; `schema` is a path from the working folder."""
    return _definition(TomlTable(content, "study"), Path("study"))


def _definition(table: TomlTable, path: Path) -> StudyDefinition:
    schema = table.need("schema", lambda value: _schema(value, path))
    learner = _learner(table, schema)
    given = _read_options(table)
    try:
        keep = Keep(given["reports_days"], given["results_days"])
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: keep: {error}") from None
    _check_tables(table)
    every = None if given["every"] is None else Every(given["every"], given["epochs"])
    table.finish()
    try:
        study = Study(
            learner,
            schema,
            **{option.argument: given[option.name] for option in OPTIONS if option.argument},
        )
    except AskanceError as error:
        raise InvalidParameter(f"{path}: {error}") from None
    return StudyDefinition(study, given["days"], every, keep, given["start"], given["tags"])


def _number(value: object) -> Epsilon:
    """Return a number, given as text or as TOML has it; .1 is a tenth."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        return value
    raise InvalidParameter(f"expected a number or its text, got {value_text(value)}")


def _not_negative(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidParameter(f"expected a whole number of 0 or more, got {value_text(value)}")
    return value


def _names(value: object) -> list[str]:
    """Return the names in a list of texts."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidParameter(f"expected a list of fields' names, got {value_text(value)}")
    return value


def _tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(tag, str) for tag in value):
        raise InvalidParameter(f"expected a list of one tag or more, got {value_text(value)}")
    return checked_tags(value)


_READERS: Mapping[OptionKind, Callable[[object], Any]] = {
    OptionKind.TEXT: a_text,
    OptionKind.NUMBER: _number,
    OptionKind.POSITIVE: at_least_one,
    OptionKind.NATURAL: _not_negative,
    OptionKind.NAMES: _names,
    OptionKind.WORDS: _tags,
    OptionKind.DAYS: a_number_of_days,
    OptionKind.TIME: parse_start,
}


def _read_options(table: TomlTable) -> dict[str, Any]:
    """Read the options of a file by their names, all but the schema; defaults are filled in."""
    tables: dict[str, TomlTable | None] = {"": table}
    found: dict[str, Any] = {}
    for option in OPTIONS[1:]:
        if option.table not in tables:
            tables[option.table] = table.table(option.table)
        part, value = tables[option.table], None
        if part is not None:
            read = part.need if option.needed else part.get
            value = read(option.name, _READERS[option.kind])
        found[option.name] = option.default if value is None else value
    return found


def _check_tables(table: TomlTable) -> None:
    """Refuse a key that stands above all tables and belongs in one."""
    outside = {option.name for option in OPTIONS if not option.table}
    for option in OPTIONS:
        if option.table and option.name in table.content.keys() - outside:
            place = table.place(option.name)
            raise InvalidParameter(f"{place}: expected it in [{option.table}], got it in no table")


def _learner(table: TomlTable, schema: Schema) -> Learner[Any]:
    parameters = table.get("parameters", _parameters) or {}
    entry = table.need("learner", lambda value: find(a_text(value)))
    try:
        return entry.build(schema, parameters)
    except AskanceError as error:
        told = names_of(schema).in_text(str(error))
        raise InvalidParameter(f"{table.place('parameters')}: {told}") from None


def _schema(value: object, path: Path) -> Schema:
    if isinstance(value, dict):
        return named_schema_from_table(value, f"{path}: schema", path.stem)
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"expected a path or a table, got {value_text(value)}")
    return named_schema_from_toml(path.parent / value)


def _parameters(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise InvalidParameter(f"expected a table, got {value_text(value)}")
    return {name: _text(name, item) for name, item in value.items()}


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return names_text(_placed(name, _values, value))
    return str(_placed(name, _number, value))


def _values(value: object) -> list[str]:
    """Return the texts and whole numbers in a list as texts."""
    if not isinstance(value, list) or not all(type(one) in (str, int) for one in value):
        raise InvalidParameter(f"expected texts and whole numbers, got {value_text(value)}")
    return [*map(str, value)]


def _placed(name: str, read: Callable[[object], T], value: object) -> T:
    try:
        return read(value)
    except InvalidParameter as error:
        raise InvalidParameter(f"{name}: {error}") from None
