"""Errors for names that a registry or a schema does not have."""

from __future__ import annotations

from collections.abc import Iterable

from askance_client.errors import InvalidParameter
from askance_client.printable import nearest_text, unknown_text, value_text

_COLUMNS_SHOWN = 20  # of a wide table; the nearest name is sought among all


class NoSuitableColumn(InvalidParameter):
    """A schema has no field of a type that a learner can ask about."""


def unknown_name(field: str, name: object, known: Iterable[str]) -> InvalidParameter:
    """Return the error for a name that is not among the known ones, with the nearest of them."""
    return InvalidParameter(f"{field}: {unknown_text(name, known)}")


def unknown_column(column: object, known: Iterable[str]) -> str:
    """Format the error for a column that is not among the known ones, with the nearest of them."""
    names = list(known)
    if not names:
        return (
            f"expected a field of a fitting type, of which there is none, got {value_text(column)}"
        )
    shown = ", ".join(names[:_COLUMNS_SHOWN])
    more = ", ..." if len(names) > _COLUMNS_SHOWN else ""
    nearest = nearest_text(column, names)
    if isinstance(column, str) and "," in column and set(column.split(",")) <= set(names):
        nearest = ": this learner takes one"
    return f"expected one of the fields {shown}{more}, got {value_text(column)}{nearest}"
