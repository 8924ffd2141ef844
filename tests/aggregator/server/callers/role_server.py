"""Server with a caller of each role, and calls that are made to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.message import Message
from grpc import aio

from askance_aggregator.analyst.calls import Call, call_metadata, sign_call
from askance_aggregator.analyst.messages import REASON_KEY, submission
from askance_aggregator.analyst.submission import sign_submission
from askance_aggregator.learners import Learner, find
from askance_aggregator.server.callers import (
    AuditRecorder,
    Caller,
    CallerLimits,
    Callers,
    Role,
    TokenCallers,
)
from askance_aggregator.server.devices import AggregatorServer, ServerParts, ServiceFleet
from askance_aggregator.server.services.analysts import AnalystsServicer, gate_of
from askance_aggregator.server.services.operators import OperatorsServicer
from askance_aggregator.server.studies import StudyManager, SubmissionLimits
from askance_aggregator.store import SqliteStore
from askance_aggregator.store.register import DeviceSelection
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.messages import SignedStudy
from askance_client.queries import Category, Schema
from askance_client.service import Metadata
from askance_protos.v1 import analyst_pb2, operator_pb2
from askance_protos.v1 import operator_pb2 as pb

NOW_S = 1_800_000_000
NONCE = bytes(range(16))
SCHEMA = Schema("people", 1, habit=Category(("yes", "no")))
OWNER, UNKNOWN = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (90, 91))
KEYS = {
    role: Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n, role in enumerate(Role, 1)
}
SERVICES = {"Analysts": analyst_pb2, "Operators": operator_pb2}
FIGURES = pb.FleetResponse(
    enrolled=2_000,
    connected=7,
    streams=3,
    open_rounds=1,
    reports=40,
    refusals=2,
    started_unix_s=NOW_S - 20,
    now_unix_s=NOW_S,
    check_ins=11,
    store_bytes=5_000_000,
    certificate_ends_unix_s=NOW_S + 20 * 86_400,
    rounds=[pb.RoundFigures(study_prefix=bytes(range(8)), asked=500, answered=40, age_s=12.5)],
    failures=[
        pb.FailureCount(kind="call", reason="not-found", count=3),
        pb.FailureCount(kind="commit", count=1),
    ],
    costs=[
        pb.CostBin(below_nano_nats=10**9, studies=2),
        pb.CostBin(below_nano_nats=2 * 10**9, studies=5),
        pb.CostBin(studies=1),
    ],
    asked_nano_nats=8 * 10**9,
    user_nano_nats=16 * 10**9,
    spent_nano_nats=40 * 10**9,
    webhooks=[
        pb.WebhookFigures(receiver="archive", delivered=1_500),
        pb.WebhookFigures(
            receiver="warehouse",
            pending=2,
            failed=1,
            delivered=1_204,
            oldest_pending_s=1_800,
            last_error="expected status 2xx, got 500",
        ),
    ],
    replicas=[
        pb.ReplicaFigures(
            name="aggregator-1",
            address="10.0.0.11:7443",
            started_s=20,
            counted=True,
            answers=True,
            drives=1,
            connected=2,
            streams=1,
            reports=30,
            check_ins=11,
        ),
        pb.ReplicaFigures(
            name="aggregator-2",
            address="10.0.0.12:7443",
            seen_s=1.5,
            started_s=7_300,
            counted=True,
            connected=5,
            streams=2,
            reports=10,
            refusals=2,
        ),
        pb.ReplicaFigures(
            name="aggregator-3", address="10.0.0.13:7443", seen_s=72, started_s=9_000, connected=4
        ),
    ],
)
SILENCE = pb.SilenceResponse(
    seen=[
        pb.SeenDevices(devices=2_000, today=1_700, week=1_900, month=1_960, never=10),
        pb.SeenDevices(tag="v2.14", devices=30, today=29, week=30, month=30),
        pb.SeenDevices(tag="site=berlin", devices=29, today=1, week=2, month=20, never=4),
    ],
    rounds=[
        pb.RoundAnswers(
            study_prefix=bytes(range(8)), round=1, asked=500, answered=40, silent=60, open=True
        ),
        pb.RoundAnswers(
            study_prefix=bytes(range(8)),
            round=1,
            tag="site=berlin",
            asked=9,
            answered=1,
            silent=6,
            open=True,
        ),
        pb.RoundAnswers(study_prefix=bytes(range(8, 16)), epoch=3, asked=200, answered=190),
    ],
)
SELECTION = DeviceSelection(ids=(b"device 3",))
_SELECTED = pb.DeviceSelection(ids=SELECTION.ids)
MESSAGES: dict[str, Message] = {
    "Analysts/Refuse": analyst_pb2.RefuseStudyRequest(reason="asks too much"),
    "Operators/Audit": pb.AuditRequest(limit=10),
    "Operators/Devices": pb.DevicesRequest(limit=10),
    "Operators/TagDevices": pb.TagDevicesRequest(selection=_SELECTED, add=["eu"]),
    "Operators/CountDevices": pb.ChangeDevicesRequest(selection=_SELECTED),
    "Operators/RevokeDevices": pb.ChangeDevicesRequest(selection=_SELECTED),
    "Operators/RestoreDevices": pb.ChangeDevicesRequest(selection=_SELECTED),
}
CALLS = [
    Call(f"{name}/{method.name}")
    for name, service in SERVICES.items()
    for method in service.DESCRIPTOR.services_by_name[name].methods
]
ABOUT_NO_STUDY = [
    call
    for call in CALLS
    if call.method in ("Analysts/List", "Analysts/Schemas") or call.method.startswith("Operators/")
]


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def learner() -> Learner[Any]:
    return find("frequency").build(SCHEMA, {"column": "habit"})


def signed_study(key: Ed25519PrivateKey) -> SignedStudy:
    return sign_submission(Study(learner(), SCHEMA, epsilon="2"), key, now_s=lambda: NOW_S)


@contextmanager
def served(
    store: SqliteStore | None = None,
    tokens: TokenCallers | None = None,
    limits: CallerLimits | None = None,
    studies: SubmissionLimits | None = None,
    schemas: Sequence[Schema] = (),
) -> Iterator[tuple[str, SignedStudy]]:
    """A server with a caller per role; yields its address and an open study of an analyst's."""
    store, study = store or SqliteStore.in_memory(), signed_study(OWNER)
    if not store.population():
        store.enrol((b"device %d" % n, bytes([n % 256]) * 32) for n in range(2_000))
    store.add_study(digest_of(study.study), study)
    managers: list[StudyManager] = []
    with ThreadPoolExecutor(2) as executor:

        def add(server: aio.Server, fleet: ServiceFleet) -> None:
            trusted = frozenset({public(OWNER), *map(public, KEYS.values())})
            manager = StudyManager(
                store, fleet, analysts=trusted, now_s=lambda: NOW_S, limits=studies
            )
            managers.append(manager)
            named = [Caller(role, role, public(key)) for role, key in KEYS.items()]
            gate = gate_of(
                Callers(lambda: manager.analysts, named, tokens),
                AuditRecorder(store.audit, lambda: NOW_S),
                executor=executor,
                now_s=lambda: NOW_S,
                limits=limits,
            )
            analysts = AnalystsServicer(
                manager, executor=executor, now_s=lambda: NOW_S, gate=gate, schemas=schemas
            )
            operators = OperatorsServicer(
                manager,
                executor=executor,
                figures=lambda: FIGURES,
                silence=lambda: SILENCE,
                gate=gate,
            )
            server.add_generic_rpc_handlers((analysts.handler(), operators.handler()))

        with AggregatorServer.start(store, parts=ServerParts(services=(add,))) as server:
            yield server.address, study
        managers[0].stop()


