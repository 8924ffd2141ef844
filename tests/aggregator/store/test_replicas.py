"""Replicas of one store: leases with fencing tokens, closed rounds, and reports of each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql

from askance_aggregator.store import (
    COUNTED_S,
    Conclusion,
    Deadline,
    LeaseLost,
    PostgresqlLocation,
    ReplicaCounts,
    ReplicaEntry,
    RoundAnswers,
    SharedStudy,
    SqliteStore,
    Store,
    StoredReport,
    StudyState,
    TakingRound,
    sum_counts,
)
from askance_aggregator.store.postgresql import replicas as postgresql_replicas
from askance_aggregator.store.replicas import Replicas
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy
from tests.postgresql import PostgresqlServer

STUDY, REQUEST = bytes([1]) * 32, bytes([2]) * 32
SIGNED = SignedStudy(b"a study", b"a key", b"a signature")
DONE = Conclusion(StudyState.DONE, "done", "", "{}")
ACCEPTED, DUPLICATE, LATE = AckStatus.ACCEPTED, AckStatus.DUPLICATE, AckStatus.LATE


@pytest.fixture
def location(postgresql: PostgresqlServer) -> PostgresqlLocation:
    return PostgresqlLocation(postgresql.new_store())


@pytest.fixture
def first(location: PostgresqlLocation) -> Iterator[Store]:
    with closing(location.open()) as store:
        store.replicas.register("first")
        store.replicas.announce("127.0.0.1:1")
        yield store


@pytest.fixture
def second(location: PostgresqlLocation) -> Iterator[Store]:
    with closing(location.open()) as store:
        store.replicas.register("second")
        store.replicas.announce("127.0.0.1:2")
        yield store


def open_round(store: Store, study: bytes = STUDY, request: bytes = REQUEST) -> None:
    """Let a store drive a study whose first round is open."""
    store.add_study(study, SIGNED)
    assert store.replicas.acquire(study)
    store.log(study).append("header")
    store.log(study).append("asked")
    store.open_round(study, 0, [request], None)


def expire(location: PostgresqlLocation) -> None:
    """Let the leases end, as the database's clock would."""
    with psycopg.connect(location.url) as connection:
        connection.execute("UPDATE askance.leases SET expires_at = clock_timestamp()")


def report(ordinal: int, data: bytes = b"r") -> StoredReport:
    return StoredReport(REQUEST, ordinal, data)


@pytest.mark.parametrize("rule", [False, True])
def test_replicas_with_two_rules_about_approvals_do_not_serve_together(
    location: PostgresqlLocation, rule: bool
) -> None:
    with closing(location.open()) as one, closing(location.open()) as two:
        one.replicas.register("one", needs_approval=rule)
        with pytest.raises(
            StoreError, match=r"approval\.needed: expected .*, as replica 'one' has"
        ):
            two.replicas.register("two", needs_approval=not rule)
        assert [entry.name for entry in two.replicas.listing()] == ["one"]
        assert not one.replicas.others_need_approval()
        with psycopg.connect(location.url) as connection:  # it stands still for longer than a lease
            connection.execute("UPDATE askance.replicas SET seen_at = seen_at - interval '7 s'")
        with closing(location.open()) as three:
            three.replicas.register("three", needs_approval=not rule)
            assert one.replicas.others_need_approval() is not rule
            with closing(location.open()) as four:
                four.replicas.register("four", needs_approval=not rule)
            three.replicas.leave()


def test_the_one_process_of_a_store_holds_every_lease() -> None:
    with closing(SqliteStore.in_memory()) as made:
        made.replicas.register("sole")
        made.replicas.announce("127.0.0.1:1")
        open_round(made)
        with made.replicas.submitting():
            assert made.replicas.acquire(STUDY)
        made.replicas.cancel(STUDY)
        made.replicas.release(STUDY)
        made.close_round(STUDY, 0)
        assert made.replicas.stored([REQUEST]) == (None, 0)
        assert made.replicas.stored_since([REQUEST], 0) == ([], 0)
        never = threading.Event()
        assert list(made.replicas.looks(never)) == list(made.replicas.renewals(never)) == []
        assert made.replicas.listing() == []
        assert made.replicas.open_studies() == []
        assert made.replicas.round_lines(STUDY, 0) == []
        made.replicas.hint()


