"""Statistics over several fields are over the users who have all of them, in estimate and truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.learners import (
    Learner,
    decision_tree,
    gaussian_mixture,
    hypothesis_from_json,
    k_means,
    linear_regression,
    linear_svm,
    logistic_regression,
    mean,
    naive_bayes,
    perceptron,
    principal_components,
    ridge_regression,
)
from askance_aggregator.learners.assessments import assess
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Integer, Label, Real, Schema
from askance_simulation.experiments import run_trial, simulate
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed

SCHEMA = Schema(
    "households",
    1,
    age=Integer(18, 90),
    income=Real(0, 150_000, frac_bits=0),
    spent=Real(0, 100_000, frac_bits=0),
    owns=Label(["no", "yes"]),
)
USERS = 5000
FLOATS = NDArray[np.float64]
NUMBERS = ["age", "income", "spent"]


def households() -> dict[str, Any]:
    """Log-normal incomes, 30 % blank, and what is spent of them, 10 % blank."""
    rng = np.random.default_rng(7)
    age = rng.integers(18, 91, USERS).astype(np.float64)
    income = np.rint(np.minimum(rng.lognormal(9.9, 0.7, USERS), 150_000))
    spent = np.clip(np.rint(0.4 * income + 100 * age + rng.normal(0, 1000, USERS)), 0, 100_000)
    owns = np.where(income + 300 * age + rng.normal(0, 3000, USERS) > 40_000, "yes", "no")
    income[rng.random(USERS) < 0.3] = np.nan
    spent[rng.random(USERS) < 0.1] = np.nan
    return {"age": age, "income": income, "spent": spent, "owns": owns}


COLUMNS = households()
OWNS = (COLUMNS["owns"] == "yes").astype(np.int64)
HAS_INCOME = ~np.isnan(COLUMNS["income"])
COMPLETE = HAS_INCOME & ~np.isnan(COLUMNS["spent"])
TABLE: FLOATS = np.stack([COLUMNS[name] for name in NUMBERS], axis=1)[COMPLETE]
PEOPLE = Population.from_columns(SCHEMA, COLUMNS)
ROWS: EncodedColumns = encode_columns(SCHEMA, COLUMNS)


def scaled(table: FLOATS) -> FLOATS:
    """Numbers on [-1, 1], by the schema's bounds."""
    low, high = np.array([18, 0, 0]), np.array([90, 150_000, 100_000])
    return np.asarray((2 * table - low - high) / (high - low))


def exactly(learner: Learner[Any], rows: EncodedColumns = ROWS) -> Any:
    return learn(learner, ExactOracle(SCHEMA, rows))


def test_a_regression_is_that_of_the_complete_cases() -> None:
    """With blanks as mid-range the slope of income was 0.12. Weights are on a grid of 2^-12."""
    learner = linear_regression(SCHEMA, "spent", ["age", "income"], rounds=800, rate="3/2")
    found = exactly(learner)
    design = np.column_stack([np.ones(len(TABLE)), TABLE[:, :2]])
    wanted = np.linalg.lstsq(design, TABLE[:, 2], rcond=None)[0]
    assert found.coef_ == pytest.approx(wanted[1:], rel=0.03)
    assert found.coef_[1] == pytest.approx(0.4, abs=0.01)
    assert found.missing is None


def test_a_ridge_s_penalty_is_on_complete_cases() -> None:
    """A gradient is shorter by the share of complete cases, which the penalty is not."""
    learner = ridge_regression(SCHEMA, "spent", ["age", "income"], "1/10", rounds=400, rate="3/2")
    found = exactly(learner)
    z = scaled(TABLE)
    design = np.column_stack([np.ones(len(z)), z[:, :2]])
    gram = design.T @ design / len(z) + np.diag([0, 0.1, 0.1]) / COMPLETE.mean()
    wanted = np.linalg.solve(gram, design.T @ z[:, 2] / len(z))
    assert np.array(found.weights) == pytest.approx(wanted, abs=2e-3)


