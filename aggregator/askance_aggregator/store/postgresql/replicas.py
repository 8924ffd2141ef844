"""Replicas of one PostgreSQL database: leases by its clock, hints by NOTIFY."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, fields

import numpy as np
import psycopg
from psycopg import sql

from askance_aggregator.store.dialect import Execute, study_number
from askance_aggregator.store.postgresql.database import (
    Connection,
    PostgresqlDatabase,
    await_lock,
    executing,
    one_row,
)
from askance_aggregator.store.replicas import (
    COUNTED_S,
    LEASE_S,
    LOOK_S,
    RENEW_S,
    EqualReports,
    LeaseLost,
    ReplicaCounts,
    ReplicaEntry,
    Replicas,
    RoundAnswers,
    SharedStudy,
    TakingRound,
)
from askance_client.errors import StoreError

_CHANNEL = "askance"
_NOTIFY = f"NOTIFY {_CHANNEL}"  # once the transaction is durable
_NAMED = 0x61736B6E  # "askn": with a name's hash, the advisory lock of the replica of that name
_REGISTERING = 0x61736B72_65676973  # "askregis": the advisory lock while rules are compared
_SUBMITTING = 0x61736B73_75626D69  # "asksubmi": the advisory lock of a study's acceptance
_RETRY_S = 0.5  # after a renewal that failed
_UNTIL = f"clock_timestamp() + make_interval(secs => {LEASE_S})"
_ACQUIRE = f"""
INSERT INTO leases (study, replica, token, expires_at)
SELECT number, %s, 1, {_UNTIL} FROM studies WHERE digest = %s
ON CONFLICT (study) DO UPDATE
SET replica = excluded.replica, token = leases.token + 1, expires_at = {_UNTIL}
WHERE leases.expires_at <= clock_timestamp()
RETURNING study, token
"""
_RENEW = f"""
UPDATE leases SET expires_at = {_UNTIL}
FROM unnest(%s::bigint[], %s::bigint[]) AS held (study, token)
WHERE leases.study = held.study AND leases.token = held.token RETURNING leases.study
"""
_OPEN = """
SELECT digest, coalesce(expires_at <= clock_timestamp(), true), cancelling, rounds.epoch,
  rounds.number, floor(extract(epoch FROM clock_timestamp()))::bigint - opened_unix_s
FROM studies LEFT JOIN leases ON leases.study = studies.number
LEFT JOIN LATERAL (SELECT epoch, rounds.number, opened_unix_s FROM rounds
  WHERE rounds.study = studies.number AND NOT closed AND NOT ended
  ORDER BY epoch DESC, rounds.number DESC LIMIT 1) AS rounds ON true
WHERE NOT EXISTS (SELECT FROM conclusions WHERE conclusions.study = studies.number AND epoch = 0)
ORDER BY studies.number
"""
_LISTING = """
SELECT name, address, extract(epoch FROM clock_timestamp() - seen_at)::float8,
  ARRAY(SELECT encode(digest, 'hex') FROM leases JOIN studies ON studies.number = leases.study
    WHERE leases.replica = replicas.name AND expires_at > clock_timestamp()
      AND NOT EXISTS (SELECT FROM conclusions WHERE conclusions.study = number AND epoch = 0)
    ORDER BY studies.number),
  extract(epoch FROM clock_timestamp() - started_at)::float8, counts
FROM replicas WHERE seen_at > clock_timestamp() - interval '1 day' ORDER BY name
"""
_OTHERS_ANSWERS = f"""
SELECT answers FROM replicas WHERE name <> %s AND answers IS NOT NULL
  AND seen_at > clock_timestamp() - make_interval(secs => {COUNTED_S})
