"""Figures of the fleet, from the metrics of a process and its store."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.callers import AuditRecorder
from askance_aggregator.server.devices import AggregatorServer, RoundProgress, ServerParts
from askance_aggregator.server.process import process
from askance_aggregator.server.process.configuration import read_configuration
from askance_aggregator.server.process.figures import COST_BOUNDS, FleetReader, cost_bins
from askance_aggregator.server.process.health import Health
from askance_aggregator.server.process.metrics import PrometheusObserver
from askance_aggregator.store import (
    Conclusion,
    PostgresqlLocation,
    Receiving,
    ReplicaCounts,
    SqliteStore,
    StudyState,
)
from askance_aggregator.store.register import DeviceSelection
from askance_client.messages import AckStatus, Reason, SignedStudy
from askance_protos.v1 import operator_pb2 as pb
from tests.postgresql import PostgresqlServer

NAT = 10**9


def test_figures_are_those_of_the_metrics() -> None:
    observer = PrometheusObserver(CollectorRegistry())
    rounds = [RoundProgress(bytes([n] * 32), 10 * n, n, float(n)) for n in (1, 3, 2)]
    observer.rounds(lambda: rounds)
    observer.certificate(lambda: 900)
    for _ in range(3):
        observer.acknowledged(AckStatus.ACCEPTED)
        observer.charged(NAT // 2)
    observer.acknowledged(AckStatus.LATE)
    observer.checked_in(0.1)
    observer.connected(7)
    observer.commit_failed()
    observer.refused(Reason.OVER_STUDY_BUDGET)
    store = SqliteStore.in_memory()
    store.enrol([(b"device", bytes(32))])
    reader = FleetReader(observer.registry, store, 9 * NAT, lambda: 50)
    found = reader.read()
    assert (found.enrolled, found.connected, found.reports, found.check_ins) == (1, 7, 3, 1)
    assert found.certificate_ends_unix_s == 900
    assert (found.spent_nano_nats, found.user_nano_nats) == (3 * NAT // 2, 9 * NAT)
    assert list(found.rounds) == [
        pb.RoundFigures(study_prefix=bytes([n] * 8), asked=10 * n, answered=n, age_s=float(n))
        for n in (3, 2, 1)
    ]
    assert list(found.failures) == [
        pb.FailureCount(kind="device", reason="over-study-budget", count=1),
        pb.FailureCount(kind="commit", count=1),
    ]
    store.enrol([(b"another", bytes(32))])
    assert reader.read().enrolled == 2


def test_webhooks_are_those_of_the_store() -> None:
    store = SqliteStore.in_memory()
    reader = FleetReader(CollectorRegistry(), store, None, lambda: 50)
    assert not reader.read().webhooks
    store.webhooks.announce_to([Receiving("warehouse")])
    store.add_study(bytes(32), SignedStudy(b"a study", b"a key", b"a signature"))
    store.conclude(bytes(32), Conclusion(StudyState.DONE, "done", "", "{}"))
    claim = store.webhooks.claim("warehouse", 60)
    assert claim is not None
    assert store.webhooks.failed(claim, "expected status 2xx, got 500", 0, -1)
    assert list(reader.read().webhooks) == [
        pb.WebhookFigures(receiver="warehouse", failed=1, last_error="expected status 2xx, got 500")
    ]


def test_figures_are_the_sums_over_replicas(postgresql: PostgresqlServer) -> None:
    """The console showed 0 devices connected while 5,000 hung on the other replica."""
    location = PostgresqlLocation(postgresql.new_store())
    with closing(location.open()) as here, closing(location.open()) as there:
        for store, name, counts in (
            (here, "here", ReplicaCounts()),
            (there, "there", ReplicaCounts(5_000, 12, 400, 3, 2, NAT)),
        ):
            store.replicas.register(name)
            store.replicas.announce(f"{name}:1", partial(replace, counts))
            next(store.replicas.renewals(threading.Event()))
        observer = PrometheusObserver(CollectorRegistry())
        observer.connected(2)  # since its row was written
        observer.acknowledged(AckStatus.ACCEPTED)
        found = FleetReader(observer.registry, here, None, lambda: 50).read()
        assert (found.connected, found.streams, found.reports) == (5_002, 12, 401)
        assert (found.refusals, found.check_ins, found.spent_nano_nats) == (3, 2, NAT)
        shown = [(one.name, one.connected, one.answers, one.counted) for one in found.replicas]
        assert shown == [("here", 2, True, True), ("there", 5_000, False, True)]
        assert found.replicas[0].seen_s == 0
        assert 0 < found.replicas[1].seen_s < 5


def test_the_one_process_of_a_store_is_a_row_of_its_own() -> None:
    observer = PrometheusObserver(CollectorRegistry())
    observer.connected(3)
    store = SqliteStore.in_memory()
    found = FleetReader(observer.registry, store, None, lambda: 50).read()
    assert found.connected == 3
    (row,) = found.replicas
    assert (row.name, row.connected, row.answers, row.counted) == ("", 3, True, True)


def test_a_forgotten_device_is_not_enrolled() -> None:
    store = SqliteStore.in_memory()
    store.enrol([(b"one", bytes(32)), (b"two", bytes(32)), (b"three", bytes(32))])
    store.register.revoke(DeviceSelection(ids=(b"two",)))
    store.register.forget(DeviceSelection(ids=(b"three",)))
    assert FleetReader(CollectorRegistry(), store, None, lambda: 50).read().enrolled == 2


def test_the_bound_of_a_user_is_the_one_that_was_read_last(tmp_path: Path) -> None:
    """Studies kept to the bound of a reload while operators were shown the one before."""
    path, store = tmp_path / "aggregator.toml", SqliteStore.in_memory()
    text = 'listen = "127.0.0.1:0"\nstore = "sqlite:///store"\n[limits]\nepsilon_per_user = "9"\n'
    path.write_text(text)
    before = read_configuration(path, environment={})
    after = replace(before, limits=replace(before.limits, user_nano_nats=2 * NAT))
    observer = PrometheusObserver(CollectorRegistry())
    with ThreadPoolExecutor(1) as executor:
        recorder = AuditRecorder(store.audit, system_now_s)
        beside = process._Beside(
            before, store, observer, executor, executor, Health(), system_now_s, recorder
        )
        with AggregatorServer.start(store, parts=ServerParts(services=(beside.add_to,))) as server:
            assert beside.figures.read().user_nano_nats == 9 * NAT
            beside.change(server, 10, after)
            assert beside.figures.read().user_nano_nats == 2 * NAT
            beside.manager.stop()


def test_the_size_of_a_store_is_read_again_after_two_seconds() -> None:
    class Growing(SqliteStore):
        def size_bytes(self) -> int:
            sizes.append(0)
            return len(sizes)

    sizes: list[int] = []
    now_s = [50]
    reader = FleetReader(CollectorRegistry(), Growing.in_memory(), None, lambda: now_s[0])
    found = []
    for now_s[0] in (50, 51, 52, 53, 54, 40):  # the last one: the clock was set back
        found.append(reader.read().store_bytes)
    assert found == [1, 1, 2, 2, 3, 4]


def test_figures_that_a_store_cannot_give_yet_are_zero() -> None:
    observer = PrometheusObserver(CollectorRegistry())
    found = FleetReader(observer.registry, SqliteStore.in_memory(), None, lambda: 50).read()
    assert (found.store_bytes, found.certificate_ends_unix_s, list(found.rounds)) == (0, 0, [])
    assert (found.asked_nano_nats, found.user_nano_nats, list(found.failures)) == (0, 0, [])


def test_a_study_is_in_the_bin_whose_bounds_are_around_its_cost() -> None:
    costs = [0, NAT // 10 - 1, NAT // 10, NAT, 2 * NAT - 1, 8 * NAT, 100 * NAT]
    found = cost_bins(costs)
    assert [one.below_nano_nats for one in found] == [*COST_BOUNDS, 0]
    assert [one.studies for one in found] == [2, 1, 0, 0, 2, 0, 0, 2]
    assert cost_bins([])[0] == pb.CostBin(below_nano_nats=NAT // 10)
