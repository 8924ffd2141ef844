"""The allocator's setting, and the connections that a process can hold."""

from __future__ import annotations

import io
import json
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from askance_aggregator.server.process.capacity import (
    HeldConnections,
    allow_connections,
    connections_within,
    descriptors_of,
    memory_limit_bytes,
    share_one_arena,
)
from askance_aggregator.server.process.logs import logs_to

_FILLED = """
import ctypes, threading
from askance_aggregator.server.process.capacity import share_one_arena
{setting}
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
before = threading.Barrier(9)
def allocate():
    libc.malloc(100_000)
    before.wait()
for _ in range(8):
    threading.Thread(target=allocate).start()
before.wait()
libc.malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas per thread")
def test_threads_share_one_arena_of_glibc() -> None:
    """Counted by glibc itself, in a process of its own."""
    assert _arenas("") > 1
    assert _arenas("assert share_one_arena()") == 1


def test_another_system_has_no_such_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not share_one_arena()


@pytest.mark.parametrize(
    ("memory", "connections"), [(8 << 30, 50_529), (1 << 30, 6_316), (1 << 20, 16)]
)
def test_connections_take_half_of_the_memory_at_85_kb_each(memory: int, connections: int) -> None:
    assert connections_within(memory) == connections


def test_the_memory_is_that_of_the_control_group(tmp_path: Path) -> None:
    """16,000 half-open sockets added 690 MB to a process in a container of any size."""
    whole = memory_limit_bytes(())
    group, other = tmp_path / "memory.max", tmp_path / "none"
    group.write_text("67108864\n")
    assert memory_limit_bytes((other, group)) == 64 << 20
    group.write_text("max\n")
    assert memory_limit_bytes((other, group)) == whole
    group.write_text(f"{2 * whole}\n")
    assert memory_limit_bytes((group,)) == whole


@pytest.mark.parametrize(
    ("configured", "limited_by", "level"),
    [(60_000, "descriptors", "info"), (50_000, "memory", "warning"), (50_000, "", None)],
)
def test_fewer_connections_are_a_warning_only_where_their_number_was_chosen(
    configured: int, limited_by: str, level: str | None
) -> None:
    stream = io.StringIO()
    with logs_to(stream, "info"):
        HeldConnections(configured, 16, limited_by).log(usual=60_000)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["level"] for line in lines] == ([] if level is None else [level])
    assert all(line["held"] == 16 and line["limited_by"] == limited_by for line in lines)


def test_nothing_is_logged_before_the_service_answers() -> None:
    stream = io.StringIO()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with logs_to(stream, "info"):
            found = allow_connections(10_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert stream.getvalue() == ""
    assert 1 <= found.held < found.configured == 10_000_000


def test_a_connection_through_the_valve_takes_two_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (356, 356))
    assert allow_connections(80, descriptors_of(tls=False)).held == 80
    assert allow_connections(80, descriptors_of(tls=True)).held == 50


def _arenas(setting: str) -> int:
    """Return the number of arenas of a process with eight threads that allocate."""
    code = _FILLED.format(setting=setting)
    path = f"import sys; sys.path[:0] = {sys.path!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", path + code], capture_output=True, text=True, check=True, timeout=60
    )
    return sum(line.startswith("Arena ") for line in done.stderr.splitlines())
