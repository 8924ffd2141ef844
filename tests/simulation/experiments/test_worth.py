"""Worth of every learner's result: one run where it is good, one where it cannot be.

Small settings and seed 0. A learner of the catalogue without a row here fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Batch,
    Learning,
    Question,
    adaptive,
    correlation,
    find,
    heavy_hitters,
    learners,
    mean,
    mean_vector,
)
from askance_aggregator.oracles import learn
from askance_aggregator.queries import predicate
from askance_aggregator.reports.verdict import Placement
from askance_aggregator.studies.advice import advice
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidAnswer, PlanRefused
from askance_client.queries import Bit, Bits, Integer, Schema
from askance_simulation.disturbances import Misbehaviour
from askance_simulation.experiments import Simulation, named, simulate, sweep
from askance_simulation.experiments.references import PopulationOracle, reference_of
from askance_simulation.populations import Population, categories, numbers
from askance_simulation.randomness import Seed
from tests.kinds import one_of_each_kind

NOISE = {"label-noise": "1/2"}
"""Labels that say nothing: neither more users nor exact answers can help."""


@dataclass(frozen=True)
class Row:
    """Settings of a good run, and of one that cannot be good.

    Args:
        settings: of the learner and its population, in both runs.
        population: None: the learner's own.
        users: of the good run, at epsilon 4.
        placement: of the good run.
        few: users of the other run.
        epsilon: of the other run.
        more: settings of the other run.
        ends: error that ends the other run before there is a result; None: it is assessed.
    """

    settings: dict[str, str] = field(default_factory=dict)
    population: str | None = None
    users: int = 4_000
    placement: Placement = Placement.BETTER
    few: int = 50
    epsilon: str = "0.05"
    more: dict[str, str] = field(default_factory=dict)
    ends: type[Exception] | None = None


def small(name: str, without: str = "") -> dict[str, str]:
    """Return a learner's small settings, without one of them."""
    found = find(name).small.on_fleets
    return {key: text for key, text in found.items() if key != without}


def concept(
    name: str,
    users: int = 1_600,
    settings: dict[str, str] | None = None,
    ends: type[Exception] | None = None,
) -> Row:
    """Return the row of a learner of concepts: its plan refuses few users, so labels are noise."""
    return Row(
        settings or small(name),
        users=users,
        placement=Placement.RIGHT,
        few=users,
        epsilon="8",
        more=NOISE,
        ends=ends,
    )


TRAITS = {"columns": "member,age"}

ROWS = {
    "association": Row({"columns": "colour,y"}),
    "conjunctions": concept("conjunctions"),
    "correlation": Row({"d": "1", "columns": "x0,y"}),
    "decision-lists": concept("decision-lists", ends=InvalidAnswer),
    "decision-tree": Row(small("decision-tree", "tau")),
    "difference": Row({"column": "age", "group": "y"}),
    "disjunctions": concept("disjunctions"),
    "frequency": Row(),
    "gaussian-mixture": Row(small("gaussian-mixture", "tau"), few=100),
    "heavy-hitters": Row(
        small("heavy-hitters") | {"tau": "1/10"}, placement=Placement.RIGHT, ends=PlanRefused
    ),
    "huber-regression": Row({"d": "1"}),
    "k-means": Row({"clumps": "3", "d": "2", "rounds": "2"}),
    "linear-regression": Row({"d": "1"}),
    "linear-svm": Row({**TRAITS, "rounds": "12"}),
    "literal-conjunctions": concept("literal-conjunctions"),
    "logistic-regression": Row({**TRAITS, "rounds": "12"}),
    "marginals": Row({"columns": "member,colour,y"}),
    "masked-parity": concept("masked-parity", users=1_000, settings={"d": "16"}),
    "mean": Row({"column": "age"}, "traits"),
    "mean-vector": Row({"d": "5"}, users=40_000),
    "naive-bayes": Row({**TRAITS, "bins": "2"}),
    "pca": Row({"d": "2", "components": "1"}, epsilon="0.01"),
    "perceptron": Row(small("perceptron"), users=20_000),
    "quantiles": Row({"levels": "1/4", "steps": "16", "tau": "1/10"}, ends=PlanRefused),
    "random-features": Row({**TRAITS, "rounds": "12"}),
    "ranges": Row({"steps": "4", "arity": "2"}),
    "ridge-regression": Row({"d": "1"}),
    "trend": Row({"horizon": "4"}),
}


