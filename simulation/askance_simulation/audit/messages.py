"""Content of a serialised report, read by the rules of the wire format alone.

No decoder of the trusted base takes part. A message is a symbol (field 2) in a frame of other
bytes, and everything in it except the symbol must not depend on a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_SYMBOL, _CHARGED = 2, 4  # askance.v1.Report
_VARINT, _BYTES = 0, 2
_MAX_VARINT = 10
_FIXED = {1: 8, 5: 4}


@dataclass(frozen=True, slots=True)
class Message:
    """A report's bytes, taken apart.

    `symbol` is the content of the first symbol field, and empty if there is none; `frame` what
    stands before and after it. The symbol's tag and length are in neither (its length is looked at
    with the symbol), but for odd ones, not written in their shortest form: those are frame.
    """

    symbol: bytes
    frame: tuple[bytes, bytes]

    @property
    def charged(self) -> int | None:
        """The nano-nats that the frame says were charged; None if it cannot be read."""
        charged = 0  # absent: a proto3 zero
        for part in self.frame:
            try:
                for number, kind, start, stop in _fields(part):
                    if (number, kind) == (_CHARGED, _VARINT):
                        charged = _varint(part[start:stop], 0)[0]
            except (IndexError, ValueError):
                return None
        return charged

    @classmethod
    def of(cls, data: bytes) -> Message:
        """Take a message apart; one that has no symbol, or is none, is all frame."""
        try:
            for number, kind, start, stop in _fields(data):
                if (number, kind) == (_SYMBOL, _BYTES):
                    head = _head(data, start, stop - start)
                    return cls(data[start:stop], (data[:head], data[stop:]))
        except (IndexError, ValueError):
            pass
        return cls(b"", (data, b""))


def messages(reports: Iterable[bytes]) -> list[Message]:
    """Parse all frames."""
    return [Message.of(report) for report in reports]


def _head(data: bytes, start: int, length: int) -> int:
    """Find the end of the frame before a symbol: before its tag and length, unless they are odd."""
    shortest = bytes([_SYMBOL << 3 | _BYTES]) + _shortest(length)
    place = start - len(shortest)
    return place if place >= 0 and data[place:start] == shortest else start


def _fields(data: bytes) -> Iterable[tuple[int, int, int, int]]:
    """Return number, wire type, and where the content starts and stops, field by field."""
    place = 0
    while place < len(data):
        tag, start = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            stop = _varint(data, start)[1]
        elif kind == _BYTES:
            length, start = _varint(data, start)
            stop = start + length
        elif kind in _FIXED:
            stop = start + _FIXED[kind]
        else:
            raise ValueError("a wire type that there is none of")
        if stop > len(data):
            raise ValueError("a field longer than its message")
        yield number, kind, start, stop
        place = stop


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT):
        byte = data[place + shift]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, place + shift + 1
    raise ValueError("a number that does not end")


def _shortest(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
