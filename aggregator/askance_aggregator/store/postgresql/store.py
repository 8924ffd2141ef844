"""The store of several processes: one PostgreSQL database, with its arrays, partitions and locks.

A study's reports are a partition, which is dropped when they are deleted. A batch of reports is one
statement, stored once each. The population's row is locked while devices are added, and an advisory
lock is held while the audit log is appended to: several processes may do either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from psycopg import sql
from psycopg.errors import UniqueViolation

from askance_aggregator.store.backups import Manifest
from askance_aggregator.store.dialect import Execute
from askance_aggregator.store.postgresql.backup import back_up_postgresql
from askance_aggregator.store.postgresql.database import (
    Bigints,
    Byteas,
    Connection,
    PostgresqlDatabase,
    add_partition,
    executing,
)
from askance_aggregator.store.postgresql.replicas import PostgresqlReplicas
from askance_aggregator.store.postgresql.schema import SCHEMA
from askance_aggregator.store.sql_store import Store
from askance_aggregator.store.values import MAX_EVIDENCE, StoredReport
from askance_aggregator.store.watch import StoreWatch
from askance_client.errors import StoreError
from askance_client.messages import AckStatus

T = TypeVar("T")
_PROBE_BYTES = 64 * 1024  # some commits of reports
_ADDED_AT_ONCE = 10_000  # devices that one statement adds
# One row if the table is there: whether it is a partition, and whether its detaching broke off.
_PARTITION = """
SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = pg_class.oid),
  EXISTS (SELECT FROM pg_inherits WHERE inhrelid = pg_class.oid AND inhdetachpending)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relname = %s
