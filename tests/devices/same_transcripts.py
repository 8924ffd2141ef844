"""Studies that an aggregator has kept, asked again of Python devices, and compared byte by byte.

A transcript is a function of the signed study, of the number of users, of their reports by ordinal
and of the study's leaf key. The second aggregator is given the same signed bytes and leaf keys, and
enrolls the same device ids in the same order; so it asks the same ordinals the same requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from queue import Queue
from typing import Any

from grpc import aio

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.devices import AggregatorServer, ServerParts, ServiceFleet, Settings
from askance_aggregator.server.studies import StudyManager
from askance_aggregator.store import SqliteStore, Store
from askance_aggregator.studies.transcript import Asked, Transcript
from askance_client.codec import decode_report, digest_of
from askance_client.device import Device, Examiner, MemberRecord, Policy
from askance_client.errors import InvalidRecord
from askance_client.messages import SignedStudy
from askance_client.queries import EncodedRecord, Schema
from askance_client.randomizers import Coins
from askance_client.service import Identity, channel_options, token_digest
from askance_client.service.observable import connections_for
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.stream_runner import StreamRunner

PATIENCE_S = 300


@dataclass(frozen=True)
class KeptStudy:
    """A study as an aggregator has kept it.

    Args:
      name: for messages.
      leaf_key: the operator's secret, from which the salts of the tallies' leaves follow.
      lines: the transcript.
      payloads: requests, in the order in which they were asked.
      reports: per request the bytes of the report of each ordinal.
    """

    name: str
    signed: SignedStudy
    leaf_key: bytes
    lines: tuple[str, ...]
    payloads: tuple[bytes, ...]
    reports: tuple[Mapping[int, bytes], ...]

    @property
    def transcript(self) -> bytes:
        """Bytes that the transcript's digest is of."""
        return "".join(line + "\n" for line in self.lines).encode()

    @property
    def digest(self) -> str:
        """Digest of the transcript, without its prefix."""
        return hashlib.sha256(self.transcript).hexdigest()


@dataclass(frozen=True)
class Person:
    """A user: the kind of the device that has answered for it, its id, and its record."""

    kind: str
    device_id: bytes
    record: Mapping[str, Any]


@dataclass(frozen=True)
class Reference:
    """Python devices with the ids, records and coins of others, in the order of ordinals."""

    schema: Schema
    people: Sequence[Person]
    coins: Callable[[bytes], Coins]  # by device id
    life_nano_nats: int

    def device(self, ordinal: int, analyst: bytes, *, readable: bool = True) -> Device:
        """Make a device; of one whose record is not readable each answer is the default's."""
        person = self.people[ordinal]
        record: MemberRecord = self.schema.encode(person.record) if readable else Unreadable()
        return Device(
            schema=self.schema,
            record=record,
            policy=Policy(frozenset({analyst}), self.life_nano_nats),
            ledger=MemoryLedger(),
            coins=self.coins(person.device_id),
            now_s=system_now_s,
            examiner=Examiner(),
        )

    def ask(self, studies: Sequence[KeptStudy]) -> list[KeptStudy]:
        """Ask the same studies one after another, by gRPC, of an aggregator of its own."""
        store, ended, keys = SqliteStore.in_memory(), Queue[None](), Queue[bytes]()
        analyst = studies[0].signed.public_key
        identities = [
            Identity(person.device_id, hashlib.sha256(person.device_id).digest())
            for person in self.people
        ]
        store.enrol((one.device_id, token_digest(one.token)) for one in identities)
        managers: list[StudyManager] = []

        def add(_: aio.Server, fleet: ServiceFleet) -> None:
            managers.append(
                StudyManager(
                    store,
                    fleet,
                    analysts=frozenset({analyst}),
                    random_bytes=lambda _: keys.get_nowait(),
                    ended=lambda: ended.put(None),
                )
            )

        found = []
        with ExitStack() as held:
            settings, parts = Settings(stop_grace_s=0.2), ServerParts(services=(add,))
            server = held.enter_context(
                AggregatorServer.start(store, settings=settings, parts=parts)
            )
            (manager,) = managers
            manager.resume()
            held.callback(manager.stop)
            held.callback(server.stop)
            devices = [self.device(ordinal, analyst) for ordinal in range(len(self.people))]
            held.enter_context(_answering(devices, identities, server))
            for study in studies:
                keys.put(study.leaf_key)
                digest = manager.submit(study.signed)
                ended.get(timeout=PATIENCE_S)
                found.append(kept_study(store, study.name, digest))
        return found


class Unreadable:
    """Record that cannot be read, as one that was evaluated too late."""

    def load(self) -> EncodedRecord:
        """Fail."""
        raise InvalidRecord("record: expected a readable one")


