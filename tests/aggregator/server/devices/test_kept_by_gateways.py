"""Memory of a gateway over many studies: what it keeps is bounded, and not per member."""

from __future__ import annotations

import asyncio
import gc
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.exchange import decode_batch, encode_gateway_response
from askance_aggregator.server.devices.credentials import accepted_metadata
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.ledger import LedgerFile
from askance_client.messages import AckStatus
from askance_client.owner import ConsentRule, Consents
from askance_client.service import SERVICE, Gateway, Member, channel_options
from askance_client.service.gateway_exchange import GatewayResponse

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]


class Silent:
    """A watcher of nothing."""

    def answered(self, refusal: object) -> None:
        """Count nothing."""

    def refused(self, refusal: object) -> None:
        """Keep nothing."""

    def failed(self, failure: str) -> None:
        """Keep nothing."""

    def connection(self, number: int, *, up: bool) -> None:
        """Count nothing."""


def entries() -> int:
    """Number of references that all containers of this process hold."""
    gc.collect()
    kinds = (dict, set, frozenset, list, tuple, deque, OrderedDict)
    return sum(len(one) for one in gc.get_objects() if isinstance(one, kinds))


class Asking:
    """An aggregator that asks all members a question of one study after another."""

    def __init__(self, world: World, members: int, counted_at: tuple[int, ...]) -> None:
        self._world, self._members, self._counted_at = world, members, counted_at
        self.counts: list[int] = []
        self.done = asyncio.Event()

    async def relay(self, _: object, context: Any) -> None:
        await context.send_initial_metadata(accepted_metadata())
        await context.read()  # the joins
        for number in range(max(self._counted_at) + 1):
            if number in self._counted_at:
                self.counts.append(await entries_at_rest())
            await self._ask(context, number)
        self.done.set()
        await asyncio.Event().wait()

    async def _ask(self, context: Any, number: int) -> None:
        everyone = tuple(range(self._members))
        study = self._world.signed_study(number.to_bytes(16, "big"))
        group = self._world.group(everyone, self._members, study=study)
        asking = GatewayResponse(studies=(study,), requests=((group.payload, everyone),))
        await context.write(encode_gateway_response(asking))
        reports, settled = 0, 0
        while reports < self._members or not settled:
            batch = decode_batch(await context.read())
            reports += sum(len(one.reports) for one in batch.reports)
            settled += batch.settled
        acks = ((digest_of(group.payload), AckStatus.ACCEPTED, everyone),)
        await context.write(encode_gateway_response(GatewayResponse(acks=acks)))


async def entries_at_rest() -> int:
    """Return what is kept once what is under way has ended, on a busy machine too."""
    found = entries()
    while True:
        await asyncio.sleep(0.05)
        again = entries()
        if again >= found:
            return found
        found = again


def kept(world: World, folder: Path, members: int, counted_at: tuple[int, ...]) -> list[int]:
    """Run a gateway over studies and count what is kept after given numbers of them."""
    folder.mkdir()
    ledgers = LedgerFile.create(folder / "ledger.sqlite")
    consents = Consents.open(folder / "consents.sqlite", ConsentRule.PINNED)
    key = world.key.public_key().public_bytes_raw()
    coins = world.device(0)._coins

    async def scenario() -> list[int]:
        asking = Asking(world, members, counted_at)
        server = aio.server()
        relay: Any = grpc.stream_stream_rpc_method_handler(asking.relay)
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {"Relay": relay}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        gateway = Gateway(
            [
                Member(
                    str(ordinal),
                    world.identity(ordinal),
                    world.schema.encode({"smoker": ordinal % 2, "colour": "red"}),
                    ledgers.ledger(str(ordinal)),
                )
                for ordinal in range(members)
            ],
            schema=world.schema,
            policy=Policy(frozenset({key}), 10**15, consent=consents),
            coins_for=lambda _: coins,
            now_s=lambda: int(world.now_s),
            channel=lambda: aio.insecure_channel(
                address, options=channel_options(own_connection=True)
            ),
            connections=1,
            watcher=Silent(),
            identity=world.gateway(),
            jitter=lambda bound: min(bound, 3),
        )
        running = asyncio.ensure_future(gateway.run())
        try:
            await asyncio.wait_for(asking.done.wait(), 120)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await server.stop(0)
        return asking.counts

    try:
        return asyncio.run(scenario())
    finally:
        consents.close()
        ledgers.close()


def test_a_study_costs_a_gateway_no_memory_per_member(world: World, tmp_path: Path) -> None:
    """Before, each member kept a list of its own of the studies that it had met."""
    few = kept(world, tmp_path / "few", 2, (70, 130))
    many = kept(world, tmp_path / "many", 32, (70, 130))
    grown = [(after - before) / 60 for before, after in (few, many)]
    assert grown[1] - grown[0] < 5  # a reference for each of 30 members would be 30 or more


def test_what_a_gateway_keeps_of_studies_is_bounded(world: World, tmp_path: Path) -> None:
    before, after = kept(world, tmp_path / "one", 2, (560, 680))
    assert after - before < 120  # less than one reference per study


@pytest.fixture(autouse=True)
def _no_collector() -> Any:
    """Let `entries` alone collect."""
    gc.disable()
    yield
    gc.enable()
