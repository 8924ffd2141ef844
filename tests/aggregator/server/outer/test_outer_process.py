"""The outer process: what passes through it, its limits, and that it is started again."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.outer import __main__ as program
from askance_aggregator.server.outer import supervisor
from askance_aggregator.server.outer.pass_through import PassThrough, open_inner_channel
from askance_aggregator.server.outer.settings import OuterSettings
from askance_aggregator.server.outer.supervisor import listen_at
from askance_aggregator.server.process.certificates import Certified, self_made
from askance_client.addresses import Address
from tests.aggregator.server.outer.conftest import (
    LARGE_BYTES,
    PATIENCE_S,
    Outer,
    everything,
    running,
    until,
)

SUBMIT, WATCH = "/askance.v1.Analysts/Submit", "/askance.v1.Analysts/Watch"
LARGE = "/askance.v1.Analysts/Export"


def submitted(channel: grpc.Channel, data: bytes, *metadata: tuple[str, Any]) -> bytes:
    """Make a call of an analyst."""
    call: Any = channel.unary_unary(SUBMIT)
    answer: bytes = call(data, metadata=metadata, timeout=PATIENCE_S, wait_for_ready=True)
    return answer


def test_an_analysts_call_passes_with_its_metadata_and_its_real_address(outer: Outer) -> None:
    with outer.channel() as channel:
        answer = submitted(
            channel, b"\xff\0", ("askance-call-bin", b"\1\xfe"), ("x-forwarded-for", "192.0.2.1")
        )
    assert answer == b"answer to \xff\0"
    ((method, metadata, data),) = outer.inner.calls
    assert (method, data) == (SUBMIT, b"\xff\0")
    assert metadata["askance-call-bin"] == b"\1\xfe"
    assert metadata["x-forwarded-for"] == "127.0.0.1"


def test_a_status_passes_with_details_and_trailing_metadata(outer: Outer) -> None:
    outer.inner.refusal = (grpc.StatusCode.PERMISSION_DENIED, "not yours")
    with outer.channel() as channel, pytest.raises(grpc.RpcError) as refused:
        submitted(channel, b"")
    error: Any = refused.value
    assert (error.code(), error.details()) == (grpc.StatusCode.PERMISSION_DENIED, "not yours")
    assert dict(error.trailing_metadata())["askance-retry-after-ms"] == "700"


def test_a_stream_passes_and_so_does_its_cancellation(outer: Outer) -> None:
    with outer.channel() as channel:
        watch: Any = channel.unary_stream(WATCH)
        call = watch(b"it", timeout=PATIENCE_S)
        assert [next(call) for _ in range(3)] == [b"0 it", b"1 it", b"2 it"]
        assert not outer.inner.cancelled.is_set()
        call.cancel()
        assert outer.inner.cancelled.wait(PATIENCE_S)


class Caller:
    """A caller's half of a call, which notes the status that it is given."""

    code: grpc.StatusCode | None = None

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def peer(self) -> str:
        return "unix:"

    def time_remaining(self) -> float:
        return PATIENCE_S

    async def read(self) -> bytes:
        return b"it"

    async def send_initial_metadata(self, _: object) -> None:
        """Take no note of it."""

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code


def test_a_call_that_is_open_at_its_end_has_a_status(tmp_path: Path) -> None:
    """Before, its handler was cancelled by the server's end, and gRPC wrote a trace at times."""

    async def ended() -> grpc.StatusCode | None:
        caller = Caller()
        async with open_inner_channel(str(tmp_path / "nobody")) as inner:
            passing = PassThrough(inner, lambda name, _: name, devices=False)
            details: Any = SimpleNamespace(method=WATCH)
            handler = passing.service(details)
            serving = asyncio.ensure_future(handler.stream_stream(None, caller))
            while not (passing._open or serving.done()):
                await asyncio.sleep(0)
            passing.end_calls()
            await serving
        return caller.code

    assert asyncio.run(ended()) is grpc.StatusCode.UNAVAILABLE


def test_the_longest_export_passes_again_and_again(outer: Outer) -> None:
    """Memory that one has taken is free for the next."""
    before = outer.process.pid
    with outer.channel() as channel:
        call: Any = channel.unary_unary(LARGE)
        for _ in range(4):
            assert call(b"", timeout=PATIENCE_S) == bytes(LARGE_BYTES)
    assert outer.process.pid == before


@pytest.mark.parametrize(
    "method",
    [
        "/askance.v1.Devices/Other",
        "/grpc.health.v1.Health/Watch",
        "/askance.v1.Analysts2/Submit",
        "/x",
    ],
)
def test_no_other_method_passes(outer: Outer, method: str) -> None:
    with outer.channel() as channel:
        call: Any = channel.unary_unary(method)
        with pytest.raises(grpc.RpcError) as refused:
            call(b"", timeout=PATIENCE_S)
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert not outer.inner.calls


