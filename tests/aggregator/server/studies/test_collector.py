"""Collection of what ended studies left, over real devices and a clock that is set by hand."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.analyst import StudyExport, verify
from askance_aggregator.server.studies import (
    Collected,
    Collector,
    KeepLimits,
    ResultsDeleted,
    SubmissionLimits,
    SubmissionRefused,
    UnknownStudy,
)
from askance_aggregator.store import StudyNotEnded, StudyState, store_location
from askance_aggregator.studies.keep import UNLIMITED, Keep
from askance_client.messages import AckStatus, SignedStudy
from tests.aggregator.server.studies.conftest import RunIn, study
from tests.faults.deployment import Deployment
from tests.faults.people import PEOPLE, PUBLIC
from tests.postgresql import PostgresqlServer

DAY_S = 86_400
NOTHING = Collected(0, 0, 0)


def kept(reports_days: int | None = None, results_days: int | None = None) -> SignedStudy:
    """A study that signs so many days."""
    days = Keep(reports_days, results_days).parameters
    return study(parameters=(("column", "smoker"), *sorted(days.items())))


def collector(
    deployment: Deployment, default: Keep = UNLIMITED, most: Keep = UNLIMITED
) -> Collector:
    limits = KeepLimits(default, most)
    return Collector(deployment.disk.store, limits, deployment.clock, lambda _: False)


async def ended(deployment: Deployment, signed: SignedStudy) -> bytes:
    """Submit a study and let all devices answer it; return its digest."""
    digest = deployment.manager.submit(signed)
    await deployment.settle()
    for phone in deployment.phones:
        await phone.check_in()
    await deployment.settle()
    assert deployment.manager.status(digest, PUBLIC).state is StudyState.DONE
    return digest


def export(deployment: Deployment, digest: bytes) -> StudyExport:
    signed, lines, text, deleted = deployment.manager.export(digest, PUBLIC)
    return StudyExport(signed, tuple(lines), json.loads(text), 0, deleted)


def reports(deployment: Deployment, request: bytes) -> list[bytes]:
    """Return the reports to a request that the devices have in their ledgers, by ordinal."""
    ledgers = [deployment.disk.ledger(phone.ordinal) for phone in deployment.phones]
    return [report for ledger in ledgers if (report := ledger.stored(request)) is not None]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_reports_go_first_and_results_later(
    run_in: RunIn, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = await ended(deployment, kept(2, 5))
        assert collector(deployment).collect() == NOTHING
        before = export(deployment, digest)
        deployment.clock.advance(2 * DAY_S - 1)
        assert collector(deployment).collect() == NOTHING
        deployment.clock.advance(1)
        assert collector(deployment).collect().reports_of == 1
        assert collector(deployment).collect() == NOTHING
        left = export(deployment, digest)
        assert left == replace(before, reports_deleted_unix_s=deployment.clock.now)
        found = verify(left)
        assert (found.state, found.answers) == ("done", verify(before).answers)
        assert set(found.believed) - set(verify(before).believed) == {
            "the deletion of the reports on 2023-11-16, which the aggregator states"
        }
        deployment.clock.advance(3 * DAY_S)
        assert collector(deployment).collect() == Collected(0, 1, 0)
        assert collector(deployment).collect() == NOTHING
        for read in (deployment.manager.conclusion, deployment.manager.export):
            with pytest.raises(ResultsDeleted, match="got one deleted on 2023-11-19"):
                read(digest, PUBLIC)
        assert deployment.manager.status(digest, PUBLIC).state is StudyState.DONE
        assert deployment.manager.submit(kept(2, 5)) == digest  # known: it is not run again
        assert deployment.manager.status(digest, PUBLIC).state is StudyState.DONE

    stores: dict[str, dict[str, Any]] = {"memory": {}, "sqlite": {"folder": tmp_path}}
    if kind == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        stores[kind] = {"folder": tmp_path, "store": store_location(server.new_store())}
    run_in(scenario, **stores[kind])


def test_an_open_study_and_an_open_epoch_are_never_touched(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(kept(0, 0))
        await deployment.settle()
        await deployment.phones[0].check_in()
        deployment.clock.advance(400 * DAY_S)
        assert collector(deployment, Keep(0, 0), Keep(0, 0)).collect() == NOTHING
        for delete in (deployment.manager.delete_reports, deployment.manager.delete_results):
            with pytest.raises(StudyNotEnded, match="cancel it first"):
                delete(digest, PUBLIC)
        (request,) = {entry.request_digest for entry in deployment.disk.ledger(0).history()}
        assert len(list(deployment.disk.store.reports(request))) == 1

    run_in(scenario)


def test_a_late_report_of_a_deleted_study_is_late_and_not_stored(run_in: RunIn) -> None:
    """The device is told that its round is over; its report is not counted or kept again."""

    async def scenario(deployment: Deployment) -> None:
        await ended(deployment, kept(0))
        assert collector(deployment).collect().reports_of == 1
        (request,) = {entry.request_digest for entry in deployment.disk.ledger(0).history()}
        for ordinal, report in enumerate(reports(deployment, request)):
            acks = await deployment.hub.deliver(ordinal, [report])
            assert acks == [(request, AckStatus.LATE)]
        assert list(deployment.disk.store.reports(request)) == []

    run_in(scenario)


def test_an_analyst_deletes_reports_and_then_results(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest, manager = await ended(deployment, study()), deployment.manager
        for delete in (manager.delete_reports, manager.delete_results):
            with pytest.raises(UnknownStudy):
                delete(digest, bytes(32))
        manager.delete_reports(digest, PUBLIC)
        assert export(deployment, digest).reports_deleted_unix_s == deployment.clock.now
        found = collector(deployment).collect()
        assert (found.reports_of, found.rows) == (1, 6)
        _, lines, _, _ = manager.export(digest, PUBLIC)
        manager.delete_results(digest, PUBLIC)
        with pytest.raises(ResultsDeleted):  # an export under way never ends as if it were whole
            list(lines)
        with pytest.raises(ResultsDeleted):
            manager.export(digest, PUBLIC)

    run_in(scenario)


def test_a_study_that_signs_more_days_than_the_operator_keeps_is_refused(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        for signed, days in ((kept(31), 31), (kept(1, 91), 91)):
            with pytest.raises(
                SubmissionRefused, match=f"expected at most .*, got {days}"
            ) as error:
                deployment.manager.submit(signed)
            assert error.value.reason == "keep-refused"
        assert deployment.disk.store.studies() == {}
        deployment.manager.submit(kept(30, 90))

    limits = SubmissionLimits(keep=KeepLimits(UNLIMITED, Keep(30, 90)))
    run_in(scenario, limits=limits)


def test_an_operators_days_hold_for_studies_that_sign_none(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = await ended(deployment, PEOPLE.signed(0))
        collector(deployment).collect()
        deployment.clock.advance(3 * DAY_S)
        assert collector(deployment).collect() == NOTHING
        assert collector(deployment, Keep(4)).collect() == NOTHING
        assert collector(deployment, Keep(4), Keep(3)).collect().reports_of == 1
        assert export(deployment, digest).reports_deleted_unix_s == deployment.clock.now

    run_in(scenario)


def test_a_bound_that_the_operator_lowers_holds_for_days_that_are_signed(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        await ended(deployment, kept(60, 90))
        assert collector(deployment).collect() == NOTHING
        deployment.clock.advance(30 * DAY_S - 1)
        assert collector(deployment, most=Keep(30, 40)).collect() == NOTHING
        deployment.clock.advance(1)
        assert collector(deployment).collect() == NOTHING
        assert collector(deployment, most=Keep(30, 40)).collect().reports_of == 1
        deployment.clock.advance(10 * DAY_S)
        assert collector(deployment, most=Keep(30, 40)).collect().results_of == 1

    run_in(scenario)


def test_a_deletion_that_is_stopped_goes_on_at_the_next_start(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(deployment: Deployment) -> None:
        await ended(deployment, kept(0))
        store = deployment.disk.store
        parts = iter((4, 2, 0))
        monkeypatch.setattr(store.retention, "remove_rows", lambda *_: next(parts))
        stopping = Collector(store, KeepLimits(), deployment.clock, lambda _: True)
        assert stopping.collect().rows == 4
        assert collector(deployment).collect().rows == 2

    run_in(scenario)


def test_it_collects_at_once_at_every_interval_and_when_woken(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        times = threading.Semaphore(0)

        def now_s() -> int:
            times.release()
            return deployment.clock.now

        stopping = threading.Event()
        limits = KeepLimits(every_s=3600)
        running = Collector(deployment.disk.store, limits, now_s, stopping.wait)
        thread = threading.Thread(target=running.run, args=(stopping,))
        thread.start()
        assert times.acquire(timeout=30)
        running.wake()
        assert times.acquire(timeout=30)
        stopping.set()
        running.wake()
        thread.join(30)
        assert not thread.is_alive()
        assert not times.acquire(blocking=False)

    run_in(scenario)


def test_devices_lapse_by_the_days_that_the_operator_states(run_in: RunIn) -> None:
    """A device that calls every day keeps count for the others, which never call."""

    async def scenario(deployment: Deployment) -> None:
        store, pauses = deployment.disk.store, iter((True, False))
        register = store.register
        entries = register.devices()
        day = entries[0].enrolled_day
        assert day is not None

        def on(now_day: int, after: int | None = 7) -> Collected:
            return Collector(
                store, KeepLimits(), lambda: now_day * DAY_S, lambda _: next(pauses), after
            ).collect()

        for later in range(1, 9):
            register.note_seen([entries[-1].ordinal], day + later)
        assert on(day + 1_000, None) == NOTHING
        assert on(day + 7) == NOTHING
        assert on(day + 8) == Collected(0, 0, 0, len(entries) - 1)
        assert [one.ordinal for one in register.devices()] == [entries[-1].ordinal]
        assert on(day + 2_000) == NOTHING

    run_in(scenario)


def test_no_device_lapses_for_days_on_which_it_could_not_call(run_in: RunIn) -> None:
    """The service is down for forty days, starts, crashes, and starts again."""

    async def scenario(deployment: Deployment) -> None:
        store = deployment.disk.store
        register = store.register
        entries = register.devices()
        day = entries[0].enrolled_day
        assert day is not None

        def start(now_day: int) -> Collector:
            return Collector(store, KeepLimits(), lambda: now_day * DAY_S, lambda _: False, 7)

        def call(now_day: int) -> None:
            register.note_seen([entries[-1].ordinal], now_day)

        for later in range(1, 6):
            call(day + later)
        first = start(day + 45)
        assert first.collect() == NOTHING
        call(day + 45)
        assert first.collect() == NOTHING
        again = start(day + 46)  # it knows nothing of the outage
        assert again.collect() == NOTHING
        call(day + 46)
        assert again.collect() == NOTHING
        assert start(day + 90).collect() == NOTHING  # down once more, or a clock that is ahead
        call(day + 1_000)  # the eighth day
        assert start(day + 1_001).collect() == Collected(0, 0, 0, len(entries) - 1)

    run_in(scenario)


@pytest.mark.parametrize("calls", [0, 1])
def test_a_clock_that_was_behind_lets_no_device_lapse(run_in: RunIn, calls: int) -> None:
    """Devices are enrolled, and one maybe calls, by a clock that is forty called days behind."""

    async def scenario(deployment: Deployment) -> None:
        store = deployment.disk.store
        entries = store.register.devices()
        day = entries[0].enrolled_day
        assert day is not None

        def call(ordinal: int, now_day: int) -> Collector:
            store.register.note_seen([ordinal], now_day)
            return Collector(store, KeepLimits(), lambda: now_day * DAY_S, lambda _: False, 7)

        for later in range(41):
            call(0, day + later)
        fresh = store.enrol([(b"late", bytes([7]) * 32), (b"later", bytes([8]) * 32)])
        for ordinal in fresh[:calls]:
            assert call(ordinal, day + 1).collect() == NOTHING
        for later in range(41, 47):  # the clock is right again
            assert call(0, day + later).collect() == NOTHING
        absent = len(entries) - 1 + len(fresh) - calls  # on eight days, the next one included
        assert call(0, day + 47).collect() == Collected(0, 0, 0, absent)

    run_in(scenario)


def test_a_clock_that_was_ahead_for_long_lets_no_device_lapse(run_in: RunIn) -> None:
    """Ten calls of days to come are none, once the clock is right again."""

    async def scenario(deployment: Deployment) -> None:
        store = deployment.disk.store
        entries = store.register.devices()
        day = entries[0].enrolled_day
        assert day is not None
        for later in (1, 2, *range(500, 510)):
            store.register.note_seen([entries[-1].ordinal], day + later)
        now_s = (day + 3) * DAY_S
        collector = Collector(store, KeepLimits(), lambda: now_s, lambda _: False, 7)
        assert collector.collect() == NOTHING

    run_in(scenario)
