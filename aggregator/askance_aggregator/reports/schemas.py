"""Report of a schema: its fields and their values.

Importing this module gives `Schema` its form in notebooks, `Schema._repr_html_`. It is attached
from outside because `Schema` belongs to the trusted core, which decides what a device reveals and
shows nothing. `askance.Schema` and all schemas of populations and studies are imported through it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Any

from askance_aggregator.names import names_of
from askance_aggregator.queries.tables import table_from_schema
from askance_aggregator.reports.html import html_of
from askance_aggregator.reports.report import CommandReport, Grid, Part, more_rows, shown_rows
from askance_aggregator.reports.texts import counted
from askance_client.printable import printable
from askance_client.queries import Field, Real, Schema
from askance_client.queries.fields import FIELD_NAME
from askance_client.records import field_name, field_names

__all__ = ["Schema", "fields_body", "schema_report", "toml_of"]

_MOST_DIGITS = 20  # of a decimal that a bound is written as
_MOST_VALUES = 60  # characters of the values of a field


_INFERRED = (
    "# Bounds and labels were inferred from a data file: facts about the users in it.",
    "# Replace them by what is known beforehand, and add `required = true` to a field that all",
    "# users have: no part of an answer is then spent on telling that it is missing.",
)


def schema_report(schema: Schema) -> CommandReport:
    """Make the report of a schema."""
    return CommandReport(
        title=f"schema {schema.name}, version {schema.version},"
        f" {counted(len(schema.fields), 'field')}",
        body=fields_body(schema, {}),
    )


def fields_body(schema: Schema, remarks: Mapping[str, str]) -> list[Part]:
    """Return the table of the fields, the first rows of many.

    `remarks` are texts by field, in a column of their own; empty: no such column.
    """
    heads = ("field", "type", "values", *(("data",) if remarks else ()))
    grid = Grid(heads, left=heads, long=heads)
    fields: dict[str, dict[str, Any]] = table_from_schema(schema)["fields"]
    names, own = list(fields), names_of(schema).own
    for place in shown_rows(len(names), every=False):
        name = names[place]
        must = ", required" if fields[name].get("required") else ""
        row = (own.get(name, name), f"{fields[name]['type']}{must}", _values(fields[name]))
        grid.add_row(*row, *((remarks.get(name, ""),) if remarks else ()))
    return [grid, *more_rows(len(names), len(grid.rows))]


def toml_of(
    schema: Schema,
    left_out: Mapping[str, str],
    remarks: Sequence[str] = (),
    *,
    inferred: bool = True,
) -> str:
    """Return the file of a schema, from which `schema_from_toml` makes an equal one.

    Columns' own names stand for the fields' where they are read as those, whatever other fields
    the file has.
    """
    own = names_of(schema).own
    called = {name: own.get(name, name) for name in schema.fields}
    names = {
        column if field_name(column) == name else name: name for name, column in called.items()
    }
    if len(names) < len(schema.fields) or [*names.values()] != [*field_names("", [*names])]:
        names = {name: name for name in schema.fields}
    lines = [
        *(_INFERRED if inferred else ()),
        f"name = {_quoted(schema.name)}",
        f"version = {schema.version}",
        "",
        "[fields]",
    ]
    fields: dict[str, dict[str, Any]] = table_from_schema(schema)["fields"]
    for column, name in names.items():
        item = {**fields[name], **_decimals(schema.fields[name])}
        parts = ", ".join(f"{key} = {_toml(value)}" for key, value in item.items())
        key = column if FIELD_NAME.fullmatch(column) else _quoted(column)
        lines.append(f"{key} = {{ {parts} }}")
    lines += [f"# {printable(remark)}" for remark in remarks]
    lines += [
        f"# {printable(name) or 'the column without a name'} is left out: {printable(why)}"
        for name, why in left_out.items()
    ]
    return "\n".join(lines) + "\n"


def _decimals(kind: Field) -> dict[str, str]:
    """Return the bounds of a number as the shortest decimals that are rounded to them."""
    if not isinstance(kind, Real):
        return {}
    step = Fraction(1, 1 << kind.frac_bits)
    low, high = (
        Fraction(end, 1 << kind.frac_bits) for end in (kind.low_mantissa, kind.high_mantissa)
    )
    return {
        "low": _decimal(low, low + step, up=True),
        "high": _decimal(high, high - step, up=False),
    }


def _decimal(end: Fraction, next_: Fraction, *, up: bool) -> str:
    """Return the shortest decimal from an end of the grid to before the next point inside."""
    for digits in range(_MOST_DIGITS):
        scaled = end * 10**digits
        found = Fraction(ceil(scaled) if up else floor(scaled), 10**digits)
        if (end <= found < next_) if up else (next_ < found <= end):
            return f"{Decimal(found.numerator) / Decimal(found.denominator):f}"
    return str(end)


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _values(field: Mapping[str, Any]) -> str:
    """Format the values of a field as a schema file states them."""
    if "labels" in field:
        labels = field["labels"]
        shown = ", ".join(labels)
        cut = shown if len(shown) <= _MOST_VALUES else f"{shown[: _MOST_VALUES - 3]}..."
        return f"{counted(len(labels), 'label')}: {cut}"
    if "low" in field:
        return f"{field['low']} .. {field['high']}"
    return f"{field['width']} bits" if "width" in field else "0 or 1"


def _schema_html(schema: Schema) -> str:
    """Show the fields of a schema in a notebook."""
    return html_of(schema_report(schema))


setattr(Schema, "_repr_html_", _schema_html)  # noqa: B010  # mypy: the core declares no such method
