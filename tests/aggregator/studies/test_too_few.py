"""A study that asks for a least number of answers ends when it gets fewer, every time it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.studies import MemoryLog, Permutation, Transcript
from askance_aggregator.studies.transcript import Closed
from askance_client.device import Policy
from askance_client.errors import TooFewRespondents
from askance_client.messages import Reason
from askance_simulation.fleets import ObjectFleet

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World


def closed(log: MemoryLog) -> list[Closed]:
    return [event for event in Transcript(log).recorded if isinstance(event, Closed)]


def answered_in(world: World) -> list[int]:
    """Return the number of answers, round by round, without refusals."""
    log = MemoryLog()
    world.run(world.devices(), log)
    return [event.tallies[0].answered for event in closed(log)]


def test_as_many_as_asked_for_are_enough(world: World) -> None:
    least = min(answered_in(world))
    outcome = world.run(world.devices(), study=world.study(least_answers=least))
    assert (outcome.rounds, outcome.refusals) == (2, 0)


def misers(world: World, number: int) -> dict[int, Policy]:
    """The owner of one device of a round's cohort, who allows nothing."""
    before, asked = sum(answered_in(world)[:number]), answered_in(world)[number]
    users = Permutation(b"cohorts", 110).ordinals(before, before + asked)
    return {int(users[0]): world.policy(life_nano_nats=0)}


def test_one_fewer_ends_it_in_words_and_after_the_round_is_recorded(world: World) -> None:
    least = answered_in(world)[0]
    devices, log = world.devices(misers(world, 0)), MemoryLog()
    with pytest.raises(
        TooFewRespondents,
        match=f"^round 1: expected at least {least} answers to each question, found {least - 1}$",
    ):
        world.run(devices, log, study=world.study(least_answers=least))
    assert len(closed(log)) == 1


def test_a_refusal_is_no_answer(world: World) -> None:
    """Owners of half of the devices allow nothing: they respond, and do not count."""
    miser = world.policy(life_nano_nats=0)
    owners = dict.fromkeys(range(0, 110, 2), miser)
    log = MemoryLog()
    least = answered_in(world)[0]
    with pytest.raises(TooFewRespondents, match=f"at least {least} answers"):
        world.run(world.devices(owners), log, study=world.study(least_answers=least))
    (tally,) = closed(log)[0].tallies
    assert tally.answered < least == tally.asked
    assert tally.refusals == ((Reason.OVER_LIFE_BUDGET, least - tally.answered),)


def test_a_later_round_ends_it_too(world: World) -> None:
    first, second = answered_in(world)
    assert second < first
    devices, log = world.devices(misers(world, 1)), MemoryLog()
    with pytest.raises(TooFewRespondents, match=r"^round 2: "):
        world.run(devices, log, study=world.study(least_answers=second))
    assert len(closed(log)) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_replay_comes_to_the_same_end_and_asks_nobody(world: World, number: int) -> None:
    study = world.study(least_answers=answered_in(world)[number])
    devices, log = world.devices(misers(world, number)), MemoryLog()
    said, spent = [], []
    fleets: list[Any] = [world.recorded(ObjectFleet(devices)) for _ in range(3)]
    for fleet in fleets:
        session = world.session(fleet, log, study=study)
        with pytest.raises(TooFewRespondents) as caught:
            session.run()
        said.append(str(caught.value))
        spent.append((session.accounts.spending(), session.transcript.digest))
    assert said[0] == said[1] == said[2]
    assert spent[0] == spent[1] == spent[2]
    assert [len(fleet.asked) for fleet in fleets] == [number + 1, 0, 0]
