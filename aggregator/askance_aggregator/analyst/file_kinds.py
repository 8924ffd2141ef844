"""Kinds of files that an analyst gives in place of a study's definition, named in the error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.toml_tables import TomlTable

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
    """Read the TOML file of a study.

    Raises:
      InvalidParameter: it cannot be read, or is of another kind, which is named.
    """
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
