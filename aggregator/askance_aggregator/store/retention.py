"""Deletion of ended studies' reports and results: the part of a store that forgets.

A study's reports are deleted in two steps. The decision is one transaction, after which the store
refuses every report to the study; then the rows go, in steps that are small enough for reports of
other studies to pass between them. A deletion that was interrupted goes on with the rows that are
left. Studies, their ends and the digests of their requests stay: a study is never run again under
its digest, its cost stays in the users' accounts, and a late report is known to be late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from askance_client.errors import StoreError


@dataclass(frozen=True, slots=True)
class KeptStudy:
    """An ended study and what is left of it.

    Args:
      digest: of the study.
      ended_unix_s: the time at which its end was noted.
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


class Retention(Protocol):
    """Deletion in a store. Safe to share between threads; all times are Unix seconds."""

    def note_ends(self, now_s: int) -> int:
        """Note that studies that have ended and have no noted end ended now; return how many."""
        ...

    def kept(self) -> list[KeptStudy]:
        """Return the studies whose end is noted, the oldest first."""
        ...

    def of(self, digest: bytes) -> KeptStudy | None:
        """Return what is left of a study; None if its end is not noted."""
        ...

    def delete_reports(self, digest: bytes, now_s: int) -> None:
        """Decide that a study's reports and evidence are deleted; again, it changes nothing.

        Raises:
          StudyNotEnded: the study is open, or there is none; nothing was changed.
        """
        ...

    def remove_rows(self, digest: bytes, most: int) -> int:
        """Remove rows of reports that were deleted.

        Args:
          digest: of a study whose reports were deleted.
          most: rows to remove in this call; a store that drops them all at once may ignore it.

        Returns:
          How many were removed; 0: none is left. A store that does not count them returns 0.
        """
        ...

    def delete_results(self, digest: bytes, now_s: int) -> None:
        """Delete a study's reports as above, its transcripts, and the results of all its epochs.

        Raises:
          StudyNotEnded: as `delete_reports`.
        """
        ...


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