def run(name: str, users: int, epsilon: str, settings: dict[str, str], **more: Any) -> Simulation:
    """Simulate a learner of the catalogue on the columns of its population."""
    population = ROWS[name].population
    made = named(name, epsilon=epsilon, users=users, settings=settings, population=population)
    return simulate(made.study, made.people, fleet="columns", **more)


def test_every_learner_of_the_catalogue_has_a_row() -> None:
    assert set(ROWS) == {entry.name for entry in learners()}


@pytest.mark.parametrize("name", one_of_each_kind(ROWS))
def test_a_good_result_says_that_it_is_better_than_guessing(name: str) -> None:
    row = ROWS[name]
    result = run(name, row.users, "4", row.settings)
    assert result.worth.placement is row.placement
    shown = result.to_json()
    assert shown["error"]["mean"] < shown["baseline"]
    assert shown["reference"] is not None
    # A sentence on the interval may stand before it.
    is_right = re.search(r"^([^.]*interval[^.]*\. )?Right\b", shown["verdict"]) is not None
    assert is_right is (row.placement is Placement.RIGHT)
    for words in ("No better than guessing", "Nothing was learned", "cannot be told from"):
        assert words not in shown["verdict"]


@pytest.mark.parametrize("name", one_of_each_kind(name for name in ROWS if ROWS[name].ends is None))
def test_a_result_that_cannot_be_good_says_so(name: str) -> None:
    row = ROWS[name]
    result = run(name, row.few, row.epsilon, row.settings | row.more)
    shown = result.to_json()
    assert shown["placement"] == "no_better"
    words = ("No better than guessing", "Nothing was learned", "cannot be told from 0")
    assert any(one in shown["verdict"] for one in words)
    assert shown["error"]["mean"] >= shown["baseline"] - result.trials[0].assessment.margin
    if row.more:
        assert "exact answers are no better" in shown["verdict"]
        assert "what would help" not in shown["verdict"]


@pytest.mark.parametrize("name", [name for name in ROWS if ROWS[name].ends is not None])
def test_a_run_that_is_stopped_claims_nothing(name: str) -> None:
    row = ROWS[name]
    with pytest.raises(row.ends or Exception):
        run(name, row.few, row.epsilon, row.settings | row.more)


@pytest.mark.parametrize("name", ["heavy-hitters", "quantiles"])
def test_lies_that_spoil_a_result_show_in_its_verdict(name: str) -> None:
    """Their plans refuse few users; where each device lies, the figures tell."""
    row = ROWS[name]
    lies = Misbehaviour(liars=1, attack="mga", targets=(1,))
    result = run(name, row.users, "4", row.settings, behaviour=lies)
    assert result.successes == 0
    assert result.worth.placement is Placement.NO_BETTER
    assert "No better than guessing" in result.to_json()["verdict"]


class TestFigures:
    """Figures by hand, on few users."""

    BELOW = Schema("s", 1, smokes=Bit())

    def people(self, ones: int, users: int) -> Population:
        return Population.from_columns(self.BELOW, {"smokes": np.arange(users) < ones})

    def test_a_mean_s_guess_is_the_middle_of_its_range(self) -> None:
        study = Study(mean(self.BELOW["smokes"]), epsilon=8, schema=self.BELOW)
        shown = simulate(study, self.people(100, 1_000), fleet="columns").to_json()
        assert (shown["baseline"], shown["reference"]) == (pytest.approx(0.4), 0)

    def test_figures_of_several_trials_are_means(self) -> None:
        made = named("frequency", epsilon=4, users=500, settings={})
        result = simulate(made.study, made.people, fleet="columns", trials=3)
        alone = [trial.assessment.baseline for trial in result.trials]
        assert len({*alone}) == 3
        assert result.to_json()["baseline"] == pytest.approx(sum(map(float, map(str, alone))) / 3)

    def test_a_sweep_s_rows_have_the_constant_guess_s_error(self) -> None:
        rows = sweep("frequency", {"epsilon": 4, "users": [200, 300]}).rows
        assert len({row["baseline"] for row in rows}) == 2
        assert all(0 < row["baseline"] < 1 for row in rows)

    def test_without_a_target_nothing_is_judged(self) -> None:
        made = named("masked-parity", epsilon=8, users=200, settings={"d": "2"})
        people = made.people(Seed.of(0))
        unlabelled = Population("p", people.schema, people.size, people.columns)
        shown = simulate(made.study(unlabelled), unlabelled, fleet="columns").to_json()
        assert (shown["baseline"], shown["reference"]) == (None, None)
        assert shown["verdict"].startswith("Not judged")

    def test_no_answer_is_worth_nothing(self) -> None:
        result = run("frequency", 100, "1", {}, behaviour=Misbehaviour(offline=1))
        assert result.to_json()["verdict"] == "Worth nothing: no user answered."