"""
_PRESENT = f"seen_at > clock_timestamp() - make_interval(secs => {LEASE_S})"
_WITH_RULE = f"SELECT name FROM replicas WHERE name <> %s AND needs_approval = %s AND {_PRESENT}"
_ROUND_LINES = """
SELECT line FROM transcript_lines WHERE study = %(study)s AND epoch = %(epoch)s
  AND (number = 0 OR number = (SELECT max(number) FROM transcript_lines
    WHERE study = %(study)s AND epoch = %(epoch)s)) ORDER BY number
"""
# Of one partition by its name: for a table that has no statistics yet, the planner would take the
# primary key, which begins with the partition, and read each report of the round. Symbols are few:
# equal reports are one row, with the users as big-endian words. The first row is the position of
# the statement: what its snapshot lacks is stored after it.
_STORED_SINCE = sql.SQL(
    "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, ''::bytea, ''::bytea"
    " UNION ALL SELECT 0, data, string_agg(int8send(ordinal), ''::bytea) FROM {}"
    " WHERE request = ANY(%s::bigint[]) AND arrived >= %s::text::xid8 GROUP BY request, data"
)
_FEW = 1 << 16  # reports that are held at one time, some 10 MB
_MORE = sql.SQL("SELECT FROM {} WHERE request = ANY(%s::bigint[]) OFFSET %s LIMIT 1")


class PostgresqlReplicas(Replicas):
    """Membership of one process in those that serve from a database (see `Replicas`)."""

    shared = True

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database
        self._counts: Callable[[], ReplicaCounts] = ReplicaCounts
        self._answers: Callable[[], Sequence[RoundAnswers]] = tuple
        self._written = ""  # answers that the row has
        self._held: dict[int, int] = {}  # tokens, by the study's number
        self._digests: dict[int, bytes] = {}  # of the studies above
        self._lock = threading.Lock()

    def check(self, execute: Execute, study: int) -> None:
        rows = execute(
            "SELECT token, replica FROM leases WHERE study = ? FOR SHARE", (study,)
        ).fetchall()
        if rows and rows[0][0] != self._held.get(study):
            raise LeaseLost(
                f"study {study}: expected this replica to hold its lease, found it held by"
                f" {rows[0][1]!r}; nothing was written"
            )

    def notify(self, execute: Execute) -> None:
        execute(_NOTIFY, ())

    def register(self, name: str, *, needs_approval: bool | None = None) -> None:
        self._database.hold_also(
            lambda connection: await_lock(
                *(connection, b"SELECT pg_advisory_lock(%s, hashtext(%s))", (_NAMED, name)),
                f"replica: expected a name of its own, got {name!r}, which a running process has"
                " (set another in the configuration: replica = ...)",
            )
        )

        def step(connection: Connection) -> None:
            if needs_approval is not None:
                _check_rule(connection, name, needs_approval=needs_approval)
            connection.execute(
                "DELETE FROM replicas WHERE seen_at < clock_timestamp() - interval '1 day'"
            )
            connection.execute(
                "INSERT INTO replicas (name, address, needs_approval) VALUES (%s, '', %s)"
                " ON CONFLICT (name) DO UPDATE SET address = '', started_at = DEFAULT,"
                " seen_at = DEFAULT, counts = NULL, answers = NULL,"
                " needs_approval = excluded.needs_approval",
                (name, needs_approval),
            )
            connection.execute(
                "UPDATE leases SET expires_at = '-infinity' WHERE replica = %s", (name,)
            )
            self.notify(executing(connection))

        self._database.write(step)
        self.name = name

    def others_need_approval(self) -> bool:
        return bool(self._database.rows(_WITH_RULE, (self.name, True)))

    def announce(
        self,
        address: str,
        counts: Callable[[], ReplicaCounts] = ReplicaCounts,
        answers: Callable[[], Sequence[RoundAnswers]] = tuple,
    ) -> None:
        self._counts, self._answers = counts, answers
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE replicas SET address = %s WHERE name = %s", (address, self.name)
            )
        )

    def others_answers(self) -> list[RoundAnswers]:
        rows = self._database.rows(_OTHERS_ANSWERS, (self.name,))
        known = len(fields(RoundAnswers))  # a newer version may write more behind them
        return [RoundAnswers(*one[:known]) for (text,) in rows for one in json.loads(text)]

    def leave(self) -> None:
        self._database.write(
            lambda connection: connection.execute(
                "DELETE FROM replicas WHERE name = %s", (self.name,)
            )
        )

    def listing(self) -> list[ReplicaEntry]:
        rows = self._database.rows(_LISTING)
        return [
            ReplicaEntry(
                *(name, at, max(seen_s, 0.0), tuple(drives), max(started_s, 0.0)),
                None if counts is None else _counts(counts),
            )
            for name, at, seen_s, drives, started_s, counts in rows
        ]

    def acquire(self, study_digest: bytes) -> bool:
        with self._lock:
            if study_digest in self._digests.values():
                return True
            row = self._database.write(
                lambda c: c.execute(_ACQUIRE.encode(), (self.name, study_digest)).fetchone()
            )
            if row is None:
                return False
            self._held[row[0]] = row[1]
            self._digests[row[0]] = study_digest
            return True

    def release(self, study_digest: bytes) -> None:
        with self._lock:
            for study in [n for n, digest in self._digests.items() if digest == study_digest]:
                token = self._held[study]
                self._forget(study)
                self._database.write(lambda c: _expire(c, study, token))  # noqa: B023  # called now

    def renewals(self, stopping: threading.Event) -> Iterator[frozenset[bytes]]:
        wait_s = 0.0
        while not stopping.wait(wait_s):
            began = time.monotonic()
            lost: frozenset[bytes] = frozenset()
            try:
                lost = self._renew()
                pause_s = RENEW_S
            except StoreError:  # the database's observer has it
                pause_s = _RETRY_S
            yield lost
            wait_s = max(pause_s - (time.monotonic() - began), 0)

    def looks(self, stopping: threading.Event) -> Iterator[None]:
        listening: Connection | None = None
        try:
            while not stopping.is_set():
                yield None
                try:
                    if listening is None:
                        listening = self._database.connect()
                        listening.execute(f"LISTEN {_CHANNEL}".encode())
                    self._await_hint(listening)
                except (StoreError, psycopg.Error):
                    if listening is not None:
                        listening.close()
                    listening = None
                    stopping.wait(LOOK_S)
        finally:
            if listening is not None:
                listening.close()

    def hint(self) -> None:
        self._database.write(lambda connection: self.notify(executing(connection)))

    @contextmanager
    def submitting(self) -> Iterator[None]:
        with self._database.locked(_SUBMITTING):
            yield

    def cancel(self, study_digest: bytes) -> None:
        def step(connection: Connection) -> None:
            connection.execute(
                "UPDATE studies SET cancelling = true WHERE digest = %s", (study_digest,)
            )
            self.notify(executing(connection))

        self._database.write(step)

    def open_studies(self) -> list[SharedStudy]:
        return [
            SharedStudy(
                *(digest, free, cancelling),
                None if epoch is None else TakingRound(epoch, number, max(age_s or 0, 0)),
            )
            for digest, free, cancelling, epoch, number, age_s in self._database.rows(_OPEN)
        ]

    def round_lines(self, study_digest: bytes, epoch: int) -> list[str]:
        def read(connection: Connection) -> list[str]:
            study = study_number(executing(connection), study_digest)
            of = {"study": study, "epoch": epoch}
            return [line for (line,) in connection.execute(_ROUND_LINES.encode(), of)]

        return self._database.read(read)

    def stored(self, request_digests: Sequence[bytes]) -> tuple[list[EqualReports] | None, int]:
        def read(connection: Connection) -> tuple[list[EqualReports] | None, int]:
            for part, numbers in _parts(connection, request_digests).items():
                more = _MORE.format(sql.Identifier(f"reports_{part}"))
                if connection.execute(more, (numbers, _FEW)).fetchone() is not None:
                    return None, _position(connection)
            return _stored_since(connection, request_digests, 0)

        return self._database.read(read)

    def stored_since(
        self, request_digests: Sequence[bytes], position: int
    ) -> tuple[list[EqualReports], int]:
        return self._database.read(lambda c: _stored_since(c, request_digests, position))

    def _renew(self) -> frozenset[bytes]:
        counts = json.dumps(asdict(self._counts()))
        answers = self._written
        with suppress(StoreError):
            answers = json.dumps([astuple(one) for one in self._answers()], separators=(",", ":"))
        changed = None if answers == self._written else answers

        def step(connection: Connection) -> set[int]:
            connection.execute(
                "UPDATE replicas SET seen_at = clock_timestamp(), counts = %s,"
                " answers = coalesce(%s, answers) WHERE name = %s",
                (counts, changed, self.name),
            )
            held = (list(self._held), list(self._held.values()))
            return {study for (study,) in connection.execute(_RENEW.encode(), held)}

        with self._lock:  # a lease that is given back meanwhile must not be renewed after it
            kept = self._database.write(step)
            self._written = answers
            return frozenset(self._forget(study) for study in set(self._held) - kept)

    def _await_hint(self, listening: Connection) -> None:
        """Wait for a hint of another process, for `LOOK_S` at most."""
        until = time.monotonic() + LOOK_S
        while (left := until - time.monotonic()) > 0:
            for hint in listening.notifies(timeout=left, stop_after=1):
                if not self._database.has_process(hint.pid):
                    return

    def _forget(self, study: int) -> bytes:
        del self._held[study]
        return self._digests.pop(study)


def _check_rule(connection: Connection, name: str, *, needs_approval: bool) -> None:
    """Raise StoreError if a replica of the present has the other rule; hold the lock till then."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_REGISTERING,))
    other = connection.execute(_WITH_RULE.encode(), (name, not needs_approval)).fetchone()
    if other is not None:
        theirs, ours = ("false", "true") if needs_approval else ("true", "false")
        raise StoreError(
            f"approval.needed: expected {theirs}, as replica {other[0]!r} has, got {ours} (set it"
            f" alike for all replicas; to change it, end them all and wait for {LEASE_S:.0f} s)"
        )


