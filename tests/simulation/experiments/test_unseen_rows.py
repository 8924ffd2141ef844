"""Users to learn from, rows that are never asked, and errors measured on the latter."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import askance as ask
from askance_aggregator.learners import (
    Answer,
    DecisionList,
    Disjunction,
    LinearModel,
    LiteralConjunction,
    Marginals,
    NaiveBayes,
    PrincipalComponents,
    Quantile,
    Quantiles,
    Rule,
    linear_regression,
    literal_conjunctions,
    marginals,
    naive_bayes,
    principal_components,
    quantiles,
)
from askance_aggregator.learners.assessments import NO_VALUES, Assessment, assess
from askance_aggregator.learners.encodings import numbers_of
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_client.queries import Label, Real, Schema
from askance_simulation.experiments import named
from askance_simulation.populations import (
    POPULATIONS,
    Population,
    decision_lists,
    disjunctions,
    numbers,
    people_of,
    plane,
    read_file,
    traits,
)
from askance_simulation.populations import (
    literal_conjunctions as literal_world,
)
from askance_simulation.populations.population import build
from askance_simulation.randomness import Seed

SEED = Seed.of(5)
NEW = ["literal-conjunctions", "disjunctions", "decision-lists", "traits", "plane"]


def exact(people: Population) -> ExactOracle:
    return ExactOracle(people.schema, people.columns(0, people.size))


class TestPopulations:
    @pytest.mark.parametrize("name", NEW)
    def test_any_part_is_a_part_of_the_whole_and_the_unseen_are_others(self, name: str) -> None:
        people, fewer = (build(name, size, SEED, {}) for size in (60, 50))
        whole = people.columns(0, 60)
        for field in people.schema.fields:
            part, all_ = (
                people.columns(20, 30).values[field],
                whole.take(slice(20, 30)).values[field],
            )
            assert np.array_equal(part, all_)
            assert fewer.unseen is not None
            later = fewer.unseen(10).values[field]
            assert np.array_equal(later, whole.take(slice(50, 60)).values[field])

    @pytest.mark.parametrize("name", NEW)
    def test_every_value_lies_within_its_schema(self, name: str) -> None:
        people = build(name, 5_000, SEED, {})
        columns = people.columns(0, 5_000)
        for field, kind in people.schema.fields.items():
            values = columns.values[field]
            if not isinstance(values, tuple):
                assert kind.type.low <= values.min() < values.max() <= kind.type.high
            assert columns.present[field].all()

    @pytest.mark.parametrize("relevant", [0, 1, 3, 40])
    @pytest.mark.parametrize("make", [literal_world, disjunctions, decision_lists])
    def test_the_target_labels_everybody(self, make: Any, relevant: int) -> None:
        people = make(300, SEED, 40, relevant)
        rows = people.columns(0, 300)
        assert np.array_equal(people.target.predict(rows), rows.values["y"])
        with pytest.raises(InvalidParameter, match="got 41"):
            make(1, SEED, 40, 41)

    def test_concepts_differ_by_seed_in_variables_and_in_signs(self) -> None:
        drawn = [literal_world(1, Seed.of(n), 3, 1).target for n in range(200)]
        assert len(set(map(str, drawn))) == 6
        lists = [decision_lists(1, Seed.of(n), 2, 1).target for n in range(200)]
        assert len(set(map(str, lists))) == 8  # a variable, its value, and a label
        assert isinstance(disjunctions(1, SEED).target, Disjunction)

    def test_labels_alternate_along_a_list(self) -> None:
        target = decision_lists(1, SEED, 8, 4).target
        assert isinstance(target, DecisionList)
        labels = [*(rule.label for rule in target.rules), target.default]
        assert all(a != b for a, b in pairwise(labels))

    def test_traits_are_independent_within_a_group(self) -> None:
        rows = traits(40_000, SEED).columns(0, 40_000)
        y = np.asarray(rows.values["y"])
        columns = [np.asarray(rows.values[name], float) for name in ("age", "height", "member")]
        assert y.mean() == pytest.approx(0.3, abs=0.015)
        for group in (0, 1):
            between = np.corrcoef([column[y == group] for column in columns])
            assert np.abs(between - np.eye(3)).max() < 0.05  # 5 standard errors

    def test_the_outcome_lies_near_its_plane(self) -> None:
        people = plane(20_000, SEED, 4)
        model = learn(linear_regression(people.schema), exact(people))
        assert np.abs(model.coef_).sum() == pytest.approx(0.75, abs=0.05)
        assert assess(model, linear_regression(people.schema), people).error == pytest.approx(
            1 / 48 / variance_of_y(people), rel=0.1
        )


def variance_of_y(people: Population) -> float:
    (y,) = (item for item in numbers_of(people.schema) if item.name == "y")
    return float(y.of(people.columns(0, people.size)).var())


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        rows = "".join(f"{n},{'yes' if n % 3 else 'no'}\n" for n in range(100))
        (tmp_path / "people.csv").write_text("n,y\n" + rows)
        return tmp_path / "people.csv"

    def test_rows_held_out_are_nobody_s(self, path: Path) -> None:
        people = people_of(read_file(path), SEED, held_out=Fraction(1, 5), keep=["n"])
        assert people.unseen is not None
        users = np.asarray(people.columns(0, people.size).values["n"])
        aside = np.asarray(people.unseen(1000).values["n"])
        assert (len(users), len(aside), len(people.unseen(7))) == (80, 20, 7)
        assert sorted([*users, *aside]) == list(range(100))
        assert "20 of 100 rows are held out to measure the error" in people.notes
        other = people_of(read_file(path), Seed.of(6), held_out=Fraction(1, 5), keep=["n"])
        assert other.unseen is not None
        assert set(aside) != set(np.asarray(other.unseen(20).values["n"]))

    @pytest.mark.parametrize("size", [10, 500])
    def test_users_are_drawn_from_the_others(self, path: Path, size: int) -> None:
        people = people_of(read_file(path), SEED, size=size, held_out=Fraction(1, 5), keep=["n"])
        assert people.unseen is not None
        users = set(np.asarray(people.columns(0, size).values["n"]))
        assert not users & set(np.asarray(people.unseen(20).values["n"]))

    def test_nothing_is_held_out_unless_it_is_asked_for(self, path: Path) -> None:
        assert people_of(read_file(path), SEED).unseen is None
        assert people_of(read_file(path), SEED, held_out=Fraction(1, 1000)).unseen is None
        with pytest.raises(InvalidParameter, match=r"held_out: expected a part in \[0, 1\)"):
            people_of(read_file(path), SEED, held_out=Fraction(1))

    def test_only_what_is_judged_by_such_rows_holds_them_out(self, path: Path) -> None:
        arguments: dict[str, Any] = {"epsilon": 1, "data": path, "label": "y"}
        assert named("naive-bayes", **arguments).people(SEED).size == 80
        assert named("frequency", **arguments).people(SEED).size == 100


def without_outcomes(people: Population) -> Population:
    """Return the same users, judged by rows without a y."""
    rows = people.columns(0, people.size)
    nobody = {**rows.present, "y": np.zeros(people.size, np.bool_)}
    silent = EncodedColumns(rows.values, nobody, people.size)
    return Population("p", people.schema, people.size, people.columns, unseen=lambda _: silent)


class TestAssessments:
    def test_without_an_outcome_in_any_row_there_is_no_error(self) -> None:
        """A mean of no rows is no number, and JSON has none for it."""
        for people, learner in (
            (traits(50, SEED), naive_bayes(traits(1, SEED).schema)),
            (plane(50, SEED, 2), linear_regression(plane(1, SEED, 2).schema)),
        ):
            model: Any = learn(learner, exact(people))
            found = assess(model, learner, without_outcomes(people))
            assert found == Assessment(None, None, summary=NO_VALUES)

    def test_a_classifier_s_error_is_its_share_of_wrong_labels(self) -> None:
        people = literal_world(10, SEED, 3, 1)
        target = people.target
        assert isinstance(target, LiteralConjunction)
        learner = literal_conjunctions(people.schema)
        assessment = assess(target, learner, people)
        assert (assessment.success, assessment.error) == (True, 0.0)
        assert assessment.baseline == pytest.approx(0.5, abs=0.01)
        never = LiteralConjunction(3, (0,), (0,))
        found = assess(never, learner, people)
        assert found.success is False
        assert found.error == pytest.approx(0.5, abs=0.01)  # 5 standard errors of 65,536 rows

    def test_another_way_to_write_the_target_is_the_target(self) -> None:
        people = decision_lists(10, SEED, 3, 0)
        target = people.target
        assert isinstance(target, DecisionList)
        longer = DecisionList(3, (Rule(1, 1, target.default),), target.default)
        assert longer != target
        assessment = assess(longer, literal_conjunctions(people.schema), people)
        assert (assessment.success, assessment.error) == (True, 0.0)

    def test_without_unseen_rows_a_classifier_is_compared_with_the_target(self) -> None:
        people = literal_world(10, SEED, 3, 1)
        alone = Population("p", people.schema, 10, people.columns, people.target)
        learner = literal_conjunctions(people.schema)
        assert assess(people.target, learner, alone) == Assessment(True, 0.0)
        assert assess(LiteralConjunction(3, ()), learner, alone) == Assessment(False, 1.0)

    def test_labels_of_texts_are_told_apart(self) -> None:
        people = traits(5_000, SEED)
        learner = naive_bayes(people.schema)
        model: NaiveBayes = learn(learner, exact(people))
        assessment = assess(model, learner, people)
        assert people.unseen is not None
        rows = people.unseen(1 << 16)
        truth = model.classes_[np.asarray(rows.values["y"])]
        assert assessment.success is None
        assert assessment.error == float((model.predict(rows) != truth).mean())
        assert assessment.baseline == pytest.approx(
            min((truth == one).mean() for one in set(truth))
        )
        assert 0.03 < (assessment.error or 0) < 0.15

    def test_a_regression_that_says_the_mean_has_error_one(self) -> None:
        people = plane(1_000, SEED, 1)
        learner = linear_regression(people.schema)
        model: LinearModel = learn(learner, exact(people))
        flat = LinearModel(model.features, model.outcome, (0.0, 0.0))
        assert assess(flat, learner, people).error == pytest.approx(1, abs=1e-3)
        assert 0 < (assess(model, learner, people).error or 0) < 0.9
        nobody = Population("p", people.schema, 10, people.columns)
        assert assess(model, learner, nobody) == Assessment(None, None)

    def test_the_best_components_have_no_error(self) -> None:
        people = plane(2_000, SEED, 2)
        learner = principal_components(people.schema, None, 2)
        best: PrincipalComponents = learn(learner, exact(people))
        assert assess(best, learner, people).error == pytest.approx(0, abs=1e-9)
        last = learn(principal_components(people.schema, None, 3), exact(people))
        worst = PrincipalComponents(
            best.schema, best.mean, last.components[1:], last.variances[1:], best.total
        )
        lost = (last.variances[0] - last.variances[2]) / best.total
        assert assess(worst, learner, people).error == pytest.approx(lost, abs=1e-6)

    def test_marginals_are_held_to_every_cell(self) -> None:
        people = traits(2_000, SEED)
        learner = marginals(people.schema, ["colour", "member"])
        found: Marginals = learn(learner, exact(people))
        assert assess(found, learner, people).success is True
        assert assess(found, learner, people).error == pytest.approx(0, abs=1e-12)
        (table,) = found.tables
        moved = Answer((table.answer.values[0] + 0.1, *table.answer.values[1:]), *[(0.0,) * 7] * 2)
        wrong = Marginals((type(table)(table.columns, table.labels, moved),))
        assessment = assess(wrong, learner, people)
        assert (assessment.success, len(assessment.truth)) == (False, 7)
        assert assessment.error == pytest.approx(0.1)

    def test_a_quantile_s_error_is_one_of_rank(self) -> None:
        people = numbers(20_000, SEED)
        learner = quantiles(people.schema, "number", ["1/2"], 16, "1/20")
        found: Quantiles = learn(learner, exact(people))
        assessment = assess(found, learner, people)
        assert (assessment.success, assessment.error) == (True, 0.0)
        low = Quantiles("number", (Quantile(Fraction(1, 2), 0.0, 0.25),))
        assessment = assess(low, learner, people)
        assert assessment.success is False
        assert assessment.error == pytest.approx(0.5 - 27 / 384, abs=0.02)  # P[mean of 3 < 1/4]


def test_every_population_says_what_it_is() -> None:
    assert {*NEW} <= set(POPULATIONS)


def _halves(held_out: Any, **given: Any) -> Population:
    """Return 3,000 rows whose label is yes where x is positive."""
    schema = Schema("halves", 1, x=Real(-1, 1), y=Label(["no", "yes"]))
    x = np.random.default_rng(1).uniform(-1, 1, 3_000).round(3)
    columns = {"x": x, "y": np.where(x > 0, "yes", "no")}
    if "schema" in given:
        return ask.read(columns, schema, held_out=held_out, seed=given["seed"])
    return Population.from_columns(schema, columns, held_out=held_out, **given)


@pytest.mark.parametrize("held_out", [0.2, "1/5", Fraction(1, 5), np.float64(0.2)])
@pytest.mark.parametrize("given", [{"seed": 3}, {"seed": 3, "schema": True}])
def test_rows_of_python_s_columns_are_held_out_on_request(
    held_out: object, given: dict[str, Any]
) -> None:
    """Before, a model of columns had no error: there was no way to keep rows aside."""
    people = _halves(held_out, **given)
    assert people.size == 2_400
    assert people.unseen is not None
    aside = people.unseen(10_000)
    assert aside.rows == 600
    assert people.notes == ("600 of 3,000 rows are held out to measure the error",)
    kept, unseen = (
        np.asarray(rows.values["x"]) for rows in (people.columns(0, people.size), aside)
    )
    assert sorted([*kept, *unseen]) == sorted(np.asarray(_halves(0).columns(0, 3_000).values["x"]))


def test_a_model_of_python_s_columns_is_judged_by_the_rows_held_out() -> None:
    people = _halves("1/5")
    run = ask.simulate(naive_bayes(), people, epsilon=4, fleet="columns", seed=1).to_json()
    assert run["error"]["mean"] < 0.1 < 0.4 < run["baseline"]
    assert run["verdict"].startswith("Better than guessing")


def test_without_rows_aside_the_result_says_why_there_is_no_error() -> None:
    people = _halves(0)
    assert (people.size, people.unseen, people.notes) == (3_000, None, ())
    run = ask.simulate(naive_bayes(), people, epsilon=4, fleet="columns", seed=1)
    assert run.to_json()["verdict"] == (
        "Not judged: these users have no target, and no rows without a user were kept"
        " (in Python: held_out=1/5 where the data is read)."
    )


@pytest.mark.parametrize("held_out", [1, -0.1, "6/5"])
def test_a_part_that_leaves_no_user_is_refused(held_out: object) -> None:
    with pytest.raises(InvalidParameter, match=r"held_out: expected a part in \[0, 1\)"):
        _halves(held_out)