def test_a_device_without_a_certificate_is_told_so(outer: Outer) -> None:
    """The aggregator hears nothing of it."""
    with outer.channel() as channel:
        call: Any = channel.unary_unary("/askance.v1.Devices/CheckIn")
        with pytest.raises(grpc.RpcError) as refused:
            call(b"", timeout=PATIENCE_S)
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "expected a device that shows a certificate" in error.details()
    assert not outer.inner.calls


def test_devices_without_a_certificate_pass_where_the_operator_lets_them(
    certified: tuple[Certified, Certified],
) -> None:
    with running(certified, devices=True) as outer, outer.channel() as channel:
        call: Any = channel.unary_unary("/askance.v1.Devices/CheckIn")
        assert call(b"me", timeout=PATIENCE_S) == b"answer to me"


def test_a_device_without_a_certificate_has_its_stream(
    certified: tuple[Certified, Certified],
) -> None:
    """A device writes when it is accepted, as the client does."""
    with running(certified, devices=True) as outer, outer.channel() as channel:
        opened: Any = channel.stream_stream("/askance.v1.Devices/Participate")
        messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        call = opened(iter(messages.get, b""), timeout=PATIENCE_S)
        assert dict(call.initial_metadata())["askance-protocol"] == "1"
        for data in (b"one", b"two"):
            messages.put(data)
            assert next(call) == b"answer to " + data
        messages.put(b"")
        assert list(call) == []


def test_health_is_answered_from_one_watch(outer: Outer) -> None:
    with outer.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def serving() -> bool:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

        until(serving)
        with pytest.raises(grpc.RpcError) as refused:
            stub.Check(health_pb2.HealthCheckRequest(service="other"), timeout=PATIENCE_S)
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert not outer.inner.calls


def test_an_aggregator_that_has_gone_is_not_in_health(outer: Outer) -> None:
    with outer.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def status() -> int:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
            return int(answer.status)

        until(lambda: status() == health_pb2.HealthCheckResponse.SERVING)
        outer.inner.gone.set()
        until(lambda: status() == health_pb2.HealthCheckResponse.NOT_SERVING)


def test_a_request_of_more_than_a_mebibyte_is_refused(outer: Outer) -> None:
    """The aggregator refuses it too: this process would hold it first."""
    with outer.channel() as channel:
        assert submitted(channel, bytes(1 << 20)) == b"answer to " + bytes(1 << 20)
        with pytest.raises(grpc.RpcError) as refused:
            submitted(channel, bytes((1 << 20) + 1))
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "Received message larger than max" in error.details()  # and not "Sent"
    assert len(outer.inner.calls) == 1


def test_a_trusted_proxy_says_the_callers_address(certified: tuple[Certified, Certified]) -> None:
    """The last address that it lists is its own word; the ones before are the caller's."""
    with running(certified, trusted=("127.0.0.0/8",)) as outer:
        head = b"POST /askance.v1.Devices/Enrol HTTP/1.1\r\nContent-Length: 0\r\n"
        outer.sent(head + b"X-Forwarded-For: 10.0.0.1, 192.0.2.7\r\n\r\n")
        outer.sent(head + b"X-Forwarded-For: nonsense\r\n\r\n")
        with outer.channel() as channel:
            submitted(channel, b"", ("x-forwarded-for", "2001:db8::7"))
        addresses = [metadata["x-forwarded-for"] for _, metadata, _ in outer.inner.calls]
    assert addresses == ["192.0.2.7", "127.0.0.1", "2001:db8::7"]


def is_refused(outer: Outer, source: str) -> bool:
    """Return whether a connection is ended before its handshake."""
    try:
        with outer.connected(source=source):
            return False
    except (ssl.SSLError, OSError):
        return True


def test_connections_are_limited_per_address_and_in_all(
    certified: tuple[Certified, Certified],
) -> None:
    """Connections that send nothing count: the handshake of TLS need not have begun."""
    there = []
    with running(certified, connections=5, connections_per_address=3, handshake_s=30.0) as outer:

        def hold(source: str) -> None:
            there.append(socket.create_connection(("127.0.0.1", outer.port), 30, (source, 0)))

        for _ in range(3):
            hold("127.0.0.2")
        until(lambda: is_refused(outer, "127.0.0.2"))
        assert not is_refused(outer, "127.0.0.3")
        for _ in range(2):
            hold("127.0.0.3")
        until(lambda: is_refused(outer, "127.0.0.4"))
        for one in there:
            one.close()
        until(lambda: not is_refused(outer, "127.0.0.2"))


