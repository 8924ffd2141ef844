"""Messages between an analyst and an aggregator, as values and as bytes.

Calls are in `calls`. Both ends use this file and its limits; everything is bounded before it is
parsed, and a field that is not known is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from askance_aggregator.analyst.listing import (
    decode_extent,
    decode_query,
    encode_extent,
    encode_query,
)
from askance_aggregator.store import (
    StudyExtent,
    StudyList,
    StudyQuery,
    StudyState,
    TaggedPopulation,
)
from askance_aggregator.studies.series import EpochStatus
from askance_client.codec import MAX_MESSAGE_BYTES, parse
from askance_client.errors import InvalidParameter, RemoteProtocolError
from askance_client.messages import Repeat, SignedStudy
from askance_protos.v1 import analyst_pb2 as pb
from askance_protos.v1 import study_pb2

PACKAGE = pb.DESCRIPTOR.package
SERVICE = pb.DESCRIPTOR.services_by_name["Analysts"].full_name
REASON_KEY = "askance-reason"  # the trailing metadata that has a refusal's word for programs

MAX_SUBMISSION_BYTES = MAX_MESSAGE_BYTES + 1024  # a study, its key and its signature
# A histogram of 2^20 cells is some 112 MB of JSON.
MAX_ANSWER_BYTES = 160 * 1024 * 1024
_PART_BYTES = 512 * 1024  # of an export; a longer line has a part for itself
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class StudySummary:
    """A study in a list.

    Args:
      digest: of the study.
      learner: its name.
      state: open, or how it ended.
      rounds_closed: of its present epoch, all of them if it collects once.
      epochs: of a repeated study; None: it collects once.
      reason: of the end; of an open study "paused", "scheduled" or empty.
      public_key: of its analyst; empty: it was not asked for.
    """

    digest: bytes
    learner: str
    state: StudyState
    rounds_closed: int
    epochs: EpochStatus | None = None
    reason: str = ""
    public_key: bytes = b""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Request for a list of studies.

    Args:
      with_reasons: whether the caller knows `StudySummary.reason`.
      query: the part that is wanted; None: all studies, the oldest first, for an older caller.
    """

    with_reasons: bool
    query: StudyQuery | None


@dataclass(frozen=True, slots=True)
class PopulationStatus:
    """Devices that a study asks: their tags, and how many they are."""

    tags: tuple[str, ...]
    devices: int

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {"tags": list(self.tags), "devices": self.devices}


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
      epochs: of a repeated study, whose `round` is of the present epoch; None: it collects once.
      population: the tags of its devices and their number; None: all devices, or not asked for.
    """

    state: StudyState
    round: int
    asked: int
    answered: int
    reason: str = ""
    message: str = ""
    epochs: EpochStatus | None = None
    population: PopulationStatus | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a study; for an open one its state, and the epochs so far of one that repeats."""

    state: StudyState
    reason: str
    message: str
    result_json: str


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A piece of an export: the signed study in the first one, the result in the last one.

    `reports_deleted_unix_s` is in the last one; 0: the study's reports are kept. `population` is in
    the first one; None: the study asks all devices.
    """

    study: SignedStudy | None
    lines: tuple[str, ...]
    result_json: str
    reports_deleted_unix_s: int = 0
    population: TaggedPopulation | None = None


def encode_submission(signed: SignedStudy, population: TaggedPopulation | None = None) -> bytes:
    """The bytes that submit a study, with the tags of its devices if it does not ask all."""
    return pb.SubmitStudyRequest(
        study=_encode_signed(signed), population=_encode_population(population)
    ).SerializeToString(deterministic=True)


def decode_population(data: bytes) -> TaggedPopulation | None:
    """Decode the tags of a submitted study's devices; None: all devices.

    Raises:
      RemoteProtocolError: not a submission, malformed tags, or a salt of another length.
    """
    message = parse(pb.SubmitStudyRequest, data, limit=MAX_SUBMISSION_BYTES)
    return _decode_population(message.population) if message.HasField("population") else None


def encode_watch() -> bytes:
    """The bytes that ask for a study's status with its population."""
    return pb.StudyRequest(with_population=True).SerializeToString(deterministic=True)


def asks_population(data: bytes) -> bool:
    """Return whether the caller who watches a study knows populations.

    Raises:
      RemoteProtocolError: not a request to watch.
    """
    return parse(pb.StudyRequest, data).with_population


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


def encode_plan(plan_json: str) -> bytes:
    """The bytes of a plan."""
    return pb.PlanStudyResponse(plan_json=plan_json).SerializeToString(deterministic=True)


def decode_plan(data: bytes) -> str:
    """Decode a plan's JSON."""
    return parse(pb.PlanStudyResponse, data, limit=MAX_ANSWER_BYTES).plan_json


def encode_listing(query: StudyQuery) -> bytes:
    """Encode the request for a part of the list of studies."""
    return pb.ListStudiesRequest(with_reasons=True, query=encode_query(query)).SerializeToString(
        deterministic=True
    )


def decode_listing(data: bytes) -> ListRequest:
    """Decode the request for a list of studies.

    Raises:
      RemoteProtocolError: not such a request, or a query of no list.
    """
    found = parse(pb.ListStudiesRequest, data)
    query = decode_query(found.query) if found.HasField("query") else None
    return ListRequest(found.with_reasons, query)


def encode_summaries(summaries: Sequence[StudySummary], extent: StudyExtent | None = None) -> bytes:
    """Encode a list of studies, or a part of it with its extent."""
    return pb.ListStudiesResponse(
        studies=[
            pb.StudySummary(
                study_digest=one.digest,
                learner=one.learner,
                state=pb.StudyState.ValueType(one.state),
                rounds_closed=one.rounds_closed,
                epochs=_encode_epochs(one.epochs),
                reason=one.reason,
                public_key=one.public_key,
            )
            for one in summaries
        ],
        extent=encode_extent(extent),
    ).SerializeToString(deterministic=True)


