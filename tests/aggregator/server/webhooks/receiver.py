"""Receiver of webhooks on loopback: it keeps what it is sent, and answers as it is told."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["WebhookHandler"], None]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)


class WebhookHandler(BaseHTTPRequestHandler):
    server: WebhookServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.path, headers, body)
        self.server.received.append(received)
        self.server.answer(self)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class WebhookServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer, certificate: tuple[str, str] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), WebhookHandler)
        self.answer = answer
        self.received: list[Received] = []
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def status(number: int, **headers: str) -> Answer:
    """An answer of a status, without a body."""

    def answer(handler: WebhookHandler) -> None:
        handler.send_response(number)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


@contextmanager
def receiving(
    answer: Answer, certificate: tuple[str, str] | None = None
) -> Iterator[WebhookServer]:
    with WebhookServer(answer, certificate) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
