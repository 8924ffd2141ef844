"""Decisions and questions of a device's owner, beside a running device or without one.

`consents` keeps the owner's decisions on studies, and what was asked meanwhile; `control` is the
Unix socket through which commands reach a running device, which holds its files exclusively;
`laws` computes what a randomizer may answer to each truth.

None of it decides what is charged: the core asks `consents` whether a study may be answered, and
holds or refuses the request if not.
"""

from askance_client.owner.application import ApplicationConsent, Consent
from askance_client.owner.consents import (
    CONSENT_WAIT_S,
    MAX_WAITING,
    ConsentRule,
    Consents,
    KnownStudy,
    Verdict,
)
from askance_client.owner.control import (
    ControlServer,
    Operation,
    ask_running,
    is_running,
)

__all__ = [
    "CONSENT_WAIT_S",
    "MAX_WAITING",
    "ApplicationConsent",
    "Consent",
    "ConsentRule",
    "Consents",
    "ControlServer",
    "KnownStudy",
    "Operation",
    "Verdict",
    "ask_running",
    "is_running",
]
