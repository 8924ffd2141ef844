"""The store of a service that is one process: one SQLite file, every commit synced to the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from askance_aggregator.store.contract import (
    AskedRequest,
    Conclusion,
    Deadline,
    Enrolled,
    EnrolledDevice,
    RoundNote,
    StoredReport,
    StudyEntry,
    StudyState,
    checked_arrivals,
    checked_devices,
    checked_enrolment,
    concluded_otherwise,
    refuse_more_devices,
    refuse_other_token,
    unknown_study,
)
from askance_aggregator.store.migrations import KIND
from askance_aggregator.store.report_rows import accept_one, all_new, note_sequences
from askance_aggregator.store.watch import UNWATCHED, StoreWatch
from askance_client.errors import StoreError, StoreFailed
from askance_client.messages import AckStatus, SignedStudy
from askance_client.sqlite_file import SqliteFile

_PAGE = 4096  # rows read at a time, so that a reader of millions holds neither them nor the lock
_PROBE_BYTES = 64 * 1024  # some commits of reports
Row = tuple[Any, ...]  # what SQLite gives back is typed by its STRICT tables, not by Python


_SUMMARY = (
    "SELECT digest, studies.study, public_key, signature, coalesce(state, 1), coalesce(reason, ''),"
    " coalesce(message, ''),"
    " (SELECT count(*) FROM rounds WHERE rounds.study = studies.number AND closed)"
    " FROM studies LEFT JOIN conclusions ON conclusions.study = studies.number"
)


class SqliteStore:
    """The store's contract on one SQLite file (see `Store`).

    The file is held exclusively while it is open: a second service on it would count on its own.
    """

    def __init__(self, file: SqliteFile, path: Path, watch: StoreWatch | None = None) -> None:
        """Use `create` or `open`."""
        self._file = file
        self._path = path
        self._watch = watch or UNWATCHED

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

    def enrol(self, devices: Iterable[tuple[bytes, bytes]]) -> range:
        listed = checked_devices(devices)
        with self._writing() as connection:
            start = _population(connection)
            for place, (device_id, token_digest) in enumerate(listed):
                added = connection.execute(
                    "INSERT INTO devices (ordinal, device_id, token_digest) VALUES (?, ?, ?)"
                    " ON CONFLICT (device_id) DO NOTHING",
                    (start + place, device_id, token_digest),
                )
                if not added.rowcount:
                    raise StoreError(f"enrolment: expected new ids, found device {place} enrolled")
        return range(start, start + len(listed))

    def enrol_with(
        self, devices: Iterable[tuple[bytes, bytes]], token_id: bytes, limit: int
    ) -> Enrolled:
        listed = checked_enrolment(devices, token_id)
        with self._writing() as connection:
            start = _population(connection)
            new = 0
            for place, (device_id, token_digest) in enumerate(listed):
                added = connection.execute(
                    "INSERT INTO devices (ordinal, device_id, token_digest) VALUES (?, ?, ?)"
                    " ON CONFLICT (device_id) DO NOTHING",
                    (start + new, device_id, token_digest),
                )
                new += added.rowcount
                if not added.rowcount and not _has_token(connection, device_id, token_digest):
                    raise refuse_other_token(place)
            (used,) = connection.execute(
                "INSERT INTO enrolment_tokens VALUES (?, ?)"
                " ON CONFLICT (token_id) DO UPDATE SET devices = devices + excluded.devices"
                " RETURNING devices",
                (token_id, new),
            ).fetchone()
            if new and used > limit:
                raise refuse_more_devices(limit, used)
        return Enrolled(new, len(listed) - new)

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        row = self._row(
            "SELECT ordinal, token_digest FROM devices WHERE device_id = ?", (device_id,)
        )
        return None if row is None else EnrolledDevice(*row)

    def population(self) -> int:
        with self._reading() as connection:
            return _population(connection)

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
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT digest, studies.study, public_key, signature FROM studies"
                " LEFT JOIN conclusions ON conclusions.study = studies.number"
                " WHERE state IS NULL ORDER BY number"
            ).fetchall()
        return {digest: SignedStudy(*columns) for digest, *columns in rows}

    def summaries(self, public_key: bytes) -> list[StudyEntry]:
        with self._reading() as connection:
            rows = connection.execute(
                f"{_SUMMARY} WHERE public_key = ? ORDER BY number", (public_key,)
            ).fetchall()
        return [_summary(row) for row in rows]

    def summary(self, digest: bytes) -> StudyEntry | None:
        row = self._row(f"{_SUMMARY} WHERE digest = ?", (digest,))
        return None if row is None else _summary(row)

    def count_studies(self) -> dict[StudyState, int]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT coalesce(state, 1), count(*) FROM studies"
                " LEFT JOIN conclusions ON conclusions.study = studies.number GROUP BY 1"
            ).fetchall()
        counts = {StudyState(state): int(count) for state, count in rows}
        return {state: counts.get(state, 0) for state in StudyState}

    def log(self, study_digest: bytes) -> _SqliteStudyLog:
        with self._reading() as connection:
            number = _study_number(connection, study_digest)
        return _SqliteStudyLog(self, number)

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
    ) -> RoundNote:
        columns = (None, None, None) if deadline is None else _columns(deadline)
        with self._writing() as connection:
            study = _study_number(connection, study_digest)
            connection.execute(
                "INSERT INTO rounds (study, number, boot, at_ms, left_ms) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (study, number) DO UPDATE SET boot = excluded.boot,"
                " at_ms = excluded.at_ms, left_ms = excluded.left_ms"
                # A round of a store before these columns: its time is measured from now.
                " WHERE boot IS NULL AND closes_unix_s IS NOT NULL",
                (study, number, *columns),
            )
            for digest in request_digests:
                _note_request(connection, digest, study, number)
            boot, at_ms, left_ms, closed = connection.execute(
                "SELECT boot, at_ms, left_ms, closed FROM rounds WHERE study = ? AND number = ?",
                (study, number),
            ).fetchone()
        return RoundNote(None if boot is None else Deadline(boot, at_ms, left_ms), bool(closed))

    def note_deadline(self, study_digest: bytes, number: int, deadline: Deadline) -> None:
        with self._writing() as connection:
            connection.execute(
                "UPDATE rounds SET boot = ?, at_ms = ?, left_ms = ? WHERE study = ? AND number = ?",
                (*_columns(deadline), _study_number(connection, study_digest), number),
            )

    def close_round(self, study_digest: bytes, number: int) -> None:
        with self._writing() as connection:
            connection.execute(
                "UPDATE rounds SET closed = 1 WHERE study = ? AND number = ?",
                (_study_number(connection, study_digest), number),
            )

    def asked(self, request_digest: bytes) -> AskedRequest | None:
        row = self._row(
            "SELECT coalesce(studies.digest, x''),"
            " coalesce(closed, 1) OR conclusions.study IS NOT NULL FROM requests"
            " LEFT JOIN studies ON studies.number = requests.study"
            " LEFT JOIN rounds ON rounds.study = requests.study AND rounds.number = requests.round"
            " LEFT JOIN conclusions ON conclusions.study = requests.study"
            " WHERE requests.digest = ?",
            (request_digest,),
        )
        return None if row is None else AskedRequest(row[0], bool(row[1]))

    def conclude(self, study_digest: bytes, conclusion: Conclusion) -> None:
        columns = (
            int(conclusion.state),
            conclusion.reason,
            conclusion.message,
            conclusion.result_json,
            conclusion.max_asked_nano_nats,
        )
        with self._writing() as connection:
            study = _study_number(connection, study_digest)
            connection.execute(
                "INSERT INTO conclusions VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (study, *columns),
            )
            stored = connection.execute(
                "SELECT state, reason, message, result_json, max_asked FROM conclusions"
                " WHERE study = ?",
                (study,),
            ).fetchone()
            if stored != columns:
                raise concluded_otherwise(study_digest)

    def conclusions(self) -> dict[bytes, Conclusion]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT digest, state, reason, message, result_json, max_asked FROM conclusions"
                " JOIN studies ON studies.number = conclusions.study ORDER BY studies.number"
            ).fetchall()
        return {digest: Conclusion(StudyState(state), *rest) for digest, state, *rest in rows}

    def conclusion(self, study_digest: bytes) -> Conclusion | None:
        row = self._row(
            "SELECT state, reason, message, result_json, max_asked FROM conclusions"
            " JOIN studies ON studies.number = conclusions.study WHERE digest = ?",
            (study_digest,),
        )
        return None if row is None else Conclusion(StudyState(row[0]), *row[1:])

    def nano_nats_asked(self) -> int:
        with self._reading() as connection:  # summed in Python: SQLite's integers end at 2^63
            rows = connection.execute("SELECT max_asked FROM conclusions").fetchall()
        return sum(asked for (asked,) in rows)

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        arrivals = checked_arrivals(arrivals)
        with self._writing() as connection:
            numbers = {
                digest: _request_number(connection, digest)
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

    def append_line(self, study: int, line: str) -> None:
        """Add a line to the transcript of the study of that number."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO transcript_lines SELECT ?, coalesce(max(number) + 1, 0), ?"
                " FROM transcript_lines WHERE study = ?",
                (study, line, study),
            )

    def lines(self, study: int) -> Iterator[str]:
        """The lines of the transcript of the study of that number."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT line FROM transcript_lines WHERE study = ? ORDER BY number", (study,)
            ).fetchall()
        return (str(line) for (line,) in rows)

    def _row(self, statement: str, parameters: tuple[object, ...]) -> Row | None:
        with self._reading() as connection:
            row: Row | None = connection.execute(statement, parameters).fetchone()
        return row


class _SqliteStudyLog:
    def __init__(self, store: SqliteStore, study: int) -> None:
        self._store = store
        self._study = study

    def append(self, line: str) -> None:
        self._store.append_line(self._study, line)

    def lines(self) -> Iterator[str]:
        return self._store.lines(self._study)


def _population(connection: sqlite3.Connection) -> int:
    return int(
        connection.execute("SELECT coalesce(max(ordinal) + 1, 0) FROM devices").fetchone()[0]
    )


def _has_token(connection: sqlite3.Connection, device_id: bytes, token_digest: bytes) -> bool:
    found = connection.execute(
        "SELECT 1 FROM devices WHERE device_id = ? AND token_digest = ?", (device_id, token_digest)
    )
    return found.fetchone() is not None


def _columns(deadline: Deadline) -> tuple[str, int, int]:
    return deadline.boot, deadline.at_ms, deadline.left_ms


def _summary(row: Row) -> StudyEntry:
    digest, study, public_key, signature, state, reason, message, closed = row
    signed = SignedStudy(study, public_key, signature)
    return StudyEntry(digest, signed, StudyState(state), reason, message, closed)


def _note_request(connection: sqlite3.Connection, digest: bytes, study: int, number: int) -> None:
    connection.execute(
        "INSERT INTO requests (digest, study, round) VALUES (?, ?, ?)"
        " ON CONFLICT (digest) DO UPDATE SET study = excluded.study, round = excluded.round",
        (digest, study, number),
    )


def _study_number(connection: sqlite3.Connection, digest: bytes) -> int:
    row = connection.execute("SELECT number FROM studies WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise unknown_study(digest)
    return int(row[0])


def _request_number(connection: sqlite3.Connection, digest: bytes) -> int:
    row = connection.execute("SELECT number FROM requests WHERE digest = ?", (digest,)).fetchone()
    if row is not None:
        return int(row[0])
    added = connection.execute("INSERT INTO requests (digest) VALUES (?)", (digest,))
    return int(added.lastrowid or 0)
