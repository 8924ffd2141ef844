"""The aggregator on the network: devices dial in, deliver reports, and are asked.

Its rules: a device gets no information before it has proved its identity. What arrives is bounded
in bytes and items and checked before it is stored; a report is acknowledged only after the commit
that made it durable, and entered in the round's intake then. Bytes are serialised once, however
many devices they go to. What the hub holds in memory can be rebuilt: after a restart the round is
opened again, the store holds which devices have answered, and devices answer the rest, or again,
with stored bytes.

Theory of operation. `AggregatorServer` runs one event loop in a thread of its own, and in it a
`Hub`: connected devices, open rounds, and between them a `ReportGroupCommit` that makes durable
together whatever arrived during the last commit. A session asks from its own thread through
`ServiceFleet`.
"""

from askance_aggregator.server.devices.admission import (
    Admission,
    EnrolmentVerifier,
    Unauthenticated,
    UnsupportedProtocol,
)
from askance_aggregator.server.devices.asked_users import SHOWN_TAGS, AskedUsers, answers_by_tag
from askance_aggregator.server.devices.certification import (
    BadSigningRequest,
    CertificateIssuer,
    IssuedCertificate,
)
from askance_aggregator.server.devices.commits import ReportGroupCommit
from askance_aggregator.server.devices.connection_guard import ConnectionLimits
from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.devices.hub import Hub, RoundProgress, ServiceStopped
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.devices.peers import Overloaded, PeerLimits, Peers
from askance_aggregator.server.devices.server import (
    AggregatorServer,
    CertifiedListener,
    ServerParts,
)
from askance_aggregator.server.devices.servicer import status_of
from askance_aggregator.server.devices.settings import Settings
from askance_aggregator.server.outer.addresses import Network

__all__ = [
    "SHOWN_TAGS",
    "SILENT",
    "Admission",
    "AggregatorServer",
    "AskedUsers",
    "BadSigningRequest",
    "CertificateIssuer",
    "CertifiedListener",
    "ConnectionLimits",
    "EnrolmentVerifier",
    "Hub",
    "IssuedCertificate",
    "Network",
    "Observer",
    "Overloaded",
    "PeerLimits",
    "Peers",
    "ReportGroupCommit",
    "RoundProgress",
    "ServerParts",
    "ServiceFleet",
    "ServiceStopped",
    "Settings",
    "Unauthenticated",
    "UnsupportedProtocol",
    "answers_by_tag",
    "status_of",
]
