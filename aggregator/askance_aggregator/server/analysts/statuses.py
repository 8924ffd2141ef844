"""Table from errors in an analyst's call to the status that the analyst gets."""

from __future__ import annotations

import grpc

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.server.studies import SubmissionRefused, UnknownStudy
from askance_client.errors import RemoteProtocolError, StoreError

_Code = grpc.StatusCode
_REASONS: dict[str, grpc.StatusCode] = {
    "untrusted-key": _Code.PERMISSION_DENIED,
    "bad-signature": _Code.UNAUTHENTICATED,
    "stale-call": _Code.UNAUTHENTICATED,
    "malformed": _Code.INVALID_ARGUMENT,
    "unknown-learner": _Code.INVALID_ARGUMENT,
    "missing-fields": _Code.INVALID_ARGUMENT,
    "expired": _Code.FAILED_PRECONDITION,
    "plan-refused": _Code.FAILED_PRECONDITION,
    "over-user-budget": _Code.FAILED_PRECONDITION,
    "too-many-studies": _Code.RESOURCE_EXHAUSTED,
    "too-many-calls": _Code.RESOURCE_EXHAUSTED,
}
_STORE_FAILED = "the aggregator's store failed: ask again later"
_SLOW = "expected a message, got none in time"
_INTERNAL = "internal error: ask again later"


def status_of(error: Exception) -> tuple[grpc.StatusCode, str, str]:
    """Return the gRPC status of an error, its details as text and its reason code."""
    match error:
        case SubmissionRefused() | CallRefused():
            code = _REASONS.get(error.reason, _Code.FAILED_PRECONDITION)
            return code, str(error), error.reason
        case UnknownStudy():
            return _Code.NOT_FOUND, str(error), "unknown-study"
        case RemoteProtocolError():
            return _Code.INVALID_ARGUMENT, str(error), "malformed"
        case StoreError():  # paths and disks are the operator's matter
            return _Code.UNAVAILABLE, _STORE_FAILED, "store-failed"
        case TimeoutError():
            return _Code.DEADLINE_EXCEEDED, _SLOW, "timeout"
        case _:
            return _Code.INTERNAL, _INTERNAL, "internal"