def kept_study(store: Store, name: str, digest: bytes) -> KeptStudy:
    """Read a study that has ended."""
    signed, leaf_key = store.study(digest), store.leaf_key(digest)
    if signed is None or leaf_key is None:
        raise ValueError(f"{name}: expected a study and its leaf key, got none")
    transcript = Transcript(store.log(digest))
    rounds = [event for event in transcript.recorded if isinstance(event, Asked)]
    payloads = [group.payload for event in rounds for group in event.groups]
    reports = [dict(store.reports(digest_of(payload))) for payload in payloads]
    lines = tuple(store.log(digest).lines())
    return KeptStudy(name, signed, leaf_key, lines, tuple(payloads), tuple(reports))


@contextmanager
def _answering(
    devices: Sequence[Device], identities: Sequence[Identity], server: AggregatorServer
) -> Iterator[None]:
    """Hold a stream per device open, in the service's loop (gRPC has one queue per process)."""

    async def serve() -> None:
        async with AsyncExitStack() as held:
            channels = [
                await held.enter_async_context(
                    aio.insecure_channel(server.address, channel_options(own_connection=True))
                )
                for _ in range(connections_for(len(devices)))
            ]
            await asyncio.gather(
                *(
                    StreamRunner(device, own, channels[place % len(channels)]).participate()
                    for place, (device, own) in enumerate(zip(devices, identities, strict=True))
                )
            )

    running = asyncio.run_coroutine_threadsafe(serve(), server.loop)
    try:
        yield
    finally:
        running.cancel()
        with suppress(CancelledError):
            running.result(10)


def differences(
    mixed: Sequence[KeptStudy], python: Sequence[KeptStudy], reference: Reference
) -> list[str]:
    """Compare transcripts and reports; return a line per difference, none if all are equal."""
    found = []
    for ours, theirs in zip(mixed, python, strict=True):
        for number, (line, expected) in enumerate(
            zip(ours.lines, theirs.lines, strict=False), start=1
        ):
            if line != expected:
                found.append(
                    f"{ours.name}: line {number} of the transcript: {_keys(line, expected)}"
                )
        if len(ours.lines) != len(theirs.lines):
            found.append(
                f"{ours.name}: {len(ours.lines)} lines of the transcript, {len(theirs.lines)}"
                " with Python devices"
            )
        if ours.payloads == theirs.payloads:
            found += _report_differences(mixed, ours, theirs, reference)
    return found


def _report_differences(
    mixed: Sequence[KeptStudy], ours: KeptStudy, theirs: KeptStudy, reference: Reference
) -> Iterator[str]:
    """Yield a line per request and kind of device with other reports."""
    pairs = zip(ours.payloads, ours.reports, theirs.reports, strict=True)
    for place, (payload, reports, expected) in enumerate(pairs):
        other = sorted(
            one for one in reports.keys() | expected.keys() if reports.get(one) != expected.get(one)
        )
        kinds: dict[str, list[int]] = {}
        for ordinal in other:
            kinds.setdefault(reference.people[ordinal].kind, []).append(ordinal)
        for kind, ordinals in kinds.items():
            late = sum(
                _is_default(mixed, ours, payload, one, reports.get(one), reference)
                for one in ordinals
            )
            yield (
                f"{ours.name}: request {place}: {len(ordinals)} of {len(reports)} reports differ,"
                f" of kind {kind}, ordinals {ordinals[:8]}; {late} have the public default's symbol"
            )


def _is_default(
    mixed: Sequence[KeptStudy],
    study: KeptStudy,
    payload: bytes,
    ordinal: int,
    report: bytes | None,
    reference: Reference,
) -> bool:
    """Return whether a report is of the public default: its evaluation was late."""
    if report is None:
        return False
    device = reference.device(ordinal, study.signed.public_key, readable=False)
    device.introduce(study.signed)
    answer = device.answer(payload)
    return answer is not None and decode_report(answer).outcome == decode_report(report).outcome


def _keys(line: str, expected: str) -> str:
    """Name the keys of a transcript's line whose values differ, with tallies' keys."""
    one, other = json.loads(line), json.loads(expected)
    found = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    if "tallies" in found:
        found.remove("tallies")
        for ours, theirs in zip(one["tallies"], other["tallies"], strict=False):
            found |= {f"tallies.{key}" for key in ours if ours[key] != theirs.get(key)}
    return ", ".join(sorted(found))


def summary(study: KeptStudy, people: Sequence[Person]) -> str:
    """Say in a line what was compared of a study."""
    answered = Counter(people[one].kind for reports in study.reports for one in reports)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(answered.items()))
    size = sum(len(report) for reports in study.reports for report in reports.values())
    return (
        f"{study.name}: {len(study.lines)} lines of {len(study.transcript):,} bytes,"
        f" sha256:{study.digest}; {answered.total()} reports of {size:,} bytes ({kinds})"
    )
