"""Devices that leave too early, peers that do not read, and more calls than are taken."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.devices import (
    Admission,
    AggregatorServer,
    Hub,
    Peers,
    ServerParts,
    Settings,
)
from askance_aggregator.server.devices.servicer import DevicesServicer
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.store import SqliteStore, StoredReport
from askance_client.codec import encode_report
from askance_client.messages import AckStatus, Report
from askance_client.service import SERVICE, CheckIn, Metadata, decode_response, encode_check_in
from askance_client.service.exchange import MAX_REPORTS

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]


class GatedStore(SqliteStore):
    """A store that commits, or looks a report up, when it is let to."""

    def __init__(self, *opened: Any) -> None:
        super().__init__(*opened)
        self.begun = threading.Event()
        self.commit = threading.Event()
        self.lookup = threading.Event()

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        self.begun.set()
        assert self.commit.wait(10)
        return super().accept(arrivals)

    def report(self, request_digest: bytes, ordinal: int) -> bytes | None:
        assert self.lookup.wait(10)
        return super().report(request_digest, ordinal)


def greeting(*reports: bytes) -> bytes:
    return encode_check_in(CheckIn(reports=reports))


def test_a_service_that_stops_takes_no_new_call_while_it_commits_what_has_arrived(
    world: World, settings: Settings, run: Run
) -> None:
    store = GatedStore.in_memory()
    world.enrol(store, 2)
    store.lookup.set()
    round_ = world.broadcast(2)
    device = world.device(0)
    device.introduce(round_.study)
    report = device.answer(round_.groups[0].payload)
    known = world.metadata(0)

    async def scenario(server: AggregatorServer) -> None:
        asking = asyncio.ensure_future(
            asyncio.to_thread(server.fleet.ask, round_, world.accounts(2))
        )
        async with aio.insecure_channel(server.address) as channel:
            check_in: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                f"/{SERVICE}/CheckIn"
            )
            while not decode_response(await check_in(greeting(), metadata=known)).requests:
                await asyncio.sleep(0.005)
            delivering = asyncio.ensure_future(check_in(greeting(report), metadata=known))
            await asyncio.to_thread(store.begun.wait, 10)
            stopping = asyncio.ensure_future(asyncio.to_thread(server.stop))
            while not server.hub.stopped:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.1)  # one that arrives with the stop itself ends as CANCELLED
            with pytest.raises(aio.AioRpcError) as refused:
                await check_in(greeting(), metadata=known, timeout=5)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            store.commit.set()
            await asyncio.gather(stopping, delivering, asking, return_exceptions=True)
        assert store.report(round_.groups[0].digest, 0) == report

    with AggregatorServer.start(store, settings=settings) as server:
        run(scenario(server))


@pytest.mark.parametrize("method", ["CheckIn", "Participate"])
def test_who_leaves_before_the_acknowledgement_is_counted_all_the_same(
    world: World, settings: Settings, run: Run, method: str
) -> None:
    store = GatedStore.in_memory()
    store.lookup.set()
    world.enrol(store, 1)
    round_, device = world.broadcast(1), world.device(0)
    device.introduce(round_.study)
    message = greeting(device.answer(round_.groups[0].payload))

    async def leave_early(server: AggregatorServer) -> Any:
        asking = asyncio.ensure_future(
            asyncio.to_thread(server.fleet.ask, round_, world.accounts(1))
        )
        while not server.hub.owed(0, set()):
            await asyncio.sleep(0.005)
        async with aio.insecure_channel(server.address) as channel:
            if method == "CheckIn":
                unary: aio.UnaryUnaryMultiCallable[bytes, bytes]
                unary = channel.unary_unary(f"/{SERVICE}/CheckIn")
                call: Any = unary(message, metadata=world.metadata(0))
            else:
                stream: aio.StreamStreamMultiCallable[bytes, bytes]
                stream = channel.stream_stream(f"/{SERVICE}/Participate")
                call = stream(metadata=world.metadata(0))
                await call.write(message)
            assert await asyncio.to_thread(store.begun.wait, 10)
            call.cancel()
        await asyncio.sleep(0.05)  # the service hears of it
        assert not asking.done()
        store.commit.set()
        return await asking

    with AggregatorServer.start(store, settings=settings) as server:
        assert run(leave_early(server)) == world.straight(round_, world.devices(1))


def test_a_lie_about_a_round_of_an_earlier_service_is_late_and_the_truth_is_known(
    world: World, store: SqliteStore, settings: Settings, participating: Any, run: Run
) -> None:
    """A restarted service has no memory of closed rounds but its store."""
    world.enrol(store, 1)
    round_, device = world.broadcast(1), world.device(0)

    async def ask(server: AggregatorServer) -> None:
        async with participating(world, server.address, [device]):
            await asyncio.to_thread(server.fleet.ask, round_, world.accounts(1))

    async def deliver(server: AggregatorServer, report: bytes) -> str:
        async with aio.insecure_channel(server.address) as channel:
            call: aio.UnaryUnaryMultiCallable[bytes, bytes]
            call = channel.unary_unary(f"/{SERVICE}/CheckIn")
            ((_, status),) = decode_response(
                await call(greeting(report), metadata=world.metadata(0))
            ).acks
            return status.name

    with AggregatorServer.start(store, settings=settings) as server:
        run(ask(server))
    truth = device.answer(round_.groups[0].payload)
    lie = encode_report(Report(round_.groups[0].digest, b"\x07", 0, 0))
    with AggregatorServer.start(store, settings=settings) as server:
        assert run(deliver(server, truth)) == "DUPLICATE"
        assert run(deliver(server, lie)) == "LATE"


class BlockedPeer:
    """A stream's context whose peer sends on and on and reads nothing until it is let to."""

    def __init__(self, metadata: Metadata, *messages: bytes) -> None:
        self.metadata = metadata
        self.messages = list(messages)
        self.written: list[bytes] = []
        self.reading = asyncio.Event()
        self.ending = asyncio.Event()
        self.reads = 0

    @property
    def acks(self) -> list[int]:
        """Number of acknowledgements in each message that it was sent."""
        return [len(decode_response(message).acks) for message in self.written]

    def peer(self) -> str:
        return "ipv4:127.0.0.1:4711"

    def invocation_metadata(self) -> Metadata:
        return self.metadata

    async def read(self) -> object:
        self.reads += 1
        if self.messages:
            return self.messages.pop(0)
        await self.ending.wait()
        return aio.EOF

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        pass

    async def write(self, message: bytes) -> None:
        await self.reading.wait()
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> Any:
        raise AssertionError(details)


