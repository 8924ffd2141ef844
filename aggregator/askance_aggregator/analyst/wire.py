"""Messages between an analyst and an aggregator, as values and as bytes.

Calls are in `calls`. Both ends use this file and its limits; everything is bounded before it is
parsed, and a field that is not known is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from askance_aggregator.store import StudyState
from askance_client.codec import MAX_MESSAGE_BYTES, parse
from askance_client.errors import RemoteProtocolError
from askance_client.messages import SignedStudy
from askance_protos.v1 import analyst_pb2 as pb
from askance_protos.v1 import study_pb2

SERVICE = pb.DESCRIPTOR.services_by_name["Analysts"].full_name
REASON_KEY = "askance-reason"  # the trailing metadata that has a refusal's word for programs

MAX_SUBMISSION_BYTES = MAX_MESSAGE_BYTES + 1024  # a study, its key and its signature
# A histogram of 2^20 cells is some 112 MB of JSON.
MAX_ANSWER_BYTES = 160 * 1024 * 1024
_PART_BYTES = 512 * 1024  # of an export; a longer line has a part for itself
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class StudySummary:
    """A study in a list."""

    digest: bytes
    learner: str
    state: StudyState
    rounds_closed: int


@dataclass(frozen=True, slots=True)
class StudyEvent:
    """Status of a study.

    Args:
      state: open, or how it ended.
      round: the open one, from 0; of a study that has ended, how many there were.
      asked: how many are asked in the open round.
      answered: how many of them have answered or refused.
      reason: of the end: a word for programs.
      message: of the end: one line of text.
    """

    state: StudyState
    round: int
    asked: int
    answered: int
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a study; for an open study, its state and nothing else."""

    state: StudyState
    reason: str
    message: str
    result_json: str


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A piece of an export: the signed study in the first one, the result in the last one."""

    study: SignedStudy | None
    lines: tuple[str, ...]
    result_json: str


def encode_submission(signed: SignedStudy) -> bytes:
    """The bytes that submit a study."""
    return pb.SubmitStudyRequest(study=_encode_signed(signed)).SerializeToString(deterministic=True)


def decode_submission(data: bytes) -> SignedStudy:
    """A study that is submitted, unread.

    Raises:
      RemoteProtocolError: not a submission.
    """
    message = parse(pb.SubmitStudyRequest, data, limit=MAX_SUBMISSION_BYTES)
    if not message.HasField("study"):
        raise RemoteProtocolError("submission: expected a signed study, found none")
    return _decode_signed(message.study)


def encode_submitted(digest: bytes) -> bytes:
    """The bytes that take a study in, by its digest."""
    return pb.SubmitStudyResponse(study_digest=digest).SerializeToString(deterministic=True)


def decode_submitted(data: bytes) -> bytes:
    """Decode the digest of the accepted study."""
    return _digest(parse(pb.SubmitStudyResponse, data).study_digest)


def encode_summaries(summaries: Sequence[StudySummary]) -> bytes:
    """The bytes of a list of studies."""
    return pb.ListStudiesResponse(
        studies=[
            pb.StudySummary(
                study_digest=one.digest,
                learner=one.learner,
                state=pb.StudyState.ValueType(one.state),
                rounds_closed=one.rounds_closed,
            )
            for one in summaries
        ]
    ).SerializeToString(deterministic=True)


def decode_summaries(data: bytes) -> list[StudySummary]:
    """A list of studies."""
    message = parse(pb.ListStudiesResponse, data, limit=MAX_ANSWER_BYTES)
    return [
        StudySummary(_digest(one.study_digest), one.learner, _state(one.state), one.rounds_closed)
        for one in message.studies
    ]


def encode_event(event: StudyEvent) -> bytes:
    """The bytes of an event."""
    return pb.StudyEvent(
        state=pb.StudyState.ValueType(event.state),
        round=event.round,
        asked=event.asked,
        answered=event.answered,
        reason=event.reason,
        message=event.message,
    ).SerializeToString(deterministic=True)


def decode_event(data: bytes) -> StudyEvent:
    """An event."""
    found = parse(pb.StudyEvent, data)
    return StudyEvent(
        _state(found.state),
        found.round,
        found.asked,
        found.answered,
        found.reason,
        found.message,
    )


def encode_ending(ending: Ending) -> bytes:
    """The bytes of a study's result."""
    return pb.StudyResult(
        state=pb.StudyState.ValueType(ending.state),
        reason=ending.reason,
        message=ending.message,
        result_json=ending.result_json,
    ).SerializeToString(deterministic=True)


def decode_ending(data: bytes) -> Ending:
    """A study's result."""
    found = parse(pb.StudyResult, data, limit=MAX_ANSWER_BYTES)
    return Ending(_state(found.state), found.reason, found.message, found.result_json)


def encode_cancelled(state: StudyState) -> bytes:
    """The bytes that say where a study stands after it was to be cancelled."""
    return pb.CancelStudyResponse(state=pb.StudyState.ValueType(state)).SerializeToString()


def decode_cancelled(data: bytes) -> StudyState:
    """Decode the status of a study after its cancellation was requested."""
    return _state(parse(pb.CancelStudyResponse, data).state)


def encode_export(signed: SignedStudy, lines: Sequence[str], result_json: str) -> Iterator[bytes]:
    """A study's export in parts of about half a megabyte."""
    first, held, size = True, list[str](), 0
    for line in lines:
        if held and size + len(line) > _PART_BYTES:
            yield _encode_part(signed if first else None, held)
            first, held, size = False, [], 0
        held.append(line)
        size += len(line)
    yield _encode_part(signed if first else None, held, result_json)


def decode_export_part(data: bytes) -> ExportPart:
    """A part of an export."""
    found = parse(pb.ExportPart, data, limit=MAX_ANSWER_BYTES)
    study = _decode_signed(found.study) if found.HasField("study") else None
    return ExportPart(study, tuple(found.lines), found.result_json)


def _encode_part(signed: SignedStudy | None, lines: Sequence[str], result_json: str = "") -> bytes:
    return pb.ExportPart(
        study=None if signed is None else _encode_signed(signed),
        lines=lines,
        result_json=result_json,
    ).SerializeToString(deterministic=True)


def _encode_signed(signed: SignedStudy) -> study_pb2.SignedStudy:
    return study_pb2.SignedStudy(
        study=signed.study, public_key=signed.public_key, signature=signed.signature
    )


def _decode_signed(found: study_pb2.SignedStudy) -> SignedStudy:
    return SignedStudy(found.study, found.public_key, found.signature)


def _state(number: int) -> StudyState:
    try:
        return StudyState(number)
    except ValueError:
        raise RemoteProtocolError(f"study: expected a known state, found number {number}") from None


def _digest(found: bytes) -> bytes:
    if len(found) != _DIGEST_BYTES:
        raise RemoteProtocolError(
            f"study: expected a digest of {_DIGEST_BYTES} bytes, found {len(found)}"
        )
    return found
