"""The answers to probes over HTTP, beside the page of metrics."""

from __future__ import annotations

import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.server.process.metrics import MAX_AT_ONCE, MetricsPage, pages_server
from askance_client.addresses import Address
from tests.aggregator.server.process.conftest import serving


def answer(address: object, path: str) -> tuple[int, str]:
    """Return the code and the text that a path is answered with."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _has_version_6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        pytest.param("::1", marks=pytest.mark.skipif(not _has_version_6(), reason="no IPv6")),
    ],
)
def test_ready_follows_the_health_service_and_live_does_not(host: str) -> None:
    registry, serves = CollectorRegistry(), [False]
    Gauge("a_gauge", "A gauge.", registry=registry).set(7)
    page = MetricsPage.start(Address(host, 0), registry, lambda: serves[0])
    try:
        assert answer(page.address, "/ready") == (503, "not serving\n")
        assert answer(page.address, "/live") == (200, "live\n")
        serves[0] = True
        assert answer(page.address, "/ready") == (200, "serving\n")
        code, text = answer(page.address, "/metrics")
        assert code == 200
        assert "a_gauge 7.0" in text
    finally:
        page.stop()


def test_requests_that_are_never_whole_hold_up_no_other() -> None:
    """Once, each of them held a thread for as long as its caller liked."""
    page = MetricsPage.start(Address("127.0.0.1", 0), CollectorRegistry(), lambda: True)
    before = threading.active_count()
    try:
        with ExitStack() as held:
            half = []
            for begun in (b"", b"GET /live HTTP/1.1\r\nHost:") * MAX_AT_ONCE:
                made = socket.create_connection((page.address.host, page.address.port), 20)
                half.append(held.enter_context(made))
                made.sendall(begun)
            assert answer(page.address, "/ready") == (200, "serving\n")
            assert threading.active_count() - before <= MAX_AT_ONCE
            assert half[0].recv(1) == b""  # the first ones gave way, the last ones wait
            half[-1].settimeout(0.2)
            with pytest.raises(TimeoutError):
                half[-1].recv(1)
    finally:
        page.stop()


class _Slow(Collector):
    """A collector that is at work until it is told."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        self.begun.set()
        self.may_end.wait(20)
        yield GaugeMetricFamily("a_gauge", "A gauge.", value=7)


def test_a_request_that_is_being_answered_gives_way_to_no_other() -> None:
    """The connections that begin a request and never end it give way instead."""
    registry, slow = CollectorRegistry(), _Slow()
    registry.register(slow)
    page = MetricsPage.start(Address("127.0.0.1", 0), registry, lambda: True)
    where = page.address.host, page.address.port
    try:
        with ExitStack() as held:
            asked = held.enter_context(socket.create_connection(where, 20))
            asked.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert slow.begun.wait(20)
            for _ in range(MAX_AT_ONCE):
                held.enter_context(socket.create_connection(where, 20))
            assert answer(page.address, "/ready") == (200, "serving\n")
            slow.may_end.set()
            with asked.makefile("rb") as reply:
                assert b"a_gauge 7.0" in reply.read()
    finally:
        slow.may_end.set()
        page.stop()


def test_a_request_is_whole_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1_000]
    clock = SimpleNamespace(monotonic_ns=lambda: now_s[0] * 10**9)
    monkeypatch.setattr("askance_client.console.server.time", clock)
    server = pages_server(Address("127.0.0.1", 0), CollectorRegistry(), lambda: True)
    where = str(server.server_address[0]), server.server_port
    with server, socket.create_connection(where, 20) as half:
        server.handle_request()  # a thread waits for it from now on
        half.settimeout(0.2)
        for now_s[0] in (1_009, 1_011):
            server.service_actions()
            if now_s[0] == 1_009:
                with pytest.raises(TimeoutError):
                    half.recv(1)
        assert half.recv(1) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /metr",
        b"GET /metrics HTTP/1.1\r\nAcc",
        b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=a\r\n\r\n",
    ],
)
def test_no_caller_writes_a_trace_among_the_lines_of_the_log(
    sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    page = MetricsPage.start(Address("127.0.0.1", 0), CollectorRegistry(), lambda: True)
    before = threading.active_count()
    try:
        made = socket.create_connection((page.address.host, page.address.port), 20)
        made.sendall(sent)
        if sent.endswith(b"\r\n\r\n"):
            assert made.recv(64).startswith(b"HTTP/1.0 500 ")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        made.close()  # by a reset
        assert answer(page.address, "/ready") == (200, "serving\n")
        while threading.active_count() > before:  # the connection's thread ends
            time.sleep(0.01)
    finally:
        page.stop()
    assert capfd.readouterr() == ("", "")


def test_an_address_in_use_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(NotOperable, match=r"cannot listen on 127\.0\.0\.1"):
            MetricsPage.start(address, CollectorRegistry(), lambda: True)


def test_an_aggregator_that_serves_is_ready(fresh: AggregatorHome) -> None:
    text = fresh.configuration.read_text()
    fresh.configuration.write_text(text.replace("127.0.0.1:7444", "127.0.0.1:0"))
    with serving(fresh) as served:
        assert answer(served.ready["metrics"], "/ready") == (200, "serving\n")
