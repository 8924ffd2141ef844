"""Messages of the services for analysts and operators: each is checked where it arrives.

A message is used as it is (`askance_protos.v1.analyst_pb2`, `operator_pb2`): both ends build and
read its fields. `check_*` refuses a message that no other end of this version sends; the other
functions turn parts of messages into the values of the store and of studies, and back. Both raise
RemoteProtocolError of a part that is missing, malformed or not known. Messages are bounded before
they are parsed, and a field that is not known is refused (`codec.parse`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from askance_aggregator import store
from askance_aggregator.analyst.signed_counts import (
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    CountsSignature,
)
from askance_aggregator.studies.series import EpochStatus
from askance_client.codec import MAX_MESSAGE_BYTES
from askance_client.errors import InvalidParameter, RemoteProtocolError
from askance_client.messages import Repeat, SignedStudy
from askance_protos.v1 import analyst_pb2 as pb
from askance_protos.v1 import operator_pb2, study_pb2

PACKAGE = pb.DESCRIPTOR.package
SERVICE = pb.DESCRIPTOR.services_by_name["Analysts"].full_name
REASON_KEY = "askance-reason"  # the trailing metadata that has a refusal's word for programs

MAX_SUBMISSION_BYTES = MAX_MESSAGE_BYTES + 1024  # a study, its key and its signature
# A histogram of 2^20 cells is some 112 MB of JSON.
MAX_ANSWER_BYTES = 160 * 1024 * 1024
_PART_BYTES = 512 * 1024  # of an export; a longer line has a part for itself
_DIGEST_BYTES = 32
_CALENDAR_S = 253_402_300_800  # the year 10,000, which no calendar here has
_ORDERS: dict[store.ListOrder, pb.ListOrder.ValueType] = {
    store.ListOrder.SUBMITTED: pb.LIST_ORDER_UNSPECIFIED,
    store.ListOrder.ENDED: pb.LIST_ORDER_ENDED,
    store.ListOrder.USERS: pb.LIST_ORDER_USERS,
    store.ListOrder.TITLE: pb.LIST_ORDER_TITLE,
}
_STATES = {state: pb.ListedState.Value(f"LISTED_STATE_{state.name}") for state in store.ListedState}

StudyEvent = pb.StudyEvent
StudySummary = pb.StudySummary
HasFacts = pb.StudyEvent | pb.StudySummary | operator_pb2.StudyProgress
HasEpochs = pb.StudyEvent | pb.StudySummary
HasState = (
    HasEpochs
    | pb.StudyResult
    | pb.CancelStudyResponse
    | pb.PauseStudyResponse
    | pb.ResumeStudyResponse
    | pb.ApproveStudyResponse
    | pb.RefuseStudyResponse
    | operator_pb2.StudyProgress
)
"""Messages that say where a study stands."""


def submission(
    signed: SignedStudy, population: store.TaggedPopulation | None = None
) -> pb.SubmitStudyRequest:
    """Return the message that submits a study, with the tags of its devices or without."""
    return pb.SubmitStudyRequest(
        study=signed_message(signed), population=population_message(population)
    )


def check_submission(request: pb.SubmitStudyRequest) -> SignedStudy:
    """Return the study that is submitted, unread."""
    if not request.HasField("study"):
        raise RemoteProtocolError("submission: expected a signed study, found none")
    return signed_study(request.study)


def signed_message(signed: SignedStudy) -> study_pb2.SignedStudy:
    """Return the message of a signed study."""
    return study_pb2.SignedStudy(
        study=signed.study, public_key=signed.public_key, signature=signed.signature
    )


def signed_study(message: study_pb2.SignedStudy) -> SignedStudy:
    """Return the signed study of a message."""
    return SignedStudy(message.study, message.public_key, message.signature)


def population_message(population: store.TaggedPopulation | None) -> pb.TaggedPopulation | None:
    """Return the message of a study's population."""
    if population is None:
        return None
    return pb.TaggedPopulation(tags=population.tags, salt=population.salt)


def population_of(message: pb.SubmitStudyRequest | pb.ExportPart) -> store.TaggedPopulation | None:
    """Return the tags of a study's devices; None: all devices."""
    if not message.HasField("population"):
        return None
    try:
        return store.TaggedPopulation(tuple(message.population.tags), message.population.salt)
    except InvalidParameter as error:
        raise RemoteProtocolError(f"population: {error}") from None


