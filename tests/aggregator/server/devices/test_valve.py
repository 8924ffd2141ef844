"""The valve before the devices' listener: what it passes on, and when."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from askance_aggregator.server.devices import AggregatorServer, ConnectionLimits, Settings
from askance_aggregator.server.devices.passages import Passages
from askance_aggregator.server.outer.addresses import address_of
from askance_aggregator.server.outer.supervisor import listen_at
from askance_aggregator.server.outer.valve import Pace, Paces, Passage, ValveSettings
from askance_aggregator.store import CertificateHolder, SqliteStore
from askance_client.addresses import Address
from askance_client.service import SERVICE

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

# A byte per second is none while a test lasts.
PACES = Paces(Pace(1_000, 1), Pace(3_000, 1), Pace(20_000, 1), Pace(1 << 20, 1 << 20))
SENT = bytes(range(256)) * 400
DEVICE, GATEWAY = CertificateHolder(0, 5), CertificateHolder(1)
_QUIET_S = 0.3


@dataclass
class Reached:
    """A valve between callers and a service, which the test is."""

    passages: Passages
    service: socket.socket
    callers: list[socket.socket] = field(default_factory=list)

    def dial(self, source: str = "127.0.0.2") -> socket.socket:
        """Connect as a caller."""
        there = ("127.0.0.1", self.passages.port)
        caller = socket.create_connection(there, 5, source_address=(source, 0))
        self.callers.append(caller)
        return caller

    def sent(self, data: bytes = SENT) -> tuple[socket.socket, socket.socket, Passage]:
        """Connect, send bytes, and return both ends and the connection's name."""
        caller = self.dial()
        caller.sendall(data)
        self.service.settimeout(5)
        taken, name = self.service.accept()
        self.callers.append(taken)
        passage = Passage.of_peer(f"unix:{name}")
        assert passage is not None
        assert passage.port == caller.getsockname()[1]
        return caller, taken, passage


def read_until_quiet(end: socket.socket) -> bytes:
    """Read what comes until nothing has come for a while."""
    end.settimeout(_QUIET_S)
    data = b""
    with suppress(TimeoutError):
        while more := end.recv(1 << 20):
            data += more
    return data


@contextmanager
def valve(settings: ValveSettings) -> Iterator[Reached]:
    passages = Passages(listen_at(Address("127.0.0.1", 0)), settings)
    service = socket.socket(socket.AF_UNIX)
    service.bind(str(passages.inner))
    service.listen()
    passages.start()
    reached = Reached(passages, service)
    try:
        yield reached
    finally:
        for one in (*reached.callers, service):
            one.close()
        passages.stop()


@pytest.fixture(scope="module")
def reached() -> Iterator[Reached]:
    with valve(ValveSettings(PACES, settled_s=60.0)) as found:
        yield found


async def tell(do: Callable[[], None]) -> None:
    """Call what is for an event loop, until it is sent."""
    do()
    await asyncio.sleep(0.05)


def test_a_caller_that_is_not_proven_sends_a_burst(
    reached: Reached, run: Callable[..., object]
) -> None:
    """Header lists of any length were parsed until a look had found them."""
    _, taken, passage = reached.sent()
    data = read_until_quiet(taken)
    assert data == SENT[:1_000]
    run(tell(lambda: reached.passages.credit(passage.number, 5_000)))
    data += read_until_quiet(taken)
    assert len(data) == pytest.approx(6_000, abs=10)
    assert data == SENT[: len(data)]


def test_connections_of_a_holder_share_a_pace(reached: Reached, run: Callable[..., object]) -> None:
    ends = [reached.sent() for _ in range(3)]
    before = [read_until_quiet(taken) for _, taken, _ in ends]
    assert [len(data) for data in before] == [1_000] * 3
    for _, _, passage in ends[:2]:
        run(tell(partial(reached.passages.prove, passage.number, DEVICE)))
    more = [len(read_until_quiet(taken)) for _, taken, _ in ends]
    assert sum(more[:2]) == pytest.approx(3_000, abs=10)
    assert more[2] <= 10
    run(tell(lambda: reached.passages.prove(ends[2][2].number, GATEWAY)))
    assert len(read_until_quiet(ends[2][1])) == pytest.approx(20_000, abs=10)


def test_what_was_credited_is_for_one_connection(
    reached: Reached, run: Callable[..., object]
) -> None:
    """A call's bytes let the next one pass, on its connection; no credit is kept beyond 64 KiB."""
    (_, one, passage), (_, other, _) = reached.sent(), reached.sent()
    read_until_quiet(one)
    read_until_quiet(other)
    run(tell(lambda: reached.passages.credit(passage.number, 1 << 30)))
    assert len(read_until_quiet(one)) == pytest.approx(65_536 + 1_000, abs=10)
    assert len(read_until_quiet(other)) <= 10


