"""A study on a fleet: planned, recorded, charged, asked, and in that order."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from askance_aggregator.estimation import estimate
from askance_aggregator.learners import (
    Adaptive,
    Allocation,
    Answers,
    Batch,
    Learner,
    Learning,
    NonAdaptive,
    Question,
    frequency,
)
from askance_aggregator.planning import plan_batch
from askance_aggregator.queries import category, evaluate_columns, predicate
from askance_aggregator.studies import (
    Accounts,
    MemoryLog,
    Outcome,
    Permutation,
    Round,
    Transcript,
    local,
)
from askance_aggregator.studies.transcript import Asked, Closed, Header, Stopped
from askance_client.codec import decode_request, digest_of
from askance_client.errors import InvalidParameter, PlanExceeded, PlanRefused
from askance_simulation.fleets import ObjectFleet

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World


def asks(world: World, allocation: Allocation, tau: str | None = None) -> Learner[Answers]:
    """Asks for the bit, the label and the index at once, and returns the answers."""
    schema = world.schema
    queries = [predicate(schema["b"] == 1), category(schema["y"]), category(schema["i"] == 1)]
    batch = Batch([Question(query, tau=tau) for query in queries], allocation=allocation)
    return NonAdaptive(
        name="three", version=1, parameters={}, batch=batch, conclude=lambda answers: answers
    )


@pytest.fixture(scope="module")
def outcome(world: World) -> Outcome[Any]:
    """Outcome of the world's own study, undisturbed."""
    return world.run(world.devices())


class TestOutcome:
    def test_the_learner_finds_the_concept(self, world: World, outcome: Outcome[Any]) -> None:
        assert outcome.hypothesis == world.population.target

    def test_it_tells_what_it_took(self, world: World, outcome: Outcome[Any]) -> None:
        planned = world.session(world.devices()).plan()
        assert outcome.rounds == len(outcome.tallies) == 2
        assert outcome.queries == 2
        assert outcome.users_used == planned.users_needed
        assert outcome.answers == sum(tally.answered for (tally,) in outcome.tallies)
        assert outcome.answers == outcome.users_used
        assert outcome.refusals == 0

    def test_the_accounts_agree_with_the_ledgers(self, world: World) -> None:
        devices = world.devices()
        outcome = world.run(devices)
        spent = [sum(entry.nano_nats for entry in ledger) for ledger in devices.history()]
        assert outcome.reconciled
        assert outcome.spending.max_spent == max(spent) == world.budget
        assert outcome.spending.total_spent == sum(spent)
        assert outcome.spending.users_asked == sum(total > 0 for total in spent)
        assert outcome.spending.overspent == 0

    def test_the_same_again_is_the_same_to_the_bit(
        self, world: World, outcome: Outcome[Any]
    ) -> None:
        assert world.run(world.devices()) == outcome

    def test_another_study_or_cohort_seed_is_another_transcript(
        self, world: World, outcome: Outcome[Any]
    ) -> None:
        others = [
            world.run(world.devices(), study=world.study(nonce=1)),
            world.run(world.devices(), cohort_seed=b"other"),
        ]
        assert len({outcome.transcript} | {other.transcript for other in others}) == 3


