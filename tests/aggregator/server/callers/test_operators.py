"""Calls of an operator's tool: figures of the fleet, progress of studies, the audit log."""

from __future__ import annotations

import pytest

from askance_aggregator.analyst import CallRefused, connect
from askance_aggregator.operators import CallerIdentity, FleetFigures, OperatorClient, wire
from askance_aggregator.server.callers import Role
from askance_aggregator.store import AuditEvent, MemoryStore, StudyState, verify_entries
from askance_aggregator.store.register import Affected, DeviceSelection, DeviceState
from askance_client.codec import digest_of
from askance_client.errors import RemoteProtocolError
from askance_protos.v1 import operator_pb2 as pb
from tests.aggregator.server.callers.role_server import (
    FIGURES,
    KEYS,
    NOW_S,
    OWNER,
    SELECTION,
    public,
    served,
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
        assert (found.digest, found.public_key) == (digest_of(study.study), public(OWNER))
        assert (found.learner, found.state, found.answered) == ("frequency", StudyState.OPEN, 0)
        aggregator.study(found.digest.hex()).cancel()
        (found,) = operator.studies()
        assert (found.state, found.reason) == (StudyState.CANCELLED, "cancelled")
    names = {field.name for field in pb.StudyProgress.DESCRIPTOR.fields}
    assert not names & {"result_json", "estimates", "transcript", "message"}


def test_every_role_learns_its_own_name_and_role() -> None:
    with served() as (address, _):
        for role, key in KEYS.items():
            with connect(address, key=key, now_s=lambda: NOW_S) as aggregator:
                assert OperatorClient(aggregator).caller() == CallerIdentity(role, role)


def test_the_audit_log_is_read_by_pages_and_verified() -> None:
    store = MemoryStore()
    for _ in range(5):
        store.audit.append(EVENT)
    with (
        served(store) as (address, _),
        connect(address, key=KEYS[Role.OPERATOR], now_s=lambda: NOW_S) as aggregator,
    ):
        operator = OperatorClient(aggregator)
        first, second = operator.audit(limit=3), operator.audit(after=3)
        assert (first.last, len(first.entries), len(second.entries)) == (5, 3, 2)
        assert verify_entries((*first.entries, *second.entries)).number == 5
        for after, limit in ((0, 0), (0, 1_001), (1 << 63, 1)):
            with pytest.raises(CallRefused, match="expected") as caught:
                operator.audit(after, limit)
            assert caught.value.reason == "malformed"


def test_devices_are_listed_tagged_revoked_and_restored_and_each_change_is_recorded() -> None:
    store = MemoryStore()
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
    by_id, tagged = "devices: 1 by id", "devices with tags site=berlin"
    assert [(one.action, one.subject, one.outcome) for one in recorded] == [
        ("Operators/Devices", "", "refused: unknown-device"),
        ("Operators/TagDevices", by_id, "begun"),
        ("Operators/TagDevices", by_id, "done"),
        ("Operators/RevokeDevices", tagged, "begun"),
        ("Operators/RevokeDevices", tagged, "done"),
        ("Operators/RestoreDevices", tagged, "begun"),
        ("Operators/RestoreDevices", tagged, "done"),
        ("Operators/RevokeDevices", by_id, "begun"),
        ("Operators/RevokeDevices", by_id, "refused: unknown-device"),
        ("Operators/Devices", "", "refused: malformed"),
    ]


def test_rates_are_of_one_process() -> None:
    later = FleetFigures(2_000, 7, 3, 1, 100, 2, NOW_S - 20, NOW_S + 10)
    assert later.reports_per_s(FIGURES) == 6.0
    restarted = FleetFigures(2_000, 7, 3, 1, 10, 2, NOW_S + 5, NOW_S + 10)
    assert restarted.reports_per_s(FIGURES) == 2.0
    assert FIGURES.reports_per_s(FIGURES) == 2.0


def test_a_study_of_an_unknown_state_is_refused() -> None:
    data = pb.AllStudiesResponse(studies=[pb.StudyProgress()]).SerializeToString()
    with pytest.raises(RemoteProtocolError, match="a known state"):
        wire.decode_studies(data)
