"""Form of the bad vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Cases = list[dict[str, Any]]
Change = Callable[[Any], object]

REMOTE, QUERY, PARAMETER = "RemoteProtocolError", "InvalidQuery", "InvalidParameter"
TOO_LARGE = "ExchangeTooLarge"
NO_PROTOBUF = "ffffff"
FUTURE = "e83e01"  # field 1005, a varint: unknown to every message


def case(name: str, data: bytes | str, error: str, says: str) -> dict[str, Any]:
    text = data if isinstance(data, str) else data.hex()
    return {"name": name, "hex": text, "error": error, "says": says}


def long_case(name: str, parts: list[list[Any]], error: str, says: str) -> dict[str, Any]:
    return {"name": name, "parts": parts, "error": error, "says": says}


def changed(kind: type[Any], data: bytes, change: Change) -> bytes:
    message = kind.FromString(data)
    change(message)
    serialised: bytes = message.SerializeToString(deterministic=True)
    return serialised


def everywhere(kind: str) -> Cases:
    """Yield cases that no message may contain."""
    return [
        case(
            "no protobuf",
            NO_PROTOBUF,
            REMOTE,
            f"{kind}: expected a serialised message, found other bytes",
        ),
        case(
            "an unknown field",
            FUTURE,
            REMOTE,
            f"{kind}: expected known fields only, found others",
        ),
    ]


def oversize(kind: str, limit: int, error: str = REMOTE) -> dict[str, Any]:
    message = f"{kind}: expected at most {limit} bytes, found {limit + 1}"
    return long_case("a byte too long", [["00", limit + 1]], error, message)
