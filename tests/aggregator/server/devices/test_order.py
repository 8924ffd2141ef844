"""The order in which an aggregator observes members carries nothing of the order of their rows.

Kendall's tau between a fixed ranking and a uniformly random one of n = 1,000 has standard deviation
sqrt(2 (2n + 5) / (9 n (n - 1))) = .0211, so that |tau| < .1 fails by chance with probability 2.2e-6
(two-sided, 4.73 standard deviations). The secret is fixed, so that the outcome is, too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import grpc
import numpy as np
import pytest

from askance_aggregator.exchange import (
    decode_batch,
    decode_enrol,
    encode_enrolled,
    encode_response,
)
from askance_aggregator.server.devices.credentials import (
    accepted_metadata,
    read_credentials,
)
from askance_client.device import Policy
from askance_client.service import (
    Enrolment,
    Gateway,
    Member,
    Metadata,
    OpenSide,
    Response,
    Secret,
)
from askance_simulation.fleets.memory_ledger import MemoryLedger

PEOPLE = 1024
CONNECTIONS = 32  # of 256 members at one time, 8 on each
SECRET = Secret(bytes(range(32)))
# The names of users in order of their salary: any name without a secret would carry the rank.
NAMES = tuple(f"person {rank:04d}" for rank in range(PEOPLE))
IDS = {SECRET.member(name).device_id: rank for rank, name in enumerate(NAMES)}


class Recorder:
    """An aggregator that keeps what it observes: (connection, device id) in order of arrival."""

    def __init__(self) -> None:
        self.connections = 0
        self.calls: list[tuple[int, bytes]] = []
        self.enrolments: list[list[bytes]] = []

    def channel(self) -> Any:
        self.connections += 1
        return _Channel(self, self.connections - 1)

    async def call(self, method: str, data: bytes, metadata: Metadata) -> bytes:
        """Be called at the open side."""
        assert method == "Enrol"
        devices = [device_id for device_id, _ in decode_enrol(data).devices]
        self.enrolments.append(devices)
        return encode_enrolled(len(devices), 0)

    def arrived(self, connection: int, metadata: Metadata) -> None:
        self.calls.append((connection, read_credentials(metadata).device_id))

    @property
    def ranks(self) -> list[int]:
        return [IDS[device_id] for _, device_id in self.calls]


class _Channel:
    """A channel of `grpc.aio` without a network, so that the order of calls is deterministic."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self._recorder = recorder
        self._number = number

    def unary_unary(self, path: str) -> Any:
        async def call(data: bytes, metadata: Metadata = (), **_: Any) -> bytes:
            self._recorder.arrived(self._number, metadata)
            return encode_response(Response())

        return call

    def stream_stream(self, _: str) -> Any:
        return lambda **_: _Stream(self._recorder, self._number)

    def get_state(self) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.SHUTDOWN

    async def close(self) -> None:
        pass


