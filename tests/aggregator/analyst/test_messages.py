"""Messages between an analyst and an aggregator: values, parts, and arbitrary messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.analyst.calls import CALL_KEY, METHODS, Call, read_call
from askance_aggregator.analyst.messages import (
    check_digest,
    check_event,
    check_export_part,
    check_progress,
    check_studies,
    check_submission,
    epochs_message,
    epochs_of,
    export_parts,
    population_of,
    query_message,
    query_of,
    signed_study,
    state_of,
    submission,
)
from askance_aggregator.server.services.operators import check_audit
from askance_aggregator.store import MAX_STUDIES, ListedState, StudyQuery, StudyState
from askance_aggregator.studies.series import EpochStatus
from askance_client.codec import parse
from askance_client.errors import InvalidParameter, RemoteProtocolError
from askance_client.messages import Repeat, SignedStudy
from askance_protos.v1 import analyst_pb2 as pb
from askance_protos.v1 import operator_pb2

SIGNED = SignedStudy(b"study", bytes(32), bytes(64))
CHECKS: list[tuple[type[Message], Callable[[Any], Any]]] = [
    (pb.SubmitStudyRequest, check_submission),
    (pb.SubmitStudyRequest, population_of),
    (pb.SubmitStudyResponse, lambda message: check_digest(message.study_digest)),
    (pb.ListStudiesRequest, query_of),
    (pb.ListStudiesResponse, check_studies),
    (pb.StudyEvent, check_event),
    (pb.StudyResult, state_of),
    (pb.CancelStudyResponse, state_of),
    (pb.ExportPart, check_export_part),
    (operator_pb2.AllStudiesResponse, check_progress),
    (operator_pb2.AuditRequest, check_audit),
]


def test_values_survive_the_wire() -> None:
    queries = [StudyQuery(state, limit=1) for state in ListedState]
    queries.append(StudyQuery(None, "a0", "b1", bytes(32), newer=True, limit=MAX_STUDIES))
    for query in queries:
        assert query_of(pb.ListStudiesRequest(query=query_message(query))) == query
    assert query_of(pb.ListStudiesRequest()) is None
    assert check_submission(submission(SIGNED)) == SIGNED
    epochs = EpochStatus(21, Repeat(7, 12, 20), 1, open=True)
    assert epochs_of(pb.StudyEvent(epochs=epochs_message(epochs))) == epochs
    assert epochs_of(pb.StudyEvent()) is None
    for number, state in enumerate(("OPEN", "DONE", "FAILED", "CANCELLED"), 1):
        assert state_of(pb.StudyResult(state=pb.StudyState.ValueType(number))) is StudyState[state]


@pytest.mark.parametrize(
    "message",
    [
        pb.StudyEvent(),
        pb.StudyEvent(state=pb.STUDY_STATE_OPEN, epochs=pb.EpochStatus(epoch=3)),
        pb.ListStudiesResponse(studies=[pb.StudySummary(state=pb.STUDY_STATE_OPEN)]),
        pb.ListStudiesResponse(studies=[pb.StudySummary(study_digest=bytes(32))]),
        pb.ExportPart(reports_deleted_unix_s=-1),
        pb.ExportPart(population=pb.TaggedPopulation(tags=["b", "a"], salt=bytes(32))),
        pb.ListStudiesRequest(query=pb.StudyQuery(limit=501)),
        pb.ListStudiesRequest(query=pb.StudyQuery(limit=1, analyst="zz")),
        pb.SubmitStudyRequest(),
        operator_pb2.AuditRequest(limit=1_001),
        operator_pb2.AuditRequest(limit=1, after=1 << 63),
    ],
    ids=range(11),
)
def test_a_message_that_no_other_end_sends_is_refused(message: Message) -> None:
    checks = [check for kind, check in CHECKS if type(message) is kind]

    def check_all() -> None:
        for check in checks:
            check(message)

    with pytest.raises(RemoteProtocolError):
        check_all()


@pytest.mark.parametrize("sizes", [[], [10], [300_000] * 5, [2_000_000, 1], [1, 2_000_000]])
def test_an_export_travels_in_parts(sizes: list[int]) -> None:
    lines = [str(place) * size for place, size in enumerate(sizes)]
    parts = list(export_parts(SIGNED, lines, "{}"))
    assert [line for part in parts for line in part.lines] == lines
    assert signed_study(parts[0].study) == SIGNED
    assert not any(part.HasField("study") for part in parts[1:])
    assert [part.result_json for part in parts] == [""] * (len(parts) - 1) + ["{}"]
    assert all(part.ByteSize() < 600_000 or len(part.lines) == 1 for part in parts)


@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for kind, check in CHECKS:
        with suppress(RemoteProtocolError):  # and nothing else
            check(parse(kind, data))
    with suppress(RemoteProtocolError):
        read_call(((CALL_KEY, data),))


def test_a_call_is_one_of_the_services() -> None:
    assert {"Analysts/Submit", "Operators/Caller"} < set(METHODS)
    with pytest.raises(InvalidParameter, match="did you mean Analysts/Submit"):
        Call("Analysts/Submitt")
