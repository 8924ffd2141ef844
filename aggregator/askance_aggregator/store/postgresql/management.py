"""Paused studies and times of submission in the PostgreSQL store."""

from __future__ import annotations

from askance_aggregator.store.checks import (
    unknown_study,
)
from askance_aggregator.store.management import SubmissionNote
from askance_aggregator.store.postgresql.database import Connection, PostgresqlDatabase

_NUMBER = "SELECT number FROM studies WHERE digest = %s"


class PostgresqlManagement:
    """See `Management`."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

    def pause(self, digest: bytes) -> None:
        self._add("paused_studies (study)", "", digest)

    def unpause(self, digest: bytes) -> None:
        def step(connection: Connection) -> None:
            connection.execute(
                f"DELETE FROM paused_studies WHERE study = ({_NUMBER})".encode(), (digest,)
            )

        self._database.write(step)

    def paused(self) -> frozenset[bytes]:
        rows = self._database.rows(
            "SELECT digest FROM paused_studies JOIN studies"
            " ON studies.number = paused_studies.study"
        )
        return frozenset(bytes(digest) for (digest,) in rows)

    def note_submission(self, digest: bytes, at_unix_s: int) -> None:
        self._add("submissions (study, at_unix_s)", ", %s::bigint", digest, at_unix_s)

    def submissions(self, public_key: bytes) -> list[SubmissionNote]:
        rows = self._database.rows(
            "SELECT digest, at_unix_s FROM submissions JOIN studies"
            " ON studies.number = submissions.study WHERE public_key = %s"
            " ORDER BY at_unix_s, number",
            (public_key,),
        )
        return [SubmissionNote(bytes(digest), int(at_unix_s)) for digest, at_unix_s in rows]

    def _add(self, columns: str, values: str, digest: bytes, *parameters: int) -> None:
        """Add a row about a study, unless there is one."""

        def step(connection: Connection) -> None:
            if connection.execute(_NUMBER.encode(), (digest,)).fetchone() is None:
                raise unknown_study(digest)
            statement = (
                f"INSERT INTO {columns} SELECT number{values} FROM studies WHERE digest = %s"
                " ON CONFLICT DO NOTHING"
            )
            connection.execute(statement.encode(), (*parameters, digest))

        self._database.write(step)
