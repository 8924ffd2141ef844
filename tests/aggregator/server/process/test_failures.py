"""Failures of the machine: each is counted and logged, and the aggregator's health shows them."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from grpc_health.v1 import health_pb2, health_pb2_grpc

from askance_aggregator.server.process.failures import (
    DESCRIPTORS,
    FAILURES_TO_STOP_SERVING,
    STORE,
    Failures,
)
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.server.process.logs import logs_to
from askance_aggregator.store import SqliteStore, StoredReport
from askance_client.errors import StoreError, StoreFailed
from askance_client.messages import AckStatus
from tests.aggregator.server.process.conftest import Served, ran, serving
from tests.aggregator.server.process.people import People, submit
from tests.ports import free_port

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
REQUEST = bytes([1]) * 32


class Counted:
    """Metrics that a test reads."""

    def __init__(self) -> None:
        self.commits = self.descriptors = 0
        self.in_a_row: dict[str, int] = {}

    def commit_failed(self) -> None:
        self.commits += 1

    def descriptors_exhausted(self) -> None:
        self.descriptors += 1

    def failures_in_a_row(self, kind: str, count: int) -> None:
        self.in_a_row[kind] = count


class Scene:
    """Failures with a clock that is set, and what became of them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.counted = Counted()
        self.changes: list[bool] = []
        self.failures = Failures(self.counted, self.changes.append, lambda: self.now_s)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def full(tmp_path: Path, scene: Scene) -> Iterator[SqliteStore]:
    """A store whose file may not grow, by a limit of SQLite's own."""
    SqliteStore.create(tmp_path / "store").close()
    with closing(SqliteStore.open(tmp_path / "store", scene.failures)) as store:
        _limit(store, 1)
        yield store


def _limit(store: SqliteStore, pages: int) -> None:
    store._file.connection.execute(f"PRAGMA max_page_count={pages}")


def _reports(size: int) -> list[StoredReport]:
    return [StoredReport(REQUEST, 0, bytes(size))]


def test_a_full_disk_is_counted_and_taken_out_of_service_until_a_write_succeeds(
    scene: Scene, full: SqliteStore
) -> None:
    for failures in range(1, FAILURES_TO_STOP_SERVING + 1):
        assert scene.changes == []
        with pytest.raises(StoreFailed, match="database or disk is full"):
            full.accept(_reports(100_000))
        assert scene.counted.commits == failures
    assert scene.changes == [True]
    assert scene.counted.in_a_row == {STORE: FAILURES_TO_STOP_SERVING}
    _limit(full, 1 << 20)
    assert full.accept(_reports(100_000)) == [AckStatus.ACCEPTED]
    assert scene.changes == [True, False]
    assert scene.counted.in_a_row == {STORE: 0}


def test_a_disk_that_has_room_again_is_noticed_without_traffic(
    scene: Scene, full: SqliteStore
) -> None:
    for _ in range(FAILURES_TO_STOP_SERVING):
        with pytest.raises(StoreFailed):
            full.accept(_reports(100_000))
    scene.failures.look(full)
    assert scene.changes == [True]
    _limit(full, 1 << 20)
    scene.failures.look(full)
    assert scene.changes == [True, False]


def test_a_refusal_of_the_store_is_no_failure_of_its_disk(scene: Scene, full: SqliteStore) -> None:
    for _ in range(2 * FAILURES_TO_STOP_SERVING):
        with pytest.raises(StoreError, match="expected a stored one"):
            full.log(REQUEST)
    assert (scene.changes, scene.counted.commits) == ([], 0)


def test_exhausted_descriptors_are_counted_and_taken_out_of_service_until_there_are_some(
    scene: Scene, full: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", exhausted)
        for _ in range(FAILURES_TO_STOP_SERVING):
            scene.failures.look(full)
    assert scene.counted.descriptors == FAILURES_TO_STOP_SERVING
    assert scene.changes == [True]
    scene.failures.look(full)
    assert scene.changes == [True, False]
    assert scene.counted.in_a_row == {DESCRIPTORS: 0}


def test_failures_are_logged_at_once_and_then_once_a_minute(scene: Scene) -> None:
    stream = io.StringIO()
    with logs_to(stream, "info"):
        for now_s in (0.0, 1.0, 59.0, 60.0, 61.0):
            scene.now_s = now_s
            scene.failures.store_failed(StoreFailed("the disk is full"))
        scene.failures.store_written()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["event"], one["failures_in_a_row"], one.get("not_logged")) for one in events] == [
        ("store: failing", 1, 0),
        ("store: failing", 4, 2),
        ("store: works again", 5, None),
    ]
    assert events[0]["message"] == "the disk is full"


