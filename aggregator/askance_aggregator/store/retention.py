"""Deletion of ended studies' reports and results: the part of a store that forgets.

A study's reports are deleted in two steps. The decision is one transaction, in which its leaf key
goes too, for guesses at reports could be checked by it, and after which the store refuses every
report to the study; then the rows go, in steps that are small enough for reports of other studies
to pass between them. A deletion that was interrupted goes on with the rows that are left. Studies,
their ends and the digests of their requests stay: a study is never run again under its digest, its
cost stays in the users' accounts, and a late report is known to be late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from askance_aggregator.store.dialect import Dialect, Execute, first_row, list_rows
from askance_client.errors import StoreError


@dataclass(frozen=True, slots=True)
class KeptStudy:
    """An ended study and what is left of it.

    Args:
      reports_deleted_unix_s: the time at which its reports were deleted; None: they are there.
      results_deleted_unix_s: the same of its results and transcripts.
      rows_left: True if rows of deleted reports are still to be removed.
    """

    digest: bytes
    ended_unix_s: int
    reports_deleted_unix_s: int | None = None
    results_deleted_unix_s: int | None = None
    rows_left: bool = False


class StudyNotEnded(StoreError):
    """A study that is open, or is not stored: nothing of it is deleted."""


def not_ended(digest: bytes) -> StudyNotEnded:
    """The refusal to delete anything of a study that has not ended."""
    return StudyNotEnded(
        f"study {digest.hex()[:16]}: expected one that has ended, got an open one or none"
        " (cancel it first)"
    )


def reports_deleted(digest: bytes) -> StoreError:
    """The refusal of reports to a study whose reports were deleted."""
    return StoreError(
        f"reports: expected a study that keeps its reports, got {digest.hex()[:16]}, whose reports"
        " were deleted"
    )


_KEPT = (
    "SELECT digest, ended_unix_s, reports_deleted_unix_s, results_deleted_unix_s, rows_left"
    " FROM retention JOIN studies ON studies.number = retention.study"
)
_ENDED = (
    "SELECT number FROM studies JOIN conclusions ON conclusions.study = studies.number"
    " WHERE digest = ? AND epoch = 0"
)
_NOTE = (
    "INSERT INTO retention (study, ended_unix_s) SELECT study, ? FROM conclusions WHERE epoch = 0"
)


class Retention:
    """Deletion in a store. Safe to share between threads; all times are Unix seconds.

    Both deletions raise StudyNotEnded of a study that is open or not stored, and change nothing.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def note_ends(self, now_s: int) -> int:
        """Note that studies that have ended and have no noted end ended now; return how many."""

        def step(execute: Execute) -> int:
            return execute(f"{_NOTE} ON CONFLICT DO NOTHING", (now_s,)).rowcount

        return self._dialect.write(step)

    def kept(self) -> list[KeptStudy]:
        """Return the studies whose end is noted, the oldest first."""
        rows = list_rows(self._dialect, f"{_KEPT} ORDER BY ended_unix_s, studies.number")
        return [_kept(row) for row in rows]

    def of(self, digest: bytes) -> KeptStudy | None:
        """Return what is left of a study; None if its end is not noted."""
        row = first_row(self._dialect, f"{_KEPT} WHERE digest = ?", (digest,))
        return None if row is None else _kept(row)

    def delete_reports(self, digest: bytes, now_s: int) -> None:
        """Decide that a study's reports and evidence are deleted; again, it changes nothing."""
        self._dialect.write(lambda execute: self._mark(execute, digest, now_s))

    def remove_rows(self, digest: bytes, most: int) -> int:
        """Remove at most so many rows of reports that were deleted, and return their number.

        0: none is left, or the store, which may drop them all at once, does not count them.
        """
        return self._dialect.remove_reports(digest, most)

    def delete_results(self, digest: bytes, now_s: int) -> None:
        """Delete a study's reports as above, its transcripts, and the results of all its epochs."""

        def step(execute: Execute) -> None:
            study = self._mark(execute, digest, now_s)
            execute("DELETE FROM transcript_lines WHERE study = ?", (study,))
            execute("UPDATE conclusions SET result_json = '' WHERE study = ?", (study,))
            execute("DELETE FROM tagged_populations WHERE study = ?", (digest,))
            execute("DELETE FROM round_completion WHERE study = ?", (digest,))
            execute(
                "UPDATE retention SET results_deleted_unix_s ="
                " coalesce(results_deleted_unix_s, ?) WHERE study = ?",
                (now_s, study),
            )

        self._dialect.write(step)

    def _mark(self, execute: Execute, digest: bytes, now_s: int) -> int:
        """Note that a study's reports are deleted, and return its number."""
        rows = execute(_ENDED, (digest,)).fetchall()
        if not rows:
            raise not_ended(digest)
        study = int(rows[0][0])
        note_end(execute, study, now_s)
        marked = execute(
            "UPDATE retention SET reports_deleted_unix_s = ?, rows_left = true"
            " WHERE study = ? AND reports_deleted_unix_s IS NULL",
            (now_s, study),
        )
        if marked.rowcount:
            self._dialect.refuse_reports(execute, study)
        execute("DELETE FROM study_users WHERE study = ?", (digest,))
        execute("DELETE FROM leaf_keys WHERE study = ?", (study,))
        return study


def note_end(execute: Execute, study: int, ended_unix_s: int) -> None:
    """Note when a study ended, in the transaction that ends it; the first note stays."""
    execute(f"{_NOTE} AND study = ? ON CONFLICT DO NOTHING", (ended_unix_s, study))


def _kept(row: Any) -> KeptStudy:
    digest, ended, reports_deleted, results_deleted, rows_left = row
    return KeptStudy(digest, ended, reports_deleted, results_deleted, bool(rows_left))
