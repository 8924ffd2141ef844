"""Arrays as parameters, packed at once: psycopg's own dumper takes a call per element."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

# PostgreSQL's binary form of an array: dimensions, whether it has nulls, the elements' type, then
# length and lower bound per dimension; each element is its length in bytes and its bytes.
_HEADER = struct.Struct(">iiIii")
_LENGTH = struct.Struct(">i")
_BIGINT_OID, _BIGINTS_OID = 20, 1016
_BYTEA_OID, _BYTEAS_OID = 17, 1001
_BIGINT = np.dtype([("length", ">i4"), ("value", ">i8")])


@dataclass(frozen=True, slots=True)
class Bigints:
    """An array of bigint; numbers of less than 64 bits."""

    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Byteas:
    """An array of bytea."""

    values: Sequence[bytes]


class _BigintsDumper(Dumper):
    format = Format.BINARY
    oid = _BIGINTS_OID

    def dump(self, obj: Bigints) -> bytes:
        elements = np.empty(len(obj.values), _BIGINT)
        elements["length"] = 8
        elements["value"] = obj.values
        return _header(_BIGINT_OID, len(obj.values)) + elements.tobytes()


class _ByteasDumper(Dumper):
    format = Format.BINARY
    oid = _BYTEAS_OID

    def dump(self, obj: Byteas) -> bytes:
        pack = _LENGTH.pack
        parts = [part for value in obj.values for part in (pack(len(value)), value)]
        return _header(_BYTEA_OID, len(obj.values)) + b"".join(parts)


def register_arrays(connection: psycopg.Connection) -> None:
    """Let a connection take `Bigints` and `Byteas` as parameters."""
    connection.adapters.register_dumper(Bigints, _BigintsDumper)
    connection.adapters.register_dumper(Byteas, _ByteasDumper)


def _header(oid: int, count: int) -> bytes:
    return _HEADER.pack(1, 0, oid, count, 1) if count else _HEADER.pack(0, 0, oid, 0, 1)[:12]