def test_a_shared_store_does_nothing_as_the_one_process_of_another() -> None:
    """A method that is not overridden holds every lease, or hears of no other process."""
    stated, own = vars(Replicas), vars(postgresql_replicas.PostgresqlReplicas)
    assert {name for name in stated if not name.startswith("_")} - set(own) == {"name"}


def test_a_study_has_one_holder_until_its_lease_ends(
    first: Store, second: Store, location: PostgresqlLocation
) -> None:
    first.add_study(STUDY, SIGNED)
    assert second.replicas.open_studies() == [SharedStudy(STUDY, True, False, None)]
    assert first.replicas.acquire(STUDY)
    assert first.replicas.acquire(STUDY)  # again: it is held
    assert not second.replicas.acquire(STUDY)
    assert second.replicas.open_studies() == [SharedStudy(STUDY, False, False, None)]
    expire(location)
    assert second.replicas.open_studies() == [SharedStudy(STUDY, True, False, None)]
    assert second.replicas.acquire(STUDY)
    second.replicas.release(STUDY)
    assert first.replicas.open_studies() == [SharedStudy(STUDY, True, False, None)]


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_replica_whose_clock_is_wrong_takes_no_lease_and_loses_none(
    hours: int, first: Store, second: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's clock alone judges a lease: those of replicas may differ."""
    first.add_study(STUDY, SIGNED)
    assert first.replicas.acquire(STUDY)
    off_s = hours * 3_600
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + off_s)
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + off_s * 10**9)
    assert not second.replicas.acquire(STUDY)
    assert second.replicas.open_studies() == [SharedStudy(STUDY, False, False, None)]
    first.replicas.release(STUDY)
    assert second.replicas.open_studies() == [SharedStudy(STUDY, True, False, None)]
    assert second.replicas.acquire(STUDY)


def test_replicas_that_race_for_a_lease_have_one_winner(first: Store, second: Store) -> None:
    digests = [bytes([number]) * 32 for number in range(20)]
    for digest in digests:
        first.add_study(digest, SIGNED)
    won: dict[str, list[bytes]] = {"first": [], "second": []}
    together = threading.Barrier(2)

    def race(name: str, store: Store) -> None:
        together.wait(30)
        won[name] = [digest for digest in digests if store.replicas.acquire(digest)]

    run_both(lambda: race("first", first), lambda: race("second", second))
    assert sorted(won["first"] + won["second"]) == digests


def test_a_stale_token_writes_nothing(
    first: Store, second: Store, location: PostgresqlLocation
) -> None:
    """The first was paused past its lease: each write of a driver is refused."""
    open_round(first)
    log = first.log(STUDY)
    expire(location)
    assert second.replicas.acquire(STUDY)
    deadline = Deadline("boot", 1, 1)
    writes: list[Callable[[], object]] = [
        lambda: log.append("stale"),
        lambda: first.open_round(STUDY, 1, [bytes(32)], None),
        lambda: first.note_deadline(STUDY, 0, deadline),
        lambda: first.close_round(STUDY, 0),
        lambda: first.conclude(STUDY, DONE),
    ]
    for write in writes:
        with pytest.raises(LeaseLost, match="found it held by 'second'; nothing was written"):
            write()
    assert list(second.log(STUDY).lines()) == ["header", "asked"]
    assert second.asked(bytes(32)) is None
    assert second.conclusion(STUDY) is None
    assert second.open_round(STUDY, 0, [REQUEST], None).closed is False
    assert first.accept([report(0)]) == [ACCEPTED]  # to take a report needs no lease
    expire(location)
    assert first.replicas.acquire(STUDY) is True  # by name only until the loss is known
    with pytest.raises(LeaseLost):
        first.close_round(STUDY, 0)


def test_renewal_keeps_a_lease_and_finds_a_lost_one(
    first: Store, second: Store, location: PostgresqlLocation
) -> None:
    stopping = threading.Event()
    first.add_study(STUDY, SIGNED)
    first.replicas.acquire(STUDY)
    renewals = first.replicas.renewals(stopping)
    expire(location)
    assert next(renewals) == frozenset()  # ended, and not taken: it is renewed
    assert not second.replicas.acquire(STUDY)
    expire(location)
    assert second.replicas.acquire(STUDY)
    assert next(renewals) == frozenset({STUDY})
    stopping.set()
    assert list(renewals) == []
    with pytest.raises(LeaseLost):
        first.close_round(STUDY, 0)


