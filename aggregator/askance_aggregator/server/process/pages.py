"""Pages over HTTP for an operator's tools: metrics, and the answers to probes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from askance_client.addresses import Address

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LIVE, READY = "/live", "/ready"


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

    Raises:
      OSError: the address cannot be listened on.
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
    """Server with a thread per request; the end of the process waits for none."""

    daemon_threads = True

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
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: stderr holds JSON lines only."""
