"""TLS goes through the proxy that the environment names; plain text through none."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from askance_aggregator.server.devices import AggregatorServer, ServerParts, Settings
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import SqliteStore
from askance_client.service import system_now_s
from tests.aggregator.server.certified_service import CertifiedService

WAIT_S = 30
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy")
PROGRAM = """
import asyncio, sys, tempfile
from functools import partial
from pathlib import Path
from askance_client.service import Enrolment, OpenSide, Secret, read_authority

address, token, ca = sys.argv[1:]
authority = partial(read_authority, Path(ca)) if ca else None

async def work():
    path, side = Path(tempfile.mkdtemp()) / "enrolled", OpenSide(address, authority)
    print(*await Enrolment(path, side, [Secret(bytes(32)).device()]).enrol(token.encode()))

asyncio.run(work())
"""


class Proxy:
    """A proxy on loopback that makes tunnels (CONNECT) and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.seen = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._tunnel, args=(connection,), daemon=True).start()

    def _tunnel(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1024)
        line = head.split(b"\r\n")[0].decode()
        self.asked.append(line)
        host, _, port = line.split()[1].rpartition(":")
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        back = threading.Thread(target=self._copy, args=(server, client), daemon=True)
        back.start()
        self._copy(client, server)

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.seen += data
                target.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    running = Proxy()
    yield running
    running.close()


@pytest.fixture(params=["tls", "plain"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    """Address and token of an aggregator, and the authority's file; of plain text no file."""
    tokens, settings = EnrolmentTokens(bytes(32), system_now_s), Settings(stop_grace_s=0.2)
    if request.param == "plain":
        parts = ServerParts(enrolment=tokens)
        with AggregatorServer.start(
            SqliteStore.in_memory(), settings=settings, parts=parts
        ) as server:
            yield server.address, tokens.issue(1, 1).text, ""
        return
    file = tmp_path / "ca.pem"
    with CertifiedService(
        SqliteStore.in_memory(), tokens, system_now_s, settings=settings
    ) as service:
        file.write_bytes(service.ca.certificate)
        yield service.address, tokens.issue(1, 1).text, str(file)


def enrolled(served: tuple[str, str, str], **proxies: str) -> str:
    """Enrol in a process with these variables of proxies, and return what it printed."""
    own = {name: value for name, value in os.environ.items() if name.lower() not in PROXIES}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *served],
        env={**own, **proxies, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("variable", ["grpc_proxy", "https_proxy"])
def test_tls_goes_through_the_proxy_as_a_tunnel_that_hides_the_token(
    proxy: Proxy, served: tuple[str, str, str], variable: str
) -> None:
    """Plain text, to this very machine, goes through none whatever the environment says."""
    address, token, ca = served
    assert enrolled(served, **{variable: f"http://{proxy.address}"}) == "1 0"
    asked = [line.rpartition(" ")[0] for line in proxy.asked]  # Python 3.11 says HTTP/1.0
    assert asked == ([f"CONNECT {address}"] if ca else [])
    assert bool(proxy.seen) == bool(ca)
    assert token.encode() not in proxy.seen


def test_a_host_in_no_proxy_is_called_directly(proxy: Proxy, served: tuple[str, str, str]) -> None:
    there = f"http://{proxy.address}"
    assert enrolled(served, https_proxy=there, no_proxy="127.0.0.1") == "1 0"
    assert enrolled(served, grpc_proxy=there, no_grpc_proxy="127.0.0.1") == "0 1"
    assert proxy.asked == []