"""


class PostgresqlDialect:
    """A PostgreSQL database (see `Dialect`)."""

    population = "SELECT devices FROM population"
    for_update = " FOR UPDATE"
    skip_locked = " FOR UPDATE SKIP LOCKED"
    now_s = "floor(extract(epoch FROM clock_timestamp()))::bigint"
    round_again = "DO NOTHING"
    request_key = "part, number"
    of_request = "part = ? AND request = ?"

    def __init__(self, database: PostgresqlDatabase) -> None:
        self.database = database

    def read(self, step: Callable[[Execute], T]) -> T:
        return self.database.read(lambda connection: step(executing(connection)))

    def write(self, step: Callable[[Execute], T]) -> T:
        return self.database.write(lambda connection: step(executing(connection)))

    def one_of(
        self, column: str, values: Sequence[bytes] | Sequence[int]
    ) -> tuple[str, Sequence[object]]:
        ids = [value for value in values if isinstance(value, bytes)]
        if ids:
            return f"{column} = ANY(?::bytea[])", (Byteas(ids),)
        return f"{column} = ANY(?::bigint[])", (list(values),)

    def take_turn(self, execute: Execute, lock: int) -> None:
        execute("SELECT pg_advisory_xact_lock(?::bigint)", (lock,))

    def add_devices(
        self, execute: Execute, start: int, devices: Sequence[tuple[bytes, bytes]]
    ) -> None:
        for first in range(0, len(devices), _ADDED_AT_ONCE):
            part = devices[first : first + _ADDED_AT_ONCE]
            execute(
                "INSERT INTO devices (ordinal, device_id, token_digest, enrolled_day)"
                " SELECT ? + place - 1, device_id, token_digest,"
                " floor(extract(epoch FROM clock_timestamp()) / 86400)::bigint"
                " FROM unnest(?::bytea[], ?::bytea[]) WITH ORDINALITY"
                " AS a (device_id, token_digest, place)",
                (start + first, Byteas([one for one, _ in part]), Byteas([one for _, one in part])),
            )
        execute("UPDATE population SET devices = ?", (start + len(devices),))

    def begin_study(self, execute: Execute, study: int) -> None:
        add_partition(execute, study)

    def note_requests(
        self, execute: Execute, digests: Sequence[bytes], round_: tuple[int, int, int]
    ) -> None:
        execute(
            "INSERT INTO requests (digest, study, epoch, round, part)"
            " SELECT digest, ?::bigint, ?::bigint, ?::bigint, ?::bigint"
            " FROM unnest(?::bytea[]) AS digest"
            " ON CONFLICT (digest) DO UPDATE SET study = excluded.study, epoch = excluded.epoch,"
            " round = excluded.round",
            (*round_, round_[0], Byteas(sorted(set(digests)))),
        )

    def end_rounds(self, execute: Execute, study: int, epoch: int) -> None:
        execute(
            "UPDATE rounds SET ended = true WHERE study = ? AND (? = 0 OR epoch = ?)",
            (study, epoch, epoch),
        )

    def refuse_reports(self, execute: Execute, study: int) -> None:
        refuse_reports(execute, study)

    def remove_reports(self, digest: bytes, most: int) -> int:
        # Detached concurrently, it takes no lock that reports to other studies wait for. A
        # detaching that broke off is completed first.
        row = self.database.row(
            "SELECT retention.study FROM retention JOIN studies ON studies.number = retention.study"
            " WHERE digest = %s AND rows_left",
            (digest,),
        )
        if row is None:
            return 0
        name = f"reports_{row[0]}"
        # The decision is durable and final: to carry it out needs no hold of the store.
        self.database.run(lambda connection: _detach(connection, name))

        def drop(execute: Execute) -> None:
            execute(f"DROP TABLE IF EXISTS {name}", ())
            execute(
                "DELETE FROM evidence WHERE request IN"
                " (SELECT number FROM requests WHERE study = ?)",
                row,
            )
            execute("UPDATE retention SET rows_left = false WHERE study = ?", row)

        self.write(drop)
        return 0

    def probe(self, execute: Execute) -> None:
        execute("INSERT INTO probe VALUES (?)", (bytes(_PROBE_BYTES),))
        execute("TRUNCATE probe", ())

    def back_up(self, path: Path, now_s: int) -> Manifest:
        return back_up_postgresql(self.database, path, now_s)

    def size_bytes(self) -> int:
        ((total,),) = self.database.rows(
            "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0) FROM pg_class"
            " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            " WHERE nspname = %s AND relkind = 'r'",
            (SCHEMA,),
        )
        return int(total)

    def close(self) -> None:
        self.database.close()


def refuse_reports(execute: Execute, study: int) -> None:
    """Let a partition take no row until it is dropped."""
    execute(f"ALTER TABLE reports_{study} ADD CONSTRAINT deleted CHECK (false) NOT VALID", ())


def _detach(connection: Connection, name: str) -> None:
    found = connection.execute(_PARTITION, (SCHEMA, name)).fetchone()
    if found is None or not found[0]:
        return
    how = sql.SQL("FINALIZE") if found[1] else sql.SQL("CONCURRENTLY")
    connection.execute(
        sql.SQL("ALTER TABLE reports DETACH PARTITION {} {}").format(sql.Identifier(name), how)
    )


_REMEMBERED = 1 << 16  # requests whose numbers are kept in memory
Key: TypeAlias = tuple[int, int]  # a request's number and a user's ordinal
RoundKey: TypeAlias = tuple[int, int, int]  # a study's number, an epoch, a round

# A statement is one transaction and one round trip. It stores nothing if the schema was migrated,
# or if one of the rounds takes no more reports: a round that is being closed waits for this
# transaction, or this one for it, whichever process makes them.
_ARRIVED = """
WITH held AS MATERIALIZED (SELECT token FROM holder WHERE token = %s FOR SHARE),
taking AS MATERIALIZED (
  SELECT rounds.study, rounds.epoch, rounds.number FROM rounds
  JOIN unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS r (study, epoch, number)
    USING (study, epoch, number)
  WHERE NOT closed AND NOT ended FOR SHARE OF rounds),
passed AS MATERIALIZED (SELECT FROM held WHERE (SELECT count(*) FROM taking) = %s),
arrived AS MATERIALIZED (
  SELECT a.* FROM passed CROSS JOIN unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
    %s::bytea[]) AS a (part, request, ordinal, sequence, data)),
"""
_ROUNDS_TAKING = "ARRAY(SELECT ARRAY[study, epoch, number] FROM taking)"
_RAISED = """
raised AS (
  UPDATE devices SET acknowledged_sequence = new.sequence FROM new
  WHERE devices.ordinal = new.ordinal AND acknowledged_sequence < new.sequence)
"""
# If all reports are new, as is usual: half the work of a statement that looks for each first. One
# that is not makes it fail, and store none.
_ADD_NEW = f"""{_ARRIVED}
added AS (
  INSERT INTO reports (part, request, ordinal, data)
  SELECT part, request, ordinal, data FROM arrived),