def test_a_full_disk_is_seen_in_health_metrics_log_and_status_and_passes(
    fresh: AggregatorHome,
) -> None:
    """A limit on the size of the process's files stands in for the disk."""
    text = fresh.configuration.read_text()
    whole, _, rest = text.partition("[metrics]")
    fresh.configuration.write_text(f"{whole}[metrics]{rest.replace(':0', f':{free_port()}')}")
    token = json.loads(
        ran(
            "aggregator", "token", "--config", fresh.configuration, "--devices", "9000", "--json"
        ).stdout
    )["token"]
    with serving(fresh) as served, served.channel() as channel:
        People(fresh.analyst, 2_000).enrol(channel, token)  # the log of writes outgrows the logs
        written = fresh.folder.joinpath("store.sqlite-wal").stat().st_size
        unlimited = resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (written, unlimited[1]))
        for _ in range(FAILURES_TO_STOP_SERVING):
            with pytest.raises(grpc.RpcError) as refused:
                People(fresh.analyst, 2_100).enrol(channel, token)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        await_health(channel, NOT_SERVING)
        page = _page(served)
        failures = _value(page, "askance_commit_failures_total")
        assert failures >= FAILURES_TO_STOP_SERVING
        assert _value(page, 'askance_failures_in_a_row{kind="store"}') >= FAILURES_TO_STOP_SERVING
        done = ran(
            "aggregator", "status", "--config", fresh.configuration, "--listen", served.address
        )
        assert done.stdout.startswith(
            f"{served.address}: not serving (failing: store; see its log)"
        )
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, unlimited)
        await_health(channel, SERVING)
        assert People(fresh.analyst, 2_100).enrol(channel, token) == (100, 2_000)
        logged = [event["event"] for event in served.events()]
        assert logged.count("store: failing") == 1
        assert logged.count("store: works again") == 1


def test_the_page_shows_store_rounds_lag_and_certificate(fresh: AggregatorHome) -> None:
    people = People(fresh.analyst, 5)
    with closing(SqliteStore.open(fresh.folder / "store.sqlite")) as store:
        store.enrol(people.enrolled())
    with serving(fresh) as served, served.channel() as channel:
        digest = submit(channel, load_pem_private_key(fresh.analyst_key.read_bytes(), None))
        study = f'{{study="{digest.hex()[:16]}"}}'
        until = time.monotonic() + 30
        while f"askance_round_asked{study} 5.0" not in (page := _page(served)):
            assert time.monotonic() < until, page
        assert f"askance_round_answered{study} 0.0" in page
        assert _value(page, f"askance_round_age_seconds{study}") >= 0
        assert _value(page, "askance_oldest_round_age_seconds") >= 0
        assert _value(page, "askance_store_bytes") > 4096
        assert _value(page, "askance_certificate_expires_timestamp_seconds") > time.time()
        while not _value(page, "askance_event_loop_lag_seconds_count"):
            assert time.monotonic() < until, page
            page = _page(served)


def await_health(channel: grpc.Channel, status: int) -> None:
    """Ask the health service until it says so."""
    stub, until = health_pb2_grpc.HealthStub(channel), time.monotonic() + 60
    while stub.Check(health_pb2.HealthCheckRequest(), timeout=60).status != status:
        assert time.monotonic() < until
        time.sleep(0.05)


def _page(served: Served) -> str:
    with urllib.request.urlopen(f"http://{served.ready['metrics']}/metrics") as reply:
        page: str = reply.read().decode()
    return page


def _value(page: str, name: str) -> float:
    (found,) = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(found.split()[-1])
