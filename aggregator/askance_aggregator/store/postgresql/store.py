"""The store's contract on one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from askance_aggregator.store.audit import AuditLog
from askance_aggregator.store.backups import Manifest, RestoreNote
from askance_aggregator.store.checks import (
    checked_arrivals,
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
from askance_aggregator.store.listing import StudyEntry, StudyState
from askance_aggregator.store.postgresql.audit_rows import PostgresqlAuditLog
from askance_aggregator.store.postgresql.backup import back_up_postgresql
from askance_aggregator.store.postgresql.certificate_rows import CertificateRows
from askance_aggregator.store.postgresql.database import (
    Connection,
    PostgresqlDatabase,
    Row,
    one_row,
)
from askance_aggregator.store.postgresql.device_rows import DeviceRows
from askance_aggregator.store.postgresql.management import PostgresqlManagement
from askance_aggregator.store.postgresql.partitions import add_partition
from askance_aggregator.store.postgresql.replicas import (
    PostgresqlReplicas,
    notify,
    study_number,
)
from askance_aggregator.store.postgresql.report_rows import ReportRows
from askance_aggregator.store.postgresql.retention import PostgresqlRetention
from askance_aggregator.store.postgresql.schema import SCHEMA
from askance_aggregator.store.register_rows import (
    Execute,
    RegisterRows,
    StatementAnswer,
    Transactions,
)
from askance_aggregator.store.study_rows import StudyRows
from askance_aggregator.store.transcript_rows import read_transcript
from askance_aggregator.store.watch import StoreWatch
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy

T = TypeVar("T")
_PAGE = (
    4096  # rows read at a time, so that a reader of millions holds neither them nor a connection
)
_PROBE_BYTES = 64 * 1024  # some commits of reports

_ROUND = "WHERE study = %s AND epoch = %s AND number = %s"
_CONCLUSION = (
    "SELECT digest, state, reason, message, result_json, max_asked FROM conclusions"
    " JOIN studies ON studies.number = conclusions.study"
)


class PostgresqlStore:
    """The store's contract on one database (see `Store`), which several processes may share."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        """Use `open` or `open_to_read`."""
        self.replicas = PostgresqlReplicas(database)
        self.management = PostgresqlManagement(database)
        self._database = database
        self._devices = DeviceRows(database)
        self.certificates = CertificateRows(database)
        self._reports = ReportRows(database)
        self.retention = PostgresqlRetention(database)
        self._audit = PostgresqlAuditLog(database)
        transactions = _PostgresqlTransactions(database)
        self.register = RegisterRows(transactions)
        self.listing = StudyRows(transactions)
        self._transactions = transactions

    @classmethod
    def open(
        cls, name: str, parameters: Callable[[], dict[str, str]], watch: StoreWatch | None = None
    ) -> PostgresqlStore:
        """Open a database's store to write to it, as other processes may at the same time.

        Args:
          name: the database's address in errors, without a password.
          parameters: libpq's connection parameters, asked anew for every connection.
          watch: observer of later operations; None: there is none.

        Raises:
          StoreError: no connection, another schema version, or it is being migrated.
        """
        store = cls.open_to_read(name, parameters)
        try:
            store._database.hold(watch)
        except StoreError:
            store.close()
            raise
        return store

    @classmethod
    def open_to_read(cls, name: str, parameters: Callable[[], dict[str, str]]) -> PostgresqlStore:
        """Open a database's store to read it, also while other processes write to it."""
        return cls(PostgresqlDatabase.open(name, parameters))

    @property
    def audit(self) -> AuditLog:
        return self._audit

    def enrol(self, devices: Iterable[tuple[bytes, bytes]]) -> range:
        return self._devices.enrol(devices)

    def enrol_with(
        self,
        devices: Iterable[tuple[bytes, bytes]],
        token_id: bytes,
        limit: int,
        gateway: tuple[bytes, bytes] | None = None,
    ) -> Enrolled:
        return self._devices.enrol_with(devices, token_id, limit, gateway)

    def device(self, device_id: bytes) -> EnrolledDevice | None:
        return self._devices.device(device_id)

    def gateway(self, gateway_id: bytes) -> EnrolledGateway | None:
        return self._devices.gateway(gateway_id)

    def population(self) -> int:
        return self._devices.population()

    def add_study(self, digest: bytes, signed: SignedStudy) -> None:
        columns = (signed.study, signed.public_key, signed.signature)

        def step(connection: Connection) -> None:
            added = connection.execute(
                "INSERT INTO studies (digest, study, public_key, signature)"
                " VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING number",
                (digest, *columns),
            ).fetchone()
            if added is not None:
                add_partition(connection, int(added[0]))
                return
            stored = one_row(
                connection,
                "SELECT study, public_key, signature FROM studies WHERE digest = %s",
                (digest,),
            )
            if stored != columns:
                raise StoreError(f"study {digest.hex()[:16]}: expected no other, found one stored")

        self._database.write(step)

    def studies(self) -> dict[bytes, SignedStudy]:
        rows = self._database.rows(
            "SELECT digest, study, public_key, signature FROM studies ORDER BY number"
        )
        return {digest: SignedStudy(*columns) for digest, *columns in rows}

    def study(self, digest: bytes) -> SignedStudy | None:
        row = self._database.row(
            "SELECT study, public_key, signature FROM studies WHERE digest = %s", (digest,)
        )
        return None if row is None else SignedStudy(*row)

    def open_studies(self) -> dict[bytes, SignedStudy]:
        return self.listing.open_studies()

    def summary(self, digest: bytes) -> StudyEntry | None:
        return self.listing.entry(digest)

    def count_studies(self) -> dict[StudyState, int]:
        return self.listing.count()

    def log(self, study_digest: bytes, epoch: int = 0) -> _PostgresqlStudyLog:
        number = self._database.read(lambda connection: study_number(connection, study_digest))
        return _PostgresqlStudyLog(self._database, self._transactions, self.replicas, number, epoch)

    def open_round(
        self,
        study_digest: bytes,
        number: int,
        request_digests: Sequence[bytes],
        deadline: Deadline | None,
        epoch: int = 0,
    ) -> RoundNote:
        columns = (None, None, None) if deadline is None else _columns(deadline)

        def step(connection: Connection) -> RoundNote:
            study = self._driven(connection, study_digest)
            connection.execute(
                "INSERT INTO rounds (study, epoch, number, boot, at_ms, left_ms)"
                " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (study, epoch, number, *columns),
            )
            connection.execute(
                "INSERT INTO requests (digest, study, epoch, round, part)"
                " SELECT digest, %(study)s, %(epoch)s, %(round)s, %(study)s"
                " FROM unnest(%(digests)s::bytea[]) AS digest ON CONFLICT (digest) DO UPDATE"
                " SET study = excluded.study, epoch = excluded.epoch, round = excluded.round",
                {
                    "study": study,
                    "epoch": epoch,
                    "round": number,
                    "digests": sorted(set(request_digests)),
                },
            )
            boot, at_ms, left_ms, closed = one_row(
                connection,
                f"SELECT boot, at_ms, left_ms, closed FROM rounds {_ROUND}",
                (study, epoch, number),
            )
            notify(connection)
            return RoundNote(None if boot is None else Deadline(boot, at_ms, left_ms), closed)

        return self._database.write(step)

    def note_deadline(
        self, study_digest: bytes, number: int, deadline: Deadline, epoch: int = 0
    ) -> None:
        self._database.write(
            lambda connection: connection.execute(
                f"UPDATE rounds SET boot = %s, at_ms = %s, left_ms = %s {_ROUND}".encode(),
                (*_columns(deadline), self._driven(connection, study_digest), epoch, number),
            )
        )

    def close_round(self, study_digest: bytes, number: int, epoch: int = 0) -> None:
        def step(connection: Connection) -> None:
            of = (self._driven(connection, study_digest), epoch, number)
            connection.execute(f"UPDATE rounds SET closed = true {_ROUND}".encode(), of)
            notify(connection)

        self._database.write(step)

    def asked(self, request_digest: bytes) -> AskedRequest | None:
        row = self._database.row(
            "SELECT coalesce(studies.digest, ''),"
            " coalesce(closed, true) OR EXISTS (SELECT FROM conclusions AS ended"
            "  WHERE ended.study = requests.study AND ended.epoch IN (0, requests.epoch))"
            " FROM requests LEFT JOIN studies ON studies.number = requests.study"
            " LEFT JOIN rounds ON rounds.study = requests.study AND rounds.epoch = requests.epoch"
            "  AND rounds.number = requests.round WHERE requests.digest = %s",
            (request_digest,),
        )
        return None if row is None else AskedRequest(*row)

    def conclude(self, study_digest: bytes, conclusion: Conclusion, epoch: int = 0) -> None:
        def step(connection: Connection) -> None:
            study = self._driven(connection, study_digest)
            connection.execute(
                "UPDATE rounds SET ended = true WHERE study = %s AND (%s = 0 OR epoch = %s)",
                (study, epoch, epoch),
            )
            notify(connection)
            connection.execute(
                "INSERT INTO conclusions VALUES (%s, %s, %s, %s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (
                    study,
                    epoch,
                    int(conclusion.state),
                    conclusion.reason,
                    conclusion.message,
                    conclusion.result_json,
                    conclusion.max_asked_nano_nats,
                ),
            )
            stored = one_row(
                connection, f"{_CONCLUSION} WHERE number = %s AND epoch = %s", (study, epoch)
            )
            if _conclusion(stored) != conclusion:
                raise concluded_otherwise(study_digest)

        self._database.write(step)

    def epochs(self, study_digest: bytes) -> list[EpochEntry]:
        rows = self._database.rows(
            "SELECT epoch, state, reason, message, max_asked FROM conclusions"
            " JOIN studies ON studies.number = conclusions.study"
            " WHERE digest = %s AND epoch > 0 ORDER BY epoch",
            (study_digest,),
        )
        return [EpochEntry(epoch, StudyState(state), *rest) for epoch, state, *rest in rows]

    def conclusions(self) -> dict[bytes, Conclusion]:
        rows = self._database.rows(f"{_CONCLUSION} WHERE epoch = 0 ORDER BY number")
        return {row[0]: _conclusion(row) for row in rows}

    def conclusion(self, study_digest: bytes, epoch: int = 0) -> Conclusion | None:
        row = self._database.row(
            f"{_CONCLUSION} WHERE digest = %s AND epoch = %s", (study_digest, epoch)
        )
        return None if row is None else _conclusion(row)

    def study_costs(self) -> list[int]:
        rows = self._database.rows("SELECT max_asked FROM conclusions WHERE epoch = 0")
        return [int(asked) for (asked,) in rows]

    def nano_nats_asked(self) -> int:
        ((total,),) = self._database.rows(
            "SELECT coalesce(sum(max_asked), 0) FROM conclusions WHERE epoch = 0"
        )
        return int(total)

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        return self._reports.accept(checked_arrivals(arrivals))

    def acknowledged_sequence(self, ordinal: int) -> int:
        return self._devices.acknowledged_sequence(ordinal)

    def reports(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        found = self._database.row(
            "SELECT part, number FROM requests WHERE digest = %s", (request_digest,)
        )
        last = -1
        while found is not None:
            rows = self._database.rows(
                "SELECT ordinal, data FROM reports WHERE part = %s AND request = %s"
                " AND ordinal > %s ORDER BY ordinal LIMIT %s",
                (*found, last, _PAGE),
            )
            yield from ((ordinal, data) for ordinal, data in rows)
            if len(rows) < _PAGE:
                return
            last = rows[-1][0]

    def report(self, request_digest: bytes, ordinal: int) -> bytes | None:
        row = self._database.row(
            "SELECT data FROM requests JOIN reports ON reports.part = requests.part"
            " AND reports.request = requests.number WHERE digest = %s AND ordinal = %s",
            (request_digest, ordinal),
        )
        return None if row is None else bytes(row[0])

    def evidence(self, request_digest: bytes) -> Iterator[tuple[int, bytes]]:
        rows = self._database.rows(
            "SELECT ordinal, data FROM evidence WHERE request ="
            " (SELECT number FROM requests WHERE digest = %s) ORDER BY ordinal, place",
            (request_digest,),
        )
        return ((ordinal, data) for ordinal, data in rows)

    def back_up(self, path: Path, now_s: int) -> Manifest:
        return back_up_postgresql(self._database, path, now_s)

    def restored_sequences(self) -> dict[int, int]:
        return dict(self._database.rows("SELECT * FROM restored_sequences"))

    def restores(self) -> list[RestoreNote]:
        rows = self._database.rows("SELECT * FROM restores ORDER BY restored_unix_s")
        return [RestoreNote(*row) for row in rows]

    def check_writable(self) -> None:
        def step(connection: Connection) -> None:
            connection.execute("INSERT INTO probe VALUES (%s)", (bytes(_PROBE_BYTES),))
            connection.execute("TRUNCATE probe")

        self._database.write(step)

    def size_bytes(self) -> int:
        ((total,),) = self._database.rows(
            "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0) FROM pg_class"
            " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            " WHERE nspname = %s AND relkind = 'r'",
            (SCHEMA,),
        )
        return int(total)

    def close(self) -> None:
        self._database.close()

    def _driven(self, connection: Connection, digest: bytes) -> int:
        """Return a study's number, for a write that only its driver may make."""
        study = study_number(connection, digest)
        self.replicas.check(connection, study)
        return study


class _PostgresqlTransactions:
    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

    def read(self, step: Callable[[Execute], T]) -> T:
        return self._database.read(lambda connection: step(_executing(connection)))

    def write(self, step: Callable[[Execute], T]) -> T:
        return self._database.write(lambda connection: step(_executing(connection)))


def _executing(connection: Connection) -> Execute:
    def execute(statement: str, parameters: Sequence[object]) -> StatementAnswer:
        return connection.execute(statement.replace("?", "%s").encode(), parameters, binary=True)

    return execute


class _PostgresqlStudyLog:
    def __init__(
        self,
        database: PostgresqlDatabase,
        transactions: Transactions,
        replicas: PostgresqlReplicas,
        study: int,
        epoch: int,
    ) -> None:
        self._database = database
        self._transactions = transactions
        self._replicas = replicas
        self._of = (study, epoch)

    def append(self, line: str) -> None:
        def step(connection: Connection) -> None:
            self._replicas.check(connection, self._of[0])
            connection.execute(
                "INSERT INTO transcript_lines SELECT %s, %s, coalesce(max(number) + 1, 0), %s"
                " FROM transcript_lines WHERE study = %s AND epoch = %s",
                (*self._of, line, *self._of),
            )

        self._database.write(step)

    def lines(self) -> Iterator[str]:
        return read_transcript(self._transactions, *self._of)


def _columns(deadline: Deadline) -> tuple[str, int, int]:
    return deadline.boot, deadline.at_ms, deadline.left_ms


def _conclusion(row: Row) -> Conclusion:
    _, state, *rest = row
    return Conclusion(StudyState(state), *rest)
