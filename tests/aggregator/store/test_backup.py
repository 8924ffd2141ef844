"""Backups of both stores while they are written to; restored, verified, refused."""

from __future__ import annotations

import json
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from askance_aggregator.store import (
    Conclusion,
    RestoreNote,
    SqliteLocation,
    SqliteStore,
    Store,
    StoredReport,
    StoreLocation,
    StudyState,
    check_backup,
    open_backup,
    store_location,
)
from askance_client.errors import StoreError, UnsupportedStore
from askance_client.messages import AckStatus, SignedStudy
from tests.aggregator.store.test_contract import devices
from tests.postgresql import PostgresqlServer

OPEN, ENDED = bytes([1]) * 32, bytes([2]) * 32
ASKED, ASKED_OF_ENDED = bytes([11]) * 32, bytes([12]) * 32
STUDY, OTHER = (SignedStudy(b"study %d" % n, b"a key", b"a signature") for n in (1, 2))
NewLocation = Callable[[], StoreLocation]


@pytest.fixture(params=["sqlite", "postgresql"])
def new_location(request: pytest.FixtureRequest, tmp_path: Path) -> NewLocation:
    """Factory of places without a store."""
    if request.param == "sqlite":
        names = count()
        return lambda: SqliteLocation(tmp_path / f"store-{next(names)}")
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return lambda: store_location(server.new_database())


@pytest.fixture
def store(new_location: NewLocation) -> Iterator[Store]:
    location = new_location()
    if isinstance(location, SqliteLocation):
        SqliteStore.create(location.path).close()
    else:
        location.migrate()
    with closing(location.open()) as made:
        made.enrol(devices(*range(200)))
        made.enrol_with(devices(201), bytes(16), 5, (b"gateway", bytes(32)))
        for digest, study in ((OPEN, STUDY), (ENDED, OTHER)):
            made.add_study(digest, study)
            made.log(digest).append("a line")
        made.open_round(OPEN, 0, [ASKED], None)
        made.open_round(ENDED, 0, [ASKED_OF_ENDED], None, 1)
        made.accept([StoredReport(ASKED, n, b"report %d" % n, n + 1) for n in range(100)])
        made.accept([StoredReport(ASKED_OF_ENDED, 0, b"a report", 300)])
        made.conclude(ENDED, Conclusion(StudyState.DONE, "done", "", "{}", 9))
        made.retention.delete_reports(ENDED, 50)
        while made.retention.remove_rows(ENDED, 100):
            pass
        yield made


def content(store: Store) -> list[object]:
    return [
        store.population(),
        [store.device(b"device %d" % n) for n in (0, 199, 201)],
        store.gateway(b"gateway"),
        store.studies(),
        store.conclusions(),
        store.listing.count(),
        [list(store.log(digest).lines()) for digest in (OPEN, ENDED)],
        [store.asked(request) for request in (ASKED, ASKED_OF_ENDED)],
        list(store.reports(ASKED)),
        list(store.reports(ASKED_OF_ENDED)),
        [store.acknowledged_sequence(n) for n in range(201)],
        store.retention.kept(),
    ]


