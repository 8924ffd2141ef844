"""HTTP on loopback: requests are bounded in size, time and number before the site sees them.

One request per connection. A request must be whole within `REQUEST_S`, and its answer read within
`ANSWER_S`. At most `MAX_AT_ONCE` connections are open: one more takes the place of the one that has
waited longest for its request, so that requests that are begun and never ended hold up no other.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import parse_qs

from askance_client.errors import StoreError

LOOPBACK = "127.0.0.1"
MAX_AT_ONCE = 32
MAX_FORM_BYTES = 4096  # two texts of 200 characters, percent-encoded, and some digests
MAX_TARGET = 2048  # characters of an address
MAX_FIELDS = 16
REQUEST_S = 10
ANSWER_S = 30

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Sent with every answer, refusals included."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Request that is whole and within its bounds.

    Args:
      path: without the query, not decoded.
      query: the last value of each name.
      form: likewise, of a POST.
      origin: the header; None if there is none.
      cookies: the header, or empty.
    """

    method: str
    path: str
    host: str
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    origin: str | None = None
    cookies: str = ""


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """Answer to a request.

    Args:
      body: UTF-8.
      headers: besides `HEADERS`.
    """

    body: bytes
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


class BoundedThreads(ThreadingHTTPServer):
    """Server with a thread per connection, at most `request_queue_size`.

    One more connection takes the place of the one that has waited longest for its request, which
    must be whole within `request_s`. A handler calls `has_asked` when it is. Handlers'
    threads may still run when the process ends.
    """

    request_s: int

    def __init__(self, *arguments: Any) -> None:
        self._free = BoundedSemaphore(self.request_queue_size)
        self._waiting: dict[socket.socket, int] = {}  # since when, in ns; the longest one first
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or close it if all threads have requests to answer."""
        if not self._free.acquire(blocking=False):
            self._hang_up(list(self._waiting)[:1])
            if not self._free.acquire(timeout=1):  # the thread of the other one ends
                return super().shutdown_request(request)
        self._waiting[request] = time.monotonic_ns()
        return super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection at the end of its thread."""
        self.has_asked(request)
        self._free.release()
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Hang up the connections whose time is over; called twice per second."""
        late = time.monotonic_ns() - self.request_s * 10**9
        self._hang_up([one for one, since in list(self._waiting.items()) if since < late])

    def has_asked(self, connection: socket.socket) -> None:
        """Note that a connection's request is whole; it no longer gives way."""
        self._waiting.pop(connection, None)

    def _hang_up(self, connections: Iterable[socket.socket]) -> None:
        for connection in connections:
            self.has_asked(connection)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class OwnerServer(BoundedThreads):
    """Server of the page, bound and not serving yet.

    Args:
      port: of 127.0.0.1; 0 for a free one.
      request_s: the time limit of a request, in seconds.

    Raises:
      StoreError: the port cannot be had.
    """

    request_queue_size = MAX_AT_ONCE
    respond: Callable[[PageRequest], PageAnswer]
    refuse: Callable[[int], PageAnswer]

    def __init__(self, port: int, request_s: int = REQUEST_S) -> None:
        self.request_s = request_s
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            raise StoreError(f"--port: expected a free port, got {port} ({error})") from None

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the header `Host` that a browser on this machine sends."""
        return frozenset({f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}"})

    def server_bind(self) -> None:
        """Bind without asking a name server for the host's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Name a failure of the site on stderr; a connection that broke is none."""
        if not isinstance(sys.exception(), OSError):
            print(f"askance: page failed: {type(sys.exception()).__name__}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    server: OwnerServer
    timeout = ANSWER_S
    server_version, sys_version = "askance", ""

    def do_GET(self) -> None:
        self._respond({})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or self.headers.get("Transfer-Encoding"):
            return self.send_error(411)
        if len(length) > 9 or int(length) > MAX_FORM_BYTES:
            return self.send_error(413)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return None  # it went away, or was too slow
        return self._respond(_fields(body.decode("ascii", "replace")))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self._send(self.server.refuse(code))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: an address has the login link in it."""

    def _respond(self, form: Mapping[str, str] | None) -> None:
        self.server.has_asked(self.connection)
        path, _, asked = self.path.partition("?")
        query, hosts = _fields(asked), self.headers.get_all("Host", [])
        if len(self.path) > MAX_TARGET or query is None or form is None or len(hosts) != 1:
            return self.send_error(400)
        cookies, origin = self.headers.get("Cookie", ""), self.headers.get("Origin")
        request = PageRequest(self.command, path, hosts[0], query, form, origin, cookies)
        return self._send(self.server.respond(request))

    def _send(self, answer: PageAnswer) -> None:
        self.close_connection = True
        self.send_response(answer.status)
        length = {"Content-Type": answer.kind, "Content-Length": str(len(answer.body))}
        for name, value in {**HEADERS, **answer.headers, **length}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)


def _fields(text: str) -> dict[str, str] | None:
    """Return the last value of each name; None if there are too many."""
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        return None
    return {name: values[-1] for name, values in found.items()}
