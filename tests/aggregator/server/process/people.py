"""Devices of users with values that are easily found again, and an analyst who asks them."""

from __future__ import annotations

import asyncio
import hashlib
import queue
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import grpc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio

from askance_aggregator.analyst.calls import Call, call_metadata, sign_call
from askance_aggregator.analyst.messages import SERVICE as ANALYSTS
from askance_aggregator.analyst.messages import submission
from askance_aggregator.analyst.submission import sign_submission
from askance_aggregator.clock import system_now_s
from askance_aggregator.learners import find
from askance_aggregator.studies.study import Study
from askance_client.accounting import parse_epsilon
from askance_client.codec import digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import Ledger
from askance_client.queries import Category, Schema
from askance_client.randomizers import Coins, SystemCoins
from askance_client.service import (
    SERVICE,
    CertificateFile,
    CheckIn,
    Identity,
    OpenSide,
    device_metadata,
    encode_check_in,
    open_channel,
    token_digest,
)
from askance_client.service.authority import DeviceCertificate
from askance_client.service.credentials import enrolment_metadata
from askance_client.service.exchange import Enrol, decode_enrolled, encode_enrol
from askance_client.service.open_side import CallFailed
from askance_protos.v1 import analyst_pb2
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.stream_runner import StreamRunner

LABELS = ("zzyzx-yes", "zzyzx-no")
SCHEMA = Schema("people", 1, habit=Category(LABELS))
_PATIENCE_S = 60
UnaryCall: TypeAlias = "grpc.UnaryUnaryMultiCallable[bytes, bytes]"


def submit(channel: grpc.Channel, key: Any, *more: tuple[str, str]) -> bytes:
    """Submit a study of all users' habits and return its digest."""
    assert isinstance(key, Ed25519PrivateKey)
    learner = find("frequency").build(SCHEMA, {"column": "habit"})
    signed = sign_submission(Study(learner, SCHEMA, epsilon="2"), key)
    call: UnaryCall = channel.unary_unary(f"/{ANALYSTS}/Submit")
    submit, digest = Call("Analysts/Submit"), digest_of(signed.study)
    mine = call_metadata(sign_call(submit, digest, key, system_now_s()))
    request = submission(signed).SerializeToString()
    answer = call(request, timeout=_PATIENCE_S, metadata=(*mine, *more))
    taken: bytes = analyst_pb2.SubmitStudyResponse.FromString(answer).study_digest
    return taken


async def certificate_of(identity: Identity, address: str, authority: bytes) -> DeviceCertificate:
    """A certificate that a device has just got by its token."""
    with tempfile.TemporaryDirectory() as folder:
        open_side = OpenSide(address, lambda: authority)
        file = CertificateFile(Path(folder) / "certificate.json", system_now_s, open_side)
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                await file.obtain(device_metadata(identity))
                break
            except CallFailed as failure:  # a device tries again: a replica may just have died
                if failure.status != "UNAVAILABLE" or time.monotonic() > until:
                    raise
                await asyncio.sleep(0.1)
        held = file.read()
    assert held is not None
    return held


class People:
    """Devices that answer one analyst.

    Args:
      analyst: public key of the analyst.
      count: number of devices.
      coins: of a device, by its number and ledger; None: the system's.
    """

    def __init__(
        self,
        analyst: bytes,
        count: int,
        coins: Callable[[int, Ledger], Coins] | None = None,
    ) -> None:
        policy, examiner = Policy(frozenset({analyst}), parse_epsilon("2")), Examiner()
        self._identities = [
            Identity(b"zzyzx device %d" % n, hashlib.sha256(b"%d" % n).digest())
            for n in range(count)
        ]
        self._ledgers = [MemoryLedger() for _ in range(count)]
        self._devices = [
            Device(
                schema=SCHEMA,
                record=SCHEMA.encode({"habit": LABELS[n % 2]}),
                policy=policy,
                ledger=ledger,
                coins=SystemCoins() if coins is None else coins(n, ledger),
                now_s=system_now_s,
                examiner=examiner,
            )
            for n, ledger in enumerate(self._ledgers)
        ]

    @property
    def devices(self) -> list[Device]:
        """The devices by number, without a network."""
        return self._devices

    def enrolled(self) -> list[tuple[bytes, bytes]]:
        """Enrolments as a store keeps them."""
        return [(one.device_id, token_digest(one.token)) for one in self._identities]

    def secrets(self) -> Iterator[str]:
        """Yield the secrets that only the aggregator may read, in every spelling."""
        for one in self._identities:
            yield one.device_id.decode()
            yield one.device_id.hex()
            yield one.token.hex()
            yield repr(one.token)[2:-1]

    @property
    def requests(self) -> set[bytes]:
        """The digests of what they have answered."""
        return {entry.request_digest for ledger in self._ledgers for entry in ledger.history()}

    def enrol(self, channel: grpc.Channel, token: str) -> tuple[int, int]:
        """Enrol them and return the numbers of new and of known ones."""
        call: UnaryCall = channel.unary_unary(f"/{SERVICE}/Enrol")
        message = encode_enrol(Enrol(tuple(self.enrolled())))
        metadata = enrolment_metadata(token.encode())
        return decode_enrolled(call(message, timeout=_PATIENCE_S, metadata=metadata))

    @contextmanager
    def channel(self, address: str, authority: bytes) -> Iterator[grpc.Channel]:
        """The first one's channel, which shows its certificate."""
        held = asyncio.run(certificate_of(self._identities[0], address, authority))
        own = grpc.ssl_channel_credentials(authority, held.key.encode(), held.chain.encode())
        with grpc.secure_channel(held.address, own) as channel:
            yield channel

    def stream(self, channel: grpc.Channel) -> Iterator[bytes]:
        """The first one's stream, held open; it has said who it is and says nothing more."""
        first = self._identities[0]
        call: Any = channel.stream_stream(f"/{SERVICE}/Participate")
        silence: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        silence.put(encode_check_in(CheckIn(known_studies=(bytes(32),))))
        answers: Iterator[bytes] = call(iter(silence.get, b""), metadata=device_metadata(first))
        return answers

    def answer(self, address: str, authority: bytes, which: slice = slice(None)) -> None:
        """Check in until every device has answered a question and got its acknowledgement.

        Args:
          address: of the aggregator.
          authority: of its certificate.
          which: of the devices, by number.
        """
        asyncio.run(self._answer(address, authority, which))

    async def _answer(self, address: str, authority: bytes, which: slice) -> None:
        """Answer, each device by a certificate of its own."""
        numbers = range(len(self._devices))[which]
        async with asyncio.timeout(_PATIENCE_S), AsyncExitStack() as opened:
            channels = []
            for number in numbers:
                held = await certificate_of(self._identities[number], address, authority)
                own = partial(_itself, held)
                channel = open_channel(address, lambda: authority, longest_wait_ms=1000, own=own)
                channels.append(await opened.enter_async_context(channel))
            await asyncio.gather(*map(self._until_answered, numbers, channels))

    async def _until_answered(self, number: int, channel: aio.Channel) -> None:
        runner = StreamRunner(self._devices[number], self._identities[number], channel)
        ledger = self._ledgers[number]
        while not list(ledger.history()) or runner.unacknowledged:
            try:
                await runner.check_in_once()
            except aio.AioRpcError as error:
                # A replica whose lease has just passed asks devices to deliver again later.
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            await asyncio.sleep(0.05)


def _itself(held: DeviceCertificate) -> DeviceCertificate:
    return held