def _expire(connection: Connection, study: int, token: int) -> None:
    connection.execute(
        "UPDATE leases SET expires_at = '-infinity' WHERE study = %s AND token = %s",
        (study, token),
    )
    connection.execute(_NOTIFY.encode())


def _counts(text: str) -> ReplicaCounts:
    """Read a replica's counts; those that only a newer version knows are left out."""
    found = json.loads(text)
    known = [one.name for one in fields(ReplicaCounts)]
    return ReplicaCounts(**{name: int(found[name]) for name in known if name in found})


def _parts(connection: Connection, request_digests: Sequence[bytes]) -> dict[int, list[int]]:
    """Return the numbers of requests, by the partitions of their reports."""
    requests: dict[int, list[int]] = {}
    for part, number in connection.execute(
        "SELECT part, number FROM requests WHERE digest = ANY(%s::bytea[])",
        (list(request_digests),),
    ):
        requests.setdefault(part, []).append(number)
    return requests


def _stored_since(
    connection: Connection, request_digests: Sequence[bytes], position: int
) -> tuple[list[EqualReports], int]:
    positions: list[int] = []
    found: list[EqualReports] = []
    for part, numbers in _parts(connection, request_digests).items():
        statement = _STORED_SINCE.format(sql.Identifier(f"reports_{part}"))
        for now, data, users in connection.execute(
            statement, (numbers, str(position)), binary=True
        ):
            if now:
                positions.append(now)
            else:
                found.append(EqualReports(data, np.frombuffer(users, ">i8").astype(np.int64)))
    return found, min(positions, default=position)


def _position(connection: Connection) -> int:
    return int(
        one_row(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")[0]
    )
