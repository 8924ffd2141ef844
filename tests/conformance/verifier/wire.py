"""Protocol Buffers without a library: the messages of version 1 as tables, a reader and a writer.

A field is (name, kind, label). Kinds are scalar names or another table; the label is "one", "many"
or "case", the latter for members of a oneof: the last one that is set counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

MAX_MESSAGE_BYTES = 256 * 1024
MAX_REPORT_BYTES = 16 * 1024
MAX_EXCHANGE_BYTES = 1024 * 1024

Table = Mapping[int, tuple[str, Any, str]]
Message = dict[str, Any]


class Malformed(Exception):
    """Bytes that are no message of the kind, or have a field that version 1 does not have."""


EMPTY: Table = {}
BITS: Table = {1: ("length", "uint32", "one")}
CATEGORY: Table = {1: ("labels", "string", "many")}
INTEGER: Table = {1: ("low", "sint64", "one"), 2: ("high", "sint64", "one")}
REAL: Table = {**INTEGER, 3: ("frac_bits", "uint32", "one")}
FIELD: Table = {
    1: ("name", "string", "one"),
    2: ("bit", EMPTY, "case"),
    3: ("bits", BITS, "case"),
    4: ("category", CATEGORY, "case"),
    5: ("integer", INTEGER, "case"),
    6: ("real", REAL, "case"),
    7: ("label", CATEGORY, "case"),
    8: ("required", "bool", "one"),
}
SCHEMA: Table = {
    1: ("name", "string", "one"),
    2: ("version", "uint32", "one"),
    3: ("fields", FIELD, "many"),
}
NODE: Table = {
    1: ("op", "uint32", "one"),
    2: ("args", "uint32", "many"),
    3: ("name", "string", "one"),
    4: ("constants", "sint64", "many"),
    5: ("frac", "sint32", "one"),
}
QUERY: Table = {
    1: ("kind", "int32", "one"),
    2: ("nodes", NODE, "many"),
    3: ("low", "sint64", "one"),
    4: ("high", "sint64", "one"),
    5: ("default", "sint64", "one"),
}


def _numbers(*names: str, wide: str) -> Table:
    """A table of uint32 fields, of which those in `wide` are uint64."""
    return {
        number: (name, "uint64" if name in wide.split() else "uint32", "one")
        for number, name in enumerate(names, 1)
    }


TABLE: Table = {
    1: ("levels", "uint32", "one"),
    2: ("symbols", "uint32", "one"),
    3: ("entries", "uint64", "many"),
    4: ("repeats", "uint32", "many"),
}
CODEBOOK = _numbers(
    *("components", "radius", "bases", "near", "threshold", "seed_bits"), wide="radius threshold"
)
RANDOMIZER: Table = {
    1: ("table", TABLE, "case"),
    2: ("k_ary_response", _numbers("cells", "other", wide="other"), "case"),
    3: ("subset_selection", _numbers("cells", "size", "threshold", wide="threshold"), "case"),
    4: ("linear_hashing", _numbers("cells", "modulus", "other", wide="other"), "case"),
    5: ("hadamard_sign", _numbers("values", "threshold", wide="threshold"), "case"),
    6: (
        "signed_subset_selection",
        _numbers("values", "size", "threshold", wide="threshold"),
        "case",
    ),
    7: (
        "hypercube_response",
        _numbers("components", "radius", "threshold", wide="threshold"),
        "case",
    ),
    8: ("random_codebook", CODEBOOK, "case"),
}
REQUEST: Table = {
    1: ("study_digest", "bytes", "one"),
    2: ("round", "uint32", "one"),
    3: ("group", "uint32", "one"),
    4: ("query", QUERY, "one"),
    5: ("randomizer", RANDOMIZER, "one"),
}
REFUSAL: Table = {1: ("reason", "int32", "one")}
REPORT: Table = {
    1: ("request_digest", "bytes", "one"),
    2: ("symbol", "bytes", "case"),
    3: ("refusal", REFUSAL, "case"),
    4: ("charged_nano_nats", "uint64", "one"),
    5: ("spent_nano_nats", "uint64", "one"),
    6: ("sequence", "uint64", "one"),
}
PARAMETER: Table = {1: ("name", "string", "one"), 2: ("value", "string", "one")}
CONDUCT: Table = {
    1: ("beta", "string", "one"),
    2: ("confidence", "string", "one"),
    3: ("round_deadline_s", "uint32", "one"),
    4: ("least_answers", "uint64", "one"),
    5: ("waves", "uint32", "one"),
}
REPEAT: Table = {
    1: ("every_days", "uint32", "one"),
    2: ("epochs", "uint32", "one"),
    3: ("first", "uint32", "one"),
}
STUDY: Table = {
    1: ("nonce", "bytes", "one"),
    2: ("learner", "string", "one"),
    3: ("learner_version", "uint32", "one"),
    4: ("parameters", PARAMETER, "many"),
    5: ("schema", SCHEMA, "one"),
    6: ("budget_nano_nats", "uint64", "one"),
    7: ("expires_unix_s", "int64", "one"),
    8: ("purpose", "string", "one"),
    9: ("conduct", CONDUCT, "one"),
    10: ("fields", "string", "many"),
    11: ("distribution", "string", "one"),
    12: ("repeat", REPEAT, "one"),
    13: ("most_answers", "uint32", "one"),
}
SIGNED_STUDY: Table = {
    1: ("study", "bytes", "one"),
    2: ("public_key", "bytes", "one"),
    3: ("signature", "bytes", "one"),
}
CHECK_IN: Table = {1: ("reports", "bytes", "many"), 2: ("known_studies", "bytes", "many")}
ACK: Table = {1: ("request_digest", "bytes", "one"), 2: ("status", "int32", "one")}
RESPONSE: Table = {
    1: ("acks", ACK, "many"),
    2: ("studies", SIGNED_STUDY, "many"),
    3: ("requests", "bytes", "many"),
    4: ("retry_after_ms", "uint32", "one"),
    5: ("acknowledged_sequence", "uint64", "one"),
}


def _signed(value: int, bits: int) -> int:
    """Two's complement of the low `bits` bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