def decode_summaries(data: bytes) -> StudyList[StudySummary]:
    """Decode a part of the list of studies."""
    message = parse(pb.ListStudiesResponse, data, limit=MAX_ANSWER_BYTES)
    return StudyList(
        tuple(
            StudySummary(
                _digest(one.study_digest),
                one.learner,
                _state(one.state),
                one.rounds_closed,
                _decode_epochs(one.epochs) if one.HasField("epochs") else None,
                one.reason,
                one.public_key,
            )
            for one in message.studies
        ),
        decode_extent(message.extent),
    )


def encode_event(event: StudyEvent) -> bytes:
    """The bytes of an event."""
    return pb.StudyEvent(
        state=pb.StudyState.ValueType(event.state),
        round=event.round,
        asked=event.asked,
        answered=event.answered,
        reason=event.reason,
        message=event.message,
        epochs=_encode_epochs(event.epochs),
        population=(
            None
            if event.population is None
            else pb.PopulationStatus(tags=event.population.tags, devices=event.population.devices)
        ),
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
        _decode_epochs(found.epochs) if found.HasField("epochs") else None,
        (
            PopulationStatus(tuple(found.population.tags), found.population.devices)
            if found.HasField("population")
            else None
        ),
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


def encode_state(state: StudyState) -> bytes:
    """The bytes that say where a study stands after Cancel, Pause or Resume."""
    return pb.CancelStudyResponse(state=pb.StudyState.ValueType(state)).SerializeToString()


def decode_state(data: bytes) -> StudyState:
    """Decode the status of a study after Cancel, Pause or Resume, whose answers are alike."""
    return _state(parse(pb.CancelStudyResponse, data).state)


def encode_deleted() -> bytes:
    """The bytes that say that a deletion is durable."""
    return pb.DeleteStudyResponse().SerializeToString()


def decode_deleted(data: bytes) -> None:
    """Decode the answer to a deletion; it says no more than that.

    Raises:
      RemoteProtocolError: another message.
    """
    parse(pb.DeleteStudyResponse, data)


def encode_export(
    signed: SignedStudy,
    lines: Iterable[str],
    result_json: str,
    reports_deleted_unix_s: int = 0,
    population: TaggedPopulation | None = None,
) -> Iterator[bytes]:
    """A study's export in parts of about half a megabyte; lines are taken part by part."""
    opening = _encode_population(population)
    first, held, size = True, list[str](), 0
    for line in lines:
        if held and size + len(line) > _PART_BYTES:
            yield _encode_part(signed if first else None, held, population=opening)
            first, held, size, opening = False, [], 0, None
        held.append(line)
        size += len(line)
    yield _encode_part(
        signed if first else None, held, result_json, reports_deleted_unix_s, opening
    )


def decode_export_part(data: bytes) -> ExportPart:
    """A part of an export."""
    found = parse(pb.ExportPart, data, limit=MAX_ANSWER_BYTES)
    study = _decode_signed(found.study) if found.HasField("study") else None
    deleted = found.reports_deleted_unix_s
    if deleted < 0:
        raise RemoteProtocolError(f"export: expected a time of deletion after 1970, got {deleted}")
    population = _decode_population(found.population) if found.HasField("population") else None
    return ExportPart(study, tuple(found.lines), found.result_json, deleted, population)


def _encode_part(
    signed: SignedStudy | None,
    lines: Sequence[str],
    result_json: str = "",
    reports_deleted_unix_s: int = 0,
    population: pb.TaggedPopulation | None = None,
) -> bytes:
    return pb.ExportPart(
        study=None if signed is None else _encode_signed(signed),
        lines=lines,
        result_json=result_json,
        reports_deleted_unix_s=reports_deleted_unix_s,
        population=population,
    ).SerializeToString(deterministic=True)


def _encode_population(population: TaggedPopulation | None) -> pb.TaggedPopulation | None:
    if population is None:
        return None
    return pb.TaggedPopulation(tags=population.tags, salt=population.salt)


def _decode_population(found: pb.TaggedPopulation) -> TaggedPopulation:
    try:
        return TaggedPopulation(tuple(found.tags), found.salt)
    except InvalidParameter as error:
        raise RemoteProtocolError(f"population: {error}") from None


def _encode_signed(signed: SignedStudy) -> study_pb2.SignedStudy:
    return study_pb2.SignedStudy(
        study=signed.study, public_key=signed.public_key, signature=signed.signature
    )


def _decode_signed(found: study_pb2.SignedStudy) -> SignedStudy:
    return SignedStudy(found.study, found.public_key, found.signature)


def _encode_epochs(status: EpochStatus | None) -> pb.EpochStatus | None:
    if status is None:
        return None
    repeat = status.repeat
    return pb.EpochStatus(
        epoch=status.epoch,
        repeat=study_pb2.Repeat(
            every_days=repeat.every_days, epochs=repeat.epochs, first=repeat.first
        ),
        ended=status.ended,
        open=status.open,
    )


def _decode_epochs(found: pb.EpochStatus) -> EpochStatus:
    try:
        repeat = Repeat(found.repeat.every_days, found.repeat.epochs, found.repeat.first)
    except InvalidParameter as error:
        raise RemoteProtocolError(f"study: expected its epochs: {error}") from None
    if found.epoch not in repeat.indices or found.ended > repeat.epochs:
        raise RemoteProtocolError(f"study: expected an epoch that it signs, got {found.epoch}")
    return EpochStatus(found.epoch, repeat, found.ended, found.open)


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