def test_a_connection_that_must_have_acknowledged_settings_is_not_paced(
    run: Callable[..., object],
) -> None:
    with valve(ValveSettings(PACES, settled_s=0.1)) as reached:
        _, taken, passage = reached.sent()
        assert read_until_quiet(taken) == SENT[:1_000]
        run(tell(lambda: reached.passages.prove(passage.number, DEVICE)))
        taken.settimeout(10)
        data = SENT[:1_000]
        while len(data) < len(SENT):
            data += taken.recv(1 << 20)
        assert data == SENT


def test_a_connection_that_says_nothing_is_not_passed_on() -> None:
    """A half-open connection cost gRPC 43 kB."""
    with valve(ValveSettings(PACES, first_byte_s=0.2)) as reached:
        caller = reached.dial()
        reached.service.settimeout(0.1)
        with pytest.raises(TimeoutError):
            reached.service.accept()
        assert caller.recv(1) == b""


def test_what_the_service_says_comes_whole_and_ends_the_connection(reached: Reached) -> None:
    caller, taken, _ = reached.sent(b"call")
    assert read_until_quiet(taken) == b"call"
    taken.sendall(SENT)
    taken.close()
    data = b""
    while more := caller.recv(1 << 20):
        data += more
    assert data == SENT


def test_the_end_of_a_caller_reaches_the_service(reached: Reached) -> None:
    caller, taken, _ = reached.sent(b"call")
    assert read_until_quiet(taken) == b"call"
    caller.close()
    taken.settimeout(5)
    assert taken.recv(1) == b""


def test_an_ended_connection_is_closed_at_both_ends_and_told_of_once(reached: Reached) -> None:
    caller, taken, passage = reached.sent()
    read_until_quiet(taken)
    (known,) = [one for one in reached.passages.connections() if one.number == passage.number]
    assert (known.address, known.port) == (ip_address("127.0.0.2"), passage.port)
    assert known.received == pytest.approx(1_000, abs=10)
    reached.passages.end([passage.number])
    taken.settimeout(5)
    assert taken.recv(1) == b""
    with suppress(ConnectionResetError):
        assert caller.recv(1) == b""
    time.sleep(0.1)  # five reports
    assert passage.number in {one.number for one in reached.passages.connections()}
    assert passage.number not in {one.number for one in reached.passages.connections()}


def test_connections_are_bounded() -> None:
    with valve(replace(ValveSettings(PACES), connections=2)) as reached:
        _, first, _ = reached.sent(b"1")
        _, second, _ = reached.sent(b"2")
        third = reached.dial()
        with suppress(ConnectionResetError):
            assert third.recv(1) == b""
        assert [read_until_quiet(one) for one in (first, second)] == [b"1", b"2"]


def test_a_valve_that_has_ended_is_started_again() -> None:
    with valve(ValveSettings(PACES)) as reached:
        caller, _, first = reached.sent()
        os.kill(reached.passages.pid, signal.SIGKILL)
        with suppress(ConnectionResetError):
            assert caller.recv(1) == b""
        _, taken, second = reached.sent()
        assert read_until_quiet(taken) == SENT[:1_000]
        assert second.number > first.number
        known = {one.number for one in reached.passages.connections()}
        assert second.number in known


def ended(caller: socket.socket) -> bool:
    """Return whether a connection has ended, in 5 s."""
    caller.settimeout(5)
    with suppress(ConnectionResetError):
        return caller.recv(1) == b""
    return True


def test_a_service_that_stops_has_no_new_callers_and_ends_its_calls() -> None:
    """New callers waited for a second for a service that was about to end."""
    with valve(ValveSettings(PACES)) as reached:
        caller, taken, _ = reached.sent(b"call")
        assert read_until_quiet(taken) == b"call"
        silent, late = reached.dial(), reached.dial()
        reached.service.close()
        late.sendall(b"call")
        reached.passages.refuse()
        assert ended(silent)
        assert ended(late)
        with pytest.raises(ConnectionRefusedError):
            reached.dial()
        taken.sendall(b"answer")
        assert read_until_quiet(caller) == b"answer"


