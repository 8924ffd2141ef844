"""Silent devices by tag: who was asked, has answered, is connected and silent, or is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from askance_aggregator.server.devices import AggregatorServer, AskedUsers, answers_by_tag
from askance_aggregator.server.process.silence import SilenceReader
from askance_aggregator.store import RoundAnswers, SqliteStore, sum_answers
from askance_aggregator.store.register import DeviceSelection
from askance_client.messages import Reason, Refusal

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

STUDY = bytes([0xAB]) * 32
OF = ("ab" * 8, 3, 1)
TAGS = [[("north", 0), ("north", 1), ("v2", 1), ("v2", 2)], [("north", 7), ("v2", 9)]]


def users(asked: Sequence[int], owing: Sequence[int], connected: Sequence[int]) -> AskedUsers:
    lists = (np.array(some, np.int64) for some in (asked, owing, connected))
    return AskedUsers(STUDY, 3, 1, 9.0, *lists)


@pytest.mark.parametrize(
    ("round_", "rows"),
    [
        (
            users([0, 1, 2, 7, 8], [1, 7, 8], [2, 7, 9]),
            [("", 5, 2, 1), ("north", 3, 1, 1), ("v2", 2, 1, 0)],
        ),
        (users([0, 1], [], [0, 1]), [("", 2, 2, 0), ("north", 2, 2, 0), ("v2", 1, 1, 0)]),
        (users([3], [3], [3]), [("", 1, 0, 1)]),
        (users([], [], [0]), [("", 0, 0, 0)]),
    ],
    ids=["some owe", "all answered", "without tags", "no user"],
)
def test_devices_are_counted_by_tag_and_by_what_they_owe(
    round_: AskedUsers, rows: list[tuple[str, int, int, int]]
) -> None:
    found = answers_by_tag([round_], TAGS, 9)
    assert {row.key[:3] for row in found} == {OF}
    assert [(row.tag, row.asked, row.answered, row.silent) for row in found] == rows


def test_the_tags_of_the_most_devices_are_shown() -> None:
    found = answers_by_tag([users([0, 1, 2, 7], [0], [])], TAGS, 1)
    assert [row.tag for row in found] == ["", "north"]
    assert answers_by_tag([], TAGS, 9) == ()


def test_replicas_add_up_the_silent_and_share_the_answers() -> None:
    """A device is connected to one replica; an answer is known to all within a second."""
    own = [RoundAnswers(*OF, "", 10, 4, 2), RoundAnswers(*OF, "north", 5, 1, 4)]
    others = [
        RoundAnswers(*OF, "", 10, 5, 3),
        RoundAnswers(*OF, "north", 5, 2, 2),  # one moved, and is on both for a moment
        RoundAnswers("cd" * 8, 0, 0, "", 2, 0, 1),
    ]
    found = sum_answers(own, others)
    assert found == (
        RoundAnswers(*OF, "", 10, 5, 5),
        RoundAnswers(*OF, "north", 5, 2, 3),
        RoundAnswers("cd" * 8, 0, 0, "", 2, 0, 1),
    )
    assert [row.away for row in found] == [0, 0, 1]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("record", [4, 5, 9])
def test_an_open_round_shows_the_silent_by_tag_and_a_closed_one_its_completion(
    record: int,
    world: World,
    store: SqliteStore,
    server: AggregatorServer,
    participating: Any,
    run: Callable[[Any], Any],
) -> None:
    """Four of six devices answer, one waits for its owner, one is away; whatever its record is."""
    world.enrol(store, 6)
    ids = tuple(world.identity(ordinal).device_id for ordinal in (0, 1, 4))
    store.register.tag(DeviceSelection(ids=ids), ["north"])
    round_ = world.round(6)
    held = world.device(record, consent=lambda *_: Refusal(Reason.WAITING))
    reader = SilenceReader(store, server.hub.asked_users, lambda: 0, lambda: 0.0)

    async def scenario() -> tuple[RoundAnswers, ...]:
        asking = asyncio.ensure_future(
            asyncio.to_thread(server.fleet.ask, round_, world.accounts(6))
        )
        async with participating(world, server.address, [*world.devices(4), held]):
            await until(lambda: server.hub.outstanding == 2 and server.hub.connected == 5)
            shown = await asyncio.to_thread(reader.rounds)
        server.loop.call_soon_threadsafe(server.hub.close_round, round_.study_digest)
        await asking
        return shown

    shown = run(scenario())
    study = round_.study_digest.hex()[:16]
    assert [(row.tag, row.asked, row.answered, row.silent, row.away) for row in shown] == [
        ("", 6, 4, 1, 1),
        ("north", 3, 2, 1, 0),
    ]
    assert store.register.completion(9) == [
        RoundAnswers(study, 0, round_.number, "", 6, 4, 0),
        RoundAnswers(study, 0, round_.number, "north", 3, 2, 0),
    ]
