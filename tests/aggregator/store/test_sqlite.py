"""The store on disk: what survives, and what is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from askance_aggregator.store import (
    AskedRequest,
    Conclusion,
    Deadline,
    RoundNote,
    SqliteStore,
    StoredReport,
    StudyState,
)
from askance_aggregator.store.migrations import KIND
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy

REQUEST = bytes([1]) * 32
OTHER = bytes([2]) * 32
STUDY = SignedStudy(b"a study", b"a key", b"a signature")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore.create(path)
    yield made
    made.close()


def test_everything_survives_a_restart(path: Path, store: SqliteStore) -> None:
    store.enrol([(b"device", bytes(32))])
    store.add_study(REQUEST, STUDY)
    store.log(REQUEST).append("line")
    store.accept([StoredReport(REQUEST, 0, b"a"), StoredReport(REQUEST, 0, b"b")])
    store.close()
    again = SqliteStore.open(path)
    assert again.population() == 1
    assert again.studies() == {REQUEST: STUDY}
    assert list(again.log(REQUEST).lines()) == ["line"]
    assert list(again.reports(REQUEST)) == [(0, b"a")]
    assert list(again.evidence(REQUEST)) == [(0, b"b")]
    assert again.accept([StoredReport(REQUEST, 0, b"a")]) == [AckStatus.DUPLICATE]
    again.close()


def test_a_store_of_before_epochs_is_brought_up_to_date(path: Path) -> None:
    """Studies, transcripts, rounds and conclusions of version 4 are there, under epoch 0."""
    before = replace(KIND, steps=KIND.steps[:4])
    with closing(sqlite3.connect(path)) as old:
        old.executescript(before.script(0))
        old.execute("PRAGMA journal_mode=WAL")
        for digest in (REQUEST, OTHER):
            old.execute(
                "INSERT INTO studies (digest, study, public_key, signature) VALUES (?, ?, ?, ?)",
                (digest, STUDY.study, STUDY.public_key, STUDY.signature),
            )
        old.execute("INSERT INTO transcript_lines VALUES (1, 0, 'line'), (1, 1, 'more')")
        old.execute(
            "INSERT INTO rounds (study, number, boot, at_ms, left_ms, closed)"
            " VALUES (1, 0, 'boot', 9, 8, 1), (2, 0, NULL, NULL, NULL, 0)"
        )
        old.execute("INSERT INTO requests (digest, study, round) VALUES (?, 2, 0)", (REQUEST,))
        old.execute("INSERT INTO conclusions VALUES (1, 2, 'done', '', '{}', 7)")
        old.commit()
    store = SqliteStore.open(path)
    assert list(store.log(REQUEST).lines()) == ["line", "more"]
    assert store.open_round(REQUEST, 0, [], None) == RoundNote(Deadline("boot", 9, 8), closed=True)
    assert store.conclusions() == {REQUEST: Conclusion(StudyState.DONE, "done", "", "{}", 7)}
    assert (list(store.listing.open_studies()), store.nano_nats_asked()) == ([OTHER], 7)
    assert store.asked(REQUEST) == AskedRequest(OTHER, over=False)
    assert store.epochs(REQUEST) == []
    store.log(REQUEST, 5).append("of an epoch")
    store.close()
    again = SqliteStore.open(path)
    assert list(again.log(REQUEST, 5).lines()) == ["of an epoch"]
    again.close()


def test_what_was_accepted_survives_a_kill(path: Path) -> None:
    """A process prints each report it accepted after the commit, and is killed; all are there."""
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from askance_aggregator.store import SqliteStore, StoredReport
        store = SqliteStore.create(Path(sys.argv[1]))
        for batch in range(10_000):
            store.accept([StoredReport(bytes(32), 3 * batch + i, b"r") for i in range(3)])
            print(batch, flush=True)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(25)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().split()]
    store = SqliteStore.open(path)
    ordinals = [ordinal for ordinal, _ in store.reports(bytes(32))]
    assert ordinals[: 3 * len(told)] == list(range(3 * len(told)))
    assert len(ordinals) % 3 == 0  # a batch is there whole or not at all
    store.close()


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
def test_a_failing_disk_stores_nothing_and_is_tried_again(
    store: SqliteStore, statement: str, break_disk: Callable[..., set[str]]
) -> None:
    failing = break_disk(store._file, {statement})
    with pytest.raises(StoreError, match="nothing was stored: disk I/O error"):
        store.accept([StoredReport(REQUEST, 0, b"a")])
    failing.clear()
    assert list(store.reports(REQUEST)) == []
    assert store.accept([StoredReport(REQUEST, 0, b"a")]) == [AckStatus.ACCEPTED]


def test_a_disk_that_cannot_even_roll_back_acknowledges_nothing_more(
    store: SqliteStore, break_disk: Callable[..., set[str]]
) -> None:
    failing = break_disk(store._file, {"COMMIT", "ROLLBACK"})
    for _ in range(2):
        with pytest.raises(StoreError):
            store.accept([StoredReport(REQUEST, 0, b"a")])
        failing.discard("COMMIT")


def test_reading_from_a_failing_disk_is_a_store_error(
    store: SqliteStore, break_disk: Callable[..., set[str]]
) -> None:
    break_disk(store._file, {"SELECT"})
    for read in (
        store.population,
        store.studies,
        lambda: store.device(b"device"),
        lambda: list(store.reports(REQUEST)),
        lambda: store.report(REQUEST, 0),
        lambda: list(store.evidence(REQUEST)),
    ):
        with pytest.raises(StoreError, match="cannot be read"):
            read()


def test_a_closed_store_says_so(store: SqliteStore) -> None:
    store.close()
    with pytest.raises(StoreError):
        store.population()
    with pytest.raises(StoreError):
        store.accept([])
