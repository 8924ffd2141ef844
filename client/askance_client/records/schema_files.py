"""A schema from a TOML file, for data whose bounds are known beforehand.

name = "people"
version = 1

[fields]
age = { type = "integer", low = 17, high = 90, required = true }
education = { type = "category", labels = ["school", "college"] }
height = { type = "real", low = "0.5", high = "2.5", frac_bits = 10 }
smokes = { type = "bit" }
answers = { type = "bits", width = 12 }
town = { type = "text" }
"sepal length (cm)" = { type = "real", low = 4, high = 8 }
income = { type = "label", labels = ["<=50K", ">50K"] }

A field may have the name of a column, which becomes a field's name as in a table. A field of any
type may have `required = true`: every record is to have a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from askance_client.errors import AskanceError, InvalidRecord
from askance_client.printable import nearest_text, value_text
from askance_client.queries import Bit, Bits, Category, Field, Integer, Label, Real, Schema
from askance_client.records.tables import TEXT_WIDTH, field_names
from askance_client.toml_tables import read_toml, true_or_false

_TYPES: Mapping[str, tuple[Callable[..., Field], frozenset[str], frozenset[str]]] = {
    # the type: its maker, the keys that it needs, the keys that it may have besides `required`
    "bit": (Bit, frozenset(), frozenset()),
    "bits": (Bits, frozenset({"width"}), frozenset()),
    "text": (partial(Bits, TEXT_WIDTH), frozenset(), frozenset()),
    "category": (Category, frozenset({"labels"}), frozenset()),
    "label": (Label, frozenset({"labels"}), frozenset()),
    "integer": (Integer, frozenset({"low", "high"}), frozenset()),
    "real": (Real, frozenset({"low", "high"}), frozenset({"frac_bits"})),
}


def schema_from_toml(path: Path) -> Schema:
    """The schema in a TOML file of the form above."""
    content = read_toml(path, InvalidRecord, parse_float=str)  # a bound is exactly as written
    return schema_from_table(content, str(path), path.stem)


def schema_from_table(content: Mapping[str, Any], place: str, name: str = "") -> Schema:
    """The schema in a table of that form.

    `place` is where it stands, in errors; `name` is the schema's, where the table says none.

    Raises:
      InvalidRecord: not a schema; the field is named.
    """
    unknown = sorted(content.keys() - {"name", "version", "fields"})
    if unknown:
        raise InvalidRecord(
            f"{place}: expected name, version and fields, got {value_text(unknown[0])}"
        )
    fields = content.get("fields")
    if not isinstance(fields, dict):
        got = "none" if fields is None else value_text(fields)
        raise InvalidRecord(f"{place}: expected a table of fields, got {got}")
    types = [_field(f"{place}: fields.{field}", item) for field, item in fields.items()]
    named = dict(zip(field_names(place, [*fields]), types, strict=True))
    try:
        return Schema.of(content.get("name", name), content.get("version", 1), named)
    except AskanceError as error:
        raise InvalidRecord(f"{place}: {error}") from None


def _field(place: str, item: Any) -> Field:
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        got = "none" if kind is None else f"{value_text(kind)}{nearest_text(kind, _TYPES)}"
        raise InvalidRecord(f"{place}: expected a type among {', '.join(_TYPES)}, got {got}")
    make, needed, optional = _TYPES[kind]
    wanted = needed | optional | {"required"}
    given = {key: value for key, value in item.items() if key != "type"}
    missing, unknown = sorted(needed - given.keys()), sorted(given.keys() - wanted)
    if missing or unknown:
        found = f"no {missing[0]!r}" if missing else repr(unknown[0])
        raise InvalidRecord(f"{place}: expected {', '.join(sorted(wanted))}, found {found}")
    try:
        true_or_false(given.get("required", False))
        return make(**given)
    except (AskanceError, TypeError) as error:
        raise InvalidRecord(f"{place}: {error}") from None
