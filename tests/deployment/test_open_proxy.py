"""The documented proxy of the open address, in HTTP mode, where haproxy is installed."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.home import AggregatorHome
from tests.aggregator.server.process.conftest import PATIENCE_S, made
from tests.ports import free_port

DOCUMENTED = Path(__file__).resolve().parents[2] / "docs" / "proxy" / "haproxy-open.cfg"
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"

pytestmark = pytest.mark.skipif(
    not Path(HAPROXY).is_file(), reason="haproxy is not installed (apt-get install haproxy)"
)


@dataclass
class Backend:
    """A service behind the proxy that keeps the fields of the requests that reach it."""

    port: int
    seen: list[list[tuple[str, str]]] = field(default_factory=list)


@contextmanager
def http_backend(home: AggregatorHome) -> Iterator[Backend]:
    """Serve HTTP/1.1 over TLS with the aggregator's certificate."""
    backend = Backend(free_port())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            backend.seen.append([(name.lower(), value) for name, value in self.headers.items()])
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:  # the base's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", backend.port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home.folder / "server.pem", home.folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield backend
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def grpc_backend(home: AggregatorHome) -> Iterator[Backend]:
    """Serve one method of gRPC over TLS, which answers with the bytes it got."""
    backend = Backend(free_port())

    def echo(data: bytes, context: Any) -> bytes:
        backend.seen.append([(key, str(value)) for key, value in context.invocation_metadata()])
        return data

    handler: Any = grpc.unary_unary_rpc_method_handler(echo)
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("askance.v1.Analysts", {"List": handler}),)
    )
    pair = [(home.folder / name).read_bytes() for name in ("server.key", "server.pem")]
    credentials = grpc.ssl_server_credentials([(pair[0], pair[1])])
    server.add_secure_port(f"127.0.0.1:{backend.port}", credentials)
    server.start()
    try:
        yield backend
    finally:
        server.stop(0).wait()


@contextmanager
def proxied(folder: Path, home: AggregatorHome, port_behind: int) -> Iterator[int]:
    """Run the documented proxy before a port; the port that it listens on."""
    port, pem = free_port(), folder / "proxy.pem"
    pem.write_bytes(
        b"".join((home.folder / name).read_bytes() for name in ("server.pem", "server.key"))
    )
    text = DOCUMENTED.read_text()
    for documented, here in (
        ("bind :7443", f"bind 127.0.0.1:{port}"),
        ("127.0.0.1:7444", f"127.0.0.1:{port_behind}"),
        ("/etc/haproxy/askance.pem", str(pem)),
        ("/etc/haproxy/authority.pem", str(home.authority)),
        ("verifyhost aggregator", "verifyhost localhost"),
    ):
        assert documented in text
        text = text.replace(documented, here)
    configuration = folder / "haproxy.cfg"
    configuration.write_text(text)
    with subprocess.Popen([HAPROXY, "-db", "-q", "-f", str(configuration)]) as process:
        try:
            until = time.monotonic() + PATIENCE_S
            while not _listens(port):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
            yield port
        finally:
            process.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def home(tmp_path: Path) -> AggregatorHome:
    return made(tmp_path / "aggregator", now_s=system_now_s())


def post(home: AggregatorHome, port: int, fields: dict[str, str]) -> int:
    """Make a request of HTTP/1.1 from 127.0.0.2; the status of its answer."""
    context = ssl.create_default_context(cafile=str(home.authority))
    caller = HTTPSConnection(
        "localhost", port, context=context, timeout=20, source_address=("127.0.0.2", 0)
    )
    try:
        caller.request("POST", "/askance.v1.Devices/Enrol", b"x", fields)
        return caller.getresponse().status
    finally:
        caller.close()


def test_a_caller_is_named_by_the_proxy_and_not_by_itself(
    home: AggregatorHome, tmp_path: Path
) -> None:
    with http_backend(home) as backend, proxied(tmp_path, home, backend.port) as port:
        assert post(home, port, {"x-forwarded-for": "203.0.113.9"}) == 200
    (fields,) = backend.seen
    assert [value for name, value in fields if name == "x-forwarded-for"] == ["127.0.0.2"]


def test_a_request_of_many_fields_goes_no_further(home: AggregatorHome, tmp_path: Path) -> None:
    """12,000 one-byte fields of a request held 1.4 MB in gRPC."""
    with http_backend(home) as backend, proxied(tmp_path, home, backend.port) as port:
        assert post(home, port, {f"a{number}": "" for number in range(100)}) == 400
        assert post(home, port, {f"a{number}": "" for number in range(30)}) == 200
    assert len(backend.seen) == 1


def test_analysts_call_through_it_by_grpc(home: AggregatorHome, tmp_path: Path) -> None:
    credentials = grpc.ssl_channel_credentials(home.authority.read_bytes())
    with (
        grpc_backend(home) as backend,
        proxied(tmp_path, home, backend.port) as port,
        grpc.secure_channel(f"localhost:{port}", credentials) as channel,
    ):
        call: Any = channel.unary_unary("/askance.v1.Analysts/List")
        metadata = (("x-forwarded-for", "203.0.113.9"),)
        assert call(b"data", metadata=metadata, timeout=PATIENCE_S) == b"data"
        many = tuple((f"a{number}", "") for number in range(100))
        with pytest.raises(grpc.RpcError):
            call(b"data", metadata=many, timeout=5)
    (fields,) = backend.seen
    assert [value for name, value in fields if name == "x-forwarded-for"] == ["127.0.0.1"]


def test_connections_of_one_address_are_limited(home: AggregatorHome, tmp_path: Path) -> None:
    with http_backend(home) as backend, proxied(tmp_path, home, backend.port) as port:
        codes = []
        for _ in range(70):
            try:
                codes.append(post(home, port, {}))
            except OSError:
                codes.append(0)
        assert 0 in codes
        assert codes[:40] == [200] * 40
        context = ssl.create_default_context(cafile=str(home.authority))
        other = HTTPSConnection(
            "localhost", port, context=context, timeout=20, source_address=("127.0.0.3", 0)
        )
        other.request("POST", "/", b"x")
        assert other.getresponse().status == 200
        other.close()
