"""Paused studies and times of submission as rows."""

from __future__ import annotations

from askance_aggregator.store.dialect import Execute, Transactions, list_rows, study_number
from askance_aggregator.store.management import SubmissionNote


class ManagementRows:
    """Notes about studies in a database (see `Management`)."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def pause(self, digest: bytes) -> None:
        def step(execute: Execute) -> None:
            execute(
                "INSERT INTO paused_studies (study) VALUES (?) ON CONFLICT DO NOTHING",
                (study_number(execute, digest),),
            )

        self._transactions.write(step)

    def unpause(self, digest: bytes) -> None:
        def step(execute: Execute) -> None:
            execute(
                "DELETE FROM paused_studies WHERE study ="
                " (SELECT number FROM studies WHERE digest = ?)",
                (digest,),
            )

        self._transactions.write(step)

    def paused(self) -> frozenset[bytes]:
        rows = list_rows(
            self._transactions,
            "SELECT digest FROM paused_studies JOIN studies"
            " ON studies.number = paused_studies.study",
        )
        return frozenset(digest for (digest,) in rows)

    def note_submission(self, digest: bytes, at_unix_s: int) -> None:
        def step(execute: Execute) -> None:
            execute(
                "INSERT INTO submissions (study, at_unix_s) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (study_number(execute, digest), at_unix_s),
            )

        self._transactions.write(step)

    def submissions(self, public_key: bytes) -> list[SubmissionNote]:
        rows = list_rows(
            self._transactions,
            "SELECT digest, at_unix_s FROM submissions JOIN studies"
            " ON studies.number = submissions.study WHERE public_key = ?"
            " ORDER BY at_unix_s, number",
            (public_key,),
        )
        return [SubmissionNote(digest, at_unix_s) for digest, at_unix_s in rows]
