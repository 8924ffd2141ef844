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


@dataclass(frozen=True, slots=True)
class CallRule:
    """Row of the table: a call, and how far each role reaches with it.

    Args:
      once: whether a second arrival of the same signed call would do something new. Such a call
        needs a nonce, and is refused when the nonce comes again.
      kind: of its limits.
      approver: how far an approver reaches; None: as far as a viewer.
    """

    viewer: Scope
    analyst: Scope
    operator: Scope
    admin: Scope
    changes: bool = False
    once: bool = False
    kind: CallKind = CallKind.CALL
    approver: Scope | None = None

    def scope(self, role: Role) -> Scope:
        """Return how far a role reaches with the call."""
        reaches: dict[Role, Scope] = {
            Role.VIEWER: self.viewer,
            Role.ANALYST: self.analyst,
            Role.OPERATOR: self.operator,
            Role.APPROVER: self.viewer if self.approver is None else self.approver,
            Role.ADMIN: self.admin,
        }
        return reaches[role]


_NONE, _OWN, _ALL = Scope.NONE, Scope.OWN, Scope.ALL

# Every call of the services for analysts and operators; a call that is missing is refused. A study
# is submitted by the analyst whose key has signed it, so no role reaches further with Submit. An
# operator sees how far studies have come, and no results.
RULES: Mapping[str, CallRule] = {
    #                         viewer  analyst operator admin
    "Analysts/Submit": CallRule(_NONE, _OWN, _NONE, _OWN, changes=True, kind=CallKind.PLAN),
    "Analysts/Plan": CallRule(_NONE, _OWN, _NONE, _OWN, kind=CallKind.PLAN),
    "Analysts/List": CallRule(_ALL, _OWN, _ALL, _ALL),
    "Analysts/Schemas": CallRule(_NONE, _OWN, _NONE, _ALL),
    "Analysts/Watch": CallRule(_ALL, _OWN, _ALL, _ALL, kind=CallKind.WATCH),
    "Analysts/Result": CallRule(_ALL, _OWN, _NONE, _ALL),
    "Analysts/Export": CallRule(_ALL, _OWN, _NONE, _ALL, kind=CallKind.EXPORT),
    "Analysts/Cancel": CallRule(_NONE, _OWN, _ALL, _ALL, changes=True),
    "Analysts/DeleteReports": CallRule(_NONE, _OWN, _ALL, _ALL, changes=True),
    "Analysts/DeleteResults": CallRule(_NONE, _OWN, _ALL, _ALL, changes=True),
    "Operators/Caller": CallRule(_ALL, _ALL, _ALL, _ALL),
    "Operators/Fleet": CallRule(_ALL, _NONE, _ALL, _ALL),
    "Operators/Silence": CallRule(_NONE, _NONE, _ALL, _ALL),
    "Operators/Studies": CallRule(_ALL, _NONE, _ALL, _ALL),
    "Operators/Audit": CallRule(_NONE, _NONE, _ALL, _ALL),
    "Operators/Devices": CallRule(_NONE, _NONE, _ALL, _ALL),
    "Operators/CountDevices": CallRule(_NONE, _NONE, _ALL, _ALL),
    "Operators/TagDevices": CallRule(_NONE, _NONE, _ALL, _ALL, changes=True, once=True),
    "Operators/RevokeDevices": CallRule(_NONE, _NONE, _ALL, _ALL, changes=True, once=True),
    "Operators/RestoreDevices": CallRule(_NONE, _NONE, _ALL, _ALL, changes=True, once=True),
    # A call to pause that comes again later would undo a resumption, and the other way round.
    "Analysts/Pause": CallRule(_NONE, _OWN, _ALL, _ALL, changes=True, once=True),
    "Analysts/Resume": CallRule(_NONE, _OWN, _ALL, _ALL, changes=True, once=True),
    "Analysts/Approve": CallRule(_NONE, _NONE, _NONE, _ALL, changes=True, once=True, approver=_ALL),
    "Analysts/Refuse": CallRule(_NONE, _NONE, _NONE, _ALL, changes=True, once=True, approver=_ALL),
}

# Words of a call in the audit log: those of the command that does the same.
_WORDS: Mapping[str, str] = {
    "Analysts/Submit": "study submit",
    "Analysts/Plan": "study submit --plan-only",
    "Analysts/List": "study list",
    "Analysts/Schemas": "study schemas",
    "Analysts/Watch": "study watch",
    "Analysts/Result": "study result",
    "Analysts/Export": "study result --out",
    "Analysts/Cancel": "study cancel",
    "Analysts/DeleteReports": "study delete",
    "Analysts/DeleteResults": "study delete --results",
    "Analysts/Pause": "study pause",
    "Analysts/Resume": "study resume",
    "Analysts/Approve": "study approve",
    "Analysts/Refuse": "study refuse",
    "Operators/Caller": "caller",
    "Operators/Fleet": "status",
    "Operators/Silence": "device silence",
    "Operators/Studies": "study list",
    "Operators/Audit": "audit show",
    "Operators/Devices": "device list",
    "Operators/CountDevices": "device list",
    "Operators/TagDevices": "device tag",
    "Operators/RevokeDevices": "device revoke",
    "Operators/RestoreDevices": "device restore",
}


def action_words(name: str) -> str:
    """Return the words of a call ("Analysts/Cancel") or command in the audit log.

    Entries of an earlier version have a call by its service and name, and a command with the name
    of its group ("aggregator device revoke").
    """
    return _WORDS.get(name) or name.removeprefix("aggregator ")