new AS (SELECT ordinal, max(sequence) AS sequence FROM arrived GROUP BY ordinal), {_RAISED}
SELECT EXISTS (SELECT FROM held), {_ROUNDS_TAKING}, '{{}}'::bigint[]
"""
# Otherwise. Rows go in by key, so that two writers of the same reports wait for each other in one
# order. What is new is found by grouping, not by a join: the planner does not know how long the
# arrays are, and would loop.
_ADD_UNKNOWN = f"""{_ARRIVED}
added AS (
  INSERT INTO reports (part, request, ordinal, data)
  SELECT part, request, ordinal, data FROM arrived ORDER BY part, request, ordinal
  ON CONFLICT DO NOTHING RETURNING request, ordinal),
new AS (
  SELECT ordinal, max(sequence) AS sequence FROM (
    SELECT ordinal, max(sequence) AS sequence FROM (
      SELECT request, ordinal, sequence, false AS is_new FROM arrived
      UNION ALL SELECT request, ordinal, 0, true FROM added) AS either
    GROUP BY request, ordinal HAVING bool_or(is_new)) AS stored
  GROUP BY ordinal), {_RAISED}
SELECT EXISTS (SELECT FROM held), {_ROUNDS_TAKING}, ARRAY(
  SELECT ARRAY[request, ordinal] FROM (
    SELECT request, ordinal FROM arrived EXCEPT SELECT request, ordinal FROM added) AS known)
"""

_COMPARE = """
SELECT place - 1, reports.data = a.data FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[],
  %s::bytea[]) WITH ORDINALITY AS a (part, request, ordinal, data, place)
JOIN reports USING (part, request, ordinal)
"""


class Place(NamedTuple):
    """A request's partition and number, and the round that asks it; None: no round has asked it."""

    part: int
    number: int
    round: RoundKey | None


class _NotTaken(Exception):
    """Rounds of a batch take no more reports; nothing of it was stored."""

    def __init__(self, taking: set[RoundKey]) -> None:
        super().__init__(taking)
        self.taking = taking


