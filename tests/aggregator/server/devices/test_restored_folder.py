"""A device's folder that is put back whole: what mark and echo leave open, and a counter closes.

The device is the real one: a ledger file with its mark, the core, and the runtime on a connection.
Only the aggregator is scripted, since an honest one never asks for more than it was answered.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_client.accounting import parse_epsilon
from askance_client.cli.counters import a_counter
from askance_client.codec import decode_report
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import LedgerBehind, LedgerFile
from askance_client.messages import Report
from askance_client.service import Response
from askance_client.service.runtime import LedgerOlder
from tests.aggregator.server.devices.test_hostile_aggregator import Script, aggregator

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
ONE_NAT = parse_epsilon("1")
LOST = grpc.StatusCode.UNAVAILABLE


class SameCoins:
    """Coins that are all the least word, or all the greatest one."""

    def __init__(self, word: int) -> None:
        self._word = word

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        return (self._word,) * count


class Drill:
    """A device whose life budget is one answer, and copies of its folder.

    Args:
        counted: the device has a counter outside its folder.
    """

    def __init__(self, world: World, root: Path, run: Run, *, counted: bool) -> None:
        self._world = world
        self._run = run
        self._folder, self._copy = root / "device", root / "copy"
        self._folder.mkdir()
        self._counter = a_counter(str(root / "counter"), self._folder) if counted else None
        LedgerFile.create(self._folder / "ledger.sqlite").close()
        self._open().close()
        self.heard: list[Report] = []

    def copy(self) -> None:
        shutil.copytree(self._folder, self._copy)

    def put_back(self) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)

    def check_in(self, *script: Response | grpc.StatusCode, word: int = 0) -> None:
        """Start the device, let it check in with an aggregator, and end it.

        Args:
            script: the aggregator's answers; what comes after them is acknowledged.
            word: of the device's coins.
        """
        file = self._open()
        said = Script(*script)
        identity = self._world.identity(0)
        device = Device(
            schema=self._world.schema,
            record=self._world.schema.encode({"smoker": 0, "colour": "red"}),
            policy=Policy(frozenset({self._world.key.public_key().public_bytes_raw()}), ONE_NAT),
            ledger=file.ledger("", identity.device_id),
            coins=SameCoins(word),
            now_s=lambda: self._world.now_s,
            examiner=Examiner(),
        )

        async def exchange() -> None:
            async with aggregator(said) as channel:
                runner = self._world.runner(0, device, channel)
                with suppress(aio.AioRpcError):  # the report is lost
                    await runner.check_in_once()

        try:
            self._run(exchange())
        finally:
            file.close()
            reports = (data for message in said.heard for data in message.reports)
            self.heard += [decode_report(data) for data in reports]

    def _open(self) -> LedgerFile:
        return LedgerFile.open(self._folder / "ledger.sqlite", self._counter)


@pytest.fixture
def asking(world: World) -> Callable[[int], Response]:
    """Make a response that asks the one question, with the number that the aggregator echoes."""

    def response(echo: int) -> Response:
        round_ = world.broadcast(1)
        payload = round_.groups[0].payload
        return Response(studies=(round_.study,), requests=(payload,), acknowledged_sequence=echo)

    return response


MOST = (1 << 64) - 1
CASES = {
    "a report was lost": (LOST,),
    "the aggregator was restored too, or understates": (),
}
"""Answers of the aggregator to the first report; its number is 0 ever after."""


@pytest.mark.parametrize("case", CASES)
def test_left_open_two_answers_to_one_request_past_the_life_budget(
    case: str, world: World, tmp_path: Path, run: Run, asking: Callable[[int], Response]
) -> None:
    """Documents what the mark and the echo do not see (ADR 22): the device answers anew."""
    drill = Drill(world, tmp_path, run, counted=False)
    drill.copy()
    drill.check_in(asking(0), *CASES[case])
    drill.put_back()
    drill.check_in(asking(0), *CASES[case], word=MOST)
    first, second = drill.heard
    assert first.request_digest == second.request_digest
    assert first.outcome != second.outcome
    assert [first.charged_nano_nats, second.charged_nano_nats] == [ONE_NAT, ONE_NAT]


@pytest.mark.parametrize("case", CASES)
def test_a_counter_closes_it(
    case: str, world: World, tmp_path: Path, run: Run, asking: Callable[[int], Response]
) -> None:
    drill = Drill(world, tmp_path, run, counted=True)
    drill.copy()
    drill.check_in(asking(0), *CASES[case])
    drill.put_back()
    with pytest.raises(LedgerBehind, match="row 1, as its counter says, found 0"):
        drill.check_in(asking(0), *CASES[case], word=MOST)
    assert len(drill.heard) == 1


def test_an_honest_aggregator_that_has_the_report_closes_it_without_a_counter(
    world: World, tmp_path: Path, run: Run, asking: Callable[[int], Response]
) -> None:
    drill = Drill(world, tmp_path, run, counted=False)
    drill.copy()
    drill.check_in(asking(0))
    drill.put_back()
    with pytest.raises(LedgerOlder, match=r"at most 0 .* has 1"):
        drill.check_in(asking(1), word=MOST)
    assert len(drill.heard) == 1
