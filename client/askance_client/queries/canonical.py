"""Canonical bytes: fixed-width integers and length-prefixed text, so that encodings are injective.

Independent of protobuf, whose serialisation is not canonical.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_U8, _U32 = struct.Struct(">B").pack, struct.Struct(">I").pack
_NONE = _U32(0)


def u8(value: int) -> bytes:
    """Encode one byte."""
    return _U8(value)


def u32(value: int) -> bytes:
    """Four bytes, big-endian."""
    return _U32(value)


def u32s(values: Sequence[int]) -> bytes:
    """Four bytes each, without their count."""
    return struct.pack(f">{len(values)}I", *values)


def i64(value: int) -> bytes:
    """Eight bytes, big-endian, two's complement."""
    return struct.pack(">q", value)


def i64s(values: Sequence[int]) -> bytes:
    """A count, then that many signed 64-bit integers."""
    return struct.pack(f">I{len(values)}q", len(values), *values) if values else _NONE


def text(value: str) -> bytes:
    """The number of UTF-8 bytes, then the bytes."""
    encoded = value.encode("utf-8")
    return u32(len(encoded)) + encoded


def texts(encoded: Sequence[bytes]) -> bytes:
    """Encode a count, then that many texts, which are given as their UTF-8 bytes."""
    sizes = [*map(len, encoded)]
    before = {size: _U32(size) for size in set(sizes)}
    parts = [_U32(len(encoded))] * (2 * len(encoded) + 1)
    parts[1::2], parts[2::2] = map(before.__getitem__, sizes), encoded
    return b"".join(parts)