class _Stream:
    """A gateway's stream that stays open and silent; calls are its members' joins."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self._recorder = recorder
        self._number = number

    async def initial_metadata(self) -> Metadata:
        return accepted_metadata()

    async def write(self, data: bytes) -> None:
        joins = decode_batch(data).joins
        self._recorder.calls.extend((self._number, join.device_id) for join in joins)

    async def read(self) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError("expected no end")

    def cancel(self) -> None:
        pass


class Silent:
    """A watcher that keeps nothing."""

    def answered(self, _: Any) -> None:
        pass

    def refused(self, _: Any) -> None:
        pass

    def failed(self, failure: str) -> None:
        raise AssertionError(failure)

    def connection(self, number: int, *, up: bool) -> None:
        pass


def gateway(world: Any, names: Sequence[str], recorder: Recorder) -> Gateway:
    return Gateway(
        [
            Member(name, SECRET.member(name), world.schema.encode({}), MemoryLedger())
            for name in names
        ],
        schema=world.schema,
        policy=Policy(frozenset({world.key.public_key().public_bytes_raw()}), 10**9),
        coins_for=lambda _: world.device(0)._coins,
        now_s=lambda: int(world.now_s),
        channel=recorder.channel,
        connections=CONNECTIONS,
        watcher=Silent(),
        identity=SECRET.gateway(),
    )


async def dialled(world: Any, names: Sequence[str]) -> Recorder:
    recorder = Recorder()
    task = asyncio.ensure_future(gateway(world, names, recorder).run())
    while len(recorder.calls) < len(names):
        assert not task.done(), task.exception()
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return recorder


async def checked_in(world: Any, names: Sequence[str]) -> Recorder:
    recorder = Recorder()
    outcome = await gateway(world, names, recorder).check_in_once()
    assert not outcome.failures
    return recorder


async def enrolled(_: Any, names: Sequence[str]) -> Recorder:
    recorder, members = Recorder(), [SECRET.member(name) for name in names]
    with TemporaryDirectory() as folder:
        enrolment = Enrolment(Path(folder) / "enrolled", cast("OpenSide", recorder), members)
        await enrolment.enrol(b"token")
    recorder.calls = [(0, device_id) for batch in recorder.enrolments for device_id in batch]
    return recorder


WAYS = (enrolled, dialled, checked_in)


def kendall(ranks: Sequence[int]) -> float:
    """Kendall's tau between a ranking and the order in which it is given."""
    array = np.asarray(ranks)
    later = np.triu(np.sign(array[np.newaxis, :] - array[:, np.newaxis]), 1)
    return float(later.sum()) / (len(array) * (len(array) - 1) / 2)


def test_the_measure_sees_a_sorted_file() -> None:
    assert kendall(range(PEOPLE)) == 1
    assert kendall(range(PEOPLE)[::-1]) == -1


@pytest.mark.parametrize("observed", WAYS)
def test_no_order_that_an_aggregator_observes_carries_the_order_of_rows(
    world: Any, run: Any, observed: Any
) -> None:
    recorder = run(observed(world, NAMES))
    assert sorted(recorder.ranks) == list(range(PEOPLE))
    assert abs(kendall(recorder.ranks)) < 0.1


def test_a_gateways_stream_has_one_connection(world: Any, run: Any) -> None:
    recorder = run(dialled(world, NAMES))
    assert recorder.connections == 1


def test_no_connection_of_a_check_in_carries_the_order_of_rows(world: Any, run: Any) -> None:
    """Connections were dealt out in turn: the rows r and r + 32 shared one, always.

    Independent of the rows, the share of such pairs is 1/32 with standard deviation .0054: a share
    outside .03125 +- .03 has probability 1e-7.
    """
    recorder = run(checked_in(world, NAMES))
    assert recorder.connections == CONNECTIONS
    connection = {IDS[device_id]: number for number, device_id in recorder.calls}
    for distance in range(1, 2 * CONNECTIONS + 1):
        pairs = PEOPLE - distance
        together = sum(connection[r] == connection[r + distance] for r in range(pairs))
        assert abs(together / pairs - 1 / CONNECTIONS) < 0.03
    for number in range(CONNECTIONS):
        ranks = [rank for rank, theirs in connection.items() if theirs == number]
        assert len(ranks) == PEOPLE // CONNECTIONS  # as many on each


@pytest.mark.parametrize("observed", WAYS)
def test_permuting_the_rows_changes_nothing_that_an_aggregator_observes(
    world: Any, run: Any, observed: Any
) -> None:
    """The same users in another order of rows: the same calls, in the same order."""
    shuffled = random.Random(1).sample(NAMES, PEOPLE)
    one, other = (run(observed(world, names)) for names in (NAMES, shuffled))
    assert one.calls == other.calls
    assert one.enrolments == other.enrolments


def test_messages_of_an_enrolment_carry_nothing_either(run: Any) -> None:
    names = [str(number) for number in range(522)]
    one, other = (run(enrolled(None, some)) for some in (names, names[::-1]))
    assert [len(batch) for batch in one.enrolments] == [512, 10]  # a body has at most 64 kB
    assert one.enrolments == other.enrolments
