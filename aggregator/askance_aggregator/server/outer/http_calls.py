"""Calls of devices over HTTP/1.1: one POST per connection, with one message each way.

The head has the call's metadata: headers that begin with "askance-"; values of those that end in
"-bin" are in base64, padded or not. The answer is the message (200), or another status whose body
is one line: gRPC's name of the status, a colon and the reason. What follows the body of a request
is not read: the connection is closed after one answer.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from askance_client.errors import AskanceError

MAX_HEAD_BYTES = 16 * 1024
MAX_HEADERS = 64
MAX_BODY_BYTES = 64 * 1024
PREFIX = "askance-"
_BINARY = "-bin"
_END = b"\r\n\r\n"
_NAME = re.compile(rb"[A-Za-z0-9_.-]+")  # what HTTP and gRPC both take

Metadata = tuple[tuple[str, str | bytes], ...]

STATUSES = {
    "INVALID_ARGUMENT": HTTPStatus.BAD_REQUEST,
    "FAILED_PRECONDITION": HTTPStatus.BAD_REQUEST,
    "OUT_OF_RANGE": HTTPStatus.BAD_REQUEST,
    "UNAUTHENTICATED": HTTPStatus.UNAUTHORIZED,
    "PERMISSION_DENIED": HTTPStatus.FORBIDDEN,
    "NOT_FOUND": HTTPStatus.NOT_FOUND,
    "ALREADY_EXISTS": HTTPStatus.CONFLICT,
    "ABORTED": HTTPStatus.CONFLICT,
    "RESOURCE_EXHAUSTED": HTTPStatus.TOO_MANY_REQUESTS,
    "UNIMPLEMENTED": HTTPStatus.NOT_IMPLEMENTED,
    "UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
    "DEADLINE_EXCEEDED": HTTPStatus.GATEWAY_TIMEOUT,
}
"""HTTP's status for gRPC's; any other is 500."""


class HttpRefusal(AskanceError):
    """A request that is not served."""

    def __init__(self, status: HTTPStatus, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class HttpHead:
    """Head of a request: its headers by names in lower case, in their order."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]

    @property
    def forwarded(self) -> tuple[str, ...]:
        """The values of x-forwarded-for."""
        return self.values("x-forwarded-for")

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of a header."""
        return tuple(value for found, value in self.headers if found == name)


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A call and its message."""

    path: str
    metadata: Metadata
    body: bytes


def refuse(status: HTTPStatus, message: str, code: str = "INVALID_ARGUMENT") -> HttpRefusal:
    """Return a refusal."""
    return HttpRefusal(status, code, f"request: {message}")


async def read_head(reader: asyncio.StreamReader) -> HttpHead:
    """Read the head of a request."""
    try:
        head = await reader.readuntil(_END)
    except asyncio.LimitOverrunError:
        raise _too_large_head() from None
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("request: its caller has gone") from None
    if len(head) > MAX_HEAD_BYTES:
        raise _too_large_head()
    return _parsed(head[: -len(_END)])


async def read_http_call(
    head: HttpHead, reader: asyncio.StreamReader, paths: Iterable[str]
) -> HttpCall:
    """Read the rest of a request."""
    if head.path not in paths:
        raise refuse(
            HTTPStatus.NOT_FOUND, "expected a call of devices that is served", "UNIMPLEMENTED"
        )
    if head.method != "POST":
        raise refuse(HTTPStatus.METHOD_NOT_ALLOWED, "expected POST")
    body = await read_body(reader, body_bytes(head, MAX_BODY_BYTES))
    return HttpCall(head.path, read_metadata(head.headers), body)


async def read_body(reader: asyncio.StreamReader, size: int) -> bytes:
    """Read a body of a size that the head states, or raise ConnectionError."""
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("request: its caller has gone") from None


def answer(
    status: HTTPStatus, body: bytes, more: Iterable[tuple[str, str]] = (), kind: str = ""
) -> bytes:
    """Encode an answer, after which the connection is closed."""
    usual = "application/x-protobuf" if status is HTTPStatus.OK else "text/plain; charset=utf-8"
    content = (f"Content-Type: {kind or usual}", f"Content-Length: {len(body)}")
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *(() if status is HTTPStatus.NO_CONTENT else content),
        "Connection: close",
        *(f"{name}: {value}" for name, value in more),
    ]
    return "\r\n".join(lines).encode("latin-1") + _END + body


def refusal(
    status: HTTPStatus, code: str, details: str, more: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Encode the answer to a call that is refused."""
    line = " ".join(f"{code}: {details}".split())
    return answer(status, line.encode(), more)


def _too_large_head() -> HttpRefusal:
    return refuse(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        f"expected a head of at most {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} fields, got more",
    )


def _parsed(head: bytes) -> HttpHead:
    first, *fields = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or any(
        ord("\n") == byte or byte == 0 for byte in head.replace(b"\r\n", b"")
    ):
        raise refuse(HTTPStatus.BAD_REQUEST, "expected the head of an HTTP/1.1 request")
    method, target, version = words
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise refuse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "expected HTTP/1.1")
    if len(fields) > MAX_HEADERS:
        raise _too_large_head()
    headers = []
    for field in fields:
        name, colon, value = field.partition(b":")
        if not colon or not _NAME.fullmatch(name):
            raise refuse(HTTPStatus.BAD_REQUEST, "expected NAME: VALUE in each line of the head")
        headers.append((name.decode("latin-1").lower(), value.strip().decode("latin-1")))
    return HttpHead(method.decode("latin-1"), target.decode("latin-1"), tuple(headers))


def body_bytes(head: HttpHead, most: int) -> int:
    """Return the size that a head states, or raise HttpRefusal: none, several, or above `most`."""
    lengths = head.values("content-length")
    if head.values("transfer-encoding") or not lengths:
        raise refuse(HTTPStatus.LENGTH_REQUIRED, "expected a body with a Content-Length")
    (length, *others) = lengths
    if others or not length.isascii() or not length.isdigit() or len(length) > 12:
        raise refuse(HTTPStatus.BAD_REQUEST, "expected one Content-Length in decimal digits")
    if int(length) > most:
        raise refuse(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"expected a body of at most {most} bytes, got {length}",
            "RESOURCE_EXHAUSTED",
        )
    return int(length)


def read_metadata(headers: Iterable[tuple[str, str]]) -> Metadata:
    """Return the metadata of a call, or raise HttpRefusal: a header twice, or a bad value."""
    found = [(name, value) for name, value in headers if name.startswith(PREFIX)]
    if len({name for name, _ in found}) < len(found):
        raise refuse(HTTPStatus.BAD_REQUEST, "expected each header of the call once")
    return tuple((name, _value(name, value)) for name, value in found)


def _value(name: str, value: str) -> str | bytes:
    if not name.endswith(_BINARY):
        if not value.isascii() or not value.isprintable():
            raise refuse(HTTPStatus.BAD_REQUEST, "expected printable ASCII in each header")
        return value
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise refuse(HTTPStatus.BAD_REQUEST, f"expected base64 in {PREFIX}*{_BINARY}") from None
