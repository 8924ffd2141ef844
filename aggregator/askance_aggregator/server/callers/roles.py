"""Roles of callers, and the table of the calls that each may make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum


class Role(StrEnum):
    """Role of a caller, by its name in the configuration."""

    VIEWER = "viewer"
    ANALYST = "analyst"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


class Scope(Enum):
    """The studies that a call may be about."""

    NONE = "none"  # the call is refused
    OWN = "own"  # those that the caller's key has signed
    ALL = "all"


class CallKind(StrEnum):
    """Kind of a call, by what it holds; its value begins the names of its limits."""

    CALL = "calls"  # any
    PLAN = "plans"  # a study is planned, which takes seconds of a processor
    WATCH = "watches"  # open as long as a study
    EXPORT = "exports"  # a message for as long as its caller does not read


class CallEffects(Enum):
    """Effects of a call on what the aggregator holds."""

    NONE = "none"
    CHANGES = "changes"  # a second arrival of the same signed call does nothing new
    ONCE = "once"  # it would: the call needs a nonce, and is refused when the nonce comes again


@dataclass(frozen=True, slots=True)
class CallRule:
    """Row of the table: a call, and how far each role reaches with it.

    Args:
      words: of the command that does the same, for the audit log.
      kind: of its limits.
      approver: how far an approver reaches; None: as far as a viewer.
    """

    words: str
    viewer: Scope
    analyst: Scope
    operator: Scope
    admin: Scope
    effects: CallEffects = CallEffects.NONE
    kind: CallKind = CallKind.CALL
    approver: Scope | None = None

    def scope(self, role: Role) -> Scope:
        """Return how far a role reaches with the call."""
        reach: Scope | None = getattr(self, role)
        return self.viewer if reach is None else reach


_NONE, _OWN, _ALL = Scope.NONE, Scope.OWN, Scope.ALL
_CHANGES, _ONCE = CallEffects.CHANGES, CallEffects.ONCE
_PLAN, _WATCH, _EXPORT = CallKind.PLAN, CallKind.WATCH, CallKind.EXPORT

# Every call of the services for analysts and operators; a call that is missing is refused. A study
# is submitted by the analyst whose key has signed it, so no role reaches further with Submit. An
# operator sees how far studies have come, and no results.
RULES: Mapping[str, CallRule] = {
    # words, and how far a viewer, an analyst, an operator and an administrator reach
    "Analysts/Submit": CallRule("study submit", _NONE, _OWN, _NONE, _OWN, _CHANGES, kind=_PLAN),
    "Analysts/Plan": CallRule("study submit --plan-only", _NONE, _OWN, _NONE, _OWN, kind=_PLAN),
    "Analysts/List": CallRule("study list", _ALL, _OWN, _ALL, _ALL),
    "Analysts/Schemas": CallRule("study schemas", _NONE, _OWN, _NONE, _ALL),
    "Analysts/Watch": CallRule("study watch", _ALL, _OWN, _ALL, _ALL, kind=_WATCH),
    "Analysts/Result": CallRule("study result", _ALL, _OWN, _NONE, _ALL),
    "Analysts/Export": CallRule("study result --out", _ALL, _OWN, _NONE, _ALL, kind=_EXPORT),
    "Analysts/Cancel": CallRule("study cancel", _NONE, _OWN, _ALL, _ALL, _CHANGES),
    "Analysts/DeleteReports": CallRule("study delete", _NONE, _OWN, _ALL, _ALL, _CHANGES),
    "Analysts/DeleteResults": CallRule("study delete --results", _NONE, _OWN, _ALL, _ALL, _CHANGES),
    "Operators/Caller": CallRule("caller", _ALL, _ALL, _ALL, _ALL),
    "Operators/Fleet": CallRule("status", _ALL, _NONE, _ALL, _ALL),
    "Operators/Silence": CallRule("device silence", _NONE, _NONE, _ALL, _ALL),
    "Operators/Studies": CallRule("study list", _ALL, _NONE, _ALL, _ALL),
    "Operators/Audit": CallRule("audit show", _NONE, _NONE, _ALL, _ALL),
    "Operators/Devices": CallRule("device list", _NONE, _NONE, _ALL, _ALL),
    "Operators/CountDevices": CallRule("device list", _NONE, _NONE, _ALL, _ALL),
    "Operators/TagDevices": CallRule("device tag", _NONE, _NONE, _ALL, _ALL, _ONCE),
    "Operators/RevokeDevices": CallRule("device revoke", _NONE, _NONE, _ALL, _ALL, _ONCE),
    "Operators/RestoreDevices": CallRule("device restore", _NONE, _NONE, _ALL, _ALL, _ONCE),
    # A call to pause that comes again later would undo a resumption, and the other way round.
    "Analysts/Pause": CallRule("study pause", _NONE, _OWN, _ALL, _ALL, _ONCE),
    "Analysts/Resume": CallRule("study resume", _NONE, _OWN, _ALL, _ALL, _ONCE),
    "Analysts/Approve": CallRule("study approve", _NONE, _NONE, _NONE, _ALL, _ONCE, approver=_ALL),
    "Analysts/Refuse": CallRule("study refuse", _NONE, _NONE, _NONE, _ALL, _ONCE, approver=_ALL),
}


def action_words(name: str) -> str:
    """Return the words of a call ("Analysts/Cancel") or command in the audit log.

    Entries of an earlier version have a call by its service and name, and a command with the name
    of its group ("aggregator device revoke").
    """
    return RULES[name].words if name in RULES else name.removeprefix("aggregator ")
