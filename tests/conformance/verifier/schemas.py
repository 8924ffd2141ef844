"""Schemas: fields, canonical bytes, and records on their grids."""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from tests.conformance.verifier.wire import Malformed, Message

LIMIT = 1 << 62  # every integer on a grid is below this in magnitude
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_RATIO = re.compile(r"([+-]?[0-9]+)/([0-9]+)")
_DECADES = 100


@dataclass(frozen=True)
class Field:
    """A field: its type's name, grid and range.

    Args:
        kind: bit, bits, category, label, integer or real.
        frac: the grid is 2^-frac.
        low: least integer on the grid.
        high: greatest integer on the grid.
        labels: of a category or a label.
        width: number of bits of bits.
        required: whether every record is to have it, which its schema's bytes say.
    """

    kind: str
    frac: int = 0
    low: int = 0
    high: int = 1
    labels: tuple[str, ...] = ()
    width: int = 0
    required: bool = False

    @property
    def canonical(self) -> bytes:
        """Mark of a required field, type number and parameters."""
        return self._type if not self.required else b"\7" + self._type

    @property
    def _type(self) -> bytes:
        if self.kind == "bit":
            return b"\1"
        if self.kind == "bits":
            return b"\2" + struct.pack(">I", self.width)
        if self.labels:
            number = {"category": b"\3", "label": b"\4"}[self.kind]
            return number + struct.pack(">I", len(self.labels)) + b"".join(map(text, self.labels))
        ends = struct.pack(">qq", self.low, self.high)
        return b"\5" + ends if self.kind == "integer" else struct.pack(">BB", 6, self.frac) + ends

    def read(self, value: Any) -> Any:
        """A record's value on the grid, a list of bits for bits; None if it is not present."""
        if self.kind == "bits":
            return self._bits(value)
        if self.labels:
            return self._label(value)
        number = exact(value)
        if number is None:
            return None
        if self.kind == "bit":
            return int(number) if number in (0, 1) else None
        # Fraction rounds half to even.
        return min(max(round(number * (1 << self.frac)), self.low), self.high)

    def _bits(self, value: Any) -> list[int] | None:
        items = list(value.strip()) if isinstance(value, str) else value
        if not isinstance(items, list) or len(items) != self.width:
            return None
        if isinstance(value, str):
            return [int(item) for item in items] if set(items) <= {"0", "1"} else None
        numbers = [exact(item) for item in items]
        return [int(n) for n in numbers if n is not None] if {*numbers} <= {0, 1} else None

    def _label(self, value: Any) -> int | None:
        keys = [value] if isinstance(value, str) else []
        if isinstance(value, bool):
            keys = [str(value), str(int(value))]
        elif isinstance(value, int) and abs(value) < LIMIT:
            keys = [str(value)]
        return next((self.labels.index(key) for key in keys if key in self.labels), None)


@dataclass(frozen=True)
class Schema:
    """Fields of a record by name, in the message's order."""

    name: str
    version: int
    fields: dict[str, Field]

    @property
    def canonical(self) -> bytes:
        """Name, version, and each field's name and type."""
        head = (
            b"askance/schema/1"
            + text(self.name)
            + struct.pack(">qI", self.version, len(self.fields))
        )
        return head + b"".join(text(name) + field.canonical for name, field in self.fields.items())

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.canonical).digest()

    def read(self, record: Message) -> Message:
        """The record's values on the grid; None for what is missing or unreadable."""
        return {name: field.read(record.get(name)) for name, field in self.fields.items()}


def text(value: str) -> bytes:
    """Length in bytes, and UTF-8."""
    data = value.encode("utf-8")
    return struct.pack(">I", len(data)) + data


def exact(value: Any) -> Fraction | None:
    """A number, exactly; None for what is none. Truth values are 1 and 0."""
    if isinstance(value, int):
        return Fraction(value)
    if not isinstance(value, str):
        return None
    written = value.strip()
    ratio = _RATIO.fullmatch(written)
    if len(written) > 128:
        return None
    if ratio is not None:
        return Fraction(int(ratio[1]), int(ratio[2])) if int(ratio[2]) else None
    decimal = _DECIMAL.fullmatch(written)
    if decimal is None or not (decimal[2] or decimal[3]):
        return None
    digits, exponent = decimal[2] + (decimal[3] or ""), int(decimal[4] or 0)
    significant = digits.lstrip("0")
    if not significant:
        return Fraction(0)
    sign = -1 if decimal[1] == "-" else 1
    exponent -= len(decimal[3] or "")
    leading = exponent + len(significant) - 1  # the power of ten of the first digit
    if abs(leading) > _DECADES:
        return sign * Fraction(10) ** (_DECADES if leading > 0 else -_DECADES)
    return sign * int(significant) * Fraction(10) ** exponent


def schema_of(message: Message | None) -> Schema:
    """The schema in a decoded message; an absent one has no name.

    Raises:
        Malformed: no schema may be so.
    """
    if message is None:
        raise Malformed("expected a schema")
    fields: dict[str, Field] = {}
    for item in message["fields"]:
        if item["name"] in fields or not _FIELD_NAME.fullmatch(item["name"]):
            raise Malformed("expected distinct names of fields")
        fields[item["name"]] = replace(_field(item), required=bool(item["required"]))
    name = message["name"]
    if not 1 <= len(name) <= 128 or not name.isprintable() or not 1 <= len(fields) <= 4096:
        raise Malformed("expected a printable name and 1 to 4096 fields")
    return Schema(name, message["version"], fields)


def _field(item: Message) -> Field:
    kind = next((k for k in item if k not in ("name", "required") and item[k] is not None), None)
    if kind is None:
        raise Malformed("expected a type")
    said = item[kind]
    if kind == "bit":
        return Field("bit")
    if kind == "bits":
        if not 1 <= said["length"] <= 4096:
            raise Malformed("expected 1 to 4096 bits")
        return Field("bits", width=said["length"])
    if kind in ("category", "label"):
        return Field(kind, high=len(said["labels"]) - 1, labels=_labels(said["labels"]))
    low, high, frac = said["low"], said["high"], said.get("frac_bits", 0)
    if not (low < high and max(abs(low), abs(high)) < LIMIT and frac <= 40):
        raise Malformed("expected bounds in order, below 2^62")
    return Field(kind, frac, low, high)


def _labels(labels: list[str]) -> tuple[str, ...]:
    fine = all(x.strip() not in ("", "?") and len(x.encode()) <= 1024 for x in labels)
    if not (fine and 1 <= len(labels) <= 1 << 16 and len(set(labels)) == len(labels)):
        raise Malformed("expected 1 to 65536 distinct labels")
    return tuple(labels)