def query_message(query: store.StudyQuery) -> pb.StudyQuery:
    """Return the message of a query; without a limit it asks for the longest part."""
    return pb.StudyQuery(
        limit=query.limit or store.MAX_STUDIES,
        cursor=query.cursor,
        newer=query.newer,
        state=pb.LISTED_STATE_UNSPECIFIED if query.state is None else _STATES[query.state],
        analyst=query.analyst,
        study=query.study,
        words=query.words,
        order=_ORDERS[query.order],
        reversed=query.reversed,
        since_unix_s=query.since_unix_s,
        until_unix_s=query.until_unix_s,
    )


def query_of(
    request: pb.ListStudiesRequest | operator_pb2.AllStudiesRequest,
) -> store.StudyQuery | None:
    """Return the query of a request; None: all studies, the oldest first, for an older caller."""
    if not request.HasField("query"):
        return None
    message, states = request.query, {number: state for state, number in _STATES.items()}
    if message.state and message.state not in states:
        raise RemoteProtocolError(
            f"query: expected a known state, found number {int(message.state)}"
        )
    orders = {number: order for order, number in _ORDERS.items()}
    if message.order not in orders:
        raise RemoteProtocolError(
            f"query: expected a known order, found number {int(message.order)}"
        )
    try:
        return store.StudyQuery(
            states.get(message.state),
            message.analyst.lower(),
            message.study.lower(),
            message.cursor,
            message.newer,
            message.limit,
            message.words,
            orders[message.order],
            message.reversed,
            message.since_unix_s,
            message.until_unix_s,
        )
    except InvalidParameter as error:
        raise RemoteProtocolError(str(error)) from None


def extent_message(extent: store.StudyExtent) -> pb.StudyExtent:
    """Return the message of an extent."""
    return pb.StudyExtent(fitting=extent.fitting, total=extent.total, more=extent.more)


def epochs_message(status: EpochStatus | None) -> pb.EpochStatus | None:
    """Return the message of a repeated study's epochs."""
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


def epochs_of(message: HasEpochs) -> EpochStatus | None:
    """Return the epochs of a repeated study; None: it collects once."""
    if not message.HasField("epochs"):
        return None
    found = message.epochs
    try:
        repeat = Repeat(found.repeat.every_days, found.repeat.epochs, found.repeat.first)
    except InvalidParameter as error:
        raise RemoteProtocolError(f"study: expected its epochs: {error}") from None
    if found.epoch not in repeat.indices or found.ended > repeat.epochs:
        raise RemoteProtocolError(f"study: expected an epoch that it signs, got {found.epoch}")
    return EpochStatus(found.epoch, repeat, found.ended, found.open)


def facts_message(facts: _FactsOfStudy) -> pb.StudyFacts:
    """Return the message of a study's title and times."""
    return pb.StudyFacts(
        title=facts.title,
        submitted_unix_s=facts.submitted_unix_s,
        ended_unix_s=facts.ended_unix_s,
        users=facts.users,
    )


def _check_facts(message: HasFacts) -> None:
    for name in ("submitted", "ended"):
        time_s = getattr(message.facts, f"{name}_unix_s")
        if not 0 <= time_s < _CALENDAR_S:
            raise RemoteProtocolError(f"study: expected the time it was {name}, got {time_s}")


def state_number(state: store.StudyState) -> pb.StudyState.ValueType:
    """Return a state as messages have it."""
    return pb.StudyState.ValueType(state)


def state_of(message: HasState) -> store.StudyState:
    """Return the state of a study."""
    try:
        return store.StudyState(message.state)
    except ValueError:
        raise RemoteProtocolError(
            f"study: expected a known state, found number {message.state}"
        ) from None


def check_digest(found: bytes) -> bytes:
    """Return a study's digest."""
    if len(found) != _DIGEST_BYTES:
        raise RemoteProtocolError(
            f"study: expected a digest of {_DIGEST_BYTES} bytes, found {len(found)}"
        )
    return found


def check_event(event: pb.StudyEvent) -> pb.StudyEvent:
    """Check a status of a study."""
    state_of(event)
    epochs_of(event)
    _check_facts(event)
    return event