class TestOrder:
    def test_a_round_is_recorded_and_charged_before_anybody_is_asked(self, world: World) -> None:
        log = MemoryLog()
        seen: list[tuple[list[type], int]] = []

        def before(round_: Round, accounts: Accounts) -> None:
            (group,) = round_.groups
            recorded = session.transcript.recorded
            assert isinstance(recorded[-1], Asked)
            assert recorded[-1].groups[0].payload == group.payload
            assert len(list(log.lines())) == len(recorded)
            seen.append(([type(event) for event in recorded], accounts.left(group.cohort)))

        session = world.session(world.recorded(ObjectFleet(world.devices()), before), log)
        session.run()
        assert [kinds for kinds, _ in seen] == [[Header, Asked], [Header, Asked, Closed, Asked]]
        assert {left for _, left in seen} == {0}

    def test_the_transcript_says_who_was_asked_what(self, world: World) -> None:
        fleet = world.recorded(ObjectFleet(world.devices()))
        session = world.session(fleet)
        outcome = session.run()
        header, *events = session.transcript.recorded
        study = digest_of(world.study().study)
        assert header == Header(
            study, "masked-parity", 1, 110, b"cohorts", Fraction(1, 100), Fraction(19, 20)
        )
        cohorts = Permutation(b"cohorts", fleet.population)
        for number, round_ in enumerate(fleet.asked):
            asked, closed = events[2 * number : 2 * number + 2]
            assert isinstance(asked, Asked)
            assert isinstance(closed, Closed)
            assert asked.round == closed.round == round_.number == number
            assert closed.tallies == outcome.tallies[number]
            for recorded, group in zip(asked.groups, round_.groups, strict=True):
                assert np.array_equal(
                    group.cohort.members, cohorts.ordinals(recorded.start, recorded.stop)
                )
                request = decode_request(recorded.payload, world.schema)
                assert (request.study_digest, request.round) == (study, number)
                assert request.randomizer.loss.nano_nats == recorded.nano_nats <= world.budget

    def test_fresh_cohorts_in_every_round(self, world: World) -> None:
        fleet = world.recorded(ObjectFleet(world.devices()))
        world.run(fleet)
        asked = [user for round_ in fleet.asked for g in round_.groups for user in g.cohort.members]
        assert len(asked) == len(set(asked))


class TestAllocations:
    def test_fresh_groups_are_disjoint_and_spend_all(self, world: World) -> None:
        fleet = world.recorded(ObjectFleet(world.devices()))
        outcome = world.run(fleet, learner=asks(world, Allocation.FRESH))
        (round_,) = fleet.asked
        users = [user for group in round_.groups for user in group.cohort.members]
        assert len(users) == len(set(users)) == outcome.users_used == outcome.answers == 110
        assert {group.nano_nats for group in round_.groups} == {world.budget}
        assert (outcome.rounds, outcome.queries) == (1, 3)

    def test_split_asks_every_device_every_question_within_its_budget(self, world: World) -> None:
        devices = world.devices()
        fleet = world.recorded(ObjectFleet(devices))
        outcome = world.run(fleet, learner=asks(world, Allocation.SPLIT))
        (round_,) = fleet.asked
        for group in round_.groups:
            assert np.array_equal(group.cohort.members, np.arange(110))
        assert outcome.users_used == 110
        assert outcome.answers == 330
        for ledger in devices.history():
            charges = [entry.nano_nats for entry in ledger]
            assert len(charges) == 3
            assert world.budget - 3 <= sum(charges) <= world.budget
        assert outcome.reconciled
        assert outcome.spending.max_spent == outcome.spending.max_asked <= world.budget

    def test_the_answers_stand_in_the_batch_s_order(self, world: World) -> None:
        everybody = world.population.columns(0, world.population.size)
        for allocation in Allocation:
            learner = asks(world, allocation)
            assert isinstance(learner, NonAdaptive)
            outcome = world.run(
                world.devices(),
                learner=learner,
                study=world.study(confidence=Fraction(999999, 10**6)),
            )
            answers = outcome.hypothesis
            for question, answer in zip(learner.batch.questions, answers, strict=True):
                values = evaluate_columns(question.query, everybody)
                if len(answer.values) == 1:
                    assert answer.low <= values.mean() <= answer.high
                else:
                    shares = np.bincount(values, minlength=len(answer.values)) / len(values)
                    assert (np.array(answer.lows) <= shares).all()
                    assert (shares <= np.array(answer.highs)).all()
            assert [len(answer.values) for answer in answers] == [1, 2, 2]


