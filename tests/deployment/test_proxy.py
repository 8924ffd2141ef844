"""The documented proxy before a serving aggregator, where haproxy is installed."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from askance_aggregator.clock import system_now_s
from askance_aggregator.store import SqliteStore
from askance_client.service import SERVICE, Identity, device_metadata, token_digest
from tests.aggregator.server.process.conftest import PATIENCE_S, made, serving
from tests.aggregator.server.process.people import certificate_of
from tests.ports import free_address, free_port

DOCUMENTED = Path(__file__).resolve().parents[2] / "deploy" / "haproxy" / "haproxy.cfg"
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"
DEVICE = Identity(b"a device", bytes(32))

needs_haproxy = pytest.mark.skipif(
    not Path(HAPROXY).is_file(), reason="haproxy is not installed (apt-get install haproxy)"
)


@contextmanager
def proxied(folder: Path, aggregator: str) -> Iterator[int]:
    """Run the documented proxy before an aggregator; the port that it listens on."""
    port = free_port()
    text = DOCUMENTED.read_text()
    for before, after in {
        "bind :7445": f"bind 127.0.0.1:{port}",
        "bind :7443": f"bind {free_address()}",
        "127.0.0.1:7447": aggregator,
        "check port 7447": f"check port {aggregator.rpartition(':')[2]}",
        "maxconn 60000": "maxconn 500",
    }.items():
        assert before in text
        text = text.replace(before, after)
    configuration = folder / "haproxy.cfg"
    configuration.write_text(text)
    with subprocess.Popen([HAPROXY, "-db", "-f", str(configuration)]) as process:
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


def _is_rejected(source: str, port: int, held: ExitStack) -> bool:
    """Connect and keep the connection; return whether it is closed at once."""
    peer = held.enter_context(socket.socket())
    peer.settimeout(0.01)
    peer.bind((source, 0))
    try:
        peer.connect(("127.0.0.1", port))
        return peer.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@needs_haproxy
def test_the_documented_proxy_limits_connections_per_address_and_lets_devices_through(
    tmp_path: Path,
) -> None:
    home = made(tmp_path / "aggregator", now_s=system_now_s())
    store = SqliteStore.open(home.folder / "store.sqlite")
    store.enrol([(DEVICE.device_id, token_digest(DEVICE.token))])
    store.close()
    with (
        serving(home) as served,
        proxied(tmp_path, f"127.0.0.1:{served.ready['certificates_port']}") as port,
        ExitStack() as held,
    ):
        # 100 at one time, or 50 in 10 s: one of the two is reached at any speed
        assert any(_is_rejected("127.0.0.2", port, held) for _ in range(200))
        authority = home.authority.read_bytes()
        own = asyncio.run(certificate_of(DEVICE, served.address, authority))
        credentials = grpc.ssl_channel_credentials(authority, own.key.encode(), own.chain.encode())
        with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            assert call(b"", metadata=device_metadata(DEVICE), timeout=PATIENCE_S)
