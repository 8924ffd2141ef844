"""Report of a schema: its fields and their values.

Importing this module gives `Schema` its form in notebooks, `Schema._repr_html_`. It is attached
from outside because `Schema` belongs to the trusted core, which decides what a device reveals and
shows nothing. `askance.Schema` and all schemas of populations and studies are imported through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from askance_aggregator.queries.tables import table_from_schema
from askance_aggregator.reports.html import html_of
from askance_aggregator.reports.report import CommandReport, Grid, Part, more_rows, shown_rows
from askance_aggregator.reports.texts import counted
from askance_client.queries import Schema

__all__ = ["Schema", "fields_body", "schema_report"]

_MOST_VALUES = 60  # characters of the values of a field


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
    names = list(fields)
    for place in shown_rows(len(names), every=False):
        name = names[place]
        row = (name, str(fields[name]["type"]), _values(fields[name]))
        grid.add_row(*row, *((remarks.get(name, ""),) if remarks else ()))
    return [grid, *more_rows(len(names), len(grid.rows))]


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