def test_a_restored_store_has_all_and_goes_on(
    store: Store, new_location: NewLocation, tmp_path: Path
) -> None:
    path, before = tmp_path / "backup", content(store)
    manifest = store.back_up(path, 1000)
    assert (manifest.at_unix_s, manifest.devices, manifest.studies) == (1000, 201, 2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert check_backup(path) == manifest
    assert not list(tmp_path.glob(".*"))
    store.accept([StoredReport(ASKED, 150, b"later", 7)])
    location = new_location()
    with open_backup(path) as backup:
        location.restore(backup, 2000)
        with pytest.raises(StoreError, match="expected"):
            location.restore(backup, 3000)
    with closing(location.open()) as restored:
        assert content(restored) == before
        assert restored.restores() == [RestoreNote(2000, 1000)]
        assert store.restores() == []
        assert restored.accept([StoredReport(ASKED, 150, b"later", 7)]) == [AckStatus.ACCEPTED]
        third = bytes([3]) * 32
        restored.add_study(third, SignedStudy(b"study 3", b"a key", b"a signature"))
        restored.open_round(third, 0, [bytes([13]) * 32], None)
        accepted = restored.accept([StoredReport(bytes([13]) * 32, 3, b"a report", 400)])
        assert accepted == [AckStatus.ACCEPTED]
        assert restored.enrol(devices(250)) == range(201, 202)
        again = tmp_path / "again"
        assert restored.back_up(again, 4000).devices == 202


def test_a_backup_has_what_was_acknowledged_before_it_whatever_comes_meanwhile(
    store: Store, new_location: NewLocation, tmp_path: Path
) -> None:
    """Reports of one batch are in it all, or none of them is."""
    acknowledged, stopping = [0], threading.Event()

    def deliver() -> None:
        for number in count(1000, 10):
            if stopping.is_set():
                return
            filler = bytes(2000)
            store.accept([StoredReport(ASKED, number + n, filler, 1) for n in range(10)])
            acknowledged[0] = number + 10

    thread = threading.Thread(target=deliver)
    thread.start()
    try:
        while acknowledged[0] < 1500:
            pass
        least = acknowledged[0]
        store.back_up(tmp_path / "backup", 1000)
    finally:
        stopping.set()
        thread.join()
    location = new_location()
    with open_backup(tmp_path / "backup") as backup:
        location.restore(backup, 2000)
    with closing(location.open()) as restored:
        ordinals = [ordinal for ordinal, _ in restored.reports(ASKED) if ordinal >= 1000]
    assert len(ordinals) % 10 == 0
    assert ordinals == list(range(1000, 1000 + len(ordinals)))
    assert ordinals[-1] + 1 >= least


def changed(path: Path, **facts: object) -> Path:
    """Write a backup again with another manifest."""
    other = path.with_name("changed")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "manifest.json":
                data = json.dumps({**json.loads(data), **facts}).encode()
            target.writestr(name, data)
    return other


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"schema": 1_000}, "expected a schema of version"),
        ({"format": "askance backup v2"}, "expected the format 'askance backup v1'"),
        ({"kind": "another"}, "expected"),
        ({"parts": 7}, "truncated or damaged"),
    ],
)
def test_what_this_version_does_not_know_is_refused(
    store: Store,
    new_location: NewLocation,
    tmp_path: Path,
    facts: dict[str, object],
    complaint: str,
) -> None:
    store.back_up(tmp_path / "backup", 1000)
    path, location = changed(tmp_path / "backup", **facts), new_location()
    with pytest.raises(StoreError, match=complaint):
        check_backup(path)
    with pytest.raises(StoreError, match=complaint), open_backup(path) as backup:
        location.restore(backup, 2000)
    with pytest.raises(StoreError):
        location.open()  # nothing was made


def test_a_damaged_or_truncated_file_is_refused(
    store: Store, new_location: NewLocation, tmp_path: Path
) -> None:
    whole = tmp_path / "backup"
    store.back_up(whole, 1000)
    data = whole.read_bytes()
    for place in (60, len(data) // 3):
        for broken in (data[:place], data[:place] + b"\xff\x00\xff\x00" + data[place + 4 :]):
            damaged = tmp_path / "damaged"
            damaged.write_bytes(broken)
            with pytest.raises(StoreError, match=r"backup .*damaged"):
                check_backup(damaged)
            location = new_location()
            with pytest.raises(StoreError), open_backup(damaged) as backup:
                location.restore(backup, 2000)
            with pytest.raises(StoreError):
                location.open()
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a file", b"of another program")
    with pytest.raises(StoreError, match="damaged"):
        check_backup(tmp_path / "other.zip")
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        check_backup(tmp_path / "none")


def test_nothing_is_overwritten_and_nothing_is_left(store: Store, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(StoreError, match="expected no file there yet"):
        store.back_up(taken, 1000)
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        store.back_up(tmp_path / "no folder" / "backup", 1000)
    assert taken.read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_a_backup_goes_into_a_store_of_its_own_kind(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    with closing(SqliteStore.create(tmp_path / "store")) as store:
        store.back_up(tmp_path / "backup", 1000)
    location = store_location(postgresql.new_database())
    with (
        open_backup(tmp_path / "backup") as backup,
        pytest.raises(StoreError, match="expected one of a postgresql store, got one of a sqlite"),
    ):
        location.restore(backup, 2000)
    with (
        open_backup(changed(tmp_path / "backup", schema=0)) as backup,
        pytest.raises(UnsupportedStore),
    ):
        SqliteLocation(tmp_path / "new").restore(backup, 2000)


def test_a_database_with_content_takes_no_backup(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    location = store_location(postgresql.new_store())
    with closing(location.open()) as store:
        store.enrol(devices(1))
        store.back_up(tmp_path / "backup", 1000)
        with (
            open_backup(tmp_path / "backup") as backup,
            pytest.raises(StoreError, match="in use"),
        ):
            location.restore(backup, 2000)
    with (
        open_backup(tmp_path / "backup") as backup,
        pytest.raises(StoreError, match="expected an empty store, got one of 1 devices"),
    ):
        location.restore(backup, 2000)
