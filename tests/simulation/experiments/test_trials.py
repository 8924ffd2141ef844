"""Trials: each on seeds of its own, counted together, and refused before any user is asked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.composition import epsilon_of_rho
from askance_aggregator.learners import (
    Allocation,
    Answers,
    Batch,
    Question,
    mean,
    non_adaptive,
)
from askance_aggregator.learners.assessments import Assessment
from askance_aggregator.queries import predicate
from askance_aggregator.studies import MemoryLog
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter, PlanRefused
from askance_client.queries import Integer, Schema
from askance_simulation.experiments import Simulation, named, run_trial, simulate
from askance_simulation.fleets import Devices, ObjectFleet, OpenedFleet, Progress
from askance_simulation.populations import Population, masked_parity
from askance_simulation.randomness import Seed

WHOLE = Schema("whole", 1, number=Integer(0, 79))


@non_adaptive("eighty")
def eighty() -> tuple[Batch, Callable[[Answers], int]]:
    """Make a learner of 80 questions to all users."""
    asked = [Question(predicate(WHOLE.number == number)) for number in range(80)]
    return Batch(asked, Allocation.SPLIT), len


def parity_trials(trials: int, seed: int = 0, fleet: str = "objects") -> Simulation:
    made = named("masked-parity", epsilon="8", users=120, settings={"d": "2"})
    return simulate(made.study, made.people, trials=trials, seed=seed, fleet=fleet)


def without_times(result: Simulation) -> dict[str, Any]:
    times = ("seconds", "answers_per_second", "steady_answers_per_second", "peak_memory_mb")
    return {key: value for key, value in result.to_json().items() if key not in times}


@pytest.fixture(scope="module")
def three() -> Simulation:
    return parity_trials(3)


class TestSpeed:
    def test_a_steady_study_is_told_apart_from_a_first_one(self, three: Simulation) -> None:
        slow = [replace(trial, seconds=4.0, planning_seconds=3.0) for trial in three.trials]
        answers = sum(trial.outcome.answers for trial in slow)
        result = replace(three, trials=tuple(slow)).to_json()
        assert result["answers_per_second"] == answers / 12
        assert result["steady_answers_per_second"] == answers / 3

    def test_planning_ends_when_the_first_round_opens(self) -> None:
        made = named("mean", epsilon=8, users=300)
        now: list[float] = []
        began = time.perf_counter()
        done = simulate(
            made.study, made.people, watch=lambda *_: now.append(time.perf_counter() - began)
        )
        (trial,) = done.trials
        assert 0 < trial.planning_seconds <= now[0] < trial.seconds + now[0]
        assert trial.planning_seconds < trial.seconds


class TestSeeds:
    def test_the_first_trial_of_three_is_the_only_trial_of_one(self, three: Simulation) -> None:
        (alone,) = parity_trials(1).trials
        assert three.trials[0].outcome == alone.outcome
        assert three.trials[0].population.target == alone.population.target

    def test_every_trial_has_a_transcript_of_its_own(self, three: Simulation) -> None:
        again = parity_trials(3)
        digests = [trial.outcome.transcript for trial in three.trials]
        assert len(set(digests)) == 3
        assert [trial.outcome.transcript for trial in again.trials] == digests
        others = {trial.outcome.transcript for trial in parity_trials(3, seed=1).trials}
        assert not others & set(digests)

    def test_people_are_made_anew_for_every_trial(self) -> None:
        targets = {trial.population.target for trial in parity_trials(8).trials}
        assert len(targets) > 1

    def test_people_that_are_given_stay_the_same_and_answer_anew(self) -> None:
        people = masked_parity(200, Seed.of(1), 2)
        study = Study(mean(predicate(people.schema["b"] == 1)), people.schema, epsilon=1)
        result = simulate(study, people, trials=2)
        assert [trial.population for trial in result.trials] == [people, people]
        assert result.trials[0].outcome.tallies != result.trials[1].outcome.tallies

    @pytest.mark.parametrize("seed", [2**32, 2**64, 2**200])
    def test_no_seed_is_cut_short(self, seed: int) -> None:
        assert Seed.of(seed).key != Seed.of(0).key
        assert Seed.of(seed).key != Seed.of(seed + 1).key

    def test_a_seed_s_branches_differ_by_name_and_by_parent(self) -> None:
        root = Seed.of(0)
        nodes = [root, root / "a", root / "b", root / 1, root / "a" / "b", root / "b" / "a"]
        assert len({node.key for node in [*nodes, Seed.of(1) / "a"]}) == len(nodes) + 1
        assert (root / 1).key == (root / "1").key

    def test_a_negative_seed_is_refused(self) -> None:
        with pytest.raises(InvalidParameter, match="got -1"):
            parity_trials(1, seed=-1)


class TestResults:
    def test_what_is_shown_is_trial_0_s(self, three: Simulation) -> None:
        shown = three.to_json()
        first = three.trials[0].outcome
        assert shown["transcript"] == first.transcript == three.transcript.digest
        assert shown["hypothesis"] == first.hypothesis.to_json()
        assert (shown["users"], shown["users_used"]) == (120, first.users_used)
        assert (shown["rounds"], shown["queries"]) == (2, first.queries)
        assert shown["trials"] == 3

    def test_it_is_json_and_says_nothing_of_the_fleet_but_its_name(self, three: Simulation) -> None:
        ours = without_times(three)
        theirs = without_times(parity_trials(3, fleet="grpc"))
        assert json.loads(json.dumps(ours)) == ours
        assert (ours.pop("fleet"), theirs.pop("fleet")) == ("objects", "grpc")
        assert ours == theirs

    def test_successes_are_counted_over_all_trials(self, three: Simulation) -> None:
        assessments = [trial.assessment for trial in three.trials]
        right = sum(bool(assessment.success) for assessment in assessments)
        assert three.successes == three.to_json()["successes"] == right
        errors = [assessment.error for assessment in assessments if assessment.error is not None]
        assert three.to_json()["error"] == {"mean": sum(errors) / 3, "max": max(errors)}

    def test_where_nothing_can_be_judged_nothing_is_counted(self) -> None:
        world = masked_parity(120, Seed.of(0), 2)
        people = Population("unlabelled", world.schema, world.size, world.columns)
        made = named("masked-parity", epsilon="8", users=120, settings={"d": "2"})
        result = simulate(made.study(people), people)
        assert result.trials[0].assessment == Assessment(None, None)
        assert result.successes is None
        assert result.to_json()["error"] == {"mean": None, "max": None}

    def test_what_users_spent_is_at_most_the_budget(self, three: Simulation) -> None:
        spent = three.epsilon_spent
        assert 0 < spent.mean <= spent.max <= 8.0
        total = sum(trial.outcome.spending.total_spent for trial in three.trials)
        assert spent.mean == pytest.approx(total / 3 / 120 / 10**9)

    def test_the_mean_of_equal_spending_is_the_greatest(self, three: Simulation) -> None:
        """Three floats were rounded one after another: 6.925774023999999 of 6.925774024."""
        users, nano_nats = 814_968_599, 6_925_774_024
        spending = replace(
            three.trials[0].outcome.spending,
            max_spent=nano_nats,
            total_spent=users * nano_nats,
        )
        outcome = replace(three.trials[0].outcome, spending=spending)
        many = Population("many", WHOLE, users, lambda first, stop: pytest.fail("none is read"))
        trial = replace(three.trials[0], outcome=outcome, population=many)
        spent = replace(three, trials=(trial,) * 3).epsilon_spent
        assert spent.mean == spent.max == 6.925774024

    def test_without_a_delta_nothing_is_said_of_one(self, three: Simulation) -> None:
        assert three.epsilon_spent.at_delta is None
        assert three.to_json()["epsilon_spent"].keys() == {"max", "mean"}

    def test_at_a_stated_delta_many_small_charges_compose(self) -> None:
        """80 questions of a tenth each: 8 by the sum, about 4.6 by zero-concentration."""
        people = Population.from_columns(WHOLE, {"number": [0, 1, 1, 0] * 5})
        result = simulate(Study(eighty(), WHOLE, epsilon=8, delta="1e-6"), people)
        spent = result.to_json()["epsilon_spent"]
        at_delta = epsilon_of_rho(80 * Fraction(1, 200), Fraction(1, 10**6))
        assert spent == {"max": 8, "mean": 8, "delta": 1e-6, "at_delta": at_delta}
        assert 4 < at_delta < 5
        plain = simulate(Study(eighty(), WHOLE, epsilon=8), people)
        assert plain.transcript.digest == result.transcript.digest, "devices are told of no delta"

    def test_one_charge_composes_to_itself(self) -> None:
        made = named("masked-parity", epsilon="8", delta=1e-6, users=120, settings={"d": "2"})
        spent = simulate(made.study, made.people).epsilon_spent
        assert spent.at_delta == spent.max

    @pytest.mark.parametrize("delta", [0, 1, -1, "x", float("nan"), True])
    def test_a_delta_is_a_probability(self, delta: Any) -> None:
        with pytest.raises(InvalidParameter, match="delta"):
            Study(eighty(), WHOLE, epsilon=8, delta=delta)

    def test_rows_are_written_one_a_trial_and_the_same_in_both_formats(
        self, three: Simulation, tmp_path: Path
    ) -> None:
        from pyarrow import parquet

        lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
        three.write(lines)
        three.write(table)
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
        assert parquet.read_table(table).to_pylist() == rows
        assert [row["trial"] for row in rows] == [0, 1, 2]
        assert [row["transcript"] for row in rows] == [t.outcome.transcript for t in three.trials]
        assert [json.loads(row["hypothesis"]) for row in rows] == [
            trial.outcome.hypothesis.to_json() for trial in three.trials
        ]
        assert {path.name for path in tmp_path.iterdir()} == {"rows.jsonl", "rows.parquet"}


class TestRefusals:
    def test_too_few_users_are_refused_with_nobody_asked_and_nothing_recorded(self) -> None:
        log = MemoryLog()
        made: list[Devices] = []

        @contextmanager
        def fleet(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
            made.append(devices)
            yield OpenedFleet(ObjectFleet(devices), lambda study: log)

        people = masked_parity(10, Seed.of(0), 8)
        study = named("masked-parity", epsilon="1", users=10).study(people)
        with pytest.raises(PlanRefused, match="the population has 10"):
            run_trial(study, people, fleet=fleet, seed=Seed.of(0))
        (devices,) = made
        assert list(log.lines()) == []
        assert not any(devices[n].known_studies for n in range(10))

    @pytest.mark.parametrize("trials", [0, -1])
    def test_no_trials(self, trials: int) -> None:
        with pytest.raises(InvalidParameter, match=f"trials: expected a whole .*, got {trials}"):
            parity_trials(trials)

    def test_a_fleet_that_there_is_none_of(self) -> None:
        with pytest.raises(
            InvalidParameter,
            match="expected one of objects, grpc, grpc-streams, columns, ray, tally, got 'ships'",
        ):
            parity_trials(1, fleet="ships")


@pytest.mark.slow
def test_masked_parity_is_learned_by_ten_thousand_users_at_epsilon_2() -> None:
    """At d = 8, beta = 1/100: at least 99 of the seeds 0 .. 99 find r and a.

    Columns give the transcript of devices as objects, here of seed 0.
    """
    made = named("masked-parity", epsilon="2", users=10_000, settings={"d": "8"})
    objects = simulate(made.study, made.people, seed=0)
    right = 0
    for seed in range(100):
        result = simulate(made.study, made.people, seed=seed, fleet="columns")
        assert seed or result.transcript.digest == objects.transcript.digest
        right += result.successes or 0
        assert result.trials[0].outcome.reconciled
        assert result.epsilon_spent.max <= 2.0
    assert right >= 99


def test_the_peak_memory_of_a_process_is_its_own() -> None:
    """Once, it was at least what the process held that had started it: here 400 MB more."""
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from askance_simulation.experiments.trials import peak_memory_mb\n"
        "print(peak_memory_mb())"
    )
    said = []
    for size in (0, 400 << 20):
        held = bytearray(size)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
        )
        said.append(float(done.stdout))
        assert len(held) == size
    assert said[1] < said[0] + 100