def test_principal_components_are_those_of_the_complete_cases() -> None:
    found = exactly(principal_components(SCHEMA, NUMBERS))
    z = scaled(TABLE)
    assert found.mean_ == pytest.approx(z.mean(axis=0), abs=2e-3)
    values, vectors = np.linalg.eigh(np.cov(z.T, bias=True))
    assert found.explained_variance_ == pytest.approx(values[::-1][:2], abs=1e-3)
    cosines = np.abs(np.sum(found.components_ * vectors.T[::-1][:2], axis=1))
    assert cosines == pytest.approx(1.0, abs=1e-3)
    assert assess(found, principal_components(SCHEMA, NUMBERS), PEOPLE).error == pytest.approx(
        0.0, abs=1e-4
    )


def people_with(rows: EncodedColumns) -> Population:
    """Users with these rows, which are those of users who were not asked, too."""
    return Population(
        "rows",
        SCHEMA,
        len(rows),
        lambda start, stop: rows.take(slice(start, stop)),
        unseen=lambda count: rows,
    )


LEARNERS: dict[str, Callable[[], Learner[Any]]] = {
    "linear": lambda: linear_regression(SCHEMA, "spent", ["age", "income"]),
    "pca": lambda: principal_components(SCHEMA, NUMBERS),
    "k-means": lambda: k_means(SCHEMA, k=3, columns=NUMBERS),
    "one centre": lambda: k_means(SCHEMA, k=1, columns=NUMBERS),
    "mixture": lambda: gaussian_mixture(SCHEMA, k=2, columns=NUMBERS, rounds=4),
    "one bell": lambda: gaussian_mixture(SCHEMA, k=1, columns=NUMBERS, rounds=4),
    "tree": lambda: decision_tree(SCHEMA, "owns", NUMBERS, depth=2),
    "logistic": lambda: logistic_regression(SCHEMA, "owns", NUMBERS, rounds=6),
}
GRADIENTS = {"linear", "logistic"}  # their users are not asked for the share of complete cases
REPORTING = [name for name in LEARNERS if name not in GRADIENTS]


def numbers_in(data: Any) -> list[float]:
    """All numbers of a hypothesis's JSON but those of the missing share."""
    if isinstance(data, dict):
        return [x for key, item in data.items() if key != "missing" for x in numbers_in(item)]
    if isinstance(data, list):
        return [x for item in data for x in numbers_in(item)]
    return [float(data)] if isinstance(data, int | float) else []


@pytest.mark.parametrize("name", [name for name in REPORTING if name != "tree"])
def test_blanks_change_nothing_but_the_missing_share(name: str) -> None:
    """With exact answers a learner concludes from all rows what it does from the complete ones."""
    with_blanks = exactly(LEARNERS[name]())
    without = exactly(LEARNERS[name](), ROWS.take(np.flatnonzero(COMPLETE)))
    assert numbers_in(with_blanks.to_json()) == pytest.approx(
        numbers_in(without.to_json()), rel=1e-2, abs=5e-3
    )
    assert with_blanks.missing.share == pytest.approx(1 - COMPLETE.mean(), abs=1e-9)
    assert without.missing.share == 0


@pytest.mark.parametrize("name", ["linear", "logistic", "svm"])
def test_blanks_shorten_the_steps_of_a_descent_and_nothing_else(name: str) -> None:
    """A gradient is that of the complete cases times their share, so its step is, too."""

    def of(rate: Fraction) -> Learner[Any]:
        makers: dict[str, Learner[Any]] = {
            "linear": linear_regression(SCHEMA, "spent", NUMBERS[:2], rounds=20, rate=rate),
            "logistic": logistic_regression(SCHEMA, "owns", NUMBERS, rounds=20, rate=rate),
            "svm": linear_svm(SCHEMA, "owns", NUMBERS, rounds=20, rate=rate),
        }
        return makers[name]

    share = Fraction(int(COMPLETE.sum()), USERS)
    with_blanks = exactly(of(Fraction(1)))
    without = exactly(of(share), ROWS.take(np.flatnonzero(COMPLETE)))
    assert any(abs(weight) > 0.1 for weight in without.weights[1:])
    assert with_blanks.weights == pytest.approx(without.weights, abs=20 * 2.0**-12)
    assert with_blanks.missing is without.missing is None