def test_a_replica_that_has_lost_a_lease_does_not_give_it_back(
    first: Store, second: Store, location: PostgresqlLocation
) -> None:
    first.add_study(STUDY, SIGNED)
    first.replicas.acquire(STUDY)
    expire(location)
    assert second.replicas.acquire(STUDY)
    first.replicas.release(STUDY)  # its own, which is another's by now
    assert first.replicas.open_studies() == [SharedStudy(STUDY, False, False, None)]
    assert not first.replicas.acquire(STUDY)
    second.close_round(STUDY, 0)


def test_a_name_is_one_processs_and_its_successor_frees_its_leases(
    first: Store, second: Store, location: PostgresqlLocation, postgresql: PostgresqlServer
) -> None:
    first.add_study(STUDY, SIGNED)
    first.replicas.acquire(STUDY)
    assert second.replicas.listing() == [
        ReplicaEntry("first", "127.0.0.1:1", 0, (STUDY.hex(),)),
        ReplicaEntry("second", "127.0.0.1:2", 0, ()),
    ]
    with closing(location.open()) as another:
        with pytest.raises(StoreError, match="got 'first', which a running process has"):
            another.replicas.register("first")
        first.close()
        another.replicas.register("first")
        another.replicas.announce("127.0.0.1:3")
        assert second.replicas.acquire(STUDY)
        assert another.replicas.listing()[0] == ReplicaEntry("first", "127.0.0.1:3", 0, ())


def renewed(store: Store, counts: ReplicaCounts) -> None:
    """Let a replica announce its counts and renew its leases once."""
    store.replicas.announce("127.0.0.1:1", lambda: counts)
    assert next(store.replicas.renewals(threading.Event())) == frozenset()


def test_replicas_write_their_counts_beside_their_leases(
    first: Store, second: Store, location: PostgresqlLocation
) -> None:
    """A replica knew its own devices alone, and the fleet was shown as those of one."""
    assert sum_counts(first.replicas.listing()) is None  # no replica has counted yet
    renewed(first, ReplicaCounts(connected=2, streams=1, reports=40, spent_nano_nats=9))
    renewed(second, ReplicaCounts(connected=5_000, streams=1, refusals=3, check_ins=7))
    both = ReplicaCounts(5_002, 2, 40, 3, 7, 9)
    assert sum_counts(second.replicas.listing()) == both
    assert [one.counts and one.counts.connected for one in first.replicas.listing()] == [2, 5_000]
    assert all(0 <= one.seen_s < COUNTED_S for one in first.replicas.listing())
    with psycopg.connect(location.url) as connection:  # the second has died
        connection.execute(
            "UPDATE askance.replicas SET seen_at = seen_at - interval '6 s' WHERE name = 'second'"
        )
    listed = first.replicas.listing()
    assert [one.is_counted for one in listed] == [True, False]
    assert 6 <= listed[1].seen_s < 60
    assert sum_counts(listed) == ReplicaCounts(2, 1, 40, 0, 0, 9)
    with psycopg.connect(location.url) as connection:  # a later version counts something more
        connection.execute(
            'UPDATE askance.replicas SET counts = \'{"connected": 7, "more": 1}\''
            " WHERE name = 'first'"
        )
    assert first.replicas.listing()[0].counts == ReplicaCounts(connected=7)
    first.replicas.leave()
    assert [one.name for one in second.replicas.listing()] == ["second"]


def test_replicas_read_each_others_silent_devices(
    first: Store, second: Store, location: PostgresqlLocation
) -> None:
    row = RoundAnswers("ab" * 8, 0, 1, "north", 9, 4, 2)
    rows = [row]
    never = threading.Event()
    first.replicas.announce("127.0.0.1:1", answers=lambda: rows)
    renewals = first.replicas.renewals(never)
    next(renewals)
    assert second.replicas.others_answers() == [row]
    assert first.replicas.others_answers() == []  # its own are in its memory
    longer = '[["abababababababab", 0, 1, "north", 9, 4, 2, "of a later version"]]'
    with psycopg.connect(location.url) as connection:
        connection.execute(
            "UPDATE askance.replicas SET answers = %s WHERE name = 'first'", (longer,)
        )
    assert second.replicas.others_answers() == [row]
    with psycopg.connect(location.url) as connection:
        connection.execute("UPDATE askance.replicas SET seen_at = seen_at - interval '6 s'")
    assert second.replicas.others_answers() == []  # of a replica that has died


def test_a_replica_that_is_started_again_counts_from_the_start(
    first: Store, second: Store, location: PostgresqlLocation
) -> None:
    renewed(first, ReplicaCounts(connected=9))
    first.close()
    with closing(location.open()) as again:
        again.replicas.register("first")
        assert second.replicas.listing()[0].counts is None


