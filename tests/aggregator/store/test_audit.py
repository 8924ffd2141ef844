"""Audit log: contract of every store, and what a check of the chain finds."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from askance_aggregator.store import (
    AuditBroken,
    AuditEntry,
    AuditEvent,
    NonceKnown,
    SqliteStore,
    Store,
    entry_of_json,
    every_entry,
    store_location,
    verify_entries,
)
from askance_aggregator.store.audit import fold_actions
from tests.aggregator.store.test_contract import STORES
from tests.postgresql import PostgresqlServer

EVENT = AuditEvent(
    1_800_000_000, "ann", "admin", "Analysts/Cancel", "study 00", "192.0.2.7", "done"
)
NONCE = bytes(range(16))


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = STORES[request.param](request, tmp_path)
    yield made
    made.close()


def event(number: int) -> AuditEvent:
    return replace(EVENT, subject=f"study {number}")


class TestContract:
    def test_entries_are_one_chain(self, store: Store) -> None:
        assert store.audit.head() is None
        made = [store.audit.append(event(number)) for number in range(5)]
        assert [entry.number for entry in made] == [1, 2, 3, 4, 5]
        assert store.audit.head() == made[-1]
        assert list(every_entry(store.audit)) == made
        assert [entry.event for entry in made] == [event(number) for number in range(5)]
        assert verify_entries(every_entry(store.audit), made[2].digest) == made[-1]

    def test_pages(self, store: Store) -> None:
        made = [store.audit.append(event(number)) for number in range(5)]
        assert store.audit.entries(after=1, limit=2) == made[1:3]
        assert store.audit.entries(after=5) == []

    def test_a_nonce_is_taken_once(self, store: Store) -> None:
        store.audit.append(EVENT, NONCE)
        with pytest.raises(NonceKnown):
            store.audit.append(EVENT, NONCE)
        store.audit.append(EVENT, bytes(16))
        store.audit.append(EVENT)
        store.audit.append(EVENT)
        assert len(list(every_entry(store.audit))) == 4
        assert json.loads(store.audit.entries()[0].line)["nonce"] == NONCE.hex()

    def test_threads_append_one_chain(self, store: Store) -> None:
        def append() -> None:
            for number in range(10):
                store.audit.append(event(number))

        threads = [threading.Thread(target=append) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert verify_entries(every_entry(store.audit)).number == 40


def test_a_file_keeps_it(tmp_path: Path) -> None:
    with closing(SqliteStore.create(tmp_path / "store")) as store:
        made = store.audit.append(EVENT, NONCE)
    with closing(SqliteStore.open(tmp_path / "store")) as store:
        assert store.audit.head() == made
        with pytest.raises(NonceKnown):
            store.audit.append(EVENT, NONCE)
        assert store.audit.append(EVENT).number == 2


@pytest.mark.parametrize("statement", ["UPDATE audit SET line = ''", "DELETE FROM audit"])
def test_a_file_refuses_to_change_it(tmp_path: Path, statement: str) -> None:
    with closing(SqliteStore.create(tmp_path / "store")) as store:
        store.audit.append(EVENT)
    with (
        closing(sqlite3.connect(tmp_path / "store")) as connection,
        pytest.raises(sqlite3.IntegrityError, match="only appended to"),
    ):
        connection.execute(statement)


@pytest.mark.parametrize(
    "statement", ["UPDATE audit SET line = ''", "DELETE FROM audit", "TRUNCATE audit"]
)
def test_a_database_refuses_to_change_it(postgresql: PostgresqlServer, statement: str) -> None:
    url = postgresql.new_database()
    location = store_location(url)
    location.migrate()
    with closing(location.open()) as store:
        store.audit.append(EVENT)
    with (
        closing(psycopg.connect(url, options="-c search_path=askance")) as connection,
        pytest.raises(psycopg.errors.RaiseException, match="only appended to"),
    ):
        connection.execute(statement.encode())


def test_replicas_append_to_one_chain(postgresql: PostgresqlServer) -> None:
    location = store_location(postgresql.new_store())
    with closing(location.open()) as first, closing(location.open()) as second:

        def append(store: Store) -> None:
            for number in range(10):
                store.audit.append(event(number))

        threads = [threading.Thread(target=append, args=(store,)) for store in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert verify_entries(every_entry(first.audit)).number == 20
        first.audit.append(EVENT, NONCE)
        with pytest.raises(NonceKnown):
            second.audit.append(EVENT, NONCE)


def written(count: int) -> list[AuditEntry]:
    log = SqliteStore.in_memory().audit
    return [log.append(event(number)) for number in range(count)]


def changed(entries: list[AuditEntry]) -> list[AuditEntry]:
    """Change an entry's outcome, and leave its digest."""
    line = entries[2].line.replace('"done"', '"none"')
    return [*entries[:2], replace(entries[2], line=line), *entries[3:]]