class ReportRows:
    """Reports of one database."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database
        self._places: dict[bytes, Place] = {}

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        """Store what is new, and compare the rest with what is stored (see `Store.accept`)."""
        if not arrivals:
            return []
        places = self._places_of(arrivals)
        first: dict[tuple[bytes, int], int] = {}
        for place, arrival in enumerate(arrivals):
            first.setdefault((arrival.request_digest, arrival.ordinal), place)
        tried = list(first.values())
        statuses = [AckStatus.DUPLICATE] * len(arrivals)
        late: set[int] = set()
        known: set[Key] = set()
        while tried:
            try:
                known = self._add([arrivals[place] for place in tried], places)
                break
            except _NotTaken as refused:
                over = {p for p in tried if not _takes(places[_request(arrivals[p])], refused)}
                late |= over
                tried = [place for place in tried if place not in over]
        for place in tried:
            key = (places[_request(arrivals[place])].number, arrivals[place].ordinal)
            if key not in known:
                statuses[place] = AckStatus.ACCEPTED
        again = [place for place, status in enumerate(statuses) if status is AckStatus.DUPLICATE]
        if again:
            repeated = [arrivals[place] for place in again]
            conflicts, absent = self._database.write(lambda c: _compared(c, repeated, places))
            for place in conflicts:
                statuses[again[place]] = AckStatus.CONFLICT
            for place in absent:
                statuses[again[place]] = AckStatus.LATE
        for place in late:  # other bytes than those stored come too late as well
            if statuses[place] is AckStatus.CONFLICT:
                statuses[place] = AckStatus.LATE
        return statuses

    def _add(self, arrivals: Sequence[StoredReport], places: dict[bytes, Place]) -> set[Key]:
        """Store the arrivals, distinct by request and user; return those that are not new."""
        # If a round takes no more reports, _NotTaken is raised, and nothing was stored.
        partitions, requests, ordinals, data = _arrays(arrivals, places)
        sequences = Bigints([arrival.sequence for arrival in arrivals])
        asking = {places[digest].round for digest in {_request(arrival) for arrival in arrivals}}
        rounds = sorted(key for key in asking if key is not None)
        keys = [Bigints([key[column] for key in rounds]) for column in range(3)]

        def add(connection: Connection, statement: str) -> set[Key]:
            row = connection.execute(
                statement.encode(),
                (
                    self._database.token,
                    *keys,
                    len(rounds),
                    partitions,
                    requests,
                    ordinals,
                    sequences,
                    data,
                ),
                prepare=True,
                binary=True,
            ).fetchone()
            assert row is not None
            held, taking, known = row
            if not held:
                raise self._database.migrated()
            if len(taking) < len(rounds):
                raise _NotTaken({(study, epoch, number) for study, epoch, number in taking})
            return {(request, ordinal) for request, ordinal in known}

        def step(connection: Connection) -> set[Key]:
            try:
                return add(connection, _ADD_NEW)
            except UniqueViolation:
                return add(connection, _ADD_UNKNOWN)

        return self._database.run(step)

    def _places_of(self, arrivals: Sequence[StoredReport]) -> dict[bytes, Place]:
        wanted = {arrival.request_digest for arrival in arrivals}
        kept = self._places
        absent = sorted(wanted - kept.keys())
        if not absent:
            return kept
        if len(kept) + len(absent) > _REMEMBERED:
            kept, absent = {}, sorted(wanted)
        found = self._database.write(lambda c: _noted(c, absent))
        # A round may still ask a request that none has asked.
        self._places = {**kept, **{d: place for d, place in found.items() if place.round}}
        return {**kept, **found}


def _request(arrival: StoredReport) -> bytes:
    return arrival.request_digest


def _takes(place: Place, refused: _NotTaken) -> bool:
    return place.round is None or place.round in refused.taking


def _noted(connection: Connection, digests: list[bytes]) -> dict[bytes, Place]:
    """The partitions and numbers of requests, of which unknown ones get a number."""
    connection.execute(
        "INSERT INTO requests (digest, part) SELECT digest, 0 FROM unnest(%s::bytea[]) AS digest"
        " ON CONFLICT DO NOTHING",
        (digests,),
    )
    rows = connection.execute(
        "SELECT digest, part, requests.number, study, epoch, round FROM requests"
        " WHERE digest = ANY(%s::bytea[])",
        (digests,),
    )
    return {
        digest: Place(part, number, None if asked is None else (study, epoch, asked))
        for digest, part, number, study, epoch, asked in rows
    }


def _compared(
    connection: Connection, arrivals: Sequence[StoredReport], places: dict[bytes, Place]
) -> tuple[list[int], list[int]]:
    """Return the arrivals of which other bytes are stored, and those of which none are."""
    # Other bytes are kept as evidence.
    rows = connection.execute(_COMPARE, _arrays(arrivals, places)).fetchall()
    others = sorted(place for place, same in rows if not same)
    for place in others:
        arrival = arrivals[place]
        _keep_evidence(connection, places[arrival.request_digest], arrival)
    return others, sorted(set(range(len(arrivals))) - {place for place, _ in rows})


def _arrays(
    arrivals: Sequence[StoredReport], places: dict[bytes, Place]
) -> tuple[Bigints, Bigints, Bigints, Byteas]:
    """Partitions, requests, users and bytes of the arrivals."""
    there = [places[arrival.request_digest] for arrival in arrivals]
    return (
        Bigints([place.part for place in there]),
        Bigints([place.number for place in there]),
        Bigints([arrival.ordinal for arrival in arrivals]),
        Byteas([arrival.data for arrival in arrivals]),
    )


def _keep_evidence(connection: Connection, place: Place, arrival: StoredReport) -> None:
    part, request, _ = place
    connection.execute(  # one writer of a report's evidence at a time
        "SELECT FROM reports WHERE part = %s AND request = %s AND ordinal = %s FOR UPDATE",
        (part, request, arrival.ordinal),
    )
    connection.execute(
        "INSERT INTO evidence SELECT %(request)s, %(ordinal)s, count(*), %(data)s FROM evidence"
        " WHERE request = %(request)s AND ordinal = %(ordinal)s"
        " HAVING count(*) < %(most)s AND NOT coalesce(bool_or(data = %(data)s), false)",
        {
            "request": request,
            "ordinal": arrival.ordinal,
            "data": arrival.data,
            "most": MAX_EVIDENCE,
        },
    )


class PostgresqlStore(Store):
    """Store in one PostgreSQL database, which several processes may share."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        """Use `open` or `open_to_read`."""
        super().__init__(PostgresqlDialect(database), PostgresqlReplicas(database))
        self._database = database
        self._reports = ReportRows(database)

    @classmethod
    def open(
        cls, name: str, parameters: Callable[[], dict[str, str]], watch: StoreWatch | None = None
    ) -> PostgresqlStore:
        """Open a database's store to write to it, as other processes may at the same time.

        See `PostgresqlDatabase` for the arguments; `watch` observes later operations.
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

    def _accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        return self._reports.accept(arrivals)
