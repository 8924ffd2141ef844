"""Aggregator with a closed and an open round, and everything that it shows to anyone.

Two services whose users said the same, but for one thing, show whether that thing can be seen.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc import aio
from prometheus_client import CollectorRegistry, generate_latest

from askance_aggregator.analyst.calls import Call, call_metadata, sign_call
from askance_aggregator.analyst.messages import submission
from askance_aggregator.analyst.signed_counts import CountsSigner
from askance_aggregator.analyst.submission import sign_submission
from askance_aggregator.server.callers import AuditRecorder, Caller, Callers, Role
from askance_aggregator.server.devices import AggregatorServer, ServerParts, ServiceFleet
from askance_aggregator.server.process.figures import FleetReader
from askance_aggregator.server.process.metrics import PrometheusObserver
from askance_aggregator.server.process.silence import SilenceReader
from askance_aggregator.server.services.analysts import AnalystsServicer, gate_of
from askance_aggregator.server.services.operators import OperatorsServicer
from askance_aggregator.server.studies import StudyManager
from askance_aggregator.server.webhooks.messages import body_of
from askance_aggregator.store import SqliteStore, StudyState
from askance_aggregator.store.register import DeviceSelection
from askance_aggregator.store.webhooks import Receiving
from askance_aggregator.studies import MemoryLog, Transcript
from askance_aggregator.studies.cohorts import permutation_of
from askance_aggregator.studies.recorded_rounds import recorded_round
from askance_aggregator.studies.rounds import Group
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.transcript import Asked, Header
from askance_client.codec import digest_of, encode_report
from askance_client.messages import Report, SignedStudy
from askance_client.service import (
    SERVICE,
    CheckIn,
    Identity,
    device_metadata,
    encode_check_in,
    token_digest,
)
from askance_protos.v1 import analyst_pb2, operator_pb2
from tests.aggregator.server.callers.role_server import (
    KEYS,
    NOW_S,
    SCHEMA,
    learner,
    metadata,
    outcome,
    public,
)

USERS, ANSWERED = 24, 10
_WAIT_S = 20.0
_PAUSE_S = 0.01
Symbols = Mapping[int, int]
"""Symbols by users, each 0 or 1, in the order in which the users send them."""


@dataclass(frozen=True)
class Said:
    """Answers of users.

    Args:
      closed: to the study whose round closes, of all users.
      open: to the study whose round is open.
      late: a user who sends another answer to the closed round afterwards.
    """

    closed: Symbols
    open: Symbols
    late: int | None = None


BASE = Said({user: int(user % 3 == 0) for user in range(USERS)},
            {user: int(user % 2 == 0) for user in range(ANSWERED)})  # fmt: skip
CHANGES: dict[str, Said] = {
    # Users exchange answers: every tally stays as it is.
    "reports": replace(BASE, closed={user: int(user % 3 == 1) for user in range(USERS)}),
    # The users who answered the open round have said something else.
    "partial tallies": replace(BASE, open=dict.fromkeys(range(ANSWERED), 1)),
    # Other users have answered it, as many.
    "who": replace(BASE, open={user + ANSWERED: symbol for user, symbol in BASE.open.items()}),
    "number": replace(BASE, open={**BASE.open, ANSWERED: 0}),
    "order": replace(
        BASE,
        closed={user: BASE.closed[user] for user in reversed(range(USERS))},
        open={user: BASE.open[user] for user in reversed(range(ANSWERED))},
    ),
    "late answers": replace(BASE, late=3),
    "tallies": replace(BASE, closed={user: int(user % 2 == 0) for user in range(USERS)}),
}
"""Answers that differ from BASE in one thing, by its name."""

# A root follows from a key that is in no output (docs/adr/0103); a digest hashes roots.
_ROOT = re.compile(r'(\\*"root\\*":\\*"|sha256:)[0-9a-f]{64}')
_AGE = re.compile(r"age_s: [\d.e-]+")
_TIMES = re.compile(r"_(seconds|created|start_time|bytes)")


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        known = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime", "taskName"}
        extra = {name: value for name, value in record.__dict__.items() if name not in known}
        self.lines.append(f"{record.levelname} {record.getMessage()} {sorted(extra.items())}")


Shown = dict[tuple[str, str], str | None]
"""Output and reader: the text that is shown; None: the reader is refused."""


def shown_of(said: Said) -> Shown:
    """Serve devices that answer so, and return all that each reader is shown."""
    logged = _Records()
    logger = logging.getLogger("askance_aggregator")
    level = logger.level
    logger.addHandler(logged)
    logger.setLevel(logging.INFO)
    try:
        with answered(said) as (address, store, registry):
            shown: Shown = {}
            for name, role, studies in _CALLS:
                for caller in Role:
                    texts = [_called(address, name, caller, study) for study in
                             ((CLOSED, OPEN) if studies else (CLOSED,))]  # fmt: skip
                    refused = all(text is None for text in texts)
                    shown[role, caller] = None if refused else _plain(" ".join(map(str, texts)))
            shown["metrics", "reader"] = _metrics(registry)
            shown["webhook", "reader"] = _plain(_webhook(store))
            shown["store", "reader"] = _stored(store, CLOSED, OPEN)
    finally:
        logger.removeHandler(logged)
        logger.setLevel(level)
    shown["logs", "reader"] = _plain("\n".join(logged.lines))
    return shown


_ANSWERS: dict[str, Any] = {
    "Analysts/List": analyst_pb2.ListStudiesResponse,
    "Analysts/Watch": analyst_pb2.StudyEvent,
    "Analysts/Result": analyst_pb2.StudyResult,
    "Analysts/Export": analyst_pb2.ExportPart,
    "Operators/Studies": operator_pb2.AllStudiesResponse,
    "Operators/Fleet": operator_pb2.FleetResponse,
    "Operators/Silence": operator_pb2.SilenceResponse,
    "Operators/Devices": operator_pb2.DevicesResponse,
    "Operators/Audit": operator_pb2.AuditResponse,
}
_ASKED: dict[str, Message] = {
    "Analysts/List": analyst_pb2.ListStudiesRequest(with_reasons=True, with_facts=True),
    "Analysts/Watch": analyst_pb2.StudyRequest(with_facts=True, with_population=True),
    "Operators/Studies": operator_pb2.AllStudiesRequest(with_facts=True),
    "Operators/Audit": operator_pb2.AuditRequest(limit=100),
    "Operators/Devices": operator_pb2.DevicesRequest(limit=100),
}
_CALLS = (
    ("Analysts/List", "study list", False),
    ("Analysts/Watch", "study watch", True),
    ("Analysts/Result", "study result", True),
    ("Analysts/Export", "study result --out", True),
    ("Operators/Studies", "progress of studies", False),
    ("Operators/Fleet", "status", False),
    ("Operators/Silence", "device silence", False),
    ("Operators/Devices", "device list", False),
    ("Operators/Audit", "audit show", False),
)


@contextmanager
def answered(said: Said) -> Iterator[tuple[str, SqliteStore, CollectorRegistry]]:
    """Serve devices that have answered so; yield the address, the store and the metrics."""
    with _serving() as (address, store, registry):
        for study in (CLOSED, OPEN):
            _submit(address, study)
        devices = _Devices(address, store)
        devices.answer(CLOSED, said.closed)
        _until(lambda: _state(store, CLOSED) is StudyState.DONE)
        devices.answer(OPEN, said.open)
        if said.late is not None:
            devices.answer(CLOSED, {said.late: 1 - said.closed[said.late]})
        yield address, store, registry


def _identity(user: int) -> Identity:
    return Identity(b"device %d" % user, bytes([user]) * 32)


def _study(number: int) -> SignedStudy:
    return sign_submission(
        Study(learner(), SCHEMA, epsilon="2"),
        KEYS[Role.ANALYST],
        now_s=lambda: NOW_S,
        nonce=lambda size: bytes([number]) * size,
    )


CLOSED, OPEN = _study(0), _study(1)


@contextmanager
def _serving() -> Iterator[tuple[str, SqliteStore, CollectorRegistry]]:
    store, registry = SqliteStore.in_memory(), CollectorRegistry()
    store.enrol((one.device_id, token_digest(one.token)) for one in map(_identity, range(USERS)))
    store.register.tag(DeviceSelection(ids=(b"device 0",)), add=["site=north"])
    store.webhooks.announce_to([Receiving("archive")])
    observer = PrometheusObserver(registry)
    managers: list[StudyManager] = []
    with ThreadPoolExecutor(4) as executor:

        def add(server: aio.Server, fleet: ServiceFleet) -> None:
            keys = frozenset({public(KEYS[Role.ANALYST])})
            manager = StudyManager(
                store, fleet, analysts=keys, now_s=_now_s, observer=observer, random_bytes=bytes
            )
            managers.append(manager)
            gate = gate_of(
                Callers(
                    lambda: manager.analysts,
                    [Caller(role, role, public(key)) for role, key in KEYS.items()],
                ),
                AuditRecorder(store.audit, _now_s),
                executor=executor,
                now_s=_now_s,
            )
            analysts = AnalystsServicer(
                manager,
                executor=executor,
                now_s=_now_s,
                gate=gate,
                counts_signer=CountsSigner(bytes(32)),
            )
            figures = FleetReader(registry, store, None, _now_s).read
            silence = SilenceReader(store, fleet.asked_users, _now_s).read
            operators = OperatorsServicer(
                manager, executor=executor, figures=figures, silence=silence, gate=gate
            )
            server.add_generic_rpc_handlers((analysts.handler(), operators.handler()))

        parts = ServerParts(services=(add,), observer=observer)
        with AggregatorServer.start(store, parts=parts) as server:
            observer.rounds(server.hub.rounds)
            yield server.address, store, registry
        managers[0].stop()


def _now_s() -> int:
    return NOW_S


def _submit(address: str, study: SignedStudy) -> None:
    call, data = Call("Analysts/Submit"), submission(study).SerializeToString()
    key = KEYS[Role.ANALYST]
    digest = digest_of(study.study)
    signed = sign_call(call, digest, key, NOW_S, body=data, nonce=digest[:16])
    assert outcome(address, call, data, call_metadata(signed)) == ""


class _Devices:
    """Devices that answer a study's round as they are told, each by a check-in of its own."""

    def __init__(self, address: str, store: SqliteStore) -> None:
        self._address = address
        self._store = store

    def answer(self, study: SignedStudy, symbols: Symbols) -> None:
        """Send answers, one after the other, in the order of the symbols."""
        _until(lambda: len(list(self._store.log(digest_of(study.study)).lines())) >= 2)
        group = self._group(study)
        with grpc.insecure_channel(self._address) as channel:
            check_in: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            for user, symbol in symbols.items():
                assert user in group.cohort.members
                cost = group.nano_nats
                report = encode_report(Report(group.digest, bytes([symbol]), cost, cost, 1))
                message, said = encode_check_in(CheckIn(reports=(report,))), _identity(user)
                check_in(message, metadata=device_metadata(said), timeout=_WAIT_S)

    def _group(self, study: SignedStudy) -> Group:
        log = MemoryLog()
        for line in self._store.log(digest_of(study.study)).lines():
            log.append(line)
        header, asked, *_ = Transcript(log).recorded
        assert isinstance(header, Header)
        assert isinstance(asked, Asked)
        order = permutation_of(header.cohort_seed, header.population, None)
        (group,) = recorded_round(study, header, asked, order, None).groups
        return group