def test_a_peer_that_does_not_read_is_not_read_either(world: World, run: Run) -> None:
    """Messages that wait for the peer stay bounded, and so do the acknowledgements of one response.

    One more message is read while the first acknowledgements are under way.
    """
    store = SqliteStore.in_memory()
    world.enrol(store, 1)
    unknown = [encode_report(Report(bytes([n]) * 32, b"\x00", 0, 0)) for n in range(MAX_REPORTS)]
    later = encode_check_in(CheckIn(reports=tuple(unknown)))

    async def scenario() -> None:
        peer: Any = BlockedPeer(world.metadata(0), greeting(*unknown), *[later] * 5)
        with ThreadPoolExecutor(1) as executor:
            hub = Hub(store, executor)
            admission = Admission(
                store,
                executor,
                Peers(Settings().unproven),
                Standings(store, executor, system_now_s),
            )
            servicer = DevicesServicer(hub, admission, Settings(), lambda n: 0)
            asking = asyncio.ensure_future(hub.open(world.broadcast(1), world.accounts(1)))
            await asyncio.sleep(0)
            serving = asyncio.ensure_future(servicer.participate(peer))
            await asyncio.sleep(0.1)
            assert peer.reads <= 2
            peer.reading.set()
            async with asyncio.timeout(10):
                while sum(peer.acks) < 6 * MAX_REPORTS:
                    await asyncio.sleep(0.005)
            peer.ending.set()
            await serving
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        assert sum(peer.acks) == 6 * MAX_REPORTS
        assert max(peer.acks) == MAX_REPORTS
        assert hub.connected == 0

    run(scenario())


def test_one_check_in_too_many_is_told_to_come_back(world: World, run: Run) -> None:
    store = GatedStore.in_memory()
    world.enrol(store, 1)

    async def scenario(server: AggregatorServer) -> None:
        async with aio.insecure_channel(server.address) as channel:
            unary: aio.UnaryUnaryMultiCallable[bytes, bytes]
            unary = channel.unary_unary(f"/{SERVICE}/CheckIn")
            mine = world.metadata(0)
            unknown = encode_report(Report(bytes(32), b"\x00", 0, 0))
            first = [
                unary(greeting(unknown), metadata=mine) for _ in range(2)
            ]  # one at work and one in waiting
            await asyncio.sleep(0.1)
            with pytest.raises(aio.AioRpcError, match="fewer check-ins") as caught:
                await unary(greeting(unknown), metadata=mine)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            store.lookup.set()
            await asyncio.gather(*first)
            await unary(greeting(unknown), metadata=mine)

    with AggregatorServer.start(store, settings=Settings(max_check_ins=1)) as server:
        run(scenario(server))


@pytest.mark.parametrize(("draw", "wait_ms"), [(0, 500), (1_000, 1_500)])
def test_devices_are_told_when_to_come_back_give_or_take_a_half(
    world: World, store: SqliteStore, run: Run, draw: int, wait_ms: int
) -> None:
    world.enrol(store, 1)
    settings = Settings(check_in_every_ms=1_000, stop_grace_s=0.1)
    bounds: list[int] = []

    def jitter(bound: int) -> int:
        bounds.append(bound)
        return draw

    async def scenario(server: AggregatorServer) -> int:
        async with aio.insecure_channel(server.address) as channel:
            wait: int = await world.runner(0, world.device(0), channel).check_in_once()
            return wait

    with AggregatorServer.start(
        store, settings=settings, parts=ServerParts(jitter=jitter)
    ) as server:
        assert run(scenario(server)) == wait_ms
    assert bounds == [1_000]
