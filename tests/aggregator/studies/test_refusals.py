"""A device that refuses is counted by its reason; the others' answers are what is estimated."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.estimation import estimate
from askance_aggregator.learners import Allocation, Answers, Batch, Learner, NonAdaptive, Question
from askance_aggregator.queries import predicate
from askance_aggregator.studies import MemoryLog
from askance_client.device import Policy
from askance_client.messages import Reason
from askance_simulation.fleets import ObjectFleet

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World

NAT = 10**9
STUBBORN = range(0, 110, 5)  # every fifth


def asks(world: World, *fields: str, allocation: Allocation | None = None) -> Learner[Answers]:
    """Ask all users for these fields and return the answers."""
    batch = Batch(
        (Question(predicate(world.schema[field] == 1)) for field in fields), allocation=allocation
    )
    return NonAdaptive(
        name="asks", version=1, parameters={}, batch=batch, conclude=lambda answers: answers
    )


def owners(world: World, **changes: Any) -> dict[int, Policy]:
    return dict.fromkeys(STUBBORN, world.policy(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"life_nano_nats": NAT, "day_nano_nats": 8 * NAT, "study_nano_nats": 8 * NAT},
            Reason.OVER_LIFE_BUDGET,
        ),
        ({"day_nano_nats": NAT}, Reason.OVER_DAY_BUDGET),
        ({"study_nano_nats": NAT}, Reason.OVER_STUDY_BUDGET),
        ({"fields": frozenset({"i"})}, Reason.FIELD_NOT_ALLOWED),
        ({"analysts": frozenset()}, Reason.UNKNOWN_STUDY),
    ],
    ids=lambda item: item.name if isinstance(item, Reason) else "",
)
def test_refusals_are_counted_and_cost_nothing(
    world: World, changes: dict[str, Any], reason: Reason
) -> None:
    devices = world.devices(owners(world, **changes))
    outcome = world.run(devices, learner=asks(world, "b"))
    ((tally,),) = outcome.tallies
    assert tally.refusals == ((reason, len(STUBBORN)),)
    assert (tally.asked, tally.answered) == (110, 110 - len(STUBBORN))
    assert sum(tally.counts) == tally.answered == outcome.answers
    assert outcome.refusals == len(STUBBORN)
    assert outcome.users_used == 110
    assert outcome.reconciled
    spent = [sum(entry.nano_nats for entry in ledger) for ledger in devices.history()]
    assert [place for place, total in enumerate(spent) if not total] == list(STUBBORN)
    assert outcome.spending.total_spent == sum(spent)
    assert outcome.spending.users_asked == 110  # their accounts stay charged


def test_the_estimate_is_that_of_those_who_answered(world: World) -> None:
    fleet = world.recorded(ObjectFleet(world.devices(owners(world, fields=frozenset({"i"})))))
    learner = asks(world, "b")
    outcome = world.run(fleet, learner=learner)
    ((tally,),) = outcome.tallies
    ((group,),) = (round_.groups for round_ in fleet.asked)
    assert isinstance(learner, NonAdaptive)
    (question,) = learner.batch.questions
    expected = estimate(question, group.randomizer, tally.counts, 88, Fraction(1, 20))
    assert outcome.hypothesis == (expected,)


def test_one_question_may_be_refused_and_another_answered(world: World) -> None:
    """Devices that refuse "i" answer the other question at half their budget."""
    devices = world.devices(owners(world, fields=frozenset({"b"})))
    outcome = world.run(devices, learner=asks(world, "b", "i", allocation=Allocation.SPLIT))
    ((one, other),) = outcome.tallies
    assert (one.answered, one.refusals) == (110, ())
    assert other.answered == 88
    assert other.refusals == ((Reason.FIELD_NOT_ALLOWED, 22),)
    for place, ledger in enumerate(devices.history()):
        assert len(ledger) == (1 if place in STUBBORN else 2)
    assert outcome.reconciled


def test_when_everybody_refuses_the_answer_says_nothing(world: World) -> None:
    everybody = dict.fromkeys(range(110), world.policy(fields=frozenset({"i"})))
    outcome = world.run(world.devices(everybody), learner=asks(world, "b"))
    (answer,) = outcome.hypothesis
    assert (answer.low, answer.high) == (0.0, 1.0)
    assert (outcome.answers, outcome.refusals) == (0, 110)
    assert outcome.spending.total_spent == 0


def test_refusals_change_the_transcript_by_who_not_only_by_how_many(world: World) -> None:
    keeping = world.policy(fields=frozenset({"i"}))
    transcripts = {
        world.run(world.devices({place: keeping}), learner=asks(world, "b")).transcript
        for place in range(3)
    }
    assert len(transcripts) == 3


@pytest.mark.parametrize("part", [Fraction(0), Fraction(1, 2), Fraction(1)])
def test_who_refused_before_a_break_refuses_after_it(world: World, part: Fraction) -> None:
    keeping = owners(world, fields=frozenset({"i"}))
    expected = world.run(world.devices(keeping), learner=asks(world, "b"))
    devices, log = world.devices(keeping), MemoryLog()
    with pytest.raises(world.interrupted):
        world.run(world.breaking(ObjectFleet(devices), 0, part), log, learner=asks(world, "b"))
    assert world.run(devices, log, learner=asks(world, "b")) == expected
    assert world.run(devices, log, learner=asks(world, "b")) == expected
