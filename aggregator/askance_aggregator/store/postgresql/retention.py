"""Deletion in PostgreSQL: a study's reports are one partition, which is detached and dropped."""

from __future__ import annotations

from psycopg import sql

from askance_aggregator.store.postgresql.database import Connection, PostgresqlDatabase, Row
from askance_aggregator.store.postgresql.schema import SCHEMA
from askance_aggregator.store.retention import KeptStudy, not_ended

_KEPT = (
    "SELECT digest, ended_unix_s, reports_deleted_unix_s, results_deleted_unix_s, rows_left"
    " FROM retention JOIN studies ON studies.number = retention.study"
)
_NOTE = (
    "INSERT INTO retention (study, ended_unix_s) SELECT study, %s FROM conclusions WHERE epoch = 0"
)
# One row if the table is there: whether it is a partition, and whether its detaching broke off.
_PARTITION = """
SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = pg_class.oid),
  EXISTS (SELECT FROM pg_inherits WHERE inhrelid = pg_class.oid AND inhdetachpending)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relname = %s
"""


class PostgresqlRetention:
    """See `Retention`."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

    def note_ends(self, now_s: int) -> int:
        return self._database.write(
            lambda connection: (
                connection.execute(f"{_NOTE} ON CONFLICT DO NOTHING".encode(), (now_s,)).rowcount
            )
        )

    def kept(self) -> list[KeptStudy]:
        rows = self._database.rows(f"{_KEPT} ORDER BY ended_unix_s, studies.number")
        return [_kept(row) for row in rows]

    def of(self, digest: bytes) -> KeptStudy | None:
        row = self._database.row(f"{_KEPT} WHERE digest = %s", (digest,))
        return None if row is None else _kept(row)

    def delete_reports(self, digest: bytes, now_s: int) -> None:
        self._database.write(lambda connection: _mark(connection, digest, now_s))

    def remove_rows(self, digest: bytes, most: int) -> int:
        """Drop the partition; see `Retention.remove_rows`.

        Detached concurrently, it takes no lock that reports to other studies wait for. A detaching
        that broke off is completed first.
        """
        row = self._database.row(
            "SELECT retention.study FROM retention JOIN studies ON studies.number = retention.study"
            " WHERE digest = %s AND rows_left",
            (digest,),
        )
        if row is None:
            return 0
        study = int(row[0])
        name = f"reports_{study}"
        # The decision is durable and final: to carry it out needs no hold of the store.
        self._database.run(lambda connection: _detach(connection, name))

        def drop(connection: Connection) -> None:
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
            connection.execute(
                "DELETE FROM evidence WHERE request IN"
                " (SELECT number FROM requests WHERE study = %s)",
                (study,),
            )
            connection.execute("UPDATE retention SET rows_left = false WHERE study = %s", (study,))

        self._database.write(drop)
        return 0

    def delete_results(self, digest: bytes, now_s: int) -> None:
        def step(connection: Connection) -> None:
            study = (_mark(connection, digest, now_s),)
            connection.execute("DELETE FROM transcript_lines WHERE study = %s", study)
            connection.execute("UPDATE conclusions SET result_json = '' WHERE study = %s", study)
            connection.execute("DELETE FROM tagged_populations WHERE study = %s", (digest,))
            connection.execute(
                "UPDATE retention SET results_deleted_unix_s ="
                " coalesce(results_deleted_unix_s, %s) WHERE study = %s",
                (now_s, *study),
            )

        self._database.write(step)


def _detach(connection: Connection, name: str) -> None:
    found = connection.execute(_PARTITION, (SCHEMA, name)).fetchone()
    if found is None or not found[0]:
        return
    how = sql.SQL("FINALIZE") if found[1] else sql.SQL("CONCURRENTLY")
    connection.execute(
        sql.SQL("ALTER TABLE reports DETACH PARTITION {} {}").format(sql.Identifier(name), how)
    )


def _mark(connection: Connection, digest: bytes, now_s: int) -> int:
    """Note that a study's reports are deleted, and return its number."""
    row = connection.execute(
        "SELECT number FROM studies JOIN conclusions ON conclusions.study = studies.number"
        " WHERE digest = %s AND epoch = 0",
        (digest,),
    ).fetchone()
    if row is None:
        raise not_ended(digest)
    connection.execute(f"{_NOTE} AND study = %s ON CONFLICT DO NOTHING".encode(), (now_s, *row))
    marked = connection.execute(
        "UPDATE retention SET reports_deleted_unix_s = %s, rows_left = true"
        " WHERE study = %s AND reports_deleted_unix_s IS NULL",
        (now_s, *row),
    )
    if marked.rowcount:  # until the partition is dropped, it takes no row
        name = sql.Identifier(f"reports_{row[0]}")
        connection.execute(
            sql.SQL("ALTER TABLE {} ADD CONSTRAINT deleted CHECK (false) NOT VALID").format(name)
        )
    connection.execute("DELETE FROM study_users WHERE study = %s", (digest,))
    return int(row[0])


def _kept(row: Row) -> KeptStudy:
    digest, ended, reports_deleted, results_deleted, rows_left = row
    return KeptStudy(digest, ended, reports_deleted, results_deleted, bool(rows_left))
