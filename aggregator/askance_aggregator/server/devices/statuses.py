"""Table from errors to the status that the caller gets."""

from __future__ import annotations

import grpc

from askance_aggregator.server.devices.admission import Unauthenticated, UnsupportedProtocol
from askance_aggregator.server.devices.peers import Overloaded
from askance_aggregator.server.devices.standings import Revoked
from askance_aggregator.store import EnrolmentRefused
from askance_client.errors import RemoteProtocolError, StoreError
from askance_client.service.exchange import ExchangeTooLarge

# The first that fits; the caller gets the error's text only where `True`.
_STATUSES: tuple[tuple[type[Exception], grpc.StatusCode, bool], ...] = (
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED, True),
    (UnsupportedProtocol, grpc.StatusCode.FAILED_PRECONDITION, True),
    (Revoked, grpc.StatusCode.PERMISSION_DENIED, True),
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED, True),
    (ExchangeTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED, True),
    (EnrolmentRefused, grpc.StatusCode.PERMISSION_DENIED, True),
    (RemoteProtocolError, grpc.StatusCode.INVALID_ARGUMENT, True),
    (StoreError, grpc.StatusCode.UNAVAILABLE, False),  # paths and disks are the operator's matter
    (TimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED, False),
)
_UNTOLD = {
    grpc.StatusCode.UNAVAILABLE: "nothing was acknowledged: deliver again later",
    grpc.StatusCode.DEADLINE_EXCEEDED: "expected a first message, found none in time",
    grpc.StatusCode.INTERNAL: "internal error: deliver again later",
}


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """The gRPC status and its details for an error."""
    for kind, code, told in _STATUSES:
        if isinstance(error, kind):
            return code, str(error) if told else _UNTOLD[code]
    return grpc.StatusCode.INTERNAL, _UNTOLD[grpc.StatusCode.INTERNAL]