@pytest.mark.parametrize("allocation", Allocation)
def test_a_batch_s_intervals_hold_together(world: World, allocation: Allocation) -> None:
    """Every one of three questions gets a third of 1 - confidence."""
    fleet = world.recorded(ObjectFleet(world.devices()))
    learner = asks(world, allocation)
    outcome = world.run(fleet, learner=learner, study=world.study(confidence=Fraction(1, 2)))
    assert isinstance(learner, NonAdaptive)
    (round_,), (tallies,) = fleet.asked, outcome.tallies
    assert outcome.hypothesis == tuple(
        estimate(question, group.randomizer, tally.counts, tally.answered, Fraction(1, 6))
        for question, group, tally in zip(
            learner.batch.questions, round_.groups, tallies, strict=True
        )
    )


class TestRefusedPlans:
    def test_too_few_users_are_not_asked_and_nothing_is_recorded(self, worlds: type[World]) -> None:
        world = worlds(users=75)
        log, fleet = MemoryLog(), world.recorded(ObjectFleet(world.devices()))
        session = world.session(fleet, log)
        assert not session.plan().feasible
        with pytest.raises(
            PlanRefused, match="needs 76 users, the population has 75: it needs fewer with a larger"
        ):
            session.run()
        assert fleet.asked == fleet.recalled == []
        assert list(log.lines()) == []
        assert session.accounts.spending().users_asked == 0

    def test_exactly_enough_users_are_enough(self, worlds: type[World]) -> None:
        world = worlds(users=76)
        assert world.run(world.devices()).users_used == 76

    def test_a_run_that_asks_more_than_its_rehearsal_stops_and_names_those_charged(
        self, world: World
    ) -> None:
        """The rounds before it were asked, and the stop is in the transcript."""
        question = Question(predicate(world.schema["b"] == 1), tau="1/5")

        def greedy() -> Learning[int]:
            (answer,) = yield Batch([question])
            rounds = 1
            while answer.value > 0:  # the rehearsal's neutral answer is 0
                yield Batch([question])
                rounds += 1
            return rounds

        log, fleet = MemoryLog(), world.recorded(ObjectFleet(world.devices()))
        learner = Adaptive(name="greedy", version=1, parameters={}, factory=greedy)
        session = world.session(fleet, log, learner=learner)
        expected = r"round 2: expected at most 1 values, .* got 2; .* the 43 users .* stay charged"
        for _ in range(2):  # run again, the replay comes to the same end
            with pytest.raises(PlanExceeded, match=expected) as raised:
                session.run()
        kinds = [type(event) for event in session.transcript.recorded]
        assert kinds == [Header, Asked, Closed, Stopped]
        assert session.transcript.recorded[-1] == Stopped(1, 43, str(raised.value))
        assert len(fleet.asked) == 1
        assert session.accounts.spending().users_asked == 43
        assert Transcript(log).recorded == session.transcript.recorded

    def test_a_later_batch_that_no_randomizer_can_answer_says_that_users_were_charged(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """InvalidParameter would say that the call did nothing."""
        planned = [plan_batch]

        def second_fails(*given: Any) -> Any:
            if not planned:
                raise InvalidParameter("no randomizer spends such a budget")
            return planned.pop()(*given)

        monkeypatch.setattr(local, "plan_batch", second_fails)
        with pytest.raises(PlanExceeded, match=r"round 2: no randomizer .* users .* stay charged"):
            world.run(world.devices())


class TestWatching:
    def test_every_round_is_announced_with_its_plan_as_it_opens(self, world: World) -> None:
        opened: list[tuple[int, int]] = []
        outcome = world.run(
            world.devices(), watch=lambda number, plan: opened.append((number, plan.users))
        )
        assert [number for number, _ in opened] == [0, 1]
        assert sum(users for _, users in opened) == outcome.users_used


def test_a_non_adaptive_learner_asks_once(world: World) -> None:
    learner = frequency(category(world.schema["y"]))
    outcome = world.run(world.devices(), learner=learner)
    assert (outcome.rounds, outcome.queries, outcome.users_used) == (1, 1, 110)
