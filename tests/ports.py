"""Ports that a test may write into a configuration, free and then listen on.

A port that the system chooses for port 0 lies in the range of outgoing connections. Once it is
freed, any connection of any process may have it before the test listens there again. These ports
lie below that range.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_LOWEST = 10_240  # registered services are mostly below
_WORKERS = 64  # of pytest-xdist; each has ports of its own
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_START = 32_768  # of Linux; elsewhere the range begins at 49,152


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 on which no process listens; never the same one again."""
    for port in _ports():
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("expected a free port of this worker's")


def free_address() -> str:
    """Return "127.0.0.1:PORT" of a free port."""
    return f"127.0.0.1:{free_port()}"


def worker_ports(worker: str, outgoing: int) -> range:
    """Return the ports of a worker of pytest-xdist.

    Args:
      worker: its name, as "gw3"; "": there are no workers.
      outgoing: first port of outgoing connections.
    """
    width = (outgoing - _LOWEST) // _WORKERS
    number = int(worker.removeprefix("gw") or 0) % _WORKERS
    return range(_LOWEST + number * width, _LOWEST + (number + 1) * width)


@cache
def _ports() -> Iterator[int]:
    """Return the ports of this process, from another one on in each process."""
    ports = worker_ports(os.environ.get("PYTEST_XDIST_WORKER", ""), _outgoing())
    first = os.getpid() * 17 % len(ports)  # two runs beside each other rarely meet
    return itertools.chain(ports[first:], ports[:first])


def _outgoing() -> int:
    try:
        return int(_RANGE.read_text().split()[0])
    except OSError:
        return _USUAL_START
