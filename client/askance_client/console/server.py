"""HTTP on loopback: requests are bounded in size, time and number before the site sees them.

One request per connection. At most `MAX_AT_ONCE` connections are open; any other is closed at
once. A request must be whole within `REQUEST_S`, and its answer read within `ANSWER_S`.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore, Timer
from typing import Any
from urllib.parse import parse_qs

from askance_client.errors import StoreError

LOOPBACK = "127.0.0.1"
MAX_AT_ONCE = 16
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
      method: "GET" or "POST".
      path: without the query, not decoded.
      host: the header.
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
      status: of HTTP.
      kind: the content type.
      headers: besides `HEADERS`.
    """

    body: bytes
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


class OwnerServer(ThreadingHTTPServer):
    """Server of the page, bound and not serving yet.

    Args:
      port: of 127.0.0.1; 0 for a free one.
      request_s: the time limit of a request, in seconds.

    Raises:
      StoreError: the port cannot be had.
    """

    daemon_threads = True
    request_queue_size = MAX_AT_ONCE
    respond: Callable[[PageRequest], PageAnswer]
    refuse: Callable[[int], PageAnswer]

    def __init__(self, port: int, request_s: int = REQUEST_S) -> None:
        self.request_s = request_s
        self._free = BoundedSemaphore(MAX_AT_ONCE)
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

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or close it if there are enough."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Name a failure of the site on stderr; a connection that broke is none."""
        if not isinstance(sys.exception(), OSError):
            print(f"askance: page failed: {type(sys.exception()).__name__}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    server: OwnerServer
    timeout = ANSWER_S
    server_version, sys_version = "askance", ""

    def handle(self) -> None:
        self._deadline = Timer(self.server.request_s, self._hang_up)
        self._deadline.daemon = True
        self._deadline.start()
        try:
            super().handle()
        finally:
            self._deadline.cancel()

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
        self._deadline.cancel()
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

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _fields(text: str) -> dict[str, str] | None:
    """Return the last value of each name; None if there are too many."""
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        return None
    return {name: values[-1] for name, values in found.items()}
