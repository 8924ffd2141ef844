"""Schemas on the wire."""

from __future__ import annotations

from askance_client.errors import RemoteProtocolError
from askance_client.queries import Bit, Bits, Category, Field, Integer, Label, Real, Schema
from askance_protos.v1 import schema_pb2 as pb

_NAME_SHOWN = 64


def decode_schema(message: pb.Schema) -> Schema:
    """The schema in `message`.

    Raises:
      RemoteProtocolError: a field has no type, or two fields have one name.
      InvalidParameter: a name, bound or label that no schema may have.
    """
    fields: dict[str, Field] = {}
    for item in message.fields:
        if item.name in fields:
            name = item.name[:_NAME_SHOWN]
            raise RemoteProtocolError(f"schema: expected distinct names, found {name!r} twice")
        fields[item.name] = _decode_field(item)
    return Schema.of(message.name, message.version, fields)


def _decode_field(message: pb.Field) -> Field:
    match message.WhichOneof("type"):
        case "bit":
            return Bit()
        case "bits":
            return Bits(message.bits.length)
        case "category":
            return Category(tuple(message.category.labels))
        case "label":
            return Label(tuple(message.label.labels))
        case "integer":
            return Integer(message.integer.low, message.integer.high)
        case "real":
            real = message.real
            return Real.of_mantissas(real.low, real.high, real.frac_bits)
    name = message.name[:_NAME_SHOWN]
    raise RemoteProtocolError(f"schema: expected a type for field {name!r}, found none")
