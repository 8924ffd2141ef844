"""Calls of an operator's tool: figures of the fleet, progress of studies, the audit log."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from askance_aggregator.analyst import Aggregator, CallRefused, connect
from askance_aggregator.analyst.messages import check_progress, state_of
from askance_aggregator.operators import OperatorClient
from askance_aggregator.server.callers import Role
from askance_aggregator.store import (
    AuditEvent,
    ListedState,
    SqliteStore,
    StudyQuery,
    StudyState,
    verify_entries,
)
from askance_aggregator.store.register import Affected, DeviceSelection, DeviceState
from askance_client.codec import digest_of
from askance_client.errors import InvalidParameter, RemoteProtocolError
from askance_protos.v1 import analyst_pb2
from askance_protos.v1 import operator_pb2 as pb
from tests.aggregator.server.callers.role_server import (
    FIGURES,
    KEYS,
    NOW_S,
    OWNER,
    SELECTION,
    public,
    served,
    signed_study,
)

EVENT = AuditEvent(NOW_S, "ann", "admin", "Analysts/Cancel", "study 7", "::1", "done")


def test_an_operator_sees_the_fleet_and_all_studies_without_results() -> None:
    with (
        served() as (address, study),
        connect(address, key=KEYS[Role.OPERATOR], now_s=lambda: NOW_S) as aggregator,
    ):
        operator = OperatorClient(aggregator)
        assert operator.fleet() == FIGURES
        (found,) = operator.studies()
        assert (found.study_digest, found.public_key) == (digest_of(study.study), public(OWNER))
        assert (found.learner, state_of(found), found.answered) == ("frequency", StudyState.OPEN, 0)
        aggregator.study(found.study_digest.hex()).cancel()
        (found,) = operator.studies()
        assert (state_of(found), found.reason) == (StudyState.CANCELLED, "cancelled")
    names = {field.name for field in pb.StudyProgress.DESCRIPTOR.fields}
    assert not names & {"result_json", "estimates", "transcript", "message"}


def test_studies_are_listed_a_part_at_a_time_by_scope() -> None:
    store, signed = (
        SqliteStore.in_memory(),
        [signed_study(key) for key in [OWNER, KEYS[Role.ANALYST]] * 3],
    )
    digests = [digest_of(one.study) for one in signed]
    for digest, one in zip(digests, signed, strict=True):
        store.add_study(digest, one)
    store.management.pause(digests[1])
    with served(store) as (address, last), ExitStack() as held:

        def connected(role: Role) -> Aggregator:
            return held.enter_context(connect(address, key=KEYS[role], now_s=lambda: NOW_S))

        newest = [digest_of(last.study), *digests[::-1]]  # the one that is served is the last
        operator = OperatorClient(connected(Role.OPERATOR))
        for page in (operator.studies_page, connected(Role.VIEWER).studies_page):
            first = page(StudyQuery(limit=5))
            rest = page(StudyQuery(limit=5, cursor=first.studies[-1].study_digest))
            assert [one.study_digest for one in (*first.studies, *rest.studies)] == newest
            assert (first.extent, rest.extent.more) == (
                analyst_pb2.StudyExtent(fitting=7, total=7, more=True),
                False,
            )
            assert first.studies[0].public_key == public(OWNER)
            with pytest.raises(CallRefused, match="cursor: expected") as caught:
                page(StudyQuery(limit=1, cursor=bytes(32)))
            assert caught.value.reason == "malformed"
        assert [one.study_digest for one in operator.studies(limit=3)] == newest[:3][::-1]
        analyst = connected(Role.ANALYST)
        assert [one.study_digest for one in analyst.studies()] == digests[1::2]
        found = analyst.studies_page(StudyQuery(ListedState.OPEN, limit=1))
        assert ([one.study_digest for one in found.studies], found.extent) == (
            [digests[5]],
            analyst_pb2.StudyExtent(fitting=2, total=3, more=True),
        )
        assert [one.study_digest for one in analyst.studies(ListedState.PAUSED)] == [digests[1]]
        assert analyst.study(digests[3].hex()[:12]).id == digests[3].hex()
        with pytest.raises(InvalidParameter, match="expected one that begins with"):
            analyst.study(digests[2].hex()[:12])  # another analyst's
        with pytest.raises(CallRefused, match="cursor: expected"):
            analyst.studies_page(StudyQuery(limit=1, cursor=digests[2]))


def test_every_role_learns_its_own_name_and_role() -> None:
    with served() as (address, _):
        for role, key in KEYS.items():
            with connect(address, key=key, now_s=lambda: NOW_S) as aggregator:
                assert OperatorClient(aggregator).caller() == pb.CallerResponse(
                    name=role, role=role, public_key=public(key)
                )


def test_the_audit_log_is_read_by_pages_and_verified() -> None:
    store = SqliteStore.in_memory()
    for _ in range(5):
        store.audit.append(EVENT)
    with (
        served(store) as (address, _),
        connect(address, key=KEYS[Role.OPERATOR], now_s=lambda: NOW_S) as aggregator,
    ):
        operator = OperatorClient(aggregator)
        first, second = operator.audit(limit=3), operator.audit(after=3)
        assert (first[1], len(first[0]), len(second[0])) == (5, 3, 2)
        assert verify_entries((*first[0], *second[0])).number == 5
        for after, limit in ((0, 0), (0, 1_001), (1 << 63, 1)):
            with pytest.raises(CallRefused, match="expected") as caught:
                operator.audit(after, limit)
            assert caught.value.reason == "malformed"


def test_devices_are_listed_tagged_revoked_and_restored_and_each_change_is_recorded() -> None:
    store = SqliteStore.in_memory()
    with (
        served(store) as (address, _),
        connect(address, key=KEYS[Role.OPERATOR], now_s=lambda: NOW_S) as aggregator,
    ):
        operator = OperatorClient(aggregator)
        listed = operator.devices(after=4, limit=2)
        assert [(one.device_id, one.ordinal) for one in listed] == [
            (b"device 5", 5),
            (b"device 6", 6),
        ]
        assert operator.device(b"device 5") == listed[0]
        with pytest.raises(CallRefused) as caught:
            operator.device(b"unknown")
        assert caught.value.reason == "unknown-device"
        assert operator.tag(SELECTION, add=["site=berlin"]) == Affected(1)
        by_tag = DeviceSelection(tags=("site=berlin",))
        assert operator.revoke(by_tag) == Affected(1)
        (found,) = operator.devices(["site=berlin"])
        assert (found.device_id, found.state) == (b"device 3", DeviceState.REVOKED)
        assert operator.restore(by_tag) == Affected(1)
        with pytest.raises(CallRefused) as caught:
            operator.revoke(DeviceSelection(ids=(b"unknown",)))
        assert caught.value.reason == "unknown-device"
        with pytest.raises(CallRefused) as caught:
            operator.devices(limit=0)
        assert caught.value.reason == "malformed"
    recorded = [entry.event for entry in store.audit.entries()]
    by_id, tagged = "1 by id", "devices with tag site=berlin"
    assert [(one.action, one.subject, one.outcome, one.changed, one.began) for one in recorded] == [
        ("device list", "", "refused: unknown-device", None, 0),
        ("device tag", by_id, "begun", None, 0),
        ("device tag", by_id, "done", 1, 2),
        ("device revoke", tagged, "begun", None, 0),
        ("device revoke", tagged, "done", 1, 4),
        ("device restore", tagged, "begun", None, 0),
        ("device restore", tagged, "done", 1, 6),
        ("device revoke", by_id, "begun", None, 0),
        ("device revoke", by_id, "refused: unknown-device", None, 8),
        ("device list", "", "refused: malformed", None, 0),
    ]


def test_a_study_of_an_unknown_state_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="a known state"):
        check_progress(pb.AllStudiesResponse(studies=[pb.StudyProgress()]))
