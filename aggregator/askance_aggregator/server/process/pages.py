"""Pages over HTTP for an operator's tools: metrics, and the answers to probes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from askance_client.addresses import Address

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LIVE, READY = "/live", "/ready"
MAX_AT_ONCE = 64  # connections: those of a few collectors and probes
_REQUEST_S = 10  # for a request to be whole
_GIVE_WAY_S = 1.0  # for a thread to end, if all have one
_ANSWER_S = 30  # for each write of an answer


def pages_server(
    address: Address, registry: CollectorRegistry, is_serving: Callable[[], bool]
) -> WSGIServer:
    """Make a server that listens, and answers once its `serve_forever` runs.

    `/live` answers 200 while the process runs; `/ready` answers 200 while the health service says
    SERVING, and 503 otherwise; every other path is the page of metrics.

    Args:
      address: where it listens; port 0 takes a free one.
      registry: the metrics.
      is_serving: whether the health service says SERVING; called from the server's threads.
    """
    ((family, *_), *_) = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    kind = _ServerV6 if family == socket.AF_INET6 else _Server
    server = kind((address.host, address.port), _SilentHandler)
    server.set_app(_with_probes(make_wsgi_app(registry), is_serving))
    return server


def _with_probes(metrics: WSGIApplication, is_serving: Callable[[], bool]) -> WSGIApplication:
    def application(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if path == LIVE:
            return _answer(HTTPStatus.OK, b"live\n", start)
        if path == READY and is_serving():
            return _answer(HTTPStatus.OK, b"serving\n", start)
        if path == READY:
            return _answer(HTTPStatus.SERVICE_UNAVAILABLE, b"not serving\n", start)
        return metrics(environment, start)

    return application


def _answer(status: HTTPStatus, text: bytes, start: StartResponse) -> Iterable[bytes]:
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
    start(f"{status.value} {status.phrase}", headers)
    return [text]


class _Server(ThreadingMixIn, WSGIServer):
    """Server with a thread per request; the end of the process waits for none.

    If there are too many connections, the one that has waited longest for its request gives way to
    a new one: requests that are begun and never ended hold up no other.
    """

    daemon_threads = True
    request_queue_size = MAX_AT_ONCE

    def __init__(self, *arguments: Any) -> None:
        self._free = BoundedSemaphore(MAX_AT_ONCE)
        self._waiting: dict[socket.socket, float] = {}  # since when; the longest one first
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or close it if all threads have requests to answer."""
        if not self._free.acquire(blocking=False):
            self._hang_up(list(self._waiting)[:1])
            if not self._free.acquire(timeout=_GIVE_WAY_S):
                super().shutdown_request(request)
                return
        self._waiting[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection at the end of its thread."""
        self.has_asked(request)
        self._free.release()
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Hang up the connections whose time is over; called twice per second."""
        late_s = time.monotonic() - _REQUEST_S
        self._hang_up([one for one, since_s in list(self._waiting.items()) if since_s < late_s])

    def has_asked(self, connection: socket.socket) -> None:
        """Note that a connection's request is whole; it no longer gives way."""
        self._waiting.pop(connection, None)

    def _hang_up(self, connections: Iterable[socket.socket]) -> None:
        for connection in connections:
            self.has_asked(connection)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        """Bind without the look-up of the host's full name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _SilentHandler(WSGIRequestHandler):
    server: _Server
    timeout = _ANSWER_S

    def parse_request(self) -> bool:
        """Read the head of a request, which is all of it."""
        whole = super().parse_request()
        self.server.has_asked(self.connection)
        return whole

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: stderr holds JSON lines only."""