def test_a_tree_is_grown_from_complete_cases() -> None:
    found = exactly(LEARNERS["tree"]())
    without = exactly(LEARNERS["tree"](), ROWS.take(np.flatnonzero(COMPLETE)))
    assert [node.split for node in found.nodes] == [node.split for node in without.nodes]
    rows = ROWS.take(np.flatnonzero(COMPLETE))
    assert found.predict_proba(rows) == pytest.approx(without.predict_proba(rows))
    inside = sum(sum(leaf.shares) for leaf in found.leaves)
    assert inside == pytest.approx(COMPLETE.mean())
    assert found.missing.share == pytest.approx(1 - COMPLETE.mean())


def test_the_tables_of_naive_bayes_are_of_users_who_have_label_and_field() -> None:
    found = exactly(naive_bayes(SCHEMA, "owns", ["age", "income"], bins=5, smoothing="1/1000000"))
    assert found.priors == pytest.approx((1 - OWNS.mean(), OWNS.mean()), abs=1e-4)
    for label in (0, 1):
        own = COLUMNS["income"][HAS_INCOME & (label == OWNS)]
        counts, _ = np.histogram(own, np.linspace(0, 150_000, 6))
        assert found.tables[1][label] == pytest.approx(counts / counts.sum(), abs=1e-3)
    assert [part.share for part in found.missing] == pytest.approx([0, 0, 1 - HAS_INCOME.mean()])


def test_a_prior_does_not_depend_on_who_has_a_field() -> None:
    """A prior that was the mean of the tables' sums was too small where a class lacks a field."""
    columns = dict(COLUMNS, income=np.where(OWNS == 1, np.nan, 20_000.0))
    columns["income"][:10] = 20_000.0
    rows = encode_columns(SCHEMA, columns)
    found = exactly(naive_bayes(SCHEMA, "owns", ["income"], smoothing="1/1000000"), rows)
    assert found.priors[1] == pytest.approx(OWNS.mean(), abs=1e-3)


@pytest.mark.parametrize("name", [*LEARNERS, "perceptron"])
def test_verdicts_are_on_complete_rows(name: str) -> None:
    """Baseline, error and reference are those of a population without the other rows."""
    made = LEARNERS.get(name, lambda: perceptron(SCHEMA, "owns", NUMBERS, rounds=2))()
    odd = {name: column.copy() for name, column in COLUMNS.items()}
    odd["owns"] = np.where(COMPLETE, COLUMNS["owns"], np.where(OWNS == 1, "no", "yes"))
    odd["age"][~COMPLETE] = 18  # labels and ages of the others would mislead
    full = encode_columns(SCHEMA, odd)
    only = full.take(np.flatnonzero(COMPLETE))
    hypothesis = exactly(made, full)
    assessments = [assess(hypothesis, made, people_with(rows)) for rows in (full, only)]
    assert assessments[0].error == pytest.approx(assessments[1].error, rel=1e-6, abs=1e-9)
    assert assessments[0].baseline == pytest.approx(assessments[1].baseline, rel=1e-6)


@pytest.mark.parametrize("name", [*REPORTING, "perceptron"])
def test_a_missing_share_is_read_as_it_was_written(name: str) -> None:
    made = LEARNERS.get(name, lambda: perceptron(SCHEMA, "owns", NUMBERS, rounds=2))()
    found = exactly(made)
    assert found.missing.share == pytest.approx(1 - COMPLETE.mean(), abs=1e-9)
    written = json.loads(json.dumps(found.to_json()))
    assert hypothesis_from_json(made.name, written) == found


def test_notes_say_that_users_without_a_value_are_left_out() -> None:
    study = Study(linear_regression(SCHEMA, "spent", ["income"]), SCHEMA, epsilon=4)
    result = simulate(study, PEOPLE, fleet="columns", seed=1)
    assert all("are left out of its estimate" in note for note in result.notes)
    assert result.notes
    learner = principal_components(SCHEMA, ["income"], components=1, missing="default")
    result = simulate(Study(learner, SCHEMA, epsilon=4), PEOPLE, fleet="columns", seed=1)
    assert any("count as 0" in note for note in result.notes)


