"""A deployment attacked: each of these was found by an attack, and is pinned here."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.analyst.connections import open_channel as open_analyst_channel
from askance_aggregator.server.devices import Hub
from askance_aggregator.server.devices.connections import Connection
from askance_aggregator.store import SqliteStore
from askance_client.errors import StoreError
from askance_client.service import decode_response, open_channel
from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
USERS = 3


class TestRounds:
    """No user is charged for an answer that will not be counted."""

    @pytest.fixture
    def hub(self) -> Iterator[Callable[[], Hub]]:
        store, self.now_s = SqliteStore.in_memory(), 1_700_000_000
        self.world = World()
        self.world.enrol(store, USERS)
        study = self.world.signed_study(round_deadline_s=60)
        self.round = self.world.round(USERS, study=study)
        with ThreadPoolExecutor(1) as executor:
            yield lambda: Hub(store, executor, clock=self)

    boot = "the only boot"

    def now_ms(self) -> int:
        return 1000 * self.now_s

    def connection(self, sent: list[bytes]) -> Connection:
        async def write(message: bytes) -> None:
            sent.append(message)

        async def abort(*_: Any) -> None:
            raise AssertionError("nobody is hung up on")

        return Connection(0, set(), write, abort)

    async def opened(self, hub: Hub) -> Any:
        asking = asyncio.ensure_future(hub.open(self.round, self.world.accounts(USERS)))
        while hub.progress(self.round.study_digest) == (0, 0):
            await asyncio.sleep(0.001)
        return asking

    def test_a_deadline_that_passed_while_nobody_served_asks_nobody(
        self, hub: Callable[[], Hub]
    ) -> None:
        async def scenario() -> None:
            first = hub()
            asking = await self.opened(first)
            await first.stop()
            await asyncio.gather(asking, return_exceptions=True)
            self.now_s += 60
            second, sent = hub(), list[bytes]()
            second.connect(self.connection(sent), 0)
            tallies = await second.open(self.round, self.world.accounts(USERS))
            await asyncio.sleep(0.01)
            assert (sum(tally.answered for tally in tallies), sent) == (0, [])

        asyncio.run(scenario())

    def test_a_round_that_is_closing_asks_nobody_more(self, hub: Callable[[], Hub]) -> None:
        async def scenario() -> None:
            serving = hub()
            asking = await self.opened(serving)
            assert serving.owed(0, set())
            serving.close_round(self.round.study_digest)
            assert serving.owed(0, set()) == []
            await asking

        asyncio.run(scenario())

    def test_who_did_not_read_while_a_round_was_open_is_not_asked_afterwards(
        self, hub: Callable[[], Hub]
    ) -> None:
        async def scenario() -> None:
            running, sent, reads = hub(), list[bytes](), asyncio.Event()

            async def write(message: bytes) -> None:
                await reads.wait()
                sent.append(message)

            connection = self.connection([])
            connection._write = write
            connection.known_studies.add(self.round.study_digest)
            asking = await self.opened(running)
            connection.push(b"under way")
            await asyncio.sleep(0)
            running.connect(connection, 0)  # and what it owes waits behind
            running.close_round(self.round.study_digest)
            await asking
            connection.push(b"the next")
            reads.set()
            await connection.flushed()
            assert sent == [b"under way", b"the next"]

        asyncio.run(scenario())

    def test_who_connects_while_a_round_is_read_from_the_store_is_asked_once(
        self, hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scenario() -> None:
            running, sent = hub(), list[bytes]()
            resume = running._stored.enter_all

            async def slow(opened: Any) -> None:
                running.connect(self.connection(sent), 0)
                await asyncio.sleep(0)
                await resume(opened)

            monkeypatch.setattr(running._stored, "enter_all", slow)
            asking = await self.opened(running)
            await asyncio.sleep(0.01)
            assert [len(decode_response(message).requests) for message in sent] == [1]
            running.close_round(self.round.study_digest)
            await asking

        asyncio.run(scenario())

    def test_a_report_that_comes_while_the_service_stops_is_not_called_late(
        self, hub: Callable[[], Hub]
    ) -> None:
        """The round goes on with the next process: the report is to be delivered then."""
        device = self.world.device(0)
        device.introduce(self.round.study)
        report = device.answer(self.round.groups[0].payload)

        async def scenario() -> None:
            serving = hub()
            asking = await self.opened(serving)
            await serving.stop()
            with pytest.raises(StoreError, match="a stopped one"):
                await serving.deliver(0, [report])
            await asyncio.gather(asking, return_exceptions=True)

        asyncio.run(scenario())


class TestProxies:
    """Requests for this machine alone do not leave it by a proxy from the environment."""

    @pytest.fixture
    def proxy(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            for name in ("http_proxy", "grpc_proxy"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{listening.getsockname()[1]}")
            yield listening

    def heard(self, proxy: socket.socket) -> bool:
        try:
            proxy.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def test_a_device_s_plain_text(self, proxy: socket.socket) -> None:
        async def scenario() -> None:
            async with open_channel("127.0.0.1:1", None, longest_wait_ms=100) as channel:
                call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/no/Such")
                with pytest.raises(aio.AioRpcError):
                    await call(b"a token", timeout=5)

        asyncio.run(scenario())
        assert not self.heard(proxy)

    def test_an_analyst_s_plain_text(self, proxy: socket.socket) -> None:
        with open_analyst_channel("127.0.0.1:1", None, plaintext=False) as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/no/Such")
            with pytest.raises(grpc.RpcError):
                call(b"a call", timeout=5)
        assert not self.heard(proxy)