def request(call: Call, key: Ed25519PrivateKey, study: SignedStudy) -> tuple[bytes, bytes]:
    """Return the subject and the message with which a caller makes a call about a study."""
    if call in (Call("Analysts/Submit"), Call("Analysts/Plan")):
        mine = signed_study(key)
        return digest_of(mine.study), submission(mine).SerializeToString()
    message = MESSAGES.get(call.method)
    data = b"" if message is None else message.SerializeToString(deterministic=True)
    return (public(key) if call in ABOUT_NO_STUDY else digest_of(study.study)), data


def metadata(call: Call, key: Ed25519PrivateKey, subject: bytes, body: bytes) -> Metadata:
    return call_metadata(sign_call(call, subject, key, NOW_S, body=body, nonce=NONCE))


def outcome(address: str, call: Call, data: bytes, with_: Metadata) -> str:
    """Make a call; the reason of its refusal, "" if it was answered.

    A call that has no end, as Watch of an open study, is left after its first answer.

    Args:
      address: of the server.
      call: the call.
      data: its message.
      with_: its metadata.
    """
    with grpc.insecure_channel(address) as channel:
        calling: Any = channel.unary_stream(f"/askance.v1.{call.method}")
        made = calling(data, timeout=20, metadata=with_)
        try:
            next(made)
            for _ in made if call != Call("Analysts/Watch") else ():
                pass
        except grpc.RpcError:
            return str(dict(made.trailing_metadata())[REASON_KEY])
        made.cancel()
        return ""


def changed_figures(connected: int) -> pb.FleetResponse:
    """Return the figures with another number of connected devices."""
    found = pb.FleetResponse()
    found.CopyFrom(FIGURES)
    found.connected = connected
    return found