TRIALS = 40  # of four vectors each, which take a user's device 0.1 ms


def test_intervals_of_the_missing_share_hold_and_ratios_are_centred() -> None:
    """40 studies of 5,000 users at confidence .95; blanks as mid-range moved the mean by 0.3."""
    learner = principal_components(SCHEMA, ["income"], components=1)
    study = Study(learner, SCHEMA, epsilon=4, confidence=0.95)
    wanted = float(scaled(TABLE_OF_INCOMES)[:, 1].mean())
    blank, held, means = 1 - HAS_INCOME.mean(), 0, []
    for number in range(TRIALS):
        trial = run_trial(study, PEOPLE, fleet="columns", seed=Seed.of(number))
        found = trial.outcome.hypothesis
        held += found.missing.low <= blank <= found.missing.high
        means.append(found.mean[0])
    assert held >= 0.95 * TRIALS - 5  # 3 standard errors
    error = float(np.std(means)) / np.sqrt(TRIALS)
    assert 0.035 < np.std(means) < 0.07  # by one answer of 1,250 users, over a share: about 0.056
    assert abs(np.mean(means) - wanted) < 5 * error
    assert abs(wanted - (1 - blank) * wanted) > 0.15  # of which blanks as 0 would be off


TABLE_OF_INCOMES: FLOATS = np.stack([COLUMNS[name] for name in NUMBERS], axis=1)[HAS_INCOME]


def test_a_promised_share_sizes_the_plan() -> None:
    """With half of the users promised, every answer is asked for twice as exactly."""
    plain, half = (
        principal_components(SCHEMA, ["income"], components=1, tau="1/10", present=present)
        for present in (None, "1/2")
    )
    taus = [
        {question.working_tau for question in next(made.run()).questions} for made in (plain, half)
    ]
    assert taus == [{Fraction(1, 10)}, {Fraction(1, 20)}]
    with pytest.raises(InvalidParameter, match="present expects a share"):
        principal_components(SCHEMA, ["income"], components=1, present=0)
    with pytest.raises(
        InvalidParameter, match="missing: expected one of exclude, default, got 'zero'"
    ):
        principal_components(SCHEMA, ["income"], components=1, missing="zero")


def test_where_no_user_is_complete_nothing_is_learned_and_nothing_fails() -> None:
    columns = dict(COLUMNS, income=np.full(USERS, np.nan))
    people = Population.from_columns(SCHEMA, columns)
    for name, made in LEARNERS.items():
        result = simulate(Study(made(), SCHEMA, epsilon=2), people, fleet="columns")
        if name in REPORTING:
            assert result.hypothesis.missing.high == pytest.approx(1.0, abs=1e-9)
        assert result.trials[0].assessment.error is None


@pytest.mark.parametrize("income", [np.nan, 20_000.0])
def test_a_statistic_that_cannot_be_judged_says_why_and_not_that_a_target_is_missing(
    income: float,
) -> None:
    people = Population.from_columns(SCHEMA, dict(COLUMNS, income=np.full(USERS, income)))
    if np.isnan(income):
        makers = [
            mean(SCHEMA.income),
            principal_components(SCHEMA, ["income", "spent"], components=1),
        ]
        why = "no row has all of the values"
        for made in makers:
            result = simulate(Study(made, SCHEMA, epsilon=2), people, fleet="columns")
            assert result.to_json()["verdict"].startswith(f"Not judged: {why}")
    rows = encode_columns(SCHEMA, dict(COLUMNS, income=np.full(USERS, income)))
    why = "no row has all of the values" if np.isnan(income) else "have one value only"
    kept = people_with(rows)
    fits: list[Learner[Any]] = [
        linear_regression(SCHEMA, "income", ["age"]),
        k_means(SCHEMA, 2, ["income"]),
    ]
    for fit in fits:
        assert why in assess(exactly(fit, rows), fit, kept).summary