def test_a_connection_without_a_handshake_is_closed(impatient: Outer) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), PATIENCE_S) as connection:
        assert connection.recv(1) == b""


def test_plain_text_is_no_handshake(outer: Outer) -> None:
    with socket.create_connection(("127.0.0.1", outer.port), PATIENCE_S) as connection:
        connection.sendall(b"POST /askance.v1.Devices/Enrol HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        data = connection.recv(1 << 16)
    assert b"HTTP" not in data
    assert not outer.inner.calls


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
ACKNOWLEDGED = b"\0\0\0\4\1\0\0\0\0"


def a_call(fields: int) -> bytes:
    """A call of an analyst as frames of HTTP/2, with so many one-byte fields (accept-encoding)."""
    named = {
        ":method": "POST", ":scheme": "http", ":path": SUBMIT, ":authority": "localhost",
        "content-type": "application/grpc", "te": "trailers",
    }  # fmt: skip
    block = b"".join(
        b"\0%c%b%c%b" % (len(name), name.encode(), len(value), value.encode())
        for name, value in named.items()
    )
    block += b"\x90" * fields
    head = len(block).to_bytes(3, "big") + b"\1\4\0\0\0\1"
    return head + block + b"\0\0\5\0\1\0\0\0\1" + bytes(5)


def test_no_call_passes_until_its_caller_has_acknowledged_settings(impatient: Outer) -> None:
    """Before, gRPC keeps no limit on header lists: callers without credentials filled memory."""
    with impatient.connected("h2") as connection:
        connection.sendall(PREFACE + a_call(0))
        everything(connection)  # ends by itself, after two seconds
    assert not impatient.inner.calls


@pytest.mark.parametrize(("fields", "passes"), [(0, True), (12_000, False)])
def test_a_call_that_came_before_the_acknowledgement_passes_after_it(
    outer: Outer, fields: int, passes: bool
) -> None:
    with outer.connected("h2") as connection:
        connection.sendall(PREFACE + a_call(fields))
        assert connection.recv(9)[3] == 4  # gRPC's settings
        connection.sendall(ACKNOWLEDGED)
        found = b""
        while b"grpc-status" not in found:
            found += connection.recv(1 << 16)
    assert bool(outer.inner.calls) == passes


def test_a_killed_process_is_replaced_and_no_connection_is_refused(outer: Outer) -> None:
    """The aggregator holds the listening socket: callers wait in it meanwhile."""
    before = outer.process.pid
    os.kill(before, signal.SIGKILL)
    with outer.channel() as channel:
        assert submitted(channel, b"again") == b"answer to again"
    until(lambda: outer.process.pid != before)  # it answers before it is known


@dataclass
class SetClock:
    """A clock that a test sets."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_process_that_stands_still_is_replaced(certified: tuple[Certified, Certified]) -> None:
    """A stopped process is alive, and answers none of its callers."""
    clock = SetClock()
    with running(certified, clock) as outer:
        before = outer.process.pid
        os.kill(before, signal.SIGSTOP)
        clock.now_s = 21.0
        until(lambda: outer.process.pid != before)
        with outer.channel() as channel:
            assert submitted(channel, b"again") == b"answer to again"


def test_a_process_that_runs_is_heard_of(certified: tuple[Certified, Certified]) -> None:
    clock = SetClock()
    with running(certified, clock) as outer:
        before = outer.process.pid
        for _ in range(3):
            clock.now_s += 19.0
            until(lambda: outer.process.heard_s == clock.now_s)
        with outer.channel() as channel:
            assert submitted(channel, b"again") == b"answer to again"
        assert outer.process.pid == before


def test_a_start_that_fails_in_any_way_is_tried_again(
    outer: Outer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor whose thread had ended left the address without a process for ever."""
    failures = iter([RuntimeError("can't start new thread"), MemoryError(), ValueError()])
    start = outer.process._start

    def failing() -> Any:
        for failure in failures:
            raise failure
        return start()

    monkeypatch.setattr(outer.process, "_start", failing)
    before = outer.process.pid
    os.kill(before, signal.SIGKILL)
    until(lambda: outer.process.pid != before)
    with outer.channel() as channel:
        assert submitted(channel, b"again") == b"answer to again"


def test_a_process_past_its_memory_is_replaced(certified: tuple[Certified, Certified]) -> None:
    """An answer that does not fit ends the process; the next call is answered by another one."""
    with running(certified, memory_bytes=192 << 20) as outer:
        before = outer.process.pid
        with outer.channel() as channel:
            call: Any = channel.unary_unary(LARGE)
            with pytest.raises(grpc.RpcError):
                call(b"", timeout=PATIENCE_S)
        until(lambda: outer.process.pid != before)
        with outer.channel() as channel:
            assert submitted(channel, b"again") == b"answer to again"


def test_it_has_limits_and_is_the_first_to_be_ended(outer: Outer) -> None:
    process = Path(f"/proc/{outer.process.pid}")
    limits = (process / "limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max data size")]
    assert line.split()[3:5] == [str(512 << 20)] * 2
    assert (process / "oom_score_adj").read_text() == "1000\n"
    environment = (process / "environ").read_bytes().split(b"\0")
    names = {entry.split(b"=")[0].decode() for entry in environment if entry}
    assert names <= {
        "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONUNBUFFERED",
        "GRPC_VERBOSITY", "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_",
    }  # fmt: skip


