"""Metrics: every event of the service is counted once, under names that Prometheus reads."""

from __future__ import annotations

import urllib.error
import urllib.request

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from askance_aggregator.server.devices import Observer
from askance_aggregator.server.process.metrics import MetricsPage, PrometheusObserver
from askance_aggregator.server.process.status import _rounds
from askance_aggregator.store import RoundAnswers, StudyState
from askance_aggregator.store.register import SeenDevices
from askance_client.addresses import Address
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, Reason

Samples = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def observer(registry: CollectorRegistry) -> PrometheusObserver:
    return PrometheusObserver(registry)


def samples(registry: CollectorRegistry) -> Samples:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def tell(observer: Observer) -> None:
    observer.stream_opened()
    observer.stream_opened()
    observer.stream_closed()
    observer.connected(3)
    observer.checked_in(0.25)
    observer.committed(7, 0.5)
    observer.acknowledged(AckStatus.ACCEPTED)
    observer.acknowledged(AckStatus.DUPLICATE)
    observer.refused(Reason.OVER_STUDY_BUDGET)
    observer.charged(500_000_000)
    observer.charged(250_000_000)
    observer.round_opened()
    observer.call_refused(grpc.StatusCode.UNAUTHENTICATED)


def test_every_event_has_a_metric() -> None:
    """An event that a subclass of `Observer` does not override is discarded."""
    events = {name for name in vars(Observer) if not name.startswith("_")}
    assert events
    assert events - vars(PrometheusObserver).keys() == set()


def test_what_is_told_is_counted(registry: CollectorRegistry, observer: PrometheusObserver) -> None:
    tell(observer)
    found = samples(registry)
    expected = {
        ("askance_streams", ()): 1,
        ("askance_connected", ()): 3,
        ("askance_check_in_seconds_count", ()): 1,
        ("askance_check_in_seconds_sum", ()): 0.25,
        ("askance_commit_seconds_sum", ()): 0.5,
        ("askance_commit_reports_sum", ()): 7,
        ("askance_commit_reports_bucket", ("16.0",)): 1,
        ("askance_commit_reports_bucket", ("4.0",)): 0,
        ("askance_reports_total", ("accepted",)): 1,
        ("askance_reports_total", ("duplicate",)): 1,
        ("askance_reports_total", ("conflict",)): 0,
        ("askance_refusals_total", ("over-study-budget",)): 1,
        ("askance_epsilon_spent_nats_total", ()): 0.75,
        ("askance_rounds_total", ()): 1,
        ("askance_calls_refused_total", ("unauthenticated",)): 1,
    }
    assert {key: found[key] for key in expected} == expected
    assert all(name.startswith("askance_") for name, _ in found)


def test_studies_are_counted_in_the_store_whichever_replica_ended_them(
    registry: CollectorRegistry, observer: PrometheusObserver
) -> None:
    """After a rolling restart one replica showed an open study for ever."""

    def states() -> dict[str, float]:
        found = samples(registry).items()
        return {labels[0]: value for (name, labels), value in found if "studies" in name}

    in_store = {StudyState.OPEN: 1, StudyState.DONE: 0}
    failing = False

    def count() -> dict[StudyState, int]:
        if failing:
            raise StoreError("store: cannot be read")
        return in_store

    observer.studies(count)
    assert states() == {"open": 1, "done": 0}
    in_store = {StudyState.OPEN: 0, StudyState.DONE: 1}
    assert states() == {"open": 0, "done": 1}
    in_store, failing = {}, True
    assert states() == {"open": 0, "done": 1}


def test_silent_devices_are_shown_by_tag(
    registry: CollectorRegistry, observer: PrometheusObserver
) -> None:
    seen = [SeenDevices("", 9, 4, 5, 6, 1), SeenDevices("north", 2, 0, 1, 2, 0)]
    rounds = [RoundAnswers("ab" * 8, 3, 1, "", 9, 4, 2)]
    observer.silence(lambda: seen, lambda: rounds)
    found = samples(registry)
    by_call = "askance_devices_last_seen"
    assert {key[1]: value for key, value in found.items() if key[0] == by_call} == {
        ("today", ""): 4,
        ("week", ""): 1,
        ("month", ""): 1,
        ("older", ""): 2,
        ("never", ""): 1,
        ("today", "north"): 0,
        ("week", "north"): 1,
        ("month", "north"): 1,
        ("older", "north"): 0,
        ("never", "north"): 0,
    }
    by_answer = "askance_round_devices"
    assert {key[1]: value for key, value in found.items() if key[0] == by_answer} == {
        ("3", "1", "answered", "ab" * 8, ""): 4,
        ("3", "1", "silent", "ab" * 8, ""): 2,
        ("3", "1", "away", "ab" * 8, ""): 3,
    }
    page = list(text_string_to_metric_families(generate_latest(registry).decode()))
    assert list(_rounds(page)) == rounds  # as `aggregator status` reads them again


def test_devices_are_counted_when_somebody_looks(
    registry: CollectorRegistry, observer: PrometheusObserver
) -> None:
    enrolled = [3]
    observer.population(lambda: enrolled[0])
    assert samples(registry)["askance_devices", ()] == 3
    enrolled[0] = 5
    assert samples(registry)["askance_devices", ()] == 5


def test_the_page_is_there_until_it_is_stopped(
    registry: CollectorRegistry, observer: PrometheusObserver
) -> None:
    observer.round_opened()
    page = MetricsPage.start(Address("127.0.0.1", 0), registry, lambda: True)
    with urllib.request.urlopen(f"http://{page.address}/metrics", timeout=10) as reply:
        assert "askance_rounds_total 1.0" in reply.read().decode()
    page.stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://{page.address}/metrics", timeout=10)
