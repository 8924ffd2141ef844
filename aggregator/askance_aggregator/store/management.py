"""Management of studies: those that are paused, approvals, and when each was submitted.

A study that is paused stays open and asks nothing new; the note outlives the process. The time of a
submission is what an analyst's quotas are counted by. Of two approvers' decisions at the same time
the first one stands.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from askance_aggregator.store.dialect import (
    Execute,
    Transactions,
    first_row,
    list_rows,
    study_number,
)
from askance_aggregator.store.listing import IS_AWAITING

_APPROVAL = "approver, public_key, signature, approved_unix_s, refused_by, reason, refused_unix_s"


@dataclass(frozen=True, slots=True)
class SubmissionNote:
    """Submission of a study, accepted at a whole second since 1970, UTC."""

    digest: bytes
    at_unix_s: int


@dataclass(frozen=True, slots=True)
class Approval:
    """Decisions of approvers about a study.

    Args:
      approver: the name of who has approved it; empty: it was refused before.
      public_key: the approver's.
      signature: Ed25519, of the approver (see `analyst.approvals`).
      approved_unix_s: when, in seconds since 1970, UTC.
      refused_by: the name of who has refused it, or has withdrawn the approval; empty: none has.
      reason: of the refusal, one line of text.
      refused_unix_s: when.
    """

    approver: str
    public_key: bytes
    signature: bytes
    approved_unix_s: int
    refused_by: str = ""
    reason: str = ""
    refused_unix_s: int = 0


class Management:
    """Notes about studies that are managed; durable when they return.

    `pause`, `approve`, `refuse` and `note_submission` raise StoreError if there is no such study.
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

    def approve(self, digest: bytes, approval: Approval) -> Approval:
        """Note an approval, unless an approver has decided before; return what stands."""
        return self._decide(digest, approval, "DO NOTHING")

    def refuse(self, digest: bytes, refused_by: str, reason: str, at_unix_s: int) -> Approval:
        """Note a refusal, or that the approval is withdrawn; return what stands, the first one."""
        refused = Approval("", b"", b"", 0, refused_by, reason, at_unix_s)
        return self._decide(
            digest,
            refused,
            "(study) DO UPDATE SET refused_by = excluded.refused_by, reason = excluded.reason,"
            " refused_unix_s = excluded.refused_unix_s WHERE approvals.refused_unix_s = 0",
        )

    def void(self, digest: bytes, approval: Approval) -> None:
        """Forget an approval that does not count any more; a later decision stays."""

        def step(execute: Execute) -> None:
            execute(
                "DELETE FROM approvals WHERE study = (SELECT number FROM studies WHERE digest = ?)"
                " AND public_key = ? AND refused_unix_s = 0",
                (digest, approval.public_key),
            )

        self._transactions.write(step)

    def approval(self, digest: bytes) -> Approval | None:
        """Return the decisions about a study; None: none has been made."""
        row = first_row(
            self._transactions,
            f"SELECT {_APPROVAL} FROM approvals WHERE study ="
            " (SELECT number FROM studies WHERE digest = ?)",
            (digest,),
        )
        return None if row is None else Approval(*row)

    def awaiting(self) -> frozenset[bytes]:
        """Return the digests of the studies that wait for an approver where studies need one."""
        rows = list_rows(
            self._transactions,
            "SELECT digest FROM studies LEFT JOIN conclusions"
            f" ON conclusions.study = studies.number AND conclusions.epoch = 0"
            f" WHERE state IS NULL AND {IS_AWAITING}",
        )
        return frozenset(digest for (digest,) in rows)

    def _decide(self, digest: bytes, approval: Approval, otherwise: str) -> Approval:
        def step(execute: Execute) -> Approval:
            study = study_number(execute, digest)
            execute(
                f"INSERT INTO approvals (study, {_APPROVAL}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                f" ON CONFLICT {otherwise}",
                (study, *astuple(approval)),
            )
            found = execute(f"SELECT {_APPROVAL} FROM approvals WHERE study = ?", (study,))
            return Approval(*found.fetchall()[0])

        return self._transactions.write(step)

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
