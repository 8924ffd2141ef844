"""Management of studies: those that are paused, and when each was submitted.

A study that is paused stays open and asks nothing new; the note outlives the process. The time of a
submission is what an analyst's quotas are counted by.
"""

from __future__ import annotations

from dataclasses import dataclass

from askance_aggregator.store.dialect import Execute, Transactions, list_rows, study_number


@dataclass(frozen=True, slots=True)
class SubmissionNote:
    """Submission of a study, accepted at a whole second since 1970, UTC."""

    digest: bytes
    at_unix_s: int


class Management:
    """Notes about studies that their analysts and operators manage; durable when they return.

    `pause` and `note_submission` raise StoreError if there is no such study.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def pause(self, digest: bytes) -> None:
        """Note that a study is paused; again changes nothing."""

        def step(execute: Execute) -> None:
            execute(
                "INSERT INTO paused_studies (study) VALUES (?) ON CONFLICT DO NOTHING",
                (study_number(execute, digest),),
            )

        self._transactions.write(step)

    def unpause(self, digest: bytes) -> None:
        """Note that a study is not paused; again changes nothing."""

        def step(execute: Execute) -> None:
            execute(
                "DELETE FROM paused_studies WHERE study ="
                " (SELECT number FROM studies WHERE digest = ?)",
                (digest,),
            )

        self._transactions.write(step)

    def paused(self) -> frozenset[bytes]:
        """Return the digests of the studies that are paused."""
        rows = list_rows(
            self._transactions,
            "SELECT digest FROM paused_studies JOIN studies"
            " ON studies.number = paused_studies.study",
        )
        return frozenset(digest for (digest,) in rows)

    def note_submission(self, digest: bytes, at_unix_s: int) -> None:
        """Note when a study was accepted; the first note stays."""

        def step(execute: Execute) -> None:
            execute(
                "INSERT INTO submissions (study, at_unix_s) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (study_number(execute, digest), at_unix_s),
            )

        self._transactions.write(step)

    def submissions(self, public_key: bytes) -> list[SubmissionNote]:
        """Return the submissions of an analyst that were noted, oldest first."""
        rows = list_rows(
            self._transactions,
            "SELECT digest, at_unix_s FROM submissions JOIN studies"
            " ON studies.number = submissions.study WHERE public_key = ?"
            " ORDER BY at_unix_s, number",
            (public_key,),
        )
        return [SubmissionNote(digest, at_unix_s) for digest, at_unix_s in rows]
