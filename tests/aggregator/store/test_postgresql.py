"""The store in PostgreSQL: connections lost, other processes, schemas, passwords, durability."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from askance_aggregator.store import (
    PostgresqlLocation,
    Store,
    StoredReport,
    store_location,
)
from askance_aggregator.store.postgresql import PostgresqlStore, schema
from askance_aggregator.store.postgresql.database import Connection
from askance_client.errors import InvalidParameter, StoreError, StoreFailed, UnsupportedStore
from askance_client.messages import AckStatus, SignedStudy
from tests.postgresql import PostgresqlServer

REQUEST, OTHER = bytes([1]) * 32, bytes([2]) * 32
STUDY = SignedStudy(b"a study", b"a key", b"a signature")
ACCEPTED, DUPLICATE, CONFLICT = AckStatus.ACCEPTED, AckStatus.DUPLICATE, AckStatus.CONFLICT


class Watched:
    """Counts of what a store's observer is told."""

    def __init__(self) -> None:
        self.written = 0
        self.failed = 0

    def store_written(self) -> None:
        self.written += 1

    def store_failed(self, error: StoreFailed) -> None:
        self.failed += 1


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.new_database()


@pytest.fixture
def location(url: str) -> PostgresqlLocation:
    made = PostgresqlLocation(url)
    assert made.migrate() == schema.VERSION
    return made


@pytest.fixture
def store(location: PostgresqlLocation) -> Iterator[Store]:
    with closing(location.open()) as made:
        yield made


def database_of(location: PostgresqlLocation) -> str:
    return location.url.partition("@/")[2].partition("?")[0]


def repeat(step: Callable[[], None], times: int) -> None:
    for _ in range(times):
        step()


def filled(store: Store) -> None:
    store.enrol([(b"device", bytes(32))])
    store.add_study(REQUEST, STUDY)
    store.log(REQUEST).append("line")
    store.accept([StoredReport(REQUEST, 0, b"a", 5), StoredReport(REQUEST, 0, b"b")])


def holds(store: Store) -> None:
    assert store.population() == 1
    assert store.studies() == {REQUEST: STUDY}
    assert list(store.log(REQUEST).lines()) == ["line"]
    assert list(store.reports(REQUEST)) == [(0, b"a")]
    assert list(store.evidence(REQUEST)) == [(0, b"b")]
    assert store.acknowledged_sequence(0) == 5


def test_everything_survives_a_restart_of_the_process(location: PostgresqlLocation) -> None:
    with closing(location.open()) as store:
        filled(store)
    with closing(location.open()) as store:
        holds(store)
        assert store.accept([StoredReport(REQUEST, 0, b"a")]) == [DUPLICATE]


def test_what_was_accepted_survives_a_kill_of_the_server(
    store: Store, postgresql: PostgresqlServer
) -> None:
    """Reports arrive until the server is killed; those that were acknowledged are there."""
    acknowledged: list[int] = []
    filled(store)

    def batch(place: int) -> list[StoredReport]:
        return [StoredReport(OTHER, 3 * place + i, b"r") for i in range(3)]

    def deliver() -> None:
        place = 0
        with suppress(StoreFailed):
            while store.accept(batch(place)) == [ACCEPTED] * 3:
                acknowledged.append(place)
                place += 1

    delivering = threading.Thread(target=deliver)
    delivering.start()
    while len(acknowledged) < 25:
        delivering.join(0.001)
        assert delivering.is_alive()
    with postgresql.killed():
        delivering.join(30)
    assert not delivering.is_alive()
    holds(store)  # by the same process, on new connections
    ordinals = [ordinal for ordinal, _ in store.reports(OTHER)]
    assert ordinals[: 3 * len(acknowledged)] == list(range(3 * len(acknowledged)))
    assert len(ordinals) % 3 == 0  # a batch is there whole or not at all
    assert store.accept([StoredReport(OTHER, 0, b"r")]) == [DUPLICATE]


def test_a_server_that_is_stopped_and_started_is_found_again(
    location: PostgresqlLocation, postgresql: PostgresqlServer
) -> None:
    watched = Watched()
    with closing(location.open(watched)) as store:
        filled(store)
        written = watched.written
        with postgresql.stopped():
            for _ in range(3):
                with pytest.raises(StoreFailed, match="nothing was acknowledged"):
                    store.accept([StoredReport(REQUEST, 1, b"c")])
                with pytest.raises(StoreFailed, match="cannot be read"):
                    store.population()
                with pytest.raises(StoreFailed):
                    store.check_writable()
            assert (watched.written, watched.failed) == (written, 9)
        holds(store)
        assert store.accept([StoredReport(REQUEST, 1, b"c")]) == [ACCEPTED]
        assert watched.failed == 9


