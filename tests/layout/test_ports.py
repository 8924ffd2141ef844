"""Ports of tests lie below the range of outgoing connections."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.ports import free_address, free_port, worker_ports

TESTS = Path(__file__).resolve().parents[1]
# Files that bind to a port of the system's choice and keep it: what is taken, and a peer's source.
KEEP = {
    "aggregator/server/devices/test_connection_guard.py",
    "aggregator/server/process/test_pages.py",
    "aggregator/server/process/test_process.py",
    "deployment/test_proxy.py",
}


def test_a_port_is_below_the_range_of_outgoing_connections_and_never_given_twice() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        outgoing = client.getsockname()[1]
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert all(10_240 <= port < 32_768 for port in ports)
    assert max(ports) < outgoing
    host, _, port = free_address().partition(":")
    with socket.create_server((host, int(port))):
        pass


def test_a_port_on_which_a_process_listens_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("tests.ports._ports", lambda: iter([port, port + 1, port + 2]))
        assert free_port() > port


def test_workers_have_no_port_in_common() -> None:
    ranges = [worker_ports(f"gw{number}", 32_768) for number in range(64)]
    assert len(set().union(*ranges)) == sum(map(len, ranges))
    assert all(len(ports) == 352 and ports[-1] < 32_768 for ports in ranges)
    assert worker_ports("", 32_768) == ranges[0]


def test_no_test_frees_a_port_of_the_systems_choice_to_use_it_again() -> None:
    binds = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if re.search(r"\.bind\(\([^()]*, 0\)\)", path.read_text(encoding="utf-8"))
    }
    assert binds == KEEP