_VARINTS: dict[str, Callable[[int], int]] = {
    "uint32": lambda value: value & 0xFFFFFFFF,
    "uint64": lambda value: value,
    "int32": lambda value: _signed(value, 32),
    "int64": lambda value: _signed(value, 64),
    "sint32": lambda value: _zigzag(value & 0xFFFFFFFF),
    "sint64": _zigzag,
    "bool": lambda value: int(value != 0),
}


def _is_number(kind: Any) -> bool:
    return isinstance(kind, str) and kind in _VARINTS


def decode(table: Table, data: bytes, limit: int = MAX_MESSAGE_BYTES) -> Message:
    """Read a message whole.

    Raises:
        Malformed: longer than `limit` bytes, no message, or with an unknown field at any depth.
    """
    if len(data) > limit:
        raise Malformed(f"expected at most {limit} bytes")
    return _merge(table, data, _empty(table))


def _empty(table: Table) -> Message:
    """A message without any field; a message in it is None, and so is a case."""
    defaults: dict[Any, Any] = {"bytes": b"", "string": ""}
    message: Message = {}
    for name, kind, label in table.values():
        if label == "many":
            message[name] = []
        elif label == "case" or not isinstance(kind, str):
            message[name] = None
        else:
            message[name] = defaults.get(kind, 0)
    return message


def _merge(table: Table, data: bytes, message: Message) -> Message:
    for number, wire_type, value in _records(data):
        if number not in table:
            raise Malformed(f"expected known fields, found {number}")
        name, kind, label = table[number]
        if _is_number(kind):
            _put_varints(message, name, kind, label, wire_type, value)
            continue
        if wire_type != 2:
            raise Malformed(f"expected another wire type in field {number}")
        if label == "case":
            _clear_other_cases(table, message, name)
        if kind == "string":
            value = _text(value)
        elif kind != "bytes":
            before = message[name] if label != "many" else None
            value = _merge(kind, value, _empty(kind) if before is None else before)
        if label == "many":
            message[name].append(value)
        else:
            message[name] = value
    return message


def _put_varints(
    message: Message, name: str, kind: str, label: str, wire_type: int, value: Any
) -> None:
    """A number, or, of a repeated field, one number or many packed ones."""
    if wire_type == 0:
        values = [value]
    elif wire_type == 2 and label == "many":
        values = list(_varints(value))
    else:
        raise Malformed(f"expected another wire type in {name}")
    read = _VARINTS[kind]
    if label == "many":
        message[name] += map(read, values)
    else:
        message[name] = read(values[0])


def _clear_other_cases(table: Table, message: Message, name: str) -> None:
    for other, _, label in table.values():
        if label == "case" and other != name:
            message[other] = None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("expected UTF-8") from None


def _records(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Field number, wire type, and the number or the bytes, of each record of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29 or wire_type not in (0, 2):
            raise Malformed("expected a field of a known wire type")
        value, at = _varint(data, at)
        if wire_type == 0:
            yield number, wire_type, value
            continue
        if value > len(data) - at:
            raise Malformed("expected more bytes")
        yield number, wire_type, data[at : at + value]
        at += value


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if value >> 64:
                break
            return value, at
    raise Malformed("expected a number of at most 64 bits")


def encode(table: Table, message: Message) -> bytes:
    """Write fields in the order of their numbers; numbers and bytes at their default are left out.

    A case is written if it is not None. Only what devices send is supported: unsigned numbers,
    bytes and messages.
    """
    out = bytearray()
    for number, (name, kind, label) in sorted(table.items()):
        values = message.get(name)
        for value in values or [] if label == "many" else [values]:
            if value is None or (label == "one" and not value):
                continue
            if _is_number(kind):
                out += _number(number << 3) + _number(value)
            else:
                data = value if kind == "bytes" else encode(kind, value)
                out += _number(number << 3 | 2) + _number(len(data)) + data
    return bytes(out)


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