def test_it_imports_neither_the_store_nor_the_devices_service(outer: Outer) -> None:
    """Data that it does not hold cannot be read out of its memory."""
    maps = Path(f"/proc/{outer.process.pid}/maps").read_text()
    assert "sqlite3" not in maps
    assert "numpy" not in maps


def test_another_certificate_is_shown_from_the_next_connection_on(
    outer: Outer, certified: tuple[Certified, Certified]
) -> None:
    authority, server = self_made([], system_now_s())
    with outer.connected() as before:
        outer.process.change(OuterSettings(server.certificate.decode(), server.key.decode()))
        until(lambda: is_refused(outer, "127.0.0.1"))  # by its caller, which trusts the other one
        before.sendall(b"POST /askance.v1.Devices/Enrol HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        assert before.recv(12) == b"HTTP/1.1 200"
    outer.authority = authority.certificate
    assert b"200" in outer.sent(
        b"POST /askance.v1.Devices/Enrol HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
    )
    os.kill(outer.process.pid, signal.SIGKILL)  # the next process has it too
    with outer.channel() as channel:
        assert submitted(channel, b"") == b"answer to "


def test_a_key_that_does_not_fit_changes_nothing(
    outer: Outer, certified: tuple[Certified, Certified]
) -> None:
    settings = OuterSettings(certified[1].certificate.decode(), certified[0].key.decode())
    outer.process.change(settings)
    outer.process.change(replace(settings, key="none"))
    with outer.channel() as channel:
        assert submitted(channel, b"") == b"answer to "


def test_it_ends_with_the_process_that_started_it(certified: tuple[Certified, Certified]) -> None:
    with running(certified) as outer:
        pid = outer.process.pid
    assert not Path(f"/proc/{pid}").exists()


class Pipe(program.Lines):
    """Settings that do not change, from an aggregator that ends when a test says so."""

    def follow(self, change: Callable[[bytes], object], end: Callable[[], object]) -> None:
        self.end = end


def serve_here(
    certified: tuple[Certified, Certified], listening: socket.socket, pipe: Pipe
) -> None:
    """Run the program's service in this process, before an aggregator that is away."""
    server = certified[1]
    settings = OuterSettings(
        server.certificate.decode(),
        server.key.decode(),
        memory_bytes=1 << 50,  # this process is large
    )

    async def whole() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await program.serve(listening, "/nonexistent/aggregator", settings, pipe)

    asyncio.run(whole())


def test_it_ends_at_once_with_an_aggregator_that_is_killed_at_its_start(
    certified: tuple[Certified, Certified],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A process at its start waits for its health; the next aggregator needs the address."""
    monkeypatch.setattr(program, "_HEALTH_S", 3_600)

    class Ended(Pipe):
        def follow(self, change: Callable[[bytes], object], end: Callable[[], object]) -> None:
            end()

    with listen_at(Address("127.0.0.1", 0)) as listening:
        serve_here(certified, listening, Ended())
    assert capsys.readouterr().out == ""


def test_it_ends_with_any_of_its_tasks(
    certified: tuple[Certified, Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the one that accepts: a process without it would answer no caller, and stay."""
    pipe, ended = Pipe(), list[None]()

    def end() -> None:
        ended.append(None)
        pipe.end()

    monkeypatch.setattr(program, "end_without_memory", end)
    listening = listen_at(Address("127.0.0.1", 0))
    listening.close()
    serve_here(certified, listening, pipe)
    assert len(ended) == 1


def test_a_start_that_fails_is_tried_again(
    outer: Outer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = outer.process.pid
    with monkeypatch.context() as broken:
        broken.setattr(supervisor, "_PROGRAM", "no_such_program")
        os.kill(before, signal.SIGKILL)
        until(lambda: "the outer process was not started" in caplog.text)
    with outer.channel() as channel:
        assert submitted(channel, b"again") == b"answer to again"
    until(lambda: outer.process.pid != before)  # it answers before it is known


def test_the_aggregators_socket_is_closed_to_other_users(outer: Outer) -> None:
    assert outer.inner.path.parent.stat().st_mode & 0o777 == 0o700
