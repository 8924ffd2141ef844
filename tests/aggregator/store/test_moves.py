"""A store moved to a database of the other kind and back: every table, whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from askance_aggregator.store import (
    AuditBroken,
    AuditEvent,
    AuditLog,
    Conclusion,
    MoveContext,
    Moved,
    PostgresqlLocation,
    SqliteLocation,
    SqliteStore,
    Store,
    StoredReport,
    StoreLocation,
    StudyState,
    every_entry,
    move_store,
    verify_entries,
)
from askance_aggregator.store.moves import OWN_COLUMNS, OWN_TABLES
from askance_aggregator.store.postgresql import PostgresqlStore
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy
from tests.aggregator.store.test_contract import devices
from tests.postgresql import PostgresqlServer

OPEN, ENDED, DELETED = (bytes([n]) * 32 for n in (1, 2, 3))
MOST = (1 << 63) - 1

# Rows of every table that a move copies, by the order of SQLite's columns. A new table fails
# `test_every_table_and_column_arrives_and_returns` until it has rows here.
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "gateways": [(1, b"gateway", bytes(32), 0, 0), (2, b"\x00", bytes([255]) * 32, 1, 3)],
    "devices": [
        (0, b"device 0", bytes(32), 0, None, 0, 0, None, None, None),
        (2, b"\xff\x00", bytes([9]) * 32, MOST, 2, 1, 2, 20_000, 20_001, "askance 0.1.0"),
    ],
    "empty_places": [(1, 1), (3, 4)],
    "device_tags": [("site=oslo", 0), ("v2", 0), ("v2", 2)],
    "enrolment_tokens": [(bytes(16), 3, None, None, 0), (bytes([1]) * 16, 0, 5, MOST, 1)],
    "token_tags": [(bytes(16), "site=oslo"), (bytes(16), "v2")],
    "studies": [(n, bytes([n]) * 32, b"study %d" % n, b"key", b"") for n in (1, 2, 3)],
    "leaf_keys": [(1, bytes(32)), (2, bytes([255]) * 32)],
    "study_titles": [(1, "mean of größe", 0, "Mean of Größe"), (2, "", MOST, "")],
    "study_words": [("mean", 1), ("größe", 1)],
    "transcript_lines": [
        (1, 0, 0, '{"kind":"study"}'),
        (2, 1, 0, ""),
        (2, 1, 1, "Größe 🎲 \\u0000"),
    ],
    "rounds": [
        (1, 0, 0, None, "boot", MOST, 0, 0, None),
        (2, 1, 0, None, None, None, None, 1, 0),
        (2, 1, 1, None, None, None, None, 0, MOST),
    ],
    "requests": [
        (1, bytes([11]) * 32, 1, 0, 0),
        (4, bytes([12]) * 32, None, None, 0),
        (7, bytes([13]) * 32, 3, 0, 1),
    ],
    "reports": [(1, 0, b"a report"), (1, 2, b""), (4, 2, bytes(300)), (7, 0, b"to be deleted")],
    "evidence": [(1, 2, 0, b"another"), (1, 2, 1, b"and another")],
    "conclusions": [
        (2, 1, 2, "done", "", '{"a": 1}', 0),
        (2, 0, 3, "cancelled", "by its analyst", "{}", 9),
        (3, 0, 2, "done", "", "", MOST),
    ],
    "webhook_deliveries": [
        ("a", 2, 0, "msg_1", 50, 3, 9, MOST, 51, 60, "connection: größe"),
        ("b", 3, 0, "msg_2", 60, 1, 0, 61, None, None, ""),
    ],
    "retention": [(2, 50, None, None, 0), (3, 60, 70, None, 1)],
    "register": [(1, 4)],
    "round_completion": [(OPEN, 0, 0, "", 3, 2), (OPEN, 0, 0, "v2", MOST, 0)],
    "study_users": [(OPEN, 0, b"\x05"), (ENDED, 1, b"")],
    "audit": [],  # by the log itself, below
    "paused_studies": [(1,)],
    "approvals": [
        (1, "Zoë", bytes(32), bytes([255]) * 64, MOST, "", "", 0),
        (2, "", b"", b"", 0, "bob", "too much", 1),
    ],
    "submissions": [(1, 1_700_000_000), (2, 0)],
    "restores": [(20, 10), (20, 10)],
    "restored_sequences": [(2, 17)],
    "called_days": [(20_001,), (MOST,)],
    "certificates": [(bytes([5]) * 32, 0, 2, MOST), (bytes([6]) * 32, 1, -1, 0)],
    "tagged_populations": [(OPEN, bytes([8]) * 32, "site=oslo v2")],
    "outer_account": [(1, 1_000_000, 50, 1, '{"users": 3}', "1.1 1/100", 1, b"state")],
    "outer_questions": [(bytes(range(32)), b"state")],
    "outer_releases": [(1, bytes([9]) * 32, 2, bytes([10]) * 32, b"r", bytes(3), b"")],
    "outer_curves": [(b"r", MOST, "[[0.0, 1.0], [0.1, 0.0]]")],
}
NewDatabase = Callable[[], PostgresqlLocation]
EVENT = AuditEvent(5, "ann", "operator", "Operators/Revoke", "2 devices", "10.0.0.1", "done")


@pytest.fixture
def new_database(postgresql: PostgresqlServer) -> NewDatabase:
    return lambda: PostgresqlLocation(postgresql.new_database())


@pytest.fixture
def full(tmp_path: Path) -> SqliteLocation:
    """A store with a row of every kind in every table."""
    location = SqliteLocation(tmp_path / "full")
    with closing(SqliteStore.create(location.path)) as store:
        store.audit.append(EVENT)
        store.audit.append(EVENT, bytes([7]) * 16)
    with closing(sqlite3.connect(location.path)) as connection, connection:
        connection.execute("DELETE FROM register")
        for table, rows in ROWS.items():
            for row in rows:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    return location


def noting(log: AuditLog, outcome: str) -> None:
    log.append(AuditEvent(9, "ops", "local", "aggregator migrate", "a move", "local", outcome))


def moved(source: StoreLocation, target: StoreLocation, number: int = 1) -> Moved:
    shown: list[str] = []
    return move_store(source, target, MoveContext(bytes([number]) * 16, 99, noting, shown.append))


def sqlite_tables(location: SqliteLocation) -> dict[str, list[str]]:
    """Tables and the columns that a move copies, as the file has them."""
    with closing(sqlite3.connect(location.path)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        return {
            name: [
                column
                for _, column, *_ in connection.execute(f"PRAGMA table_info({name})")
                if (name, column) not in OWN_COLUMNS
            ]
            for (name,) in names
            if name not in OWN_TABLES
        }


def sqlite_rows(location: SqliteLocation, table: str, columns: list[str]) -> list[Any]:
    with closing(sqlite3.connect(location.path)) as connection:
        return connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()


def postgresql_rows(
    server: PostgresqlServer, location: PostgresqlLocation, table: str, columns: list[str]
) -> list[Any]:
    database = location.url.partition("@/")[2].partition("?")[0]
    return server.execute(f"SELECT {', '.join(columns)} FROM askance.{table}", database)


def outcomes(store: Store) -> list[str]:
    return [entry.event.outcome for entry in every_entry(store.audit)]


def test_every_table_and_column_arrives_and_returns(
    full: SqliteLocation,
    new_database: NewDatabase,
    postgresql: PostgresqlServer,
    tmp_path: Path,
) -> None:
    tables = sqlite_tables(full)
    assert tables.keys() == ROWS.keys(), "a table without rows in ROWS, or one that is gone"
    expected = {
        table: sorted(sqlite_rows(full, table, tables[table]), key=repr) for table in tables
    }
    for table, rows in ROWS.items():
        assert len(expected[table]) == (len(rows) or 2), table
    database, back = new_database(), SqliteLocation(tmp_path / "back")
    there = moved(full, database)
    for table, columns in tables.items():
        found = [tuple(row) for row in postgresql_rows(postgresql, database, table, columns)]
        if table == "audit":
            found = found[:2]  # what follows is of the move itself
        assert sorted(found, key=repr) == sorted(
            (tuple(_with_flag(table, columns, row)) for row in expected[table]), key=repr
        ), table
    again = moved(database, back, 2)
    for table, columns in tables.items():
        found = sqlite_rows(back, table, columns)
        if table == "audit":
            found = found[:2]
        assert sorted(found, key=repr) == expected[table], table
    assert {t: d for t, d in there.tables.items() if t != "audit"} == {
        t: d for t, d in again.tables.items() if t != "audit"
    }
    with closing(back.open()) as store:
        assert outcomes(store) == ["done", "done", "begun", "done", "begun", "done"]
        assert verify_entries(every_entry(store.audit)).number == 6
        assert store.population() == 4


def _with_flag(table: str, columns: list[str], row: tuple[Any, ...]) -> list[Any]:
    """Return a row with PostgreSQL's truth values in place of SQLite's numbers."""
    flags = {("register", "single"), ("rounds", "closed"), ("retention", "rows_left")}
    return [
        bool(value) if (table, column) in flags else value
        for column, value in zip(columns, row, strict=True)
    ]


def test_a_moved_store_goes_on_and_the_old_one_is_refused(
    new_database: NewDatabase, tmp_path: Path
) -> None:
    source, database = SqliteLocation(tmp_path / "store"), new_database()
    with closing(SqliteStore.create(source.path)) as store:
        store.enrol(devices(*range(5)))
        for digest in (OPEN, ENDED, DELETED):
            store.add_study(digest, SignedStudy(b"study" + digest, b"a key", b"a signature"))
            store.open_round(digest, 0, [digest[:31] + b"r"], None)
            store.accept([StoredReport(digest[:31] + b"r", 1, b"a report", 4)])
        for digest in (ENDED, DELETED):
            store.conclude(digest, Conclusion(StudyState.DONE, "done", "", "{}", 9))
        store.retention.delete_reports(DELETED, 50)
    moved(source, database)
    asked, late = OPEN[:31] + b"r", ENDED[:31] + b"r"
    with closing(database.open()) as store:
        assert store.population() == 5
        assert list(store.reports(asked)) == [(1, b"a report")]
        assert store.acknowledged_sequence(1) == 4
        batch = [StoredReport(asked, n, b"a report", 5) for n in (1, 2)]
        assert store.accept(batch) == [AckStatus.DUPLICATE, AckStatus.ACCEPTED]
        assert store.accept([StoredReport(late, 2, b"a report")]) == [AckStatus.LATE]
        assert store.retention.remove_rows(DELETED, 10) == 0
        assert list(store.reports(DELETED[:31] + b"r")) == []
        assert store.enrol(devices(9)) == range(5, 6)
        new = bytes([4]) * 32
        store.add_study(new, SignedStudy(b"study 4", b"a key", b"a signature"))
        store.open_round(new, 0, [bytes([14]) * 32], None)
        assert store.accept([StoredReport(bytes([14]) * 32, 0, b"x")]) == [AckStatus.ACCEPTED]
    for opened in (source.open, source.open_beside, source.open_to_read, source.migrate):
        with pytest.raises(StoreError, match="one that was moved to postgresql://"):
            opened()
    back = SqliteLocation(tmp_path / "back")
    moved(database, back, 2)
    for refused in (database.open, database.open_to_read, database.migrate):
        with pytest.raises(StoreError, match="one that was moved to sqlite:///"):
            refused()
    with closing(back.open()) as store:
        assert (store.population(), len(store.studies())) == (6, 4)
        assert list(store.reports(asked)) == [(1, b"a report"), (2, b"a report")]
        assert store.enrol(devices(10)) == range(6, 7)


def test_a_table_of_tomorrow_is_copied_and_one_of_one_database_is_refused(
    new_database: NewDatabase, postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    source, database = SqliteLocation(tmp_path / "store"), new_database()
    SqliteStore.create(source.path).close()
    database.migrate()
    name = database.url.partition("@/")[2].partition("?")[0]
    with closing(sqlite3.connect(source.path)) as connection, connection:
        connection.execute("CREATE TABLE tomorrow (place INTEGER PRIMARY KEY, share REAL) STRICT")
        connection.executemany("INSERT INTO tomorrow VALUES (?, ?)", [(1, 0.1), (2, None)])
    with pytest.raises(
        StoreError, match=r"lacks or keeps otherwise: tomorrow.place, tomorrow.share"
    ):
        moved(source, database)
    postgresql.execute("CREATE TABLE askance.tomorrow (place text, share double precision)", name)
    with pytest.raises(StoreError, match=r"lacks or keeps otherwise: tomorrow.place$"):
        moved(source, database)
    postgresql.execute("ALTER TABLE askance.tomorrow ALTER place TYPE int USING 0", name)
    moved(source, database)
    assert postgresql.execute("SELECT * FROM askance.tomorrow", name) == [(1, 0.1), (2, None)]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("sqlite", "a device"),
        ("sqlite", "a token"),
        ("postgresql", "an audit entry"),
    ],
)
def test_a_target_with_content_is_refused(
    kind: str, content: str, full: SqliteLocation, new_database: NewDatabase, tmp_path: Path
) -> None:
    source: StoreLocation = full
    target: StoreLocation = new_database()
    target.migrate()
    if kind == "sqlite":
        source, target = target, SqliteLocation(tmp_path / "target")
        SqliteStore.create(target.path).close()
    with closing(target.open()) as store:
        if content == "a device":
            store.enrol(devices(1))
        elif content == "a token":
            store.register.keep_token(bytes(16), 1, 99)
        else:
            store.audit.append(EVENT)
    table = {"a device": "devices", "a token": "enrolment_tokens", "an audit entry": "audit"}
    with pytest.raises(StoreError, match=f"an empty one, found rows of {table[content]} "):
        moved(source, target)
    with closing(source.open()), closing(target.open()):
        pass


def test_a_move_waits_for_no_process_that_holds_an_end(
    full: SqliteLocation, new_database: NewDatabase, tmp_path: Path
) -> None:
    database = new_database()
    database.migrate()
    with closing(full.open()), pytest.raises(StoreError, match="found it in use"):
        moved(full, database)
    with closing(database.open()), pytest.raises(StoreError, match="found it in use"):
        moved(database, SqliteLocation(tmp_path / "target"))
    assert not (tmp_path / "target").exists()
    with pytest.raises(StoreError, match="the other kind"):
        moved(full, SqliteLocation(tmp_path / "target"))
    with closing(full.open()) as store:
        assert outcomes(store) == ["done", "done"]


def test_a_process_that_lost_its_hold_writes_nothing_to_a_moved_store(
    new_database: NewDatabase, postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    database = new_database()
    database.migrate()
    name = database.url.partition("@/")[2].partition("?")[0]
    parameters = {key: str(value) for key, value in conninfo_to_dict(database.url).items()}
    opened = PostgresqlStore.open_to_read(name, lambda: parameters)
    with closing(opened), closing(database.open()) as store:
        store.enrol(devices(1))
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{name}' AND pid <> pg_backend_pid()"
        )
        moved(database, SqliteLocation(tmp_path / "target"))
        with pytest.raises(StoreError, match="found it migrated since; restart this process"):
            store.enrol(devices(2))
        with pytest.raises(StoreError, match="one that was moved to sqlite:///"):
            opened._database.hold()


class Killed(BaseException):
    """The end of a process, wherever it stands."""


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        ("postgresql", "made"),
        ("sqlite", "made"),
        ("postgresql", "filled"),
        ("sqlite", "verified"),
        pytest.param("sqlite", "filled", marks=pytest.mark.slow),
        pytest.param("postgresql", "verified", marks=pytest.mark.slow),
        pytest.param("sqlite", "source marked", marks=pytest.mark.slow),
        ("postgresql", "source marked"),
    ],
)
def test_a_move_that_broke_off_is_done_by_the_same_command(
    kind: str,
    point: str,
    full: SqliteLocation,
    new_database: NewDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever end opens, one alone does; the target of a broken move does not."""
    source: StoreLocation = full
    target: StoreLocation = new_database()
    if kind == "sqlite":
        moved(source, target, 2)
        source, target = target, SqliteLocation(tmp_path / "target")
    broken = {
        "made": "askance_aggregator.store.moves._shared",
        "filled": "askance_aggregator.store.moves._digests",
        "verified": "askance_aggregator.store.moves.Moved",
        "source marked": "askance_aggregator.store.moves.write_mark",
    }

    def die(*arguments: object, **_: object) -> None:
        if point == "source marked" and arguments[-1] is not None:
            return write(*arguments)  # type: ignore[arg-type]  # as it was called
        raise Killed

    from askance_aggregator.store.moves import write_mark as write

    with monkeypatch.context() as patched:
        patched.setattr(broken[point], die)
        with pytest.raises(Killed):
            moved(source, target)
    with pytest.raises(StoreError, match="the unfinished target of a move from"):
        target.open()
    if point == "source marked":
        with pytest.raises(StoreError, match="one that was moved to"):
            source.open()
        other = new_database() if kind == "postgresql" else SqliteLocation(tmp_path / "other")
        with pytest.raises(StoreError, match="one that was moved to"):
            moved(source, other)
    else:
        with closing(source.open()) as store:  # it goes on, and has more than was copied
            store.enrol(devices(77))
    done = moved(source, target, 3)
    assert done.resumed == (point == "source marked")
    with closing(target.open()) as store:
        assert (store.device(b"device 77") is None) == (point == "source marked")
        assert outcomes(store)[-1] == "done"
        assert verify_entries(every_entry(store.audit))
    with pytest.raises(StoreError, match="one that was moved to"):
        source.open()


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_the_unfinished_target_of_another_store_is_not_cleared(
    kind: str,
    full: SqliteLocation,
    new_database: NewDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If its source is marked already, the copy is the only store that can be opened."""
    source: StoreLocation = full
    target: StoreLocation = new_database()
    other: StoreLocation = SqliteLocation(tmp_path / "other")
    if kind == "sqlite":
        moved(source, target, 2)
        source, target, other = target, SqliteLocation(tmp_path / "target"), new_database()
        other.migrate()
    else:
        SqliteStore.create(tmp_path / "other").close()
    from askance_aggregator.store.moves import write_mark

    def die(execute: Any, mark: Any) -> None:
        if mark is None:
            raise Killed
        write_mark(execute, mark)

    with monkeypatch.context() as patched:
        patched.setattr("askance_aggregator.store.moves.write_mark", die)
        with pytest.raises(Killed):
            moved(source, target, 3)
    with pytest.raises(StoreError, match="the unfinished target of a move from"):
        moved(other, target, 4)
    with closing(other.open()) as store:  # it may be moved elsewhere
        assert outcomes(store) == []
    assert moved(source, target, 5).resumed
    with closing(target.open()) as store:
        assert store.device(b"device 0") is not None


def test_a_copy_that_is_not_equal_is_refused(
    full: SqliteLocation, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte that changes on its way, and a row that is lost."""
    from askance_aggregator.store.postgresql.moves import PostgresqlEnd

    fill = PostgresqlEnd.fill
    for table, wrong in (
        ("conclusions", lambda rows: ((*row[:3], "dome", *row[4:]) for row in rows)),
        ("reports", lambda rows: list(rows)[:-1]),
    ):

        def tampered(self: Any, of: str, columns: Any, rows: Any, at: Any = (table, wrong)) -> None:
            fill(self, of, columns, at[1](rows) if of == at[0] else rows)

        database = new_database()
        with monkeypatch.context() as patched:
            patched.setattr(PostgresqlEnd, "fill", tampered)
            with pytest.raises(StoreError, match=rf"expected \d rows of {table} with the digest"):
                moved(full, database)
        with pytest.raises(StoreError, match="unfinished"):
            database.open()
    with closing(full.open()) as store:
        assert outcomes(store)[2:] == ["begun", "failed: StoreError"] * 2


def test_a_target_that_would_give_an_ordinal_twice_is_refused(
    full: SqliteLocation, new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of ordinals is in no copied table, so that no digest has it."""
    from askance_aggregator.store.postgresql.moves import PostgresqlEnd

    with closing(full.open()) as store:
        given = store.population()
    database = new_database()
    monkeypatch.setattr(PostgresqlEnd, "population", lambda _: given - 1)
    with pytest.raises(StoreError, match=rf"expected {given} ordinals, found {given - 1}"):
        moved(full, database)
    with pytest.raises(StoreError, match="unfinished"):
        database.open()
    with closing(full.open()):
        pass


def test_a_tampered_audit_log_is_not_moved(full: SqliteLocation, new_database: NewDatabase) -> None:
    with closing(sqlite3.connect(full.path)) as connection, connection:
        connection.execute("DROP TRIGGER audit_is_not_changed")
        connection.execute("UPDATE audit SET line = replace(line, 'ann', 'bob') WHERE number = 1")
    with pytest.raises(AuditBroken, match="audit entry 1: expected the digest of its line"):
        moved(full, new_database())


def test_a_study_that_is_being_cancelled_stays(new_database: NewDatabase, tmp_path: Path) -> None:
    database = new_database()
    database.migrate()
    with closing(database.open()) as store:
        store.add_study(OPEN, SignedStudy(b"study", b"a key", b"a signature"))
        store.replicas.cancel(OPEN)
    with pytest.raises(StoreError, match="no study that is being cancelled, found 1"):
        moved(database, SqliteLocation(tmp_path / "target"))
    assert not (tmp_path / "target").exists()
