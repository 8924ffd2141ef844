"""Schemas: the names and types of a record's fields, and records encoded onto their grids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from askance_client.errors import InvalidParameter, InvalidQuery, InvalidRecord
from askance_client.queries.canonical import i64, text, u8, u32
from askance_client.queries.expressions import Expression, field_expression
from askance_client.queries.fields import FIELD_NAME, Bits, Field, whole
from askance_client.queries.limits import MAX_FIELDS

_FORMAT = b"askance/schema/1"
_MAX_VERSION = (1 << 32) - 1
_MAX_NAME = 128
_MUST = u8(7)  # before the bytes of a required field, none of which begin with it
_NAMES_SHOWN = 20
_NAME_SHOWN, _LINE = 40, 120  # characters of the name, and of all, in one line


class UnknownField(InvalidQuery, AttributeError):
    """A field was asked for that the schema does not have."""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRecord:
    """Record on the grid.

    Args:
        values: field name -> integer (Bits: a tuple of words).
        present: field name -> whether the record has a valid value there.
    """

    values: Mapping[str, int | tuple[int, ...]]
    present: Mapping[str, bool]

    def load(self) -> EncodedRecord:
        """Return the record itself: a record in memory is its own source."""
        return self


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Schema:
    """The fields of a record, in order; immutable, and equal when the canonical bytes are.

    `schema.age` and `schema["age"]` are the field's expression. A field whose name is also an
    attribute of Schema itself ("name", "fields", ...) is reached by `schema["name"]` only.

    Args:
        name: what the schema is called.
        version: 0..2^32-1; a schema that changed is another version.
        fields: the types by field name, 1..4096 of them.

    Raises:
        InvalidParameter: a name, version or field is not what is documented.

    Example:
        >>> schema = ask.Schema("people", 1, age=ask.Integer(0, 120), smokes=ask.Bit())
        >>> schema
        Schema('people', 1, age=Integer, smokes=Bit)
        >>> schema.age > 40
        (40 < age)
        >>> list(schema.fields)
        ['age', 'smokes']
    """

    __slots__ = ("__weakref__", "_expressions", "canonical", "digest", "fields", "name", "version")

    name: str
    version: int
    fields: Mapping[str, Field]
    canonical: bytes
    digest: bytes
    _expressions: Mapping[str, Expression]

    def __init__(self, name: str = "schema", version: int = 1, /, **fields: Field) -> None:
        version = whole("schema version", version)
        _check_schema(name, version, fields)
        kept = dict(fields)
        head = _FORMAT + text(name) + i64(version) + u32(len(kept))
        parts = [text(key) + _MUST * kind.required + kind.canonical for key, kind in kept.items()]
        canonical = b"".join([head, *parts])
        expressions = {key: field_expression(key, kind) for key, kind in kept.items()}
        for attribute, value in (
            ("name", name),
            ("version", version),
            ("fields", MappingProxyType(kept)),
            ("canonical", canonical),
            ("digest", sha256(canonical).digest()),
            ("_expressions", expressions),
        ):
            object.__setattr__(self, attribute, value)

    @classmethod
    def of(cls, name: str, version: int, fields: Mapping[str, Field]) -> Schema:
        """The same from a mapping, for names that are not known when the program is written."""
        for key in fields:
            if not isinstance(key, str):
                found = type(key).__name__
                raise InvalidParameter(f"schema: expected field names as text, found {found}")
        return cls(name, version, **fields)

    def __getitem__(self, name: str) -> Expression:
        expression = self._expressions.get(name)
        if expression is None:
            known = ", ".join(list(self.fields)[:_NAMES_SHOWN])
            more = ", ..." if len(self.fields) > _NAMES_SHOWN else ""
            raise UnknownField(
                f"schema {self.name!r} version {self.version} has no field {name!r}; "
                f"it has {known}{more}"
            )
        return expression

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__") or name == "_expressions":  # Python's own look-ups, and half-made
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.fields]

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.of, (self.name, self.version, dict(self.fields))

    def __repr__(self) -> str:
        fields = ", ".join(f"{key}={type(kind).__name__}" for key, kind in self.fields.items())
        shown = f"Schema({self.name[:_NAME_SHOWN]!r}, {self.version}, {fields})"
        return shown if len(shown) <= _LINE else f"{shown[: _LINE - 4]}...)"

    def encode(self, record: Mapping[str, object]) -> EncodedRecord:
        """Encode one record on the grid; missing or unreadable values are not present.

        Raises:
            InvalidRecord: the record has a field that the schema does not have.
        """
        refuse_unknown(self, record)
        values: dict[str, int | tuple[int, ...]] = {}
        present: dict[str, bool] = {}
        for name, field in self.fields.items():
            value = field.encode(record.get(name))
            present[name] = value is not None
            if value is None:
                value = (0,) * field.words if isinstance(field, Bits) else filler(field)
            values[name] = value
        return EncodedRecord(values, present)


def filler(field: Field) -> int:
    """Return the value on the grid where nothing is present: the point nearest to 0."""
    return min(max(0, field.type.low), field.type.high)


def refuse_unknown(schema: Schema, names: Iterable[object]) -> None:
    """Refuse, as an InvalidRecord, field names that the schema does not have."""
    unknown = [str(name)[:64] for name in names if name not in schema.fields]
    if unknown:
        shown = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
        raise InvalidRecord(
            f"expected fields of schema {schema.name!r} version {schema.version}, "
            f"found {len(unknown)} unknown: {shown}"
        )


def _check_schema(name: object, version: int, fields: Mapping[str, object]) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= _MAX_NAME or not name.isprintable():
        raise InvalidParameter(f"schema: expected a printable name of 1..{_MAX_NAME} characters")
    if not 0 <= version <= _MAX_VERSION:
        raise InvalidParameter(f"schema: expected a version in 0..{_MAX_VERSION}, found {version}")
    if not 1 <= len(fields) <= MAX_FIELDS:
        raise InvalidParameter(f"schema: expected 1..{MAX_FIELDS} fields, found {len(fields)}")
    for position, (key, field) in enumerate(fields.items()):
        if not FIELD_NAME.fullmatch(key):
            raise InvalidParameter(
                f"schema: field {position} expects a name [A-Za-z_][A-Za-z0-9_]{{0,63}}, "
                f"found {key[:64]!r}"
            )
        if not isinstance(field, Field) or not isinstance(field.required, bool):
            found = type(field).__name__
            raise InvalidParameter(
                f"schema: field {key} expects a field type, required=True or False, found {found}"
            )
