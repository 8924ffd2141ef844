"""Absences and lies are the same on every fleet: equal transcripts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from askance_aggregator.studies.cohorts import Permutation
from askance_aggregator.studies.transcript import Asked, Header
from askance_simulation.disturbances import ATTACKS, Misbehaviour
from askance_simulation.experiments import Trial, named, run_trial, simulate
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed

SMALL = {
    "masked-parity": {"d": "4"},
    "mean": {"tau": "1/5"},
    "frequency": {"tau": "1/5"},
    "conjunctions": {"d": "2", "relevant": "1", "accuracy": "1/2"},
    "k-means": {"clumps": "2", "d": "1", "k": "2", "rounds": "2", "tau": "1/2"},
}
BEHAVIOURS = {
    "offline": Misbehaviour(offline=".2"),
    "absent": Misbehaviour(absent=".3"),
    "dropout": Misbehaviour(dropout=".5"),
    "all of it": Misbehaviour(absent=".1", dropout=".2", offline=".1", liars=".3"),
} | {attack: Misbehaviour(liars=".2", attack=attack) for attack in ATTACKS}
FLEETS = ["grpc", "columns"]
SLOW_GRPC = [pytest.param("grpc", marks=pytest.mark.slow), "columns"]


@cache
def trial(learner: str, fleet: str, name: str, seed: int = 0) -> Trial:
    root = Seed.of(seed)
    users = 1
    for _ in range(2):
        made = named(learner, epsilon="8", users=users, settings=SMALL[learner])
        population = made.people(root / "population")
        study = made.study(population)
        users = study.plan().users_needed
    behaviour = BEHAVIOURS.get(name)
    return run_trial(study, population, fleet=fleet, seed=root, behaviour=behaviour)


def assert_same(learner: str, fleet: str, name: str, seed: int = 0) -> None:
    """Compare a fleet's trial with that of device objects."""
    one, other = trial(learner, fleet, name, seed), trial(learner, "objects", name, seed)
    assert one.outcome == other.outcome
    assert one.transcript.recorded == other.transcript.recorded
    assert one.notes == other.notes


@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_each_behaviour_is_the_same_on_every_fleet(name: str, fleet: str) -> None:
    assert_same("masked-parity", fleet, name)


@pytest.mark.parametrize("fleet", SLOW_GRPC)
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_each_behaviour_is_the_same_for_a_learner_of_one_round(name: str, fleet: str) -> None:
    assert_same("mean", fleet, name)


@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("learner", [name for name in SMALL if name != "k-means"])
def test_all_of_it_on_every_fleet(learner: str, fleet: str) -> None:
    assert_same(learner, fleet, "all of it", 1)


@pytest.mark.slow
@pytest.mark.parametrize("fleet", FLEETS)
def test_all_of_it_on_every_fleet_for_vectors(fleet: str) -> None:
    assert_same("k-means", fleet, "all of it", 1)


@pytest.mark.nightly
@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("learner", SMALL)
def test_all_of_it_on_every_fleet_at_another_seed(learner: str, fleet: str) -> None:
    assert_same(learner, fleet, "all of it", 2**70)


def test_each_behaviour_does_something() -> None:
    """Else the tests above would say nothing of it; a few liars may come to the same lies."""
    digest = {
        name: trial("masked-parity", "objects", name).outcome.transcript
        for name in [*BEHAVIOURS, "honest"]
    }
    honest = digest.pop("honest")
    assert honest not in digest.values()
    assert len({digest[name] for name in ("offline", "absent", "dropout", "all of it", "mga")}) == 5


@pytest.mark.parametrize("name", ["offline", "absent", "dropout", "all of it"])
def test_who_is_absent_is_not_counted_and_pays_nothing(name: str) -> None:
    """Number of answers of each round's cohort, by the behaviour itself."""
    found = trial("masked-parity", "columns", name)
    behaviour = BEHAVIOURS[name](Seed.of(0) / "behaviour")
    header, *events = found.transcript.recorded
    assert isinstance(header, Header)
    charges = [event.groups[0].nano_nats for event in events if isinstance(event, Asked)]
    cohorts = Permutation(header.cohort_seed, header.population)
    start, spent = 0, 0
    for number, (tally,) in enumerate(found.outcome.tallies):
        members = cohorts.ordinals(start, start + tally.asked)
        start += tally.asked
        away = behaviour.absent(header.study_digest, number, members)
        assert tally.answered == np.count_nonzero(~away)
        spent += tally.answered * charges[number]
    assert found.outcome.spending.total_spent == spent
    assert found.outcome.reconciled


def test_liars_are_charged_like_anybody() -> None:
    for attack in ATTACKS:
        spending = trial("masked-parity", "objects", attack).outcome.spending
        assert spending == trial("masked-parity", "objects", "honest").outcome.spending


def test_a_result_says_who_stayed_away_and_who_lied() -> None:
    made = named("masked-parity", epsilon="8", users=300, settings={"d": "4"})
    behaviour = Misbehaviour(absent=".2", liars=".1", attack="ria")
    found = simulate(made.study, made.people, behaviour=behaviour, fleet="columns")
    users = np.arange(300)
    liars = behaviour(Seed.of(0) / "trial" / 0 / "behaviour").lying(users).sum()
    notes = found.to_json()["notes"]
    first = found.trials[0].outcome.tallies[0][0]
    assert f"{liars} of 300 users lie (ria): intervals and error bounds hold for honest" in notes[2]
    assert notes[0] == (
        f"round 1: of {first.asked} requests {first.asked - first.answered} found no device"
    )
    assert simulate(made.study, made.people, fleet="columns").to_json()["notes"] == []


def test_nobody_there_is_an_answer_too() -> None:
    digests = set()
    for fleet in ("objects", "columns", "grpc"):
        made = named("mean", epsilon="8", users=100, settings={"tau": "1/5"})
        found = simulate(made.study, made.people, fleet=fleet, behaviour=Misbehaviour(offline=1))
        assert found.trials[0].outcome.answers == 0
        assert found.verdict == "Worth nothing: no user answered."
        digests.add(found.transcript.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("fleet", FLEETS)
def test_records_that_change_between_rounds_are_the_same_on_every_fleet(fleet: str) -> None:
    """With liars and absences among them."""

    def people(seed: Seed) -> Population:
        one = named("masked-parity", epsilon="8", users=200, settings={"d": "4"})
        return one.people(seed / 1).moving_to(one.people(seed / 2), "1/2", seed=3)

    made = named("masked-parity", epsilon="8", users=200, settings={"d": "4"})
    behaviour = BEHAVIOURS["all of it"]
    one, other = (
        simulate(made.study, people, fleet=place, behaviour=behaviour).transcript.digest
        for place in (fleet, "objects")
    )
    assert one == other
    still = simulate(made.study, made.people, fleet=fleet, behaviour=behaviour)
    assert one != still.transcript.digest