class TestReference:
    def test_it_is_the_error_of_the_same_learner_with_exact_answers(self) -> None:
        people = categories(5_000, Seed.of(1), 8)
        learner = named("frequency", epsilon=1, users=5_000).study(people).learner
        hypothesis = learn(learner, PopulationOracle(people))
        counts = np.bincount(np.asarray(people.columns(0, 5_000).values["category"]), minlength=8)
        assert hypothesis.answer.values == pytest.approx((counts / 5_000).tolist())
        assert reference_of(learner, people, 5_000) == 0

    def test_users_of_many_stretches_are_all_counted(self) -> None:
        people = numbers(70_000, Seed.of(1))
        learner = mean(people.schema["number"])
        values = np.asarray(people.columns(0, 70_000).values["number"])
        exact = learn(learner, PopulationOracle(people))
        assert exact.estimate == pytest.approx(float(values.mean()) / 2**16, abs=1e-12)

    def test_users_who_change_are_asked_as_they_are_in_each_round(self) -> None:
        schema = Schema("s", 1, smokes=Bit())
        before, after = (Population.from_columns(schema, {"smokes": [bit] * 10}) for bit in (0, 1))
        moving = Population(
            "p", schema, 10, before.columns, drift=lambda number: after if number else before
        )

        @adaptive("twice")
        def twice(schema: Schema) -> Learning[tuple[float, ...]]:
            """Ask the same share in two rounds."""
            question = Question(predicate(schema["smokes"] == 1))
            (one,) = yield Batch([question])
            (other,) = yield Batch([question])
            return one.value, other.value

        assert learn(twice(schema), PopulationOracle(moving)) == (0, 1)

    def test_it_is_left_out_where_it_would_cost_more_than_the_study(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        people = numbers(1_000, Seed.of(1))
        learner = mean(people.schema["number"])
        assert reference_of(learner, people, 1_000) == 0
        monkeypatch.setattr("askance_simulation.experiments.references.FREE_WORK", 0)
        assert reference_of(learner, people, 1_000) == 0, "four answers pay for an evaluation"
        assert reference_of(learner, people, 249) is None
        monkeypatch.setattr("askance_simulation.experiments.references.MAX_HELD", 999)
        assert reference_of(learner, people, 1_000) is None


class TestAdvice:
    def made(self, **more: str) -> Study:
        settings = {"columns": "member,colour,y,age", "bins": "2", **more}
        return named("marginals", epsilon="1", users=300, settings=settings).study(
            Population.generated("traits", 300)
        )

    def test_its_figures_are_the_planner_s(self) -> None:
        study = self.made()
        tau = max(round_.tau for round_ in study.plan(300).rounds)
        told = str(advice(study, 300, tau, None))
        found = re.search(r"([\d,]+) users \(answers within ([\d.]+) instead of ([\d.]+)\)", told)
        assert found is not None
        users, then, now = (float(text.replace(",", "")) for text in found.groups())
        assert now == pytest.approx(tau, rel=0.01)
        planned = study.plan(int(users)).rounds
        assert then == pytest.approx(max(round_.tau for round_ in planned), rel=0.01)
        assert then < now
        assert "epsilon 16" in told
        assert "1 of 4 columns" not in told, "a table of pairs has two columns or more"

    @pytest.mark.parametrize(
        ("users", "found"),
        [
            (40_000, r"; epsilon 2 \([\d.]+\); 1 of 5 columns \([\d.]+\)$"),
            (2_000, r"; 1 of 5 columns at epsilon 8 \([\d.]+\); a simpler"),  # for few, in one
        ],
    )
    def test_fewer_columns_are_advised_where_they_leave_more_users_each(
        self, users: int, found: str
    ) -> None:
        made = named("naive-bayes", epsilon="0.5", users=users)
        people = made.people(Seed.of(0))
        assert len(people.schema.fields) == 6  # one is the label, and no column of the question
        study = made.study(people)
        hypothesis = learn(study.learner, PopulationOracle(people))
        told = str(advice(study, users, study.plan(users).rounds[0].tau, hypothesis))
        assert re.search(found, told), told

    def test_fewer_columns_and_a_larger_epsilon_are_one_advice_of_few_users(self) -> None:
        """Figures are the planner's, at the least epsilon that is as good as enough users."""
        fields = {f"c{place}": Integer(0, 100) for place in range(9)}
        schema = Schema("s", 1, **fields)
        told = str(advice(Study(mean_vector(schema), schema, epsilon=1), 150, 200.0, None))
        wanted = float(re.findall(r"within ([\d.]+) instead", told)[0])
        ((epsilon, tau),) = re.findall(r"2 of 9 columns at epsilon (\d+) \(([\d.]+)\)", told)
        assert f"; epsilon {epsilon} (" not in told

        def planned(nats: int) -> float:
            made = mean_vector(schema, columns=["c0", "c1"])
            return Study(made, schema, epsilon=nats).plan(150).rounds[0].tau

        assert float(tau) == pytest.approx(planned(int(epsilon)), rel=0.01)
        assert int(epsilon) == 16 or planned(int(epsilon)) <= wanted
        assert planned(int(epsilon) // 2) > wanted

    def test_what_gains_less_than_a_third_is_no_advice(self) -> None:
        study = self.made()
        tau = max(round_.tau for round_ in study.plan(300).rounds)
        best = max(round_.tau for round_ in study.plan(10**9).rounds)
        assert advice(study, 300, tau, None) is not None
        told = advice(study, 300, best, None)
        assert told is None or all("simpler" in one for one in told.options)

    def test_few_users_are_told_a_simpler_question(self) -> None:
        """Figures are the planner's, at the least epsilon at which these users answer it."""
        schema = Schema("s", 1, age=Integer(18, 80), pay=Integer(800, 3_100))
        study = Study(correlation(schema, ["age", "pay"]), schema, epsilon=1)
        told = advice(study, 150, study.plan(150).rounds[0].tau, None)
        assert told is not None
        ((epsilon, tau),) = re.findall(
            r"a simpler question at epsilon (\d+): the mean of age \(within ([\d.]+)\)", str(told)
        )
        asked = Study(mean(schema["age"]), schema, epsilon=int(epsilon)).plan(150).rounds[0].tau
        assert float(tau) == pytest.approx(asked, rel=0.01)
        assert float(tau) <= (80 - 18) / 4
        less = Study(mean(schema["age"]), schema, epsilon=int(epsilon) // 2).plan(150)
        assert less.rounds[0].tau > (80 - 18) / 4

    def test_a_stated_tolerance_is_what_can_be_finer(self) -> None:
        study = self.made(tau="1/4")
        told = str(advice(study, 10_000, 0.25, None))
        assert told.startswith("what would help, by the planner: tau=1/8 (")
        users = int(re.findall(r"\(([\d,]+) users", told)[0].replace(",", ""))
        assert users == self.made(tau="1/8").plan().users_needed

    def test_of_a_learner_that_no_text_builds_users_and_epsilon_are_told(self) -> None:
        schema = Schema("s", 1, n=Integer(0, 9))
        study = Study(mean(schema["n"] * schema["n"]), schema, epsilon=1)
        told = str(advice(study, 100, study.plan(100).rounds[0].tau, None))
        assert "users" in told
        assert "epsilon" in told
        assert "columns" not in told


class TestHeavyHitters:
    """Values near the threshold are missed now and then: never is that called right."""

    SCHEMA = Schema("w", 1, word=Bits(4))

    def people(self, users: int) -> Population:
        """Return 30 % of one word, 10.4 % of another, the others even and below 5 %."""
        first, second = 3 * users // 10, 13 * users // 125
        rest = 2 + np.arange(users - first - second) % 14
        words = np.concatenate([np.zeros(first), np.ones(second), rest]).astype(int)
        return Population.from_columns(
            self.SCHEMA, {"word": [format(word, "04b") for word in words.tolist()]}
        )

    def test_a_run_that_misses_a_frequent_value_is_not_called_right(self) -> None:
        learner = heavy_hitters(self.SCHEMA, "word", "1/10", 4, "1/20")
        study = Study(learner, self.SCHEMA, epsilon=4)
        people = self.people(study.plan().users_needed)
        missed = 0
        for seed in range(30):
            result = simulate(study, people, fleet="columns", seed=seed)
            shown = result.to_json()
            found = {item["value"] for item in shown["hypothesis"]["found"]}
            lists = {
                name: {item["value"] for item in items} for name, items in shown["details"].items()
            }
            assert lists["true"] == {"0000", "0001"}
            assert lists["found"] == found
            assert lists["missed"] == lists["true"] - found
            assert lists["wrong"] == found - lists["true"]
            assert "0001" in lists["borderline"]
            assert "0000" not in lists["borderline"]
            assert result.successes == int(found == lists["true"])
            if "0001" not in found:
                missed += 1
                assert "missed 0001 (0.103)" in shown["verdict"]
                assert "borderline" in shown["verdict"]
        assert 0 < missed < 30