def test_a_closed_round_takes_no_report_from_any_replica(first: Store, second: Store) -> None:
    open_round(first)
    assert second.accept([report(0), report(0, b"other")]) == [ACCEPTED, AckStatus.CONFLICT]
    first.close_round(STUDY, 0)
    other = StoredReport(bytes(32), 0, b"of no round")
    assert second.accept([report(1), other, report(0), report(0, b"other")]) == [
        LATE,
        ACCEPTED,
        DUPLICATE,
        AckStatus.CONFLICT,
    ]
    assert list(first.reports(REQUEST)) == [(0, b"r")]


def test_an_ended_study_takes_no_report(first: Store, second: Store) -> None:
    open_round(first)
    first.conclude(STUDY, DONE)
    assert second.accept([report(0)]) == [LATE]
    assert second.replicas.open_studies() == []


def test_what_is_accepted_while_a_round_closes_is_stored_before_it_has_closed(
    first: Store, second: Store
) -> None:
    """Whatever the order: each report is accepted and seen after the close, or late and absent."""
    open_round(first)
    accepted: list[int] = []
    begun = threading.Event()

    def deliver() -> None:
        for ordinal in range(400):
            (status,) = second.accept([report(ordinal)])
            if status is LATE:
                return
            accepted.append(ordinal)
            if ordinal == 20:
                begun.set()
        raise AssertionError("expected the round to close meanwhile")

    def close() -> None:
        begun.wait(30)
        first.close_round(STUDY, 0)
        seen.extend(ordinal for ordinal, _ in first.reports(REQUEST))

    seen: list[int] = []
    run_both(deliver, close)
    assert seen == accepted


def test_one_report_delivered_to_two_replicas_is_stored_once(first: Store, second: Store) -> None:
    open_round(first)
    statuses: list[AckStatus] = []
    together = threading.Barrier(2)

    def deliver(store: Store) -> None:
        for ordinal in range(50):
            together.wait(30)
            statuses.extend(store.accept([report(ordinal)]))

    run_both(lambda: deliver(first), lambda: deliver(second))
    assert statuses.count(ACCEPTED) == statuses.count(DUPLICATE) == 50
    assert len(list(first.reports(REQUEST))) == 50


def stored_since(store: Store, position: int) -> tuple[list[tuple[int, bytes]], int]:
    """Return the reports one by one, and the new position."""
    found, position = store.replicas.stored_since([REQUEST], position)
    return [(ordinal, data) for data, ordinals in found for ordinal in ordinals], position


def position_of(store: Store) -> int:
    return store.replicas.stored([REQUEST])[1]


def test_reports_of_other_replicas_are_found_from_a_position_on(
    first: Store, second: Store
) -> None:
    """Two writers commit in any order; a reader that goes on from its position misses no report."""
    open_round(first)
    second.accept([report(1_000)])
    position = position_of(first)
    found: set[int] = set()
    writing = threading.Barrier(3)
    done: list[int] = []

    def write(store: Store, start: int) -> None:
        writing.wait(30)
        for ordinal in range(start, start + 100, 2):
            store.accept([report(ordinal), report(ordinal + 1)])
        done.append(start)

    threads = [threading.Thread(target=write, args=of) for of in ((first, 0), (second, 100))]
    for thread in threads:
        thread.start()
    writing.wait(30)
    ended = 0
    while ended < 2:
        ended = len(done)
        reports, position = stored_since(first, position)
        found.update(ordinal for ordinal, data in reports if data == b"r")
    for thread in threads:
        thread.join()
    assert found - {1_000} == set(range(200))
    assert stored_since(first, position_of(first))[0] == []


def test_equal_reports_are_found_together(first: Store) -> None:
    open_round(first)
    position = position_of(first)
    first.accept([report(ordinal, b"no" if ordinal % 3 else b"yes") for ordinal in range(300)])
    reports, _ = first.replicas.stored_since([REQUEST], position)
    assert sorted((data, len(ordinals)) for data, ordinals in reports) == [
        (b"no", 200),
        (b"yes", 100),
    ]