@contextmanager
def suspended(reached: Reached) -> Iterator[None]:
    """A valve that accepts nothing for a while."""
    os.kill(reached.passages.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(reached.passages.pid, signal.SIGCONT)


def test_a_connection_that_is_reset_before_it_is_accepted_leaves_no_trace(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A reset left a traceback in the log."""
    with valve(ValveSettings(PACES)) as reached:
        with suspended(reached):
            caller = reached.dial()
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            caller.sendall(b"call")
            caller.close()
        _, taken, _ = reached.sent(b"call")
        assert read_until_quiet(taken) == b"call"
    assert capfd.readouterr().err == ""


def test_callers_wait_for_a_busy_valve() -> None:
    """After 100 the packets of further callers were dropped: they called again seconds later."""
    with valve(ValveSettings(PACES)) as reached, suspended(reached):
        for _ in range(300):
            reached.dial()


def test_the_folder_of_temporary_files_may_have_a_long_name(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers waited for ever, as the paths of their sockets were too long."""
    room = 90 - len(str(tmp_path_factory.getbasetemp()))
    folder = tmp_path_factory.mktemp("a" * max(1, room - len("/0/askance-12345678/devices")))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with valve(ValveSettings(PACES)) as reached:
        _, taken, _ = reached.sent(b"call")
        assert read_until_quiet(taken) == b"call"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no limit on unread bytes")
def test_a_caller_that_takes_nothing_is_gone() -> None:
    """A connection that the service had ended stayed as long as its caller."""
    with valve(replace(ValveSettings(PACES), unread_s=0.5)) as reached:
        _, taken, passage = reached.sent(b"call")
        taken.settimeout(1)
        with suppress(TimeoutError, ConnectionError):
            taken.sendall(bytes(1 << 25))
        taken.close()
        end_s = time.monotonic() + 20
        while passage.number in {one.number for one in reached.passages.connections()}:
            assert time.monotonic() < end_s
            time.sleep(0.1)


def test_commands_while_no_valve_runs_are_lost() -> None:
    """Commands raised in the look of the guard and in the event loop."""
    with valve(ValveSettings(PACES)) as reached:
        os.kill(reached.passages.pid, signal.SIGKILL)
        end_s = time.monotonic() + 0.3
        while time.monotonic() < end_s:
            reached.passages.end([1])
            time.sleep(0.005)


def test_a_valve_that_is_started_while_the_service_stops_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = Passages._started
    with valve(ValveSettings(PACES)) as reached:
        passages, stops = reached.passages, Thread(target=reached.passages.stop)

        def started(_: Passages) -> subprocess.Popen[bytes]:
            stops.start()
            time.sleep(0.2)  # it has closed the socket of the one before
            return start(passages)

        monkeypatch.setattr(Passages, "_started", started)
        before = passages.pid
        os.kill(before, signal.SIGKILL)
        while passages.pid == before:
            time.sleep(0.01)
        stops.join(5)
        assert not stops.is_alive()
        with pytest.raises(ProcessLookupError):
            os.kill(passages.pid, 0)
        monkeypatch.setattr(Passages, "stop", lambda _: None)  # it was called


@pytest.mark.parametrize(
    ("address", "peer"),
    [("192.0.2.7", "ipv4:192.0.2.7:4711"), ("2001:db8::7", "ipv6:%5B2001:db8::7%5D:4711")],
)
def test_a_connection_states_its_caller(address: str, peer: str) -> None:
    passage = Passage(12, ip_address(address), 4711)
    assert Passage.of_peer(f"unix:{passage.name}") == passage
    assert passage.peer() == peer
    assert address_of(passage.peer()) == ip_address(address)


@pytest.mark.parametrize("peer", ["unix:", "ipv4:192.0.2.7:4711", "unix:/tmp/askance-x/aggregator"])
def test_other_connections_are_no_passages(peer: str) -> None:
    assert Passage.of_peer(peer) is None


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113, section 4.1)."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(world: World) -> bytes:
    """A header list of a check-in, of literals (RFC 7541, section 6.2.2)."""
    given = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", f"/{SERVICE}/CheckIn".encode()),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ]
    for key, value in world.metadata(0):
        text = b64encode(value).rstrip(b"=") if isinstance(value, bytes) else value.encode()
        given.append((key.encode(), text))
    return b"".join(b"\0%c%b%c%b" % (len(key), key, len(text), text) for key, text in given)


def test_a_proven_caller_that_does_not_acknowledge_settings_sends_a_short_list(
    world: World, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a good call, 190 kB of one header list were parsed, and kept 283 MB over six."""
    received: dict[int, int] = {}
    ask = Passages.connections

    def connections(passages: Passages) -> object:
        found = ask(passages)
        received.update({one.number: one.received for one in found})
        return found

    monkeypatch.setattr(Passages, "connections", connections)
    world.enrol(store, 1)
    settings = Settings(settled_s=1.0, guard=ConnectionLimits())
    with (
        AggregatorServer.start(store, settings=settings) as server,
        socket.create_connection(("127.0.0.1", server.port), 5) as caller,
    ):
        caller.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
        block = headers(world)
        caller.sendall(frame(1, 4, 1, block) + frame(0, 1, 1, bytes(5)))
        answered = b""
        while b"grpc-status" not in answered:
            answered += caller.recv(1 << 16)
        endless = frame(1, 0, 3, block) + frame(9, 0, 3, b"\x90" * 16_000) * 30
        with suppress(OSError):  # it is hung up on, as it does not acknowledge
            caller.sendall(endless)
            while caller.recv(1 << 16):
                pass
    (passed,) = received.values()
    # The bursts of an unproven and a proven caller, 4 KiB of credit, and two seconds.
    assert 1_000 < passed < 6_144 + 24_576 + 4_096 + 2 * 13_312 + 256
