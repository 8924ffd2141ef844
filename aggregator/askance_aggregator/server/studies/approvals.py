"""Approvals: a study that needs one asks no device before an approver has signed it.

The approver is another person than the analyst: by key, and by the names that the operator gave to
the keys of both. The first decision stands, but that an approval may be withdrawn while the study
is open. A study that is refused, or whose approval is withdrawn, ends as a cancelled one does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from askance_aggregator.analyst.approvals import NOT_APPROVED, REFUSED, WITHDRAWN, is_approval
from askance_aggregator.store import AuditEvent, ListedState, Store, StudyState
from askance_aggregator.store.management import Approval
from askance_aggregator.studies.results import CANCELLED, End
from askance_client.errors import AskanceError, InvalidParameter
from askance_client.messages import SignedStudy
from askance_client.printable import value_text

AWAITING = ListedState.AWAITING_APPROVAL.value
"""The reason in the status of an open study that waits for an approver."""
AWAITING_TEXT = "the study asks no device until an approver has signed it"
UNKNOWN_TEXT = (
    "the study asks no device until an approver whom this replica knows has signed it; let another"
    " approver sign, or start all replicas again with the same callers"
)
VOIDED = "study approval-void"
"""Words in the audit log of an approval that was forgotten."""
MAX_REASON = 200  # characters of an approver's reason
EXPIRED = End(
    StudyState.FAILED,
    NOT_APPROVED,
    "approval: expected an approver's signature before the study expired, got none; no user was"
    " asked",
)


class ApprovalRefused(AskanceError):
    """An approval that is none; `reason` is a word for programs, and nothing was changed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"approval: {message}")
        self.reason = reason


class ApprovalStanding(Enum):
    """Worth of a stored approval to the process that reads it."""

    COUNTS = "counts"
    UNKNOWN = "unknown"  # the approver is, by this process's configuration
    VOID = "void"


@dataclass(frozen=True, slots=True)
class Approver:
    """Approver who makes a decision: a name, and the public key that signs approvals."""

    name: str
    public_key: bytes


def check_approver(approver: Approver, analyst_key: bytes, analysts: Collection[str]) -> None:
    """Check that an approver is another person than a study's analyst."""
    if approver.public_key == analyst_key:
        raise ApprovalRefused(
            "own-study", "expected another key than the one that signed the study"
        )
    if approver.name.casefold() in {name.casefold() for name in analysts}:
        raise ApprovalRefused(
            "own-study",
            f"expected another person than the study's analyst, got {value_text(approver.name)}",
        )


def standing_of_approver(
    approval: Approval,
    analyst_key: bytes,
    may_approve: Callable[[str, bytes], bool | None],
    names_of: Callable[[bytes], Collection[str]],
) -> ApprovalStanding:
    """Return the worth of a stored approval by the rights that its approver has today.

    `may_approve` tells of a name and a key whether they are an approver's; None: they are unknown.
    """
    approver = Approver(approval.approver, approval.public_key)
    try:
        check_approver(approver, analyst_key, names_of(analyst_key))
    except ApprovalRefused:
        return ApprovalStanding.VOID
    allowed = may_approve(approver.name, approver.public_key)
    if allowed is None:
        return ApprovalStanding.UNKNOWN
    return ApprovalStanding.COUNTS if allowed else ApprovalStanding.VOID


def check_reason(text: str) -> str:
    """Return an approver's reason; raise InvalidParameter if it is not one printable line."""
    if not 1 <= len(text) <= MAX_REASON or not text.isprintable():
        raise InvalidParameter(
            f"reason: expected 1 to {MAX_REASON} printable characters, got {value_text(text)}"
        )
    return text


def is_refused(approval: Approval | None) -> bool:
    """Return whether a study was refused, or its approval withdrawn."""
    return approval is not None and approval.refused_unix_s > 0


ApproverCheck = Callable[[Approval, bytes], ApprovalStanding]
"""Returns the worth of a stored approval by its approver's rights over studies of a key now."""


def standing_of(
    approval: Approval, signed: SignedStudy, digest: bytes, check: ApproverCheck
) -> ApprovalStanding:
    """Return the worth of a study's approval: by its signature, then by its approver's rights."""
    if not is_approval(digest, approval.public_key, approval.signature):
        return ApprovalStanding.VOID
    return check(approval, signed.public_key)


def void(store: Store, digest: bytes, approval: Approval, now_s: int) -> None:
    """Forget an approval that does not count, of a study that has asked no device.

    The audit log has an entry of it, before it is done.
    """
    event = AuditEvent(
        now_s, "aggregator", "local", VOIDED, f"study {digest.hex()}", "local", "done"
    )
    store.audit.append(event)
    store.management.void(digest, approval)


def cancelled_end(store: Store, digest: bytes) -> End:
    """Return the end of a study that is cancelled: by an approver, or else by its analyst."""
    found = store.management.approval(digest)
    if found is None or not is_refused(found):
        return CANCELLED
    word, reason = ("withdrawn", WITHDRAWN) if found.approver else ("refused", REFUSED)
    message = f"approval: {word} by {found.refused_by}: {found.reason}"
    return End(StudyState.CANCELLED, reason, message)
