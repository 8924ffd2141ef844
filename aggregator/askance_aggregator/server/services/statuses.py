"""Table from errors in an analyst's call to the status that the analyst gets."""

from __future__ import annotations

import logging

import grpc
from grpc import aio

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.analyst.messages import REASON_KEY
from askance_aggregator.server.devices.calls import CallStatus
from askance_aggregator.server.studies import (
    ApprovalRefused,
    ResultsDeleted,
    SubmissionRefused,
    UnknownEpoch,
    UnknownStudy,
)
from askance_aggregator.store import StudyNotEnded
from askance_aggregator.store.register import UnknownDevice
from askance_client.errors import AskanceError, InvalidParameter, RemoteProtocolError, StoreError

_LOGGER = logging.getLogger(__name__)
_Code = grpc.StatusCode
_REASONS: dict[str, grpc.StatusCode] = {
    "untrusted-key": _Code.PERMISSION_DENIED,
    "bad-signature": _Code.UNAUTHENTICATED,
    "stale-call": _Code.UNAUTHENTICATED,
    "not-permitted": _Code.PERMISSION_DENIED,
    "no-key": _Code.PERMISSION_DENIED,
    "own-study": _Code.PERMISSION_DENIED,
    "nonce-missing": _Code.UNAUTHENTICATED,
    "replayed": _Code.UNAUTHENTICATED,
    "bad-token": _Code.UNAUTHENTICATED,
    "no-role": _Code.PERMISSION_DENIED,
    "malformed": _Code.INVALID_ARGUMENT,
    "unknown-learner": _Code.INVALID_ARGUMENT,
    "missing-fields": _Code.INVALID_ARGUMENT,
    "expired": _Code.FAILED_PRECONDITION,
    "keep-refused": _Code.FAILED_PRECONDITION,
    "plan-refused": _Code.FAILED_PRECONDITION,
    "over-user-budget": _Code.FAILED_PRECONDITION,
    "over-quota": _Code.RESOURCE_EXHAUSTED,
    "too-many-studies": _Code.RESOURCE_EXHAUSTED,
    "too-many-calls": _Code.RESOURCE_EXHAUSTED,
    "unread-answers": _Code.RESOURCE_EXHAUSTED,
}
_STORE_FAILED = "the aggregator's store failed: ask again later"
_SLOW = "expected a message, got none in time"
_GONE = "the caller went away"
_INTERNAL = "internal error: ask again later"


def status_of(error: Exception) -> tuple[grpc.StatusCode, str, str]:
    """Return the gRPC status of an error, its details as text and its reason code."""
    match error:
        case SubmissionRefused() | CallRefused() | ApprovalRefused():
            code = _REASONS.get(error.reason, _Code.FAILED_PRECONDITION)
            return code, str(error), error.reason
        case UnknownStudy():
            return _Code.NOT_FOUND, str(error), "unknown-study"
        case UnknownEpoch():
            return _Code.NOT_FOUND, str(error), "unknown-epoch"
        case ResultsDeleted():
            return _Code.NOT_FOUND, str(error), "results-deleted"
        case StudyNotEnded():
            return _Code.FAILED_PRECONDITION, str(error), "open"
        case UnknownDevice():  # a store's error, of the caller's own making
            return _Code.NOT_FOUND, str(error), "unknown-device"
        case InvalidParameter() | RemoteProtocolError():
            return _Code.INVALID_ARGUMENT, str(error), "malformed"
        case StoreError():  # paths and disks are the operator's matter
            return _Code.UNAVAILABLE, _STORE_FAILED, "store-failed"
        case aio.InternalError():  # of a write
            return _Code.CANCELLED, _GONE, "went-away"
        case TimeoutError():
            return _Code.DEADLINE_EXCEEDED, _SLOW, "timeout"
        case _:
            return _Code.INTERNAL, _INTERNAL, "internal"


def refused_status(error: Exception) -> CallStatus:
    """Return the status that a call ends with, from the table; log it."""
    code, details, reason = status_of(error)
    if code is grpc.StatusCode.INTERNAL:
        _LOGGER.error("an analyst's call failed", exc_info=error)
    elif not isinstance(error, AskanceError | TimeoutError):
        _LOGGER.warning("an analyst's call was refused", exc_info=error)
    return CallStatus(code, details, ((REASON_KEY, reason),))
