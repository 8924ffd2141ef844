"""Calls of devices in the unary form of the Connect protocol, for pages and programs without gRPC.

Source: https://connectrpc.com/docs/protocol#unary-request; deviations: no GET, no compression, no
JSON messages, and a body with a length. docs/reference/wire.md has what callers need.

Invariants, in the order in which a request meets them:

1. An origin that the operator does not list gets no permission, and none of its calls is passed on.
2. A request that is none of these calls is refused by its head alone.
3. Calls of one kind from an address that were refused too often lately are not looked up
   (`RefusedAddresses`), but for those with credentials that were known lately
   (`KnownCredentials`): a device answers for no neighbour.
4. The aggregator is given credentials, which the head has, of bounded size and encoded anew. It
   says whether it knows the caller.
5. Only then the body is read, of the stated size, within a time of its own, and passed on.

An error is JSON with a code of Connect's and HTTP's status for it; a page of a listed origin may
read each answer.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus

from askance_aggregator.server.outer.addresses import Network, group_of, read_ip
from askance_aggregator.server.outer.http_calls import (
    MAX_BODY_BYTES,
    STATUSES,
    HttpHead,
    HttpRefusal,
    Metadata,
    answer,
    body_bytes,
    read_body,
    read_metadata,
    refuse,
)
from askance_aggregator.server.outer.pass_through import CALL_S, CHECK_IN, ENROL, PassThrough

MAX_CHECK_IN_BYTES = 128 * 1024  # as where devices show certificates
BODY_S = 5.0  # as long as the aggregator waits for a message
_KIND = "application/proto"
_VERSION, _TIMEOUT = "connect-protocol-version", "connect-timeout-ms"
_TIMEOUT_DIGITS = 10
_RETRY = "askance-retry-after-ms"
_TRAILER = "trailer-"  # of names of trailing metadata
_COMMON = {"askance-protocol": 16, "askance-software": 48}
_SIZES: Mapping[str, Mapping[str, int]] = {
    CHECK_IN: {**_COMMON, "askance-device-bin": 64, "askance-token-bin": 64},
    ENROL: {**_COMMON, "askance-enrolment-bin": 1024},
}
"""Headers of each call that are passed on, with the most bytes of their values."""
_BODIES = {CHECK_IN: MAX_CHECK_IN_BYTES, ENROL: MAX_BODY_BYTES}
_ALLOWED = sorted(
    {"content-type", _VERSION, _TIMEOUT} | {name for sizes in _SIZES.values() for name in sizes}
)
_PREFLIGHT_S = 7_200  # for which a browser may remember a permission; none remembers it for longer
_REFUSALS, _WINDOW_S = 30, 60.0
_ADDRESSES = 4_096
_KNOWN = 1 << 16  # credentials, some 130 bytes each
_UNKNOWN_CALLERS = ("UNAUTHENTICATED", "PERMISSION_DENIED")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; `whole` says that the request's body was read."""

    data: bytes
    whole: bool = True


class KnownCredentials:
    """Credentials that the aggregator has known lately, as digests under a key of this process.

    The latest are kept, and none that was refused since. They decide which calls are looked up, not
    who is let in.

    Args:
      key: 16 random bytes or more; a digest says nothing without them.
      most: credentials that are kept.
    """

    def __init__(self, key: bytes, most: int = _KNOWN) -> None:
        self._key = key
        self._most = most
        self._digests: dict[bytes, None] = {}  # the latest last

    def digest(self, path: str, metadata: Metadata) -> bytes:
        """Return the digest of a call's credentials; what else the head says does not count."""
        parts = [path.encode()]
        for name, value in sorted(metadata):
            if name not in _COMMON:
                data = value if isinstance(value, bytes) else value.encode()
                data = data.strip() if path == ENROL else data  # a token is read without spaces
                parts += [name.encode(), len(data).to_bytes(4), data]
        return blake2b(b"".join(parts), key=self._key, digest_size=16).digest()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def __len__(self) -> int:
        return len(self._digests)

    def note(self, digest: bytes) -> None:
        """Keep credentials that the aggregator knows."""
        self._digests.pop(digest, None)
        self._digests[digest] = None
        if len(self._digests) > self._most:
            del self._digests[next(iter(self._digests))]

    def forget(self, digest: bytes) -> None:
        """Drop credentials that the aggregator has refused."""
        self._digests.pop(digest, None)