def test_a_restart_between_two_calls_fails_neither(
    store: Store, postgresql: PostgresqlServer
) -> None:
    """The connections are stale, which is seen before a statement is sent on one."""
    filled(store)
    with postgresql.killed():
        pass
    holds(store)
    with postgresql.stopped():
        pass
    assert store.accept([StoredReport(REQUEST, 1, b"c")]) == [ACCEPTED]


def test_the_hold_is_taken_again_after_a_lost_connection(
    store: Store, location: PostgresqlLocation, postgresql: PostgresqlServer
) -> None:
    """Every connection ends, the one of the lock too; a migration is refused afterwards."""
    connected = f"SELECT pid FROM pg_stat_activity WHERE datname = '{database_of(location)}'"
    while len(postgresql.execute(connected)) < 2:
        pass  # the pool connects beside the test
    ended = postgresql.execute(f"SELECT pg_terminate_backend(pid) FROM ({connected}) AS pids")
    assert len(ended) >= 2
    while postgresql.execute(connected):
        pass
    filled(store)
    with pytest.raises(StoreError, match="found it in use: stop that process first"):
        location.migrate()
    holds(store)


def test_processes_share_a_store_and_a_migration_has_it_alone(
    store: Store, location: PostgresqlLocation
) -> None:
    filled(store)
    with closing(location.open()) as another:
        holds(another)
        assert another.accept([StoredReport(REQUEST, 0, b"a")]) == [DUPLICATE]
    with pytest.raises(StoreError, match="found it in use: stop that process first"):
        location.migrate()
    with closing(location.open_to_read()) as reader:
        holds(reader)
        with pytest.raises(StoreError, match="expected it held"):
            reader.accept([StoredReport(REQUEST, 1, b"c")])


def test_a_process_that_lost_its_hold_writes_nothing(
    store: Store, location: PostgresqlLocation, postgresql: PostgresqlServer
) -> None:
    """The lock ends without its knowledge, and the schema is migrated: the token keeps it out."""
    filled(store)
    name = database_of(location)
    with psycopg.connect(location.url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE locktype = 'advisory' AND datname = %s",
            (name,),
        )
    location.migrate()
    writes = (
        lambda: store.accept([StoredReport(REQUEST, 1, b"c")]),
        lambda: store.enrol([(b"another", bytes(32))]),
        lambda: store.log(REQUEST).append("another"),
        lambda: store.close_round(REQUEST, 0),
    )
    for write in writes:
        with pytest.raises(StoreError, match="found it migrated since; restart this process"):
            write()
    holds(store)


@pytest.mark.parametrize("version", [0, schema.VERSION - 1, schema.VERSION + 1])
def test_another_schema_is_refused_with_what_helps(
    location: PostgresqlLocation, version: int
) -> None:
    with psycopg.connect(location.url) as connection:
        connection.execute("DELETE FROM askance.schema_steps")
        if version:
            connection.execute("INSERT INTO askance.schema_steps VALUES (%s)", (version,))
    kind = UnsupportedStore if version > schema.VERSION else StoreError
    helps = "install an askance" if version > schema.VERSION else "run: askance aggregator migrate"
    for opened in (location.open, location.open_to_read):
        with pytest.raises(
            kind, match=f"schema of version {schema.VERSION}.*found {version}.*{helps}"
        ):
            opened()
    if version > schema.VERSION:
        with pytest.raises(UnsupportedStore):
            location.migrate()


def test_an_empty_database_is_refused_until_it_is_migrated(url: str) -> None:
    location = PostgresqlLocation(url)
    with pytest.raises(StoreError, match=r"found none \(run: askance aggregator migrate\)"):
        location.open()
    assert location.migrate() == schema.VERSION
    assert location.migrate() == schema.VERSION  # again: nothing to do
    location.open().close()


def test_a_server_that_may_lose_commits_is_refused(
    location: PostgresqlLocation, postgresql: PostgresqlServer
) -> None:
    with postgresql.set_to("fsync", "off"):
        for refused in (location.open, location.open_to_read, location.migrate):
            with pytest.raises(StoreError, match="expected fsync = on, found off"):
                refused()
    location.open().close()


