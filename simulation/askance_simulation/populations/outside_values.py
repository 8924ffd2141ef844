"""Values of a file that a given schema does not know, or clamps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from askance_client.errors import InvalidRecord
from askance_client.queries import Category, Field, Schema
from askance_client.queries.exact import exact_ratio
from askance_client.queries.kinds import Kind
from askance_client.records.tables import field_value

_WARNED = Fraction(1, 100)  # the share from which a result has a warning
_LABELS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Outside:
    """Number of a field's values outside a schema."""

    values: int = 0  # rows with a value
    unknown: int = 0  # those that fit nothing in the field
    beyond: int = 0  # numbers that are clamped by more than the rounding to the grid

    def __add__(self, other: Outside) -> Outside:
        """Return the numbers over the rows of both, which are different ones."""
        return Outside(
            self.values + other.values, self.unknown + other.unknown, self.beyond + other.beyond
        )

    @classmethod
    def of(cls, kind: Field, given: Mapping[object, int]) -> Outside:
        """Count cells that are not missing, by their number of rows."""
        unknown = sum(
            count for cell, count in given.items() if kind.encode(field_value(cell, kind)) is None
        )
        return cls(sum(given.values()), unknown, _beyond(given, kind))


def outside_warnings(
    path: Path | str, schema: Schema, found: Mapping[str, Outside], most: Fraction
) -> dict[str, str]:
    """Return a warning per field with more than 1 % of values outside the schema."""
    warnings = {}
    for name, kind in schema.fields.items():
        outside = found[name]
        count, values = outside.unknown + outside.beyond, outside.values
        if count <= _WARNED * values:
            continue
        expected = _expected(kind)
        if count > most * values:
            raise InvalidRecord(
                f"{path}: {name}: expected {expected} by the schema, got values outside it"
                f" in {count:,} of {values:,} rows: correct the schema, or accept them by"
                " --most-outside 1"
            )
        counted = "they count as missing" if outside.unknown else "they count as the nearest bound"
        if outside.unknown and outside.beyond:
            counted = "they count as missing or as the nearest bound"
        warnings[name] = (
            f"{count:,} of {values:,} values of {name} are outside the schema ({expected});"
            f" {counted}"
        )
    return warnings


def _beyond(cells: Mapping[object, int], kind: Field) -> int:
    """Count the numbers that are clamped by more than the rounding to the grid."""
    known = kind.type
    if known.kind is not Kind.NUMBER:
        return 0
    step = Fraction(1, 1 << known.frac)
    low, high = (known.low - Fraction(1, 2)) * step, (known.high + Fraction(1, 2)) * step
    ratios = ((exact_ratio(cell), count) for cell, count in cells.items())
    return sum(
        count
        for ratio, count in ratios
        if ratio is not None
        and not (
            ratio[0] * low.denominator >= low.numerator * ratio[1]
            and ratio[0] * high.denominator <= high.numerator * ratio[1]
        )
    )


def _expected(kind: Field) -> str:
    """Describe the values of a field of a given schema."""
    known = kind.type
    if isinstance(kind, Category):
        shown = ", ".join(kind.labels[:_LABELS_SHOWN])
        more = ", ..." if len(kind.labels) > _LABELS_SHOWN else ""
        return f"one of {shown}{more}"
    if known.kind is Kind.NUMBER:
        scale = 1 << known.frac
        return f"numbers from {known.low / scale:g} to {known.high / scale:g}"
    return "0 or 1" if known.kind is Kind.BOOLEAN else f"{known.width} digits of 0 and 1"
