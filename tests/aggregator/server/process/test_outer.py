"""A serving aggregator and its outer process: which of the two callers reach, and when one dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from askance_aggregator.analyst import StudyEvent, connect, state_of
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import SqliteStore, StudyState
from tests.aggregator.server.process.conftest import PATIENCE_S, Served, ran, serving
from tests.aggregator.server.process.people import People, submit


def outer_of(served: Served) -> int:
    """The number of the outer process."""
    (number,) = outer_processes(served)
    return number


def outer_processes(served: Served) -> list[int]:
    """The numbers of the aggregator's children that are outer processes."""
    children = Path(f"/proc/{served.process.pid}/task").glob("*/children")
    numbers = [int(word) for path in children for word in path.read_text().split()]
    program = b"askance_aggregator.server.outer"
    return [n for n in numbers if program in Path(f"/proc/{n}/cmdline").read_bytes().split(b"\0")]


def inodes(process: int) -> set[str]:
    """The sockets that a process has open."""
    found = set()
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            found.add(os.readlink(entry).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    return found


def accepted_on(port: int, process: int) -> bool:
    """Return whether a process has a connection at a port of this machine."""
    mine, wanted = inodes(process), f":{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(wanted) and row[3] == "01" and row[9] in mine for row in rows)


def until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def enrolled(home: AggregatorHome, count: int) -> People:
    """Devices that the store knows before the aggregator serves."""
    people = People(home.analyst, count)
    with closing(SqliteStore.open(home.folder / "store.sqlite")) as store:
        store.enrol(people.enrolled())
    return people


def test_a_connection_to_the_open_address_is_not_the_aggregators(fresh: AggregatorHome) -> None:
    """Bytes of a caller without a certificate are read by the outer process, and by no other."""
    with serving(fresh) as served:
        port = int(served.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
            connection.sendall(b"\x16\x03\x01")  # a handshake that has begun
            until(lambda: accepted_on(port, outer_of(served)))
            assert not accepted_on(port, served.process.pid)


def test_the_outer_process_is_killed_and_neither_a_stream_nor_a_watch_notices(
    fresh: AggregatorHome,
) -> None:
    """The device's stream brings the next study; the analyst's watch goes on to its end."""
    people, pinned = enrolled(fresh, 1), fresh.authority.read_bytes()
    key = load_pem_private_key(fresh.analyst_key.read_bytes(), None)
    with (
        serving(fresh) as served,
        people.channel(served.address, pinned) as own,
        connect(served.address, key=str(fresh.analyst_key), ca=str(fresh.authority)) as analyst,
    ):
        stream: Any = people.stream(own)
        assert stream.initial_metadata() is not None
        with served.channel() as channel:
            digest = submit(channel, key)
        assert next(stream)
        events: list[StudyEvent] = []

        def watch() -> None:
            for event in analyst.study(digest.hex()).watch():
                events.append(event)

        watching = threading.Thread(target=watch)
        watching.start()
        until(lambda: bool(events))
        before = outer_of(served)
        os.kill(before, signal.SIGKILL)
        until(lambda: "the outer process has ended" in served.log.read_text())
        until(lambda: bool(outer_processes(served)))
        assert stream.is_active()
        people.answer(served.address, pinned)  # by a new certificate, from the next outer process
        watching.join(PATIENCE_S)
        assert not watching.is_alive()
        assert state_of(events[-1]) is StudyState.DONE
        assert outer_of(served) != before
        stream.cancel()


def test_the_outer_process_ends_with_its_aggregator(fresh: AggregatorHome) -> None:
    """The end of the pipe tells of a kill, and the address is free for the next one."""
    with serving(fresh) as served:
        outer, address = outer_of(served), served.address
        served.process.send_signal(signal.SIGKILL)
        served.process.wait()
        until(lambda: not Path(f"/proc/{outer}").exists())
    with serving(fresh, "--listen", address) as served:
        outer = outer_of(served)
        assert served.ended_by(signal.SIGTERM) == 0
        assert not Path(f"/proc/{outer}").exists()


def test_the_audit_log_has_the_callers_address_and_not_what_it_says(
    fresh: AggregatorHome,
) -> None:
    with serving(fresh) as served:
        port = served.address.rpartition(":")[2]
        credentials = grpc.ssl_channel_credentials(fresh.authority.read_bytes())
        with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
            call: Any = channel.unary_unary("/askance.v1.Analysts/Submit")
            with pytest.raises(grpc.RpcError):
                call(b"", metadata=(("x-forwarded-for", "192.0.2.1"),), timeout=PATIENCE_S)
    done = ran("aggregator", "audit", "show", "--config", fresh.configuration, "--json")
    (entry,) = json.loads(done.stdout)["entries"]
    assert entry["origin"] == "127.0.0.1", entry


def test_devices_of_earlier_versions_are_let_in_where_the_operator_says_so(
    fresh: AggregatorHome,
) -> None:
    people = enrolled(fresh, 1)
    text = fresh.configuration.read_text()
    for setting, accepted in (("true ", False), ("false", True)):
        assert "\nrequire_certificates = true " in text
        changed = text.replace("require_certificates = true ", f"require_certificates = {setting}#")
        fresh.configuration.write_text(changed)
        with serving(fresh) as served, served.channel() as channel:
            stream: Any = people.stream(channel)
            if accepted:
                assert dict(stream.initial_metadata())["askance-protocol"] == "1"
                stream.cancel()
                continue
            with pytest.raises(grpc.RpcError) as refused:
                next(stream)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "a certificate, at the port for devices" in str(refused.value.details())
