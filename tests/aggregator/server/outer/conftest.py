"""The outer process before an aggregator that only notes what reaches it."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.outer.settings import OuterSettings
from askance_aggregator.server.outer.supervisor import InnerSocket, OuterProcess, listen_at
from askance_aggregator.server.process.certificates import Certified, self_made
from askance_client.addresses import Address

PATIENCE_S = 60
LARGE_BYTES = 120_000_000  # of the answer to Export


class Busy:
    """A wait in each call by Connect, once it `begins` and until it ends."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()
        self.begin, self.end, self.wait = self._free.clear, self._free.set, self._free.wait


@dataclass
class Inner:
    """An aggregator's Unix socket: it notes each call, and answers with the message."""

    path: Path
    calls: list[tuple[str, dict[str, Any], bytes]] = field(default_factory=list)
    looked_up: list[dict[str, Any]] = field(default_factory=list)  # credentials by Connect
    busy: Busy = field(default_factory=lambda: Busy())  # before an answer
    searching: Busy = field(default_factory=lambda: Busy())  # before a caller is known
    refusal: tuple[grpc.StatusCode, str] | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)  # it says no word of its health

    def service(self, details: Any) -> Any:
        """Return the handler of any method."""
        method = str(details.method)
        if method == "/grpc.health.v1.Health/Watch":
            return grpc.unary_stream_rpc_method_handler(self._health)
        if method.endswith("/Participate"):
            return grpc.stream_stream_rpc_method_handler(self._participate)
        if "x-connect" in dict(details.invocation_metadata):
            return grpc.stream_stream_rpc_method_handler(partial(self._by_connect, method))
        if method.endswith("/Watch"):
            return grpc.unary_stream_rpc_method_handler(self._watch)

        def answer(data: bytes, context: Any) -> bytes:
            self.calls.append((method, dict(context.invocation_metadata()), data))
            if self.refusal is not None:
                context.set_trailing_metadata((("askance-retry-after-ms", "700"),))
                context.abort(*self.refusal)
            return bytes(LARGE_BYTES) if method.endswith("/Export") else b"answer to " + data

        return grpc.unary_unary_rpc_method_handler(answer)

    def _by_connect(self, method: str, messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Know the caller, or refuse it; then read its message."""
        metadata = dict(context.invocation_metadata())
        self.looked_up.append(metadata)
        if self.refusal is not None:
            context.set_trailing_metadata((("askance-retry-after-ms", "700"),))
            context.abort(*self.refusal)
        self.searching.wait()
        context.send_initial_metadata((("askance-protocol", "1"),))
        for data in messages:
            self.calls.append((method, metadata, data))
            self.busy.wait()
            yield b"answer to " + data

    def _health(self, _: bytes, context: Any) -> Iterator[bytes]:
        if not self.gone.is_set():
            yield health_pb2.HealthCheckResponse(status=1).SerializeToString()
        while context.is_active() and not self.gone.wait(0.05):
            pass

    def _participate(self, messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.send_initial_metadata((("askance-protocol", "1"),))
        for data in messages:
            yield b"answer to " + data

    def _watch(self, data: bytes, context: Any) -> Iterator[bytes]:
        context.add_callback(self.cancelled.set)
        for number in range(3):
            yield b"%d %b" % (number, data)
        self.cancelled.wait()


@dataclass
class Outer:
    """An outer process, and who calls it."""

    process: OuterProcess
    inner: Inner
    port: int
    authority: bytes

    def tls(self, *protocols: str) -> ssl.SSLContext:
        """A caller's half of TLS that trusts the server."""
        context = ssl.create_default_context(cadata=self.authority.decode())
        context.set_alpn_protocols(protocols)
        return context

    @contextmanager
    def connected(
        self, *protocols: str, source: str = "127.0.0.1", header: bytes = b""
    ) -> Iterator[ssl.SSLSocket]:
        """A connection of a caller, or of a proxy that sends a header first."""
        there = ("127.0.0.1", self.port)
        with socket.create_connection(there, PATIENCE_S, (source, 0)) as plain:
            plain.sendall(header)
            with self.tls(*protocols or ("http/1.1",)).wrap_socket(
                plain, server_hostname="localhost"
            ) as secure:
                yield secure

    def sent(self, *parts: bytes, source: str = "127.0.0.1", header: bytes = b"") -> bytes:
        """Send bytes and return all that comes back until the connection ends.

        A caller that has its answer has nothing more to send, and says so: TLS is shut one way, and
        an answer after that is an error.
        """
        with self.connected(source=source, header=header) as connection:
            for part in parts:
                connection.sendall(part)
            answer = everything(connection, b"\r\n\r\n")
            head, _, body = answer.partition(b"\r\n\r\n")
            if length := re.search(rb"(?i)\r\ncontent-length: (\d+)", head):
                while len(body) < int(length[1]) and (data := connection.recv(1 << 16)):
                    body, answer = body + data, answer + data
            connection.setblocking(False)
            with suppress(ssl.SSLWantReadError, ssl.SSLEOFError, ConnectionError):
                connection.unwrap()  # the other side has ended already, or has yet to
            connection.settimeout(PATIENCE_S)
            return answer + everything(connection)

    @contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """A channel of an analyst."""
        credentials = grpc.ssl_channel_credentials(self.authority)
        options = [
            ("grpc.max_reconnect_backoff_ms", 200),
            ("grpc.max_receive_message_length", -1),
        ]
        with grpc.secure_channel(f"localhost:{self.port}", credentials, options) as channel:
            yield channel


def everything(connection: ssl.SSLSocket, end: bytes | None = None) -> bytes:
    """Read until the other side ends, or until these bytes have come."""
    found = b""
    while end is None or end not in found:
        try:
            data = connection.recv(1 << 16)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError, ConnectionResetError):
            return found
        if not data:
            return found
        found += data
    return found


def until(met: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="session")
def certified() -> tuple[Certified, Certified]:
    """An authority, and the certificate of a server on this machine."""
    return self_made([], system_now_s())


@contextmanager
def running(
    certified: tuple[Certified, Certified],
    clock: Callable[[], float] = time.monotonic,
    **changes: Any,
) -> Iterator[Outer]:
    """Run an outer process with settings that differ from the usual ones."""
    authority, server = certified
    settings = OuterSettings(server.certificate.decode(), server.key.decode())
    with (
        InnerSocket() as path,
        ThreadPoolExecutor() as pool,
        listen_at(Address("127.0.0.1", 0)) as listening,
    ):
        inner, server_ = (
            Inner(path),
            grpc.server(pool, options=[("grpc.max_send_message_length", -1)]),
        )
        server_.add_generic_rpc_handlers((inner,))  # type: ignore[arg-type]  # by its one method
        server_.add_insecure_port(f"unix:{path}")
        server_.start()
        try:
            changed = replace(settings, **changes)
            with OuterProcess(listening, path, changed, clock=clock) as process:
                port = listening.getsockname()[1]
                yield Outer(process, inner, port, authority.certificate)
        finally:
            inner.cancelled.set()
            inner.busy.end()
            server_.stop(0).wait()


@pytest.fixture
def impatient(certified: tuple[Certified, Certified]) -> Iterator[Outer]:
    """An outer process that waits for two seconds; for all others a busy machine has ten."""
    with running(certified, handshake_s=2.0) as one:
        yield one


@pytest.fixture
def outer(certified: tuple[Certified, Certified]) -> Iterator[Outer]:
    with running(certified) as one:
        yield one