def test_a_full_disk_stores_nothing_and_is_tried_again(
    store: Store, postgresql: PostgresqlServer
) -> None:
    """Files of the write-ahead log have 16 MiB; a table of more than 17 MiB finds the disk full."""
    store.add_study(REQUEST, STUDY)
    store.open_round(REQUEST, 0, [REQUEST], None)

    accepted = 0

    def fill() -> None:
        nonlocal accepted
        ordinals = range(accepted, accepted + 2_000)
        store.accept([StoredReport(REQUEST, ordinal, bytes(1_900)) for ordinal in ordinals])
        accepted += 2_000

    with postgresql.full_at(17 << 20):
        for _ in range(2):
            fill()
        with pytest.raises(StoreFailed, match="nothing was acknowledged: could not extend file"):
            repeat(fill, 20)
        assert accepted >= 4_000
        assert len(list(store.reports(REQUEST))) == accepted
    fill()
    assert len(list(store.reports(REQUEST))) == accepted


def test_commits_wait_for_the_disk_whatever_the_role_is_set_to(
    location: PostgresqlLocation, postgresql: PostgresqlServer
) -> None:
    name = database_of(location)
    postgresql.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with closing(location.open()) as store:
        assert isinstance(store, PostgresqlStore)
        found = store._database.read(
            lambda connection: connection.execute("SHOW synchronous_commit").fetchone()
        )
    assert found == ("on",)


def test_a_studys_reports_are_a_table_that_can_be_dropped(
    store: Store, location: PostgresqlLocation
) -> None:
    """No row of another study is touched, nor looked at."""
    for digest in (REQUEST, OTHER):
        store.add_study(digest, STUDY)
        store.open_round(digest, 0, [digest], None)
        store.accept([StoredReport(digest, ordinal, b"r") for ordinal in range(100)])
    with psycopg.connect(location.url) as connection:
        (part,) = connection.execute(
            "SELECT part FROM askance.requests WHERE digest = %s", (REQUEST,)
        ).fetchone() or (0,)
        connection.execute(f"DROP TABLE askance.reports_{part}".encode())
    assert list(store.reports(REQUEST)) == []
    assert len(list(store.reports(OTHER))) == 100


def test_transactions_that_the_database_gives_up_are_tried_again(
    location: PostgresqlLocation,
) -> None:
    """Two transactions lock two users in opposite orders; one is ended, and tried again."""
    tries: list[int] = []
    both_hold_one = threading.Barrier(2)

    def raise_sequences(first: int, second: int) -> None:
        def step(connection: Connection) -> None:
            tries.append(first)
            for ordinal in (first, second):
                connection.execute(
                    "UPDATE devices SET acknowledged_sequence = acknowledged_sequence + 1"
                    " WHERE ordinal = %s",
                    (ordinal,),
                )
                if len(tries) <= 2 and ordinal == first:
                    both_hold_one.wait(30)

        assert isinstance(opened, PostgresqlStore)
        opened._database.write(step)

    with closing(location.open()) as opened:
        opened.enrol([(b"a", bytes(32)), (b"b", bytes(32))])
        threads = [
            threading.Thread(target=raise_sequences, args=order) for order in ((0, 1), (1, 0))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(tries) >= 3  # the one that is tried again can meet the other once more
        assert [opened.acknowledged_sequence(ordinal) for ordinal in (0, 1)] == [2, 2]


def test_a_password_comes_from_its_file_and_is_never_shown(tmp_path: Path, url: str) -> None:
    password = tmp_path / "password"
    location = store_location(url).with_password_file(password)
    with pytest.raises(StoreError, match=f"store_password_file {password}: No such file"):
        location.open()
    password.write_text("zzyzx-secret\n")
    assert location._parameters()()["password"] == "zzyzx-secret"  # type: ignore[attr-defined]
    password.write_text("zzyzx-rotated")
    assert location._parameters()()["password"] == "zzyzx-rotated"  # type: ignore[attr-defined]
    nowhere = store_location(f"{url}x&port=1").with_password_file(password)
    with pytest.raises(StoreFailed) as caught:
        nowhere.open()
    assert "zzyzx" not in str(caught.value)
    assert str(nowhere) in str(caught.value)
    assert "zzyzx" not in repr(nowhere)


def test_an_address_that_libpq_refuses_is_shown(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"got 'postgresql://h/d\?colour=red': .*colour"):
        store_location("postgresql://h/d?colour=red").open()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:zzyzx@h/d",
        "postgresql://h/d?password=zzyzx",
        "postgresql://h/d?user=me&sslpassword=zzyzx",
        "postgresql://me:zzyzx@[::1/d",
        "mysql://me:zzyzx@h/d",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        store_location(address)
    assert "zzyzx" not in str(caught.value)
    assert "/d" in str(caught.value)
