"""A PostgreSQL database as the shared store needs it: arrays, partitions and locks.

A study's reports are a partition, which is dropped when they are deleted. The population's row is
locked while devices are added, and an advisory lock is held while the audit log is appended to:
several processes may do either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from psycopg import sql

from askance_aggregator.store.backups import Manifest
from askance_aggregator.store.dialect import Execute
from askance_aggregator.store.postgresql.arrays import Byteas
from askance_aggregator.store.postgresql.backup import back_up_postgresql
from askance_aggregator.store.postgresql.database import (
    Connection,
    PostgresqlDatabase,
    add_partition,
    executing,
)
from askance_aggregator.store.postgresql.schema import SCHEMA

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
        """Let a partition take no row until it is dropped."""
        execute(f"ALTER TABLE reports_{study} ADD CONSTRAINT deleted CHECK (false) NOT VALID", ())

    def remove_reports(self, digest: bytes, most: int) -> int:
        """Drop the partition; see `Retention.remove_rows`.

        Detached concurrently, it takes no lock that reports to other studies wait for. A detaching
        that broke off is completed first.
        """
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


def _detach(connection: Connection, name: str) -> None:
    found = connection.execute(_PARTITION, (SCHEMA, name)).fetchone()
    if found is None or not found[0]:
        return
    how = sql.SQL("FINALIZE") if found[1] else sql.SQL("CONCURRENTLY")
    connection.execute(
        sql.SQL("ALTER TABLE reports DETACH PARTITION {} {}").format(sql.Identifier(name), how)
    )