def test_what_is_stored_is_read_at_once_if_it_is_little(
    first: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_round(first)
    assert first.replicas.stored([REQUEST])[0] == []
    first.accept([report(ordinal) for ordinal in range(3)])
    monkeypatch.setattr(postgresql_replicas, "_FEW", 3)
    stored, position = first.replicas.stored([REQUEST])
    assert stored is not None
    assert [(data, sorted(ordinals)) for data, ordinals in stored] == [(b"r", [0, 1, 2])]
    first.accept([report(3)])
    stored, later = first.replicas.stored([REQUEST])
    assert stored is None
    assert later > position
    assert (3, b"r") in stored_since(first, position)[0]


def test_a_look_at_a_large_round_reads_what_is_new(
    first: Store, location: PostgresqlLocation
) -> None:
    """The database has no statistics of the study's table yet, and reads no report twice."""
    open_round(first)
    first.accept([report(ordinal) for ordinal in range(5_000)])
    position = position_of(first)
    first.accept([report(5_000)])
    assert len(stored_since(first, position)[0]) == 1
    with psycopg.connect(location.url) as connection:
        (part,) = connection.execute("SELECT part FROM askance.requests").fetchone() or (0,)
        statement = postgresql_replicas._STORED_SINCE.format(
            sql.Identifier("askance", f"reports_{part}")
        )
        plan = connection.execute(sql.SQL("EXPLAIN ") + statement, ([1], str(position)))
        text = "\n".join(line for (line,) in plan)
    assert "request_arrived_idx" in text
    assert "pkey" not in text


def test_a_transaction_that_is_under_way_is_found_later(
    first: Store, location: PostgresqlLocation
) -> None:
    """A report is stored before the position is taken, and committed after it."""
    open_round(first)
    with psycopg.connect(location.url) as connection:
        connection.execute(
            "INSERT INTO askance.reports (part, request, ordinal, data)"
            " SELECT part, number, 7, 'r' FROM askance.requests WHERE digest = %s",
            (REQUEST,),
        )
        position = position_of(first)
        first.accept([report(8)])
        reports, position = stored_since(first, position)
        assert reports == [(8, b"r")]
        connection.commit()
    assert (7, b"r") in stored_since(first, position)[0]


def test_replicas_see_each_others_rounds_cancellations_and_devices(
    first: Store, second: Store
) -> None:
    open_round(first)
    assert second.replicas.open_studies() == [SharedStudy(STUDY, False, False, TakingRound(0, 0))]
    assert second.replicas.round_lines(STUDY, 0) == ["header", "asked"]
    second.replicas.cancel(STUDY)
    assert first.replicas.open_studies() == [SharedStudy(STUDY, False, True, TakingRound(0, 0))]
    first.close_round(STUDY, 0)
    assert second.replicas.open_studies() == [SharedStudy(STUDY, False, True, None)]
    first.enrol([(b"device", bytes(32))])
    assert second.device(b"device") == first.device(b"device") is not None


def test_a_hint_is_heard_before_the_next_look(
    first: Store, second: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_replicas, "LOOK_S", 30.0)
    looks = first.replicas.looks(threading.Event())
    assert isinstance(looks, Generator)
    next(looks)
    began = time.monotonic()
    hints = [threading.Timer(0.1 * number, second.replicas.hint) for number in range(1, 20)]
    for hint in hints:
        hint.start()
    next(looks)
    assert time.monotonic() - began < 20
    for hint in hints:
        hint.join()
    looks.close()


def test_a_hint_of_its_own_wakes_no_replica(
    first: Store, second: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_replicas, "LOOK_S", 0.5)
    looks = first.replicas.looks(threading.Event())
    assert isinstance(looks, Generator)
    next(looks)
    hints = [threading.Timer(0.1 * number, first.replicas.hint) for number in (1, 2)]
    began = time.monotonic()
    for hint in hints:
        hint.start()
    next(looks)
    assert time.monotonic() - began >= 0.5
    for hint in hints:
        hint.join()
    looks.close()


def test_one_replica_at_a_time_accepts_studies(first: Store, second: Store) -> None:
    order: list[str] = []
    entered = threading.Event()

    def slow() -> None:
        with first.replicas.submitting():
            entered.set()
            second.population()
            order.append("first")

    def after() -> None:
        entered.wait(30)
        with second.replicas.submitting():
            order.append("second")

    run_both(slow, after)
    assert order == ["first", "second"]


def run_both(one: Callable[[], object], other: Callable[[], object]) -> None:
    """Run two steps in threads of their own; raise what either raises."""
    failed: list[BaseException] = []

    def run(step: Callable[[], object]) -> None:
        try:
            step()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(step,)) for step in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed, failed