def forged(entries: list[AuditEntry]) -> list[AuditEntry]:
    """Write the log anew from an entry on, with digests that fit."""
    log = SqliteStore.in_memory().audit
    for place, entry in enumerate(entries):
        log.append(replace(entry.event, who="eve") if place == 2 else entry.event)
    return log.entries()


def renumbered(entries: list[AuditEntry]) -> list[AuditEntry]:
    """Remove an entry, and close the gap in the numbers."""
    left = [*entries[:2], *entries[3:]]
    return [replace(entry, number=place) for place, entry in enumerate(left, 1)]


def inserted(entries: list[AuditEntry]) -> list[AuditEntry]:
    return [*entries[:2], written(3)[2], *entries[2:]]


Tamper = Callable[[list[AuditEntry]], list[AuditEntry]]
TAMPERED: dict[str, tuple[Tamper, int, str]] = {
    "changed": (changed, 3, "the digest of its line"),
    "removed": (lambda entries: [*entries[:2], *entries[3:]], 3, "one is gone"),
    "removed and renumbered": (renumbered, 3, "the digest of its line"),
    "reordered": (lambda es: [es[0], es[2], es[1], *es[3:]], 2, "expected number 2, found 3"),
    "inserted": (inserted, 4, "expected number 4, found 3"),
    "cut at its beginning": (lambda entries: entries[1:], 1, "expected number 1, found 2"),
    "cut at its end": (lambda entries: entries[:-1], 4, "its end was cut off"),
    "written anew": (forged, 5, "written anew"),
    "emptied": (lambda entries: [], 1, "found an empty log"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampering_is_found(what: str) -> None:
    tamper, number, said = TAMPERED[what]
    entries = written(5)
    anchor = entries[-1].digest
    assert verify_entries(entries, anchor).number == 5
    with pytest.raises(AuditBroken, match=said) as caught:
        verify_entries(tamper(entries), anchor)
    assert caught.value.number == number


def test_an_entry_survives_an_export() -> None:
    (entry,) = written(1)
    assert entry_of_json(json.dumps(entry.to_json()), 1) == entry


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"number":1,"line":2,"digest":""}'])
def test_what_is_no_entry_is_named(text: str) -> None:
    with pytest.raises(AuditBroken, match="audit entry 7: expected an entry of an export"):
        entry_of_json(text, 7)


ACTIONS = {  # entries as (caller, outcome, number of the begin), and the rows: numbers of entries
    "an end names its begin": ([("ann", "begun", 0), ("ann", "done", 1)], [2]),
    "two at one time": (
        [("ann", "begun", 0), ("ann", "begun", 0), ("ann", "done", 2), ("ann", "failed: x", 1)],
        [3, 4],
    ),
    "the end of one of them": (
        [("ann", "begun", 0), ("ann", "begun", 0), ("ann", "done", 2)],
        [1, 3],
    ),
    "one that was cut off": ([("ann", "begun", 0), ("bob", "refused: x", 0)], [1, 2]),
    "the begin is on another page": ([("ann", "done", 77)], [1]),
    "an earlier version": ([("ann", "begun", 0), ("bob", "begun", 0), ("ann", "done", 0)], [2, 3]),
    "an earlier version, twice": (
        [("ann", "begun", 0), ("ann", "begun", 0), ("ann", "done", 0), ("ann", "done", 0)],
        [3, 4],
    ),
    "refusals without a begin": ([("", "refused: x", 0), ("", "refused: x", 0)], [1, 2]),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_is_one_row(name: str) -> None:
    written, rows = ACTIONS[name]
    log = SqliteStore.in_memory().audit
    for who, outcome, began in written:
        log.append(replace(EVENT, who=who, outcome=outcome, began=began))
    assert [entry.number for entry in fold_actions(log.entries())] == rows


def test_a_line_without_the_newer_fields_is_as_it_was() -> None:
    """Entries of earlier versions are read, and what needs no newer field is written as before."""
    log = SqliteStore.in_memory().audit
    before = (
        '{"number":1,"at_unix_s":1800000000,"who":"ann","role":"admin","action":"Analysts/Cancel",'
        '"subject":"study 00","origin":"192.0.2.7","outcome":"done","count":1,"nonce":""}'
    )
    entry = log.append(EVENT)
    assert (entry.line, entry.event) == (before, EVENT)
    assert replace(EVENT, changed=0, began=1).to_json()["changed"] == 0
