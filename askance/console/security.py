"""Bounds of requests, and headers of answers, around the whole application.

A page that another site resolves to this address (DNS rebinding) has the other site's Host, and is
refused. The policy of contents allows our own files and nothing that stands in a page: no script
and no style within HTML, and no address of another host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_FORM_BYTES = 256 * 1024  # a form with a study's TOML; a page needs far less
BODY_S = 10.0  # for a part of a form to arrive
WRITE_S = 20.0  # for a browser to take a part of an answer

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, a form of ours would have no origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class GuardedApplication:
    """Application that takes bounded requests for its own hosts only.

    Args:
      hosts: values that the header Host may have, lower case.
    """

    def __init__(self, application: ASGIApp, hosts: Collection[str]) -> None:
        self._application = application
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        bounded = _Exchange(receive, send)
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if scope["type"] != "http" or len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            await _refusal(421, "host: expected the console's own address")(
                scope, receive, bounded.send
            )
            return
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_FORM_BYTES:
            await _refusal(413, _too_large())(scope, receive, bounded.send)
            return
        await self._application(scope, bounded.receive, bounded.send)


class _Exchange:
    """A request and its answer, each part of which has a size and a time."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._body_bytes = 0
        self._has_arrived = False

    async def receive(self) -> Message:
        """Return the next part of a request; later, the browser's going away, without a limit.

        Raises:
          HTTPException: the request is too large or too slow.
        """
        if self._has_arrived:
            return await self._receive()
        try:
            async with asyncio.timeout(BODY_S):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "form: expected it within ten seconds", _CLOSE) from None
        self._body_bytes += len(message.get("body", b""))
        self._has_arrived = not message.get("more_body", False)
        if self._body_bytes > MAX_FORM_BYTES:
            raise HTTPException(413, _too_large(), _CLOSE)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        async with asyncio.timeout(WRITE_S):
            await self._send(message)


_CLOSE = {"connection": "close"}


def _refusal(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(text, status, headers=_CLOSE)


def _too_large() -> str:
    return f"form: expected at most {MAX_FORM_BYTES} bytes, got more"
