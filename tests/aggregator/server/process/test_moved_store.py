"""A store from before a move is neither restored nor served where the move is known."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.server.process.moved_store import MOVED_NOTE, MovedStore
from askance_aggregator.store import AuditEvent, AuditLog, SqliteStore, store_location
from askance_client.errors import StoreError
from tests.aggregator.server.process.conftest import ran
from tests.postgresql import PostgresqlServer


def entry_of(log: AuditLog, who: str) -> MovedStore:
    """Return the move that begins with a new entry of an audit log."""
    entry = log.append(AuditEvent(9, who, "local", "migrate", "a move", "local", "begun"))
    return MovedStore.of(entry, "postgresql://db.example.org/askance", 1_800_000_000)


def test_a_store_goes_on_from_the_moved_one_if_it_has_the_entry_of_the_move() -> None:
    with closing(SqliteStore.in_memory()) as moved, closing(SqliteStore.in_memory()) as older:
        note = entry_of(moved.audit, "ops")
        note.check(moved.audit, "store a")
        moved.audit.append(AuditEvent(10, "ops", "local", "backup", "", "local", "done"))
        note.check(moved.audit, "store a")
        expected = (
            "store b: expected the store that was moved to postgresql://db.example.org/askance on"
            " 2027-01-15T08:00:00Z, or a backup of it (restore --before-move gives that store up),"
            " got one without the move in its audit log"
        )
        with pytest.raises(StoreError, match=re.escape(expected)):
            note.check(older.audit, "store b")
        entry_of(older.audit, "eve")  # of the same number, and another digest
        with pytest.raises(StoreError, match="got one without the move"):
            note.check(older.audit, "store b")
        note.check_backup(1_800_000_000, "backup")
        with pytest.raises(StoreError, match=r"backup: .*, got one of 2027-01-15T07:59:59Z$"):
            note.check_backup(1_799_999_999, "backup")


def test_a_note_that_is_none_is_refused(tmp_path: Path) -> None:
    assert MovedStore.read(tmp_path) is None
    for content in ("", "[]", '{"number": 1}'):
        (tmp_path / MOVED_NOTE).write_text(content)
        with pytest.raises(NotOperable, match="expected the note of a move"):
            MovedStore.read(tmp_path)


def test_a_backup_from_before_a_move_is_refused_unless_the_moved_store_is_given_up(
    fresh: AggregatorHome, postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    """A copy of the old file and a backup by a wrong clock are refused at the start."""
    config, old = ("--config", fresh.configuration), fresh.folder / "store.sqlite"
    backup, later, copy = tmp_path / "backup", tmp_path / "later", tmp_path / "copy.sqlite"
    assert ran("aggregator", "backup", backup, *config).returncode == 0
    shutil.copy(old, copy)
    database = postgresql.new_database()
    moved = ran("aggregator", "migrate", "--to", database, *config)
    assert moved.returncode == 0, moved.stderr
    note = MovedStore.read(fresh.folder)
    assert note is not None
    assert note.to in moved.stdout

    target = f"sqlite:///{tmp_path / 'restored.sqlite'}"
    note.check_backup(note.at_unix_s, "backup")
    wrong = MovedStore(note.number, note.digest, note.to, note.at_unix_s + 60)
    wrong.write(fresh.folder)  # the backup is of the same minute as the move
    refused = ran("aggregator", "restore", backup, *config, "--store", target)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert f"expected the store that was moved to {note.to}" in refused.stderr
    note.write(fresh.folder)
    refused = ran("aggregator", "serve", *config, "--store", f"sqlite:///{copy}")
    assert refused.returncode == 1
    assert "got one without the move in its audit log" in refused.stderr

    other = postgresql.new_database()
    refused = ran("aggregator", "migrate", "--to", other, *config, "--store", f"sqlite:///{copy}")
    assert refused.returncode == 1
    assert "got one without the move in its audit log" in refused.stderr
    assert MovedStore.read(fresh.folder) == note

    store = ("--store", database)
    assert ran("aggregator", "backup", later, *config, *store).returncode == 0
    with closing(store_location(database, tmp_path).open()) as now:
        note.check(now.audit, "store")
    again = ran("aggregator", "restore", backup, *config, "--store", target, "--before-move")
    assert again.returncode == 0, again.stderr
    assert MovedStore.read(fresh.folder) is None


@pytest.mark.parametrize("noted", [False, True])
def test_a_move_that_failed_leaves_the_note_of_before(
    noted: bool, fresh: AggregatorHome, postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    """A backup from before it is restored, for nothing was moved."""
    config, store = ("--config", fresh.configuration), fresh.folder / "store.sqlite"
    backup, restored = tmp_path / "backup", f"sqlite:///{tmp_path / 'restored.sqlite'}"
    assert ran("aggregator", "backup", backup, *config).returncode == 0
    before = None
    if noted:
        with closing(SqliteStore.open(store)) as opened:
            before = entry_of(opened.audit, "ops")
        before.write(fresh.folder)
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DROP TRIGGER audit_is_not_changed")
        connection.execute("UPDATE audit SET line = replace(line, 'begun', 'done!') WHERE number=1")
    failed = ran("aggregator", "migrate", "--to", postgresql.new_database(), *config)
    assert failed.returncode == 1
    assert "audit entry 1: expected the digest of its line" in failed.stderr
    assert MovedStore.read(fresh.folder) == before
    if not noted:
        done = ran("aggregator", "restore", backup, *config, "--store", restored)
        assert done.returncode == 0, done.stderr


def test_a_folder_that_cannot_be_written_is_warned_of(
    fresh: AggregatorHome, postgresql: PostgresqlServer
) -> None:
    (fresh.folder / f".{MOVED_NOTE}-new").mkdir()  # in the way of the new note
    moved = ran(
        "aggregator", "migrate", "--to", postgresql.new_database(), "--config", fresh.configuration
    )
    assert moved.returncode == 0
    assert "the move cannot be noted there" in moved.stderr
    assert MovedStore.read(fresh.folder) is None
