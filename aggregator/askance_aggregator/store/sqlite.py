"""The store of a service that is one process: one SQLite file, every commit synced to the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from askance_aggregator.store.audit import AuditLog
from askance_aggregator.store.audit_rows import SqliteAuditLog
from askance_aggregator.store.backups import Manifest, RestoreNote
from askance_aggregator.store.certificate_rows import SqliteCertificates
from askance_aggregator.store.checks import (
    checked_arrivals,
    checked_devices,
    checked_enrolment,
    concluded_otherwise,
)
from askance_aggregator.store.contract import (
    AskedRequest,
    Conclusion,
    Deadline,
    Enrolled,
    EnrolledDevice,
    EnrolledGateway,
    EpochEntry,
    RoundNote,
    StoredReport,
)
from askance_aggregator.store.device_rows import add_devices, count_devices, enrol_devices
from askance_aggregator.store.listing import StudyEntry, StudyState
from askance_aggregator.store.migrations import KIND
from askance_aggregator.store.register_rows import RegisterRows
from askance_aggregator.store.replicas import SoleReplica
from askance_aggregator.store.report_rows import accept_one, all_new, note_sequences
from askance_aggregator.store.sqlite_backup import back_up_sqlite
from askance_aggregator.store.sqlite_management import SqliteManagement
from askance_aggregator.store.sqlite_retention import SqliteRetention
from askance_aggregator.store.sqlite_rows import note_request, request_number, study_number
from askance_aggregator.store.sqlite_sharing import ServingLock, open_shared
from askance_aggregator.store.sqlite_transactions import SqliteTransactions
from askance_aggregator.store.study_rows import StudyRows
from askance_aggregator.store.transcript_rows import read_transcript
from askance_aggregator.store.watch import UNWATCHED, StoreWatch
from askance_client.errors import StoreError, StoreFailed
from askance_client.messages import AckStatus, SignedStudy
from askance_client.sqlite_file import SqliteFile

_PAGE = 4096  # rows read at a time, so that a reader of millions holds neither them nor the lock
_PROBE_BYTES = 64 * 1024  # some commits of reports
Row = tuple[Any, ...]  # what SQLite gives back is typed by its STRICT tables, not by Python


_ROUND = "WHERE study = ? AND epoch = ? AND number = ?"


class SqliteStore:
    """The store's contract on one SQLite file (see `Store`).

    One process serves from it: a second would count on its own. `open` shares the file with none;
    `open_to_serve` lets operators' commands open it beside.
    """

    def __init__(self, file: SqliteFile, path: Path, watch: StoreWatch | None = None) -> None:
        """Use `create` or `open`."""
        self.replicas = SoleReplica()
        self.management = SqliteManagement(self._writing, self._reading)
        self._file = file
        self._path = path
        self._watch = watch or UNWATCHED
        self._release: Callable[[], None] = lambda: None
        self.retention = SqliteRetention(self._writing, self._reading)
        self._audit = SqliteAuditLog(self._writing, self._reading)
        self.certificates = SqliteCertificates(self._writing, self._reading)
        transactions = SqliteTransactions(self._writing, self._reading)
        self.register = RegisterRows(transactions)
        self.listing = StudyRows(transactions)
        self._transactions = transactions

    @classmethod
    def create(cls, path: Path) -> SqliteStore:
        """Make a new, empty store at `path`.

        Raises:
          StoreError: something is there already (a store is never overwritten), or the disk says
            no.
        """
        return cls(SqliteFile.create(path, KIND), path)

    @classmethod
    def open(cls, path: Path, watch: StoreWatch | None = None) -> SqliteStore:
        """Open the store at `path` and bring an older version up to date, or refuse.

        Args:
          path: the file; it is created if absent.
          watch: observer of later writes; None: there is none.

        Raises:
          StoreError: no file, no store, damaged, or in use.
          UnsupportedStore: written by a newer version.
        """
        return cls(SqliteFile.open(path, KIND), path, watch)

    @property
    def audit(self) -> AuditLog:
        return self._audit

    @classmethod
    def open_to_serve(cls, path: Path, watch: StoreWatch | None = None) -> SqliteStore:
        """Open the store as the one process that serves from it; raises as `open`."""
        if not path.is_file():
            return cls.open(path, watch)  # which says so
        lock = ServingLock(path)
        try:
            opened = cls(open_shared(path), path, watch)
        except StoreError:
            lock.release()
            raise
        opened._release = lock.release
        return opened

    @classmethod
    def open_beside(cls, path: Path) -> SqliteStore:
        """Open the store for an operator's command, also while a process serves from it."""
        return cls(open_shared(path), path)

    def enrol(self, devices: Iterable[tuple[bytes, bytes]]) -> range:
        listed = checked_devices(devices)
        with self._writing() as connection:
            start = add_devices(connection, listed)
        return range(start, start + len(listed))

    def enrol_with(
        self,
        devices: Iterable[tuple[bytes, bytes]],
        token_id: bytes,
        limit: int,
        gateway: tuple[bytes, bytes] | None = None,
    ) -> Enrolled:
        listed = checked_enrolment(devices, token_id, gateway)
        with self._writing() as connection:
            new = enrol_devices(connection, listed, token_id, limit, gateway)
        return Enrolled(new, len(listed) - new)

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        row = self._row(
            "SELECT ordinal, token_digest, coalesce(gateway, 0) FROM devices WHERE device_id = ?",
            (device_id,),
        )
        return None if row is None else EnrolledDevice(*row)

    def gateway(self, gateway_id: bytes) -> EnrolledGateway | None:
        row = self._row(
            "SELECT number, token_digest FROM gateways WHERE gateway_id = ?", (gateway_id,)
        )
        return None if row is None else EnrolledGateway(*row)

    def population(self) -> int:
        with self._reading() as connection:
            return count_devices(connection)

    def add_study(self, digest: bytes, signed: SignedStudy) -> None:
        columns = (signed.study, signed.public_key, signed.signature)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO studies (digest, study, public_key, signature) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (digest) DO NOTHING",
                (digest, *columns),
            )
            stored = connection.execute(
                "SELECT study, public_key, signature FROM studies WHERE digest = ?", (digest,)
            ).fetchone()
            if stored != columns:
                raise StoreError(f"study {digest.hex()[:16]}: expected no other, found one stored")

    def studies(self) -> dict[bytes, SignedStudy]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT digest, study, public_key, signature FROM studies ORDER BY number"
            ).fetchall()
        return {digest: SignedStudy(*columns) for digest, *columns in rows}

    def study(self, digest: bytes) -> SignedStudy | None:
        row = self._row(
            "SELECT study, public_key, signature FROM studies WHERE digest = ?", (digest,)
        )
        return None if row is None else SignedStudy(*row)

    def open_studies(self) -> dict[bytes, SignedStudy]:
        return self.listing.open_studies()

    def summary(self, digest: bytes) -> StudyEntry | None:
        return self.listing.entry(digest)

    def count_studies(self) -> dict[StudyState, int]:
        return self.listing.count()

    def log(self, study_digest: bytes, epoch: int = 0) -> _SqliteStudyLog:
        with self._reading() as connection:
            number = study_number(connection, study_digest)
        return _SqliteStudyLog(self, number, epoch)

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
        epoch: int = 0,
    ) -> RoundNote:
        columns = (None, None, None) if deadline is None else _columns(deadline)
        with self._writing() as connection:
            study = study_number(connection, study_digest)
            connection.execute(
                "INSERT INTO rounds (study, epoch, number, boot, at_ms, left_ms)"
                " VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (study, epoch, number) DO UPDATE SET boot = excluded.boot,"
                " at_ms = excluded.at_ms, left_ms = excluded.left_ms"
                # A round of a store before these columns: its time is measured from now.
                " WHERE boot IS NULL AND closes_unix_s IS NOT NULL",
                (study, epoch, number, *columns),
            )
            for digest in request_digests:
                note_request(connection, digest, study, epoch, number)
            boot, at_ms, left_ms, closed = connection.execute(
                f"SELECT boot, at_ms, left_ms, closed FROM rounds {_ROUND}", (study, epoch, number)
            ).fetchone()
        return RoundNote(None if boot is None else Deadline(boot, at_ms, left_ms), bool(closed))

    def note_deadline(
        self, study_digest: bytes, number: int, deadline: Deadline, epoch: int = 0
    ) -> None:
        with self._writing() as connection:
            connection.execute(
                f"UPDATE rounds SET boot = ?, at_ms = ?, left_ms = ? {_ROUND}",
                (*_columns(deadline), study_number(connection, study_digest), epoch, number),
            )

    def close_round(self, study_digest: bytes, number: int, epoch: int = 0) -> None:
        with self._writing() as connection:
            connection.execute(
                f"UPDATE rounds SET closed = 1 {_ROUND}",
                (study_number(connection, study_digest), epoch, number),
            )

    def asked(self, request_digest: bytes) -> AskedRequest | None:
        row = self._row(
            "SELECT coalesce(studies.digest, x''),"
            " coalesce(closed, 1) OR EXISTS (SELECT 1 FROM conclusions AS ended"
            "  WHERE ended.study = requests.study AND ended.epoch IN (0, requests.epoch))"
            " FROM requests LEFT JOIN studies ON studies.number = requests.study"
            " LEFT JOIN rounds ON rounds.study = requests.study AND rounds.epoch = requests.epoch"
            "  AND rounds.number = requests.round WHERE requests.digest = ?",
            (request_digest,),
        )
        return None if row is None else AskedRequest(row[0], bool(row[1]))

    def conclude(self, study_digest: bytes, conclusion: Conclusion, epoch: int = 0) -> None:
        columns = (
            int(conclusion.state),
            conclusion.reason,
            conclusion.message,
            conclusion.result_json,
            conclusion.max_asked_nano_nats,
        )
        with self._writing() as connection:
            study = study_number(connection, study_digest)
            connection.execute(
                "INSERT INTO conclusions VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (study, epoch, *columns),
            )
            stored = connection.execute(
                "SELECT state, reason, message, result_json, max_asked FROM conclusions"
                " WHERE study = ? AND epoch = ?",
                (study, epoch),
            ).fetchone()
            if stored != columns:
                raise concluded_otherwise(study_digest)

    def epochs(self, study_digest: bytes) -> list[EpochEntry]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT epoch, state, reason, message, max_asked FROM conclusions"
                " JOIN studies ON studies.number = conclusions.study"
                " WHERE digest = ? AND epoch > 0 ORDER BY epoch",
                (study_digest,),
            ).fetchall()
        return [EpochEntry(epoch, StudyState(state), *rest) for epoch, state, *rest in rows]

    def conclusions(self) -> dict[bytes, Conclusion]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT digest, state, reason, message, result_json, max_asked FROM conclusions"
                " JOIN studies ON studies.number = conclusions.study WHERE epoch = 0"
                " ORDER BY studies.number"
            ).fetchall()
        return {digest: Conclusion(StudyState(state), *rest) for digest, state, *rest in rows}

    def conclusion(self, study_digest: bytes, epoch: int = 0) -> Conclusion | None:
        row = self._row(
            "SELECT state, reason, message, result_json, max_asked FROM conclusions"
            " JOIN studies ON studies.number = conclusions.study WHERE digest = ? AND epoch = ?",
            (study_digest, epoch),
        )
        return None if row is None else Conclusion(StudyState(row[0]), *row[1:])

    def study_costs(self) -> list[int]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT max_asked FROM conclusions WHERE epoch = 0"
            ).fetchall()
        return [asked for (asked,) in rows]

    def nano_nats_asked(self) -> int:
        return sum(self.study_costs())  # in Python: SQLite's integers end at 2^63

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        arrivals = checked_arrivals(arrivals)
        with self._writing() as connection:
            numbers = {
                digest: request_number(connection, digest)
                for digest in {arrival.request_digest for arrival in arrivals}
            }
            if all_new(connection, numbers, arrivals):
                statuses = [AckStatus.ACCEPTED] * len(arrivals)
            else:
                statuses = [
                    accept_one(connection, numbers[arrival.request_digest], arrival)
                    for arrival in arrivals
                ]
            note_sequences(connection, arrivals, statuses)
            return statuses

    def acknowledged_sequence(self, ordinal: int) -> int:
        row = self._row("SELECT acknowledged_sequence FROM devices WHERE ordinal = ?", (ordinal,))
        return 0 if row is None else int(row[0])

    def reports(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        last = -1
        while True:
            with self._reading() as connection:
                rows = connection.execute(
                    "SELECT ordinal, data FROM reports WHERE ordinal > ? AND request ="
                    " (SELECT number FROM requests WHERE digest = ?) ORDER BY ordinal LIMIT ?",
                    (last, request_digest, _PAGE),
                ).fetchall()
            yield from rows
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def report(self, request_digest: bytes, ordinal: int) -> bytes | None:
        row = self._row(
            "SELECT data FROM reports WHERE ordinal = ? AND request ="
            " (SELECT number FROM requests WHERE digest = ?)",
            (ordinal, request_digest),
        )
        return None if row is None else bytes(row[0])

    def evidence(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT ordinal, data FROM evidence WHERE request ="
                " (SELECT number FROM requests WHERE digest = ?) ORDER BY ordinal, place",
                (request_digest,),
            ).fetchall()
        return iter(rows)

    def back_up(self, path: Path, now_s: int) -> Manifest:
        return back_up_sqlite(self._file, path, now_s)

    def restored_sequences(self) -> dict[int, int]:
        with self._reading() as connection:
            return dict(connection.execute("SELECT ordinal, sequence FROM restored_sequences"))

    def restores(self) -> list[RestoreNote]:
        with self._reading() as connection:
            rows = connection.execute("SELECT * FROM restores ORDER BY restored_unix_s").fetchall()
        return [RestoreNote(*row) for row in rows]

    def check_writable(self) -> None:
        with self._writing() as connection:
            connection.execute("CREATE TABLE probe (filler BLOB NOT NULL) STRICT")
            connection.execute("INSERT INTO probe VALUES (zeroblob(?))", (_PROBE_BYTES,))
            connection.execute("DROP TABLE probe")

    def size_bytes(self) -> int:
        total = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                total += self._path.with_name(self._path.name + suffix).stat().st_size
        return total

    def close(self) -> None:
        self._file.close()
        self._release()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction and report its outcome to the observer."""
        try:
            with self._file.transaction() as connection:
                yield connection
        except StoreFailed as error:
            self._watch.store_failed(error)
            raise
        self._watch.store_written()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Read, and report a failure to the observer."""
        try:
            with self._file.reading() as connection:
                yield connection
        except StoreFailed as error:
            self._watch.store_failed(error)
            raise

    def append_line(self, study: int, epoch: int, line: str) -> None:
        """Add a line to a transcript of the study of that number."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO transcript_lines SELECT ?, ?, coalesce(max(number) + 1, 0), ?"
                " FROM transcript_lines WHERE study = ? AND epoch = ?",
                (study, epoch, line, study, epoch),
            )

    def lines(self, study: int, epoch: int) -> Iterator[str]:
        """The lines of a transcript of the study of that number."""
        return read_transcript(self._transactions, study, epoch)

    def _row(self, statement: str, parameters: tuple[object, ...]) -> Row | None:
        with self._reading() as connection:
            row: Row | None = connection.execute(statement, parameters).fetchone()
        return row


class _SqliteStudyLog:
    def __init__(self, store: SqliteStore, study: int, epoch: int) -> None:
        self._store = store
        self._study = study
        self._epoch = epoch

    def append(self, line: str) -> None:
        self._store.append_line(self._study, self._epoch, line)

    def lines(self) -> Iterator[str]:
        return self._store.lines(self._study, self._epoch)


def _columns(deadline: Deadline) -> tuple[str, int, int]:
    return deadline.boot, deadline.at_ms, deadline.left_ms