def _state(store: SqliteStore, study: SignedStudy) -> StudyState:
    found = store.listing.entry(digest_of(study.study))
    assert found is not None
    return found.state


def _called(address: str, name: str, caller: Role, study: SignedStudy) -> str | None:
    """Make a call and return what it answers as text; None: it is refused."""
    call, key = Call(name), KEYS[caller]
    about_study = name in ("Analysts/Watch", "Analysts/Result", "Analysts/Export")
    subject = digest_of(study.study) if about_study else public(key)
    message = _ASKED.get(name)
    body = b"" if message is None else message.SerializeToString(deterministic=True)
    texts: list[str] = []
    with grpc.insecure_channel(address) as channel:
        calling: Any = channel.unary_stream(f"/askance.v1.{name}")
        made = calling(body, timeout=_WAIT_S, metadata=metadata(call, key, subject, body))
        try:
            for data in made:
                found = _ANSWERS[name].FromString(data)
                if name == "Analysts/Export":
                    found.ClearField("counts")  # a signature over roots
                texts.append(str(found))
                if name == "Analysts/Watch":
                    break
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND):
                return None
            raise
        made.cancel()
    return "".join(texts)


def _metrics(registry: CollectorRegistry) -> str:
    lines = generate_latest(registry).decode().splitlines()
    return "\n".join(line for line in lines if not _TIMES.search(line.partition(" ")[0]))


def _webhook(store: SqliteStore) -> str:
    claim = store.webhooks.claim("archive", 60)
    assert claim is not None
    return re.sub(r'"timestamp": "[^"]*"', "", body_of(claim).decode())


def _stored(store: SqliteStore, *studies: SignedStudy) -> str:
    devices = _Devices("", store)
    groups = [devices._group(study) for study in studies]
    return str([list(store.reports(group.digest)) for group in groups])


def _plain(text: str) -> str:
    """Leave out roots, digests of transcripts and the age of a round."""
    return _AGE.sub("", _ROOT.sub(r"\1", text))


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + _WAIT_S
    while not true():
        assert time.monotonic() < end
        time.sleep(_PAUSE_S)
