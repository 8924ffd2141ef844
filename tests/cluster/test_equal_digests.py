"""The same transcript whether chunks are computed here or by any number of Ray's workers."""

from __future__ import annotations

from functools import cache

import pytest

from askance_aggregator.learners import find, learners
from askance_aggregator.studies.tallies import CHUNK
from askance_simulation.disturbances import Misbehaviour
from askance_simulation.experiments import Trial, named, run_trial
from askance_simulation.fleets import FLEETS, fleet_by
from askance_simulation.randomness import Seed
from tests.kinds import BY_KIND

pytestmark = pytest.mark.usefixtures("ray_of_three")

LEARNERS = [entry.name for entry in learners()]
OF_A_KIND = [name for name in LEARNERS if name in BY_KIND]
OTHERS = [name for name in LEARNERS if name not in BY_KIND]
MANY = 2 * CHUNK + 300
"""Users in three chunks, each a shard."""
OFTEN = Misbehaviour(absent=".1", dropout=".2", offline=".1", liars=".001")


@cache
def trial(learner: str, users: int, seed: int, troubled: bool, fleet: str, workers: int) -> Trial:
    """Run a trial; if troubled, devices are absent or lie, and records change between rounds."""
    root = Seed.of(seed)
    made = named(learner, epsilon="4", users=users, settings=find(learner).small.oracles)
    people = made.people(root / "population")
    if troubled:
        people = people.moving_to(made.people(root / "others"), "1/2", seed=3)
    study = made.study(people)
    maker = FLEETS["objects"] if fleet == "objects" else fleet_by(fleet, workers)
    behaviour = OFTEN if troubled else None
    return run_trial(study, people, fleet=maker, seed=root, behaviour=behaviour)


def enough(learner: str) -> int:
    """Return as few users as the learner needs: device objects are slow."""
    made = named(learner, epsilon="4", users=1, settings=find(learner).small.oracles)
    needed = made.study(made.people(Seed.of(0))).plan().users_needed
    return find(learner).small.fleet_users or needed


def assert_same(one: Trial, other: Trial) -> None:
    """Compare the transcripts and all that follows from them."""
    assert one.outcome.transcript == other.outcome.transcript
    assert one.transcript.recorded == other.transcript.recorded
    assert one.outcome == other.outcome
    assert one.notes == other.notes


@pytest.mark.parametrize("troubled", [False, True])
@pytest.mark.parametrize("learner", OF_A_KIND)
def test_every_kind_of_question_on_any_number_of_workers(learner: str, troubled: bool) -> None:
    here = trial(learner, MANY, 0, troubled, "columns", 2)
    for workers in (1, 2, 3):
        there = trial(learner, MANY, 0, troubled, "ray", workers)
        assert_same(there, here)
        assert there.assessment == here.assessment


@pytest.mark.nightly
@pytest.mark.parametrize("learner", OTHERS)
def test_every_other_learner_on_workers(learner: str) -> None:
    """Workers are sent the learner, and their answers are those of the columns here."""
    here = trial(learner, MANY, 0, True, "columns", 2)
    there = trial(learner, MANY, 0, True, "ray", 3)
    assert_same(there, here)
    assert there.assessment == here.assessment


@pytest.mark.parametrize(("seed", "troubled"), [(1, False), (2**70, True)])
@pytest.mark.parametrize("learner", OF_A_KIND)
def test_every_kind_of_question_as_device_objects(learner: str, seed: int, troubled: bool) -> None:
    """Objects and columns of the other learners are compared in `simulation/fleets`."""
    users = enough(learner)
    objects = trial(learner, users, seed, troubled, "objects", 1)
    assert_same(trial(learner, users, seed, troubled, "ray", 2), objects)
    assert_same(trial(learner, users, seed, troubled, "columns", 1), objects)


@pytest.mark.parametrize("workers", [1, 3])
def test_directions_of_a_codebook_add_up_alike(workers: int) -> None:
    """Their tally is a sum of vectors, and no count of symbols."""
    root = Seed.of(4)
    made = named("mean-vector", epsilon="2", users=MANY, settings={"norm": "l2", "d": "5"})
    people = made.people(root / "population")
    study = made.study(people)
    (planned,) = study.plan(MANY).rounds
    assert [group.randomizer.name for group in planned.groups] == ["codebook"]
    here, there = (
        run_trial(study, people, fleet=fleet_by(fleet, workers), seed=root)
        for fleet in ("columns", "ray")
    )
    assert_same(there, here)


def test_the_troubles_do_something() -> None:
    """Else the tests above would say nothing of them."""
    quiet, rough = (trial("masked-parity", MANY, 0, t, "columns", 2) for t in (False, True))
    assert quiet.outcome.transcript != rough.outcome.transcript
    assert any("found no device" in note for note in rough.notes)
    assert any("users lie" in note for note in rough.notes)
