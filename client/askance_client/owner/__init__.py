"""Decisions and questions of a device's owner, beside a running device or without one.

`consents` keeps the owner's decisions on studies, and what was asked meanwhile; `control` is the
Unix socket through which commands reach a running device, which holds its files exclusively;
`laws` computes what a randomizer may answer to each truth.

None of it decides what is charged: the core asks `consents` whether a study may be answered, and
holds or refuses the request if not.
"""

from askance_client.owner.application import ApplicationConsent as ApplicationConsent
from askance_client.owner.application import Consent as Consent
from askance_client.owner.consents import CONSENT_WAIT_S as CONSENT_WAIT_S
from askance_client.owner.consents import ConsentRule as ConsentRule
from askance_client.owner.consents import Consents as Consents
from askance_client.owner.consents import KnownStudy as KnownStudy
from askance_client.owner.control import ControlServer as ControlServer
from askance_client.owner.control import Operation as Operation
from askance_client.owner.control import ask_running as ask_running
from askance_client.owner.control import is_running as is_running
