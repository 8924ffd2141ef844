"""Callers of the services for analysts and operators: who they are, and what each may do.

`roles` is the table of what each role may call; `callers` knows the identities that the operator
has configured, `bearer` those of an issuer's tokens (it needs the extra oidc); `limits` counts what
each caller has at work; `gate` admits a call, before its handler runs, by these; `recorder` appends
to the store's audit log.
"""

from askance_aggregator.server.callers.callers import Caller, Callers, OidcSettings, TokenCallers
from askance_aggregator.server.callers.gate import Admitted, Gate
from askance_aggregator.server.callers.limits import CallerLimits
from askance_aggregator.server.callers.recorder import AuditRecorder, record_command
from askance_aggregator.server.callers.roles import RULES, CallKind, CallRule, Role, Scope

__all__ = [
    "RULES",
    "Admitted",
    "AuditRecorder",
    "CallKind",
    "CallRule",
    "Caller",
    "CallerLimits",
    "Callers",
    "Gate",
    "OidcSettings",
    "Role",
    "Scope",
    "TokenCallers",
    "record_command",
]
