"""Schemas as tables of texts, integers, lists and truth values."""

from __future__ import annotations

from typing import Any

from askance_client.queries import Bit, Bits, Category, Field, Integer, Label, Real, Schema


def table_from_schema(schema: Schema) -> dict[str, Any]:
    """Return the table from which `askance_client.records.schema_from_table` makes a schema again.

    It has texts, integers, lists and truth values only, so it can be written as JSON or TOML.
    """
    fields = {
        name: _item(field) | ({"required": True} if field.required else {})
        for name, field in schema.fields.items()
    }
    return {"name": schema.name, "version": schema.version, "fields": fields}


def _item(field: Field) -> dict[str, Any]:
    match field:
        case Bit():
            return {"type": "bit"}
        case Bits():
            return {"type": "bits", "width": field.width}
        case Category():
            kind = "label" if isinstance(field, Label) else "category"
            return {"type": kind, "labels": list(field.labels)}
        case Integer():
            return {"type": "integer", "low": field.low, "high": field.high}
        case Real():  # its bounds lie on a grid of a power of two: a fraction, and exact
            low, high = str(field.low), str(field.high)
            return {"type": "real", "low": low, "high": high, "frac_bits": field.frac_bits}
