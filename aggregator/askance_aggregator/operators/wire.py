"""Messages between an operator's tool and an aggregator, as values and as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from askance_aggregator.analyst.listing import (
    decode_extent,
    decode_query,
    encode_extent,
    encode_query,
)
from askance_aggregator.analyst.wire import MAX_ANSWER_BYTES
from askance_aggregator.store import AuditEntry, StudyExtent, StudyList, StudyQuery, StudyState
from askance_aggregator.store.audit import MAX_PAGE
from askance_client.codec import parse
from askance_client.errors import RemoteProtocolError
from askance_protos.v1 import analyst_pb2
from askance_protos.v1 import operator_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["Operators"].full_name
_MAX_AUDIT = (1 << 63) - 1  # number of an entry; the store's integers end there


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Progress of a study of any analyst: counts, and no estimates.

    Args:
      digest: of the study, 32 bytes.
      public_key: of the analyst who signed it.
      learner: name of its learner.
      state: open, or how it ended.
      round: the open one, from 0; of a study that has ended, how many there were.
      asked: how many are asked in the open round.
      answered: how many of them have answered or refused.
      reason: of the end: a word for programs.
    """

    digest: bytes
    public_key: bytes
    learner: str
    state: StudyState
    round: int
    asked: int
    answered: int
    reason: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries of the audit log, oldest first, and the number of the log's last entry."""

    entries: tuple[AuditEntry, ...]
    last: int


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """Caller as the aggregator knows it.

    Args:
      name: of the key or of the token's subject.
      role: viewer, analyst, operator or admin.
    """

    name: str
    role: str


def encode_caller(found: CallerIdentity) -> bytes:
    """Encode a caller's name and role."""
    return pb.CallerResponse(name=found.name, role=found.role).SerializeToString(deterministic=True)


def decode_caller(data: bytes) -> CallerIdentity:
    """Decode a caller's name and role."""
    found = parse(pb.CallerResponse, data)
    return CallerIdentity(found.name, found.role)


def encode_studies_request(query: StudyQuery) -> bytes:
    """Encode the request for a part of the list of studies."""
    return pb.AllStudiesRequest(query=encode_query(query)).SerializeToString(deterministic=True)


def decode_studies_request(data: bytes) -> StudyQuery | None:
    """Decode the request for a list of studies; None: all, the oldest first, of an older caller.

    Raises:
      RemoteProtocolError: not such a request, or a query of no list.
    """
    found = parse(pb.AllStudiesRequest, data)
    return decode_query(found.query) if found.HasField("query") else None


def encode_studies(studies: Sequence[StudyProgress], extent: StudyExtent | None = None) -> bytes:
    """Encode the progress of studies, or of a part of the list with its extent."""
    return pb.AllStudiesResponse(
        studies=[
            pb.StudyProgress(
                study_digest=one.digest,
                public_key=one.public_key,
                learner=one.learner,
                state=analyst_pb2.StudyState.ValueType(one.state),
                round=one.round,
                asked=one.asked,
                answered=one.answered,
                reason=one.reason,
            )
            for one in studies
        ],
        extent=encode_extent(extent),
    ).SerializeToString(deterministic=True)


def decode_studies(data: bytes) -> StudyList[StudyProgress]:
    """Decode a part of the list of studies.

    Raises:
      RemoteProtocolError: a study has no state that is known.
    """
    message = parse(pb.AllStudiesResponse, data, limit=MAX_ANSWER_BYTES)
    return StudyList(
        tuple(
            StudyProgress(
                one.study_digest,
                one.public_key,
                one.learner,
                _state(one.state),
                one.round,
                one.asked,
                one.answered,
                one.reason,
            )
            for one in message.studies
        ),
        decode_extent(message.extent),
    )


def encode_audit_request(after: int, limit: int) -> bytes:
    """Encode the request for a page of the audit log."""
    return pb.AuditRequest(after=after, limit=limit).SerializeToString(deterministic=True)


def decode_audit_request(data: bytes) -> tuple[int, int]:
    """Decode the request for a page of the audit log: entries after a number, and how many.

    Raises:
      RemoteProtocolError: a number of entries that no page has.
    """
    found = parse(pb.AuditRequest, data)
    if not 1 <= found.limit <= MAX_PAGE:
        raise RemoteProtocolError(f"limit: expected 1 to {MAX_PAGE} entries, got {found.limit}")
    if found.after > _MAX_AUDIT:
        raise RemoteProtocolError(f"after: expected at most {_MAX_AUDIT}, got {found.after}")
    return found.after, found.limit


def encode_audit(page: AuditPage) -> bytes:
    """Encode a page of the audit log."""
    return pb.AuditResponse(
        entries=[
            pb.AuditLine(number=one.number, line=one.line, digest=one.digest)
            for one in page.entries
        ],
        last=page.last,
    ).SerializeToString(deterministic=True)


def decode_audit(data: bytes) -> AuditPage:
    """Decode a page of the audit log; `store.verify_entries` checks a whole log."""
    found = parse(pb.AuditResponse, data, limit=MAX_ANSWER_BYTES)
    entries = tuple(AuditEntry(one.number, one.line, one.digest) for one in found.entries)
    return AuditPage(entries, found.last)


def _state(number: int) -> StudyState:
    try:
        return StudyState(number)
    except ValueError:
        raise RemoteProtocolError(f"study: expected a known state, found number {number}") from None