class RefusedAddresses:
    """Addresses whose callers were refused lately, per kind of call.

    It holds some thousands at most; past that the oldest are forgotten.

    Args:
      clock: monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refusals: OrderedDict[str, tuple[float, int]] = OrderedDict()  # since when, how many

    def note(self, group: str) -> None:
        """Count a refusal; an empty name stands for addresses without a limit."""
        if not group:
            return
        now_s = self._clock()
        since_s, number = self._refusals.get(group, (now_s, 0))
        if now_s - since_s >= _WINDOW_S:
            since_s, number = now_s, 0
        self._refusals[group] = since_s, number + 1
        if len(self._refusals) > _ADDRESSES:
            self._refusals.popitem(last=False)

    def left_s(self, group: str) -> float:
        """Return the seconds for which an address is not looked up; 0: it is."""
        since_s, number = self._refusals.get(group, (0.0, 0))
        return max(0.0, since_s + _WINDOW_S - self._clock()) if number >= _REFUSALS else 0.0


class ConnectCalls:
    """Answers calls of devices by the Connect protocol, passed on to the aggregator.

    Pages of `origins` may call; addresses of `trusted` proxies have no limit.
    """

    def __init__(
        self,
        passing: PassThrough,
        origins: Collection[str],
        trusted: tuple[Network, ...],
        refused: RefusedAddresses,
        known: KnownCredentials,
        body_s: float = BODY_S,
    ) -> None:
        self._passing = passing
        self._origins = origins
        self._trusted = trusted
        self._refused = refused
        self._known = known
        self._body_s = body_s

    async def answer(self, head: HttpHead, reader: asyncio.StreamReader, caller: str) -> Reply:
        """Answer a request."""
        origin = "".join(head.values("origin")[:1])
        try:
            if origin and origin not in self._origins:
                raise refuse(
                    HTTPStatus.FORBIDDEN,
                    "expected a page of an origin that [connect] lists",
                    "PERMISSION_DENIED",
                )
            shared = _shared_with(origin)
            if head.method == "OPTIONS":
                return Reply(answer(HTTPStatus.NO_CONTENT, b"", [*shared, *_permission()]))
            return await self._call(head, reader, caller, shared)
        except HttpRefusal as refusal:
            more = _shared_with(origin) if origin in self._origins else []
            if refusal.status is HTTPStatus.METHOD_NOT_ALLOWED:
                more.append(("Allow", "OPTIONS, POST"))
            if refusal.status is HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
                more.append(("Accept-Post", _KIND))
            return Reply(_error(refusal.status, refusal.code, str(refusal), more), whole=False)

    async def _call(
        self,
        head: HttpHead,
        reader: asyncio.StreamReader,
        caller: str,
        shared: list[tuple[str, str]],
    ) -> Reply:
        within_s = _checked(head)
        size = body_bytes(head, _BODIES[head.path])
        metadata = _credentials(head)
        group, digest = self._group(caller, head.path), self._known.digest(head.path, metadata)
        is_trusted = digest in self._known
        if not is_trusted and (left_s := self._refused.left_s(group)):
            retry = (_TRAILER + _RETRY, str(round(1000 * left_s) + 1))
            text = "calls: expected fewer that are refused from this address, or known credentials"
            status = HTTPStatus.TOO_MANY_REQUESTS
            error = _error(status, "RESOURCE_EXHAUSTED", text, [*shared, retry])
            return Reply(error, whole=False)
        known = whole = False

        async def body() -> bytes:
            nonlocal known, whole
            known = True
            self._known.note(digest)
            async with asyncio.timeout(self._body_s):
                data = await read_body(reader, size)
            whole = True
            return data

        try:
            code, details, data, trailing = await self._passing.call_once_known(
                head.path, metadata, caller, body, within_s
            )
        except TimeoutError:
            text = f"request: expected its body within {self._body_s:g} s"
            code, details, data, trailing = "DEADLINE_EXCEEDED", text, b"", ()
        if code == "OK":
            return Reply(answer(HTTPStatus.OK, data, shared, _KIND))
        if code in _UNKNOWN_CALLERS:
            self._known.forget(digest)
            self._refused.note(group)
        elif code == "DEADLINE_EXCEEDED" and not known and not (is_trusted and within_s >= BODY_S):
            # A caller that waits for less than the look-up takes is not told, and is counted: it
            # may have been revoked since it was known.
            self._known.forget(digest)
            self._refused.note(group)
        shared += [(_TRAILER + key, str(value)) for key, value in trailing if key == _RETRY]
        status = STATUSES.get(code, HTTPStatus.INTERNAL_SERVER_ERROR)
        return Reply(_error(status, code, details, shared), whole)

    def _group(self, caller: str, path: str) -> str:
        """Return the name of an address and a kind of call; empty: without a limit."""
        found = read_ip(caller)
        group = "" if found is None else group_of(found, self._trusted)
        return group and f"{group} {path}"


def is_connect(head: HttpHead) -> bool:
    """Return whether a request is one of Connect's, and not a device's that has gRPC as well."""
    if head.path == CHECK_IN:
        return True
    says = head.values(_VERSION) or head.values("origin") or _kind_of(head) == _KIND
    return head.path == ENROL and (head.method == "OPTIONS" or bool(says))


def _kind_of(head: HttpHead) -> str:
    return "".join(head.values("content-type")).partition(";")[0].strip().lower()


def _checked(head: HttpHead) -> float:
    """Return the seconds that a caller waits, or raise HttpRefusal for a head that is none."""
    if head.method != "POST":
        raise refuse(HTTPStatus.METHOD_NOT_ALLOWED, "expected POST", "UNIMPLEMENTED")
    if _kind_of(head) != _KIND:
        raise refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected Content-Type: {_KIND}")
    if head.values(_VERSION) != ("1",):
        raise refuse(HTTPStatus.BAD_REQUEST, "expected Connect-Protocol-Version: 1")
    if any(value.lower() != "identity" for value in head.values("content-encoding")):
        raise refuse(
            STATUSES["UNIMPLEMENTED"], "expected a body that is not compressed", "UNIMPLEMENTED"
        )
    waits = head.values(_TIMEOUT)
    if not waits:
        return CALL_S
    (text, *others) = waits
    if others or not text.isascii() or not text.isdigit() or len(text) > _TIMEOUT_DIGITS:
        raise refuse(
            HTTPStatus.BAD_REQUEST, "expected one Connect-Timeout-Ms of 1 to 10 decimal digits"
        )
    return min(CALL_S, max(int(text), 1) / 1000)  # gRPC takes 0 for no limit


def _credentials(head: HttpHead) -> Metadata:
    """Return the metadata that is passed on, or raise HttpRefusal: too long, or no value."""
    sizes = _SIZES[head.path]
    metadata = read_metadata((name, value) for name, value in head.headers if name in sizes)
    for name, value in metadata:
        if len(value) > sizes[name]:
            raise refuse(
                HTTPStatus.BAD_REQUEST,
                f"expected at most {sizes[name]} bytes in {name}, got {len(value)}",
            )
    return metadata


def _shared_with(origin: str) -> list[tuple[str, str]]:
    """Return the headers that let a page read an answer; none for a program."""
    if not origin:
        return []
    return [
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", _TRAILER + _RETRY),
        ("Vary", "Origin"),
    ]


def _permission() -> list[tuple[str, str]]:
    return [
        ("Access-Control-Allow-Methods", "POST"),
        ("Access-Control-Allow-Headers", ", ".join(_ALLOWED)),
        ("Access-Control-Max-Age", str(_PREFLIGHT_S)),
    ]


def _error(status: HTTPStatus, code: str, details: str, more: list[tuple[str, str]]) -> bytes:
    """Encode an error; gRPC's names of codes are Connect's in capitals, but for one."""
    name = "canceled" if code == "CANCELLED" else code.lower()
    text = json.dumps({"code": name, "message": " ".join(details.split())})
    return answer(status, text.encode(), more, "application/json")
