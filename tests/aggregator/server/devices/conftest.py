"""A small world for the service's tests: a study, devices with seeded coins, and a round."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import k_ary_response, randomized_response
from askance_aggregator.queries import category, predicate
from askance_aggregator.server.devices import AggregatorServer, Settings
from askance_aggregator.store import SqliteStore, Store
from askance_aggregator.studies import Accounts, Group, Intake, Round, Tally
from askance_client.accounting import parse_epsilon
from askance_client.codec import digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import Ledger
from askance_client.messages import Conduct, Request, SignedStudy, StudyTerms
from askance_client.queries import (
    Bit,
    Category,
    Query,
    Schema,
)
from askance_client.randomizers import Randomizer
from askance_client.service import (
    Identity,
    Metadata,
    channel_options,
    device_metadata,
    token_digest,
)
from askance_client.service.observable import connections_for
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.stream_runner import StreamRunner
from tests.conftest import add_report, cohort_of

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SCHEMA = Schema("person", 1, smoker=Bit(), colour=Category(("red", "green", "blue")))
BUDGET = parse_epsilon("2")
NOW_S = 1_700_000_000
T = TypeVar("T")


class HashCoins:
    """Coins that are a function of the device and the request, so that runs can be compared."""

    def __init__(self, ordinal: int) -> None:
        self._ordinal = ordinal

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        seed = request + self._ordinal.to_bytes(8, "big")
        return tuple(
            int.from_bytes(hashlib.sha256(seed + bytes([word])).digest()[:8], "big")
            for word in range(count)
        )


class World:
    """Everything but the service itself."""

    key = KEY
    schema = SCHEMA

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.examiner = Examiner()
        self.study = self.signed_study()

    def signed_study(self, nonce: bytes = bytes(16), **conduct: Any) -> SignedStudy:
        expires, why = NOW_S + 86_400, "to be tested"
        terms = StudyTerms(
            nonce,
            "test",
            1,
            (),
            SCHEMA,
            BUDGET,
            expires,
            why,
            Conduct(**conduct),
            fields=tuple(sorted(SCHEMA.fields)),
        )
        return sign_study(terms, KEY)

    def device(
        self, ordinal: int, ledger: Ledger | None = None, life: int = BUDGET, **policy: Any
    ) -> Device:
        colour = ("red", "green", "blue")[ordinal % 3]
        return Device(
            schema=SCHEMA,
            record=SCHEMA.encode({"smoker": ordinal % 2, "colour": colour}),
            policy=Policy(frozenset({KEY.public_key().public_bytes_raw()}), life, **policy),
            ledger=ledger or MemoryLedger(),
            coins=HashCoins(ordinal),
            now_s=lambda: self.now_s,
            examiner=self.examiner,
        )

    def devices(self, count: int) -> list[Device]:
        return [self.device(ordinal) for ordinal in range(count)]

    @staticmethod
    def identity(ordinal: int) -> Identity:
        return Identity(b"device %d" % ordinal, hashlib.sha256(b"token %d" % ordinal).digest())

    def metadata(self, ordinal: int) -> Metadata:
        """Return the credentials of a device's calls."""
        return device_metadata(self.identity(ordinal))

    @staticmethod
    def gateway(number: int = 0) -> Identity:
        """Return the identity of a gateway; the gateway number 0 has all members."""
        return Identity(b"gateway %d" % number, hashlib.sha256(b"gateway %d" % number).digest())

    def enrol(self, store: Store, count: int) -> None:
        """Enrol devices as members of gateway 0."""
        self.enrol_members(store, range(count), 0)

    def enrol_members(self, store: Store, ordinals: Sequence[int], gateway: int) -> None:
        """Enrol devices as members of a gateway."""
        of = self.gateway(gateway)
        store.enrol_with(
            [(i.device_id, token_digest(i.token)) for i in map(self.identity, ordinals)],
            bytes(16),
            1 << 20,
            (of.device_id, token_digest(of.token)),
        )

    def group(
        self,
        members: Sequence[int],
        population: int,
        *,
        number: int = 0,
        place: int = 0,
        query: Query | None = None,
        randomizer: Randomizer | None = None,
        study: SignedStudy | None = None,
    ) -> Group:
        query = query or predicate(SCHEMA.smoker == 1)
        randomizer = randomizer or randomized_response(parse_epsilon("1"))
        digest = digest_of((study or self.study).study)
        payload = encode_request(Request(digest, number, place, query, randomizer))
        return Group(
            payload,
            digest_of(payload),
            query,
            randomizer,
            randomizer.loss.nano_nats,
            cohort_of(members, population),
            bytes(32),
        )

    def round(self, count: int, *, number: int = 0, study: SignedStudy | None = None) -> Round:
        """Two thirds of the users are asked for a bit, the last third for a colour."""
        study = study or self.study
        cut = 2 * count // 3
        groups = (
            self.group(range(cut), count, number=number, study=study),
            self.group(
                range(cut, count),
                count,
                number=number,
                place=1,
                query=category(SCHEMA.colour),
                randomizer=k_ary_response(3, parse_epsilon("1")),
                study=study,
            ),
        )
        return Round(number, study, digest_of(study.study), groups)

    def broadcast(self, count: int, *, number: int = 0) -> Round:
        """Return a round that asks all devices the same."""
        group = self.group(range(count), count, number=number)
        return Round(number, self.study, digest_of(self.study.study), (group,))

    @staticmethod
    def accounts(count: int) -> Accounts:
        return Accounts(count, BUDGET)

    def straight(self, round_: Round, devices: Sequence[Device]) -> tuple[Tally, ...]:
        """Return the round's tallies without any service in between."""
        intake = Intake(round_, self.accounts(len(devices)))
        for group in round_.groups:
            for ordinal in group.cohort.members.tolist():
                devices[ordinal].introduce(round_.study)
                add_report(intake, ordinal, devices[ordinal].answer(group.payload))
        return intake.tallies()

    def runner(
        self, ordinal: int, device: Device, channel: aio.Channel, **options: Any
    ) -> StreamRunner:
        """A device's runtime that waits hardly at all after failures."""
        options.setdefault("jitter", lambda bound: min(bound, 10))
        return StreamRunner(device, self.identity(ordinal), channel, **options)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def store() -> SqliteStore:
    return SqliteStore.in_memory()


@pytest.fixture
def settings() -> Settings:
    return Settings(check_in_every_ms=20, stop_grace_s=0.2)


@pytest.fixture
def server(store: SqliteStore, settings: Settings) -> Any:
    """A service on a store in memory."""
    with AggregatorServer.start(store, settings=settings) as running:
        yield running


@asynccontextmanager
async def _participating(
    world: World, address: str, devices: Sequence[Device], **options: Any
) -> AsyncIterator[list[StreamRunner]]:
    async with AsyncExitStack() as held:
        channels = [
            await held.enter_async_context(
                aio.insecure_channel(address, options=channel_options(own_connection=True))
            )
            for _ in range(connections_for(len(devices)))
        ]
        runners = [
            world.runner(ordinal, device, channels[ordinal % len(channels)], **options)
            for ordinal, device in enumerate(devices)
        ]
        tasks = [asyncio.ensure_future(runner.participate()) for runner in runners]
        try:
            yield runners
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def participating() -> Any:
    """A context in which devices hold their streams open."""
    return _participating


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, T]], T]:
    """Run a coroutine that must come to an end."""

    def bounded(coroutine: Coroutine[Any, Any, T]) -> T:
        async def within() -> T:
            async with asyncio.timeout(30):
                return await coroutine

        return asyncio.run(within())

    return bounded