def check_studies(answer: pb.ListStudiesResponse) -> pb.ListStudiesResponse:
    """Check a list of studies."""
    for study in answer.studies:
        check_digest(study.study_digest)
        state_of(study)
        epochs_of(study)
        _check_facts(study)
    return answer


def check_progress(answer: operator_pb2.AllStudiesResponse) -> operator_pb2.AllStudiesResponse:
    """Check the progress of studies."""
    for study in answer.studies:
        state_of(study)
        _check_facts(study)
    return answer


def check_export_part(part: pb.ExportPart) -> pb.ExportPart:
    """Check a part of an export."""
    population_of(part)
    counts_of(part)
    deleted = part.reports_deleted_unix_s
    if deleted < 0:
        raise RemoteProtocolError(f"export: expected a time of deletion after 1970, got {deleted}")
    return part


def counts_of(part: pb.ExportPart) -> CountsSignature | None:
    """Return the aggregator's signature in a part of an export; None: there is none."""
    if not part.HasField("counts"):
        return None
    found = CountsSignature(part.counts.public_key, part.counts.signature)
    sizes = (len(found.public_key), len(found.signature))
    if sizes != (PUBLIC_KEY_BYTES, SIGNATURE_BYTES):
        raise RemoteProtocolError(
            f"export: expected a key of {PUBLIC_KEY_BYTES} bytes and a signature of"
            f" {SIGNATURE_BYTES}, got {sizes[0]} and {sizes[1]}"
        )
    return found


def export_parts(
    signed: SignedStudy,
    lines: Iterable[str],
    result_json: str,
    reports_deleted_unix_s: int = 0,
    population: store.TaggedPopulation | None = None,
    sign: Callable[[bytes], CountsSignature] | None = None,
) -> Iterator[pb.ExportPart]:
    """Yield a study's export in parts of about half a megabyte; lines are taken part by part.

    `sign` signs the SHA-256 of the lines; None: they are not signed.
    """
    transcript = hashlib.sha256()
    part = pb.ExportPart(study=signed_message(signed), population=population_message(population))
    size = 0
    for line in lines:
        if size and size + len(line) > _PART_BYTES:
            yield part
            part, size = pb.ExportPart(), 0
        part.lines.append(line)
        transcript.update(line.encode() + b"\n")
        size += len(line)
    if sign is not None:
        signed_counts = sign(transcript.digest())
        part.counts.public_key = signed_counts.public_key
        part.counts.signature = signed_counts.signature
    part.result_json, part.reports_deleted_unix_s = result_json, reports_deleted_unix_s
    yield part


class _FactsOfStudy(Protocol):
    """Title and times of a study, in Unix seconds; what is not known is 0."""

    @property
    def title(self) -> str: ...

    @property
    def submitted_unix_s(self) -> int: ...

    @property
    def ended_unix_s(self) -> int: ...

    @property
    def users(self) -> int: ...


class _Listed(Protocol):
    @property
    def study_digest(self) -> bytes: ...


L_co = TypeVar("L_co", bound=_Listed, covariant=True)


class _StudiesPart(Protocol[L_co]):
    """Answer to a query: a part of a list of studies."""

    @property
    def studies(self) -> Sequence[L_co]: ...

    @property
    def extent(self) -> pb.StudyExtent: ...


def every_study(
    fetch: Callable[[store.StudyQuery], _StudiesPart[L_co]],
    query: store.StudyQuery,
    limit: int | None = None,
) -> list[L_co]:
    """Return the studies that fit a query, from the end of its order, the oldest first.

    They are fetched a part at a time. `limit` is how many at most, the first ones of the order, the
    newest; None: all.
    """
    if limit is not None and limit < 1:
        raise InvalidParameter(f"limit: expected 1 study or more, got {limit}")
    found: list[L_co] = []
    more, total = True, 0
    while more and (limit is None or len(found) < limit):
        most = store.MAX_STUDIES if limit is None else min(limit - len(found), store.MAX_STUDIES)
        cursor = found[-1].study_digest if found else b""
        part = fetch(replace(query, cursor=cursor, newer=False, limit=most))
        total = total if found else part.extent.total
        found += part.studies
        more = part.extent.more and bool(part.studies)
        if more and len(found) > total:
            raise RemoteProtocolError(f"studies: expected {total} in all, got {len(found)} or more")
    return found[:limit][::-1]
