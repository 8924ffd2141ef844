"""Settings of generalised linear models: set by users and noise before any user is asked."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    Conditions,
    Learner,
    find,
    linear_regression,
    logistic_regression,
    plane_schema,
    ridge_regression,
    traits_schema,
)
from askance_aggregator.learners.assessments import CONSTANT
from askance_aggregator.learners.constant_checks import ModelChoice
from askance_aggregator.learners.glm_rules import (
    CLASSES,
    HOPELESS,
    MARGINS,
    OUTCOMES,
    TWO_VALUES,
    Noise,
    Scale,
    affordable,
)
from askance_aggregator.learners.linear_classifiers import coordinates_of
from askance_aggregator.learners.rows import features_of
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import plan, settled
from askance_aggregator.studies.study import Study
from askance_client.queries import Category, Label, QueryKind, Schema
from askance_simulation.experiments import named, simulate

TRAITS = traits_schema()
NANO_NATS = 10**9


def text(learner: Learner[Any]) -> Mapping[str, str]:
    return learner.parameters


def with_noise(users: int | None, n_variance: float) -> Conditions:
    return Conditions(users, lambda question: n_variance, lambda *given: 1.0, lambda learner: None)


def test_less_noise_means_more_rounds_and_looser_clips() -> None:
    rows = [Noise(variance, 30, 26_049) for variance in (25.0, 6.3, 1.6, 0.44, 0.135)]
    rounds = [noise.rounds for noise in rows]
    assert rounds == sorted(rounds)
    assert 8 <= rounds[0] < rounds[-1] == 128
    for scale in (CLASSES, MARGINS, OUTCOMES, TWO_VALUES):
        clips = [noise.clip(scale) for noise in rows]
        assert clips == sorted(clips)


def test_the_errors_of_all_steps_add_to_a_length_that_noise_does_not_change() -> None:
    """Before, rounds fell as the noise's square: a path too short at 26,049 users, epsilon 1."""
    for relative in (0.025, 0.05, 0.1, 0.2):
        noise = Noise(relative**2 * 1_000, 10, 10_000)
        rate = float(noise.rate(CLASSES, 0.25, 5.0))
        assert rate * noise.rounds * noise.relative == pytest.approx(1.75 * 3, rel=0.05)


def test_long_features_shorten_steps_only_where_clipping_does_not_bound_them() -> None:
    """Before, the rate fell as 1 / |x|^2: with all columns of Adult half as long as was best."""
    noise = Noise(1.0, 30, 26_049)
    assert noise.rate(CLASSES, 0.25, 5.0) == noise.rate(CLASSES, 0.25, 11.0)
    assert noise.rate(CLASSES, 0.25, 200.0) < noise.rate(CLASSES, 0.25, 11.0)
    assert noise.rate(OUTCOMES, 1.0, 5.0) < noise.rate(OUTCOMES, 1.0, 3.0)


@pytest.mark.parametrize("scale", [CLASSES, MARGINS, OUTCOMES, TWO_VALUES])
def test_the_decision_is_by_noise_alone(scale: Scale) -> None:
    def decision(relative: float, deviation: float) -> ModelChoice:
        return Noise(relative**2 * 100, 10, 1_000).decision(scale, lambda: deviation)

    sharp, blunt = scale.doubt * 0.99, scale.doubt * 1.01
    assert decision(scale.clear * 0.99, blunt) is ModelChoice.MODEL
    assert decision(scale.clear * 1.01, sharp) is ModelChoice.CHECK
    assert decision(HOPELESS * 0.99, sharp) is ModelChoice.CHECK
    assert decision(scale.clear * 1.01, blunt) is ModelChoice.CONSTANT
    assert decision(HOPELESS * 1.01, 0.0) is ModelChoice.CONSTANT
    assert Noise(1.0, 1, 0).decision(scale, lambda: 0.0) is ModelChoice.CONSTANT


def test_as_many_fields_are_kept_as_the_noise_allows_the_narrowest_first() -> None:
    widths, limit = [40, 1, 1, 8, 2], 0.1
    assert affordable(widths, 0.0, 0, 1024, limit) == (0, 1, 2, 3, 4)
    enough = 13 / limit**2  # 1 + 1 + 1 + 2 + 8 weights at a variance of 1
    assert affordable(widths, 1.0, round(enough) + 1, 1024, limit) == (1, 2, 3, 4)
    assert affordable(widths, 1.0, round(enough) - 20, 1024, limit) == (1, 2, 4)
    assert affordable(widths, 1.0, 1, 1024, limit) == (1,)
    assert affordable(widths, 0.0, 0, 30, limit) == (1, 2, 3, 4)


@pytest.mark.parametrize("name", ["logistic-regression", "linear-svm"])
def test_a_plan_shows_settings_that_were_not_given(name: str) -> None:
    learner = find(name).build(TRAITS)
    made = plan(learner, NANO_NATS, 0.01, n_users=50_000)
    assert set(made.settings) == {"rounds", "rate", "clip", "decide"}
    assert len(made.rounds) == int(made.settings["rounds"])
    assert made.to_json()["settings"] == made.settings
    assert made.feasible
    assert made.users_needed == 50_000


def test_a_setting_that_was_given_is_kept_and_settling_twice_changes_nothing() -> None:
    learner = logistic_regression(TRAITS, rounds=11, rate="1/3", clip="3/4", decide="check")
    once = learner.settled(with_noise(1_000, 500.0))
    assert {name: text(once)[name] for name in text(learner)} == text(learner)
    assert "columns" in text(once)  # the only one that was left to the rule
    assert text(once.settled(with_noise(10**9, 500.0))) == text(once)
    for make in (linear_regression, ridge_regression):
        first = make(plane_schema(3)).settled(with_noise(10_000, 5.0))
        assert text(first.settled(with_noise(10**9, 5.0))) == text(first)


def test_columns_are_limited_by_users_and_epsilon_and_can_be_given() -> None:
    kinds: dict[str, Any] = {f"c{j}": Category([str(k) for k in range(2 + j)]) for j in range(12)}
    wide = Schema.of("wide", 1, {**kinds, "y": Label(["no", "yes"])})
    learner = logistic_regression(wide)
    few, many = (plan(learner, NANO_NATS, 0.01, n_users=n) for n in (5_000, 10_000_000))
    kept = few.settings["columns"].split(",")
    assert kept == list(kinds)[: len(kept)]
    assert 1 <= len(kept) < 12
    assert "columns" not in many.settings
    assert set(few.fields) == {*kept, "y"}
    given = logistic_regression(wide, columns=["c11"])
    assert "columns" not in plan(given, NANO_NATS, 0.01, n_users=5_000).settings


def test_without_a_population_a_plan_asks_for_enough_users() -> None:
    """About as many as leave a relative noise of 1/12; with them the settings are the same."""
    learner = logistic_regression(TRAITS)
    made = plan(learner, NANO_NATS, 0.01)
    assert "tau" in made.settings
    again = plan(learner, NANO_NATS, 0.01, n_users=made.users_needed)
    assert abs(int(again.settings["rounds"]) - int(made.settings["rounds"])) <= 1
    count = 1 + sum(item.count for item in coordinates_of(features_of(TRAITS, "y", None)))
    round_ = plan(learner, NANO_NATS, 0.01, n_users=50_000).rounds[0]
    assert made.users_needed == pytest.approx(144 * count * round_.n_variance, rel=0.05)


def test_the_noise_of_a_gradient_is_the_stated_one() -> None:
    """Measure n times the variance after one round at zero weights, 20 trials, from both sides."""
    users = 4_000
    made = named(
        "logistic-regression",
        epsilon=1,
        users=users,
        settings={
            "columns": "age,colour",
            "rounds": "1",
            "rate": "1",
            "clip": "1",
            "decide": "model",
        },
    )
    run = simulate(made.study, made.people, fleet="columns", seed=7, trials=20)
    measured = [trial.outcome.hypothesis.weights for trial in run.trials]
    variance = float(np.var(measured, axis=0, ddof=1).mean()) * users
    round_ = run.study.plan(users).rounds[0]
    each = round_.n_variance
    # 19 x 5 degrees of freedom, little correlated: 15 % of the variance is one deviation.
    assert 0.4 * each < variance < 1.8 * each


class Coins:
    """Oracle of labels that no feature says anything about: gradients of noise alone."""

    def __init__(self, seed: int, deviation: float) -> None:
        self._rng, self._deviation = np.random.default_rng(seed), deviation
        self.kinds: list[QueryKind] = []

    def answer(self, batch: Batch) -> Answers:
        answers = []
        for question in batch.questions:
            self.kinds.append(question.query.kind)
            values: tuple[float, ...]
            if question.query.kind is QueryKind.CATEGORY:
                values = (0.35, 0.25, 0.25, 0.15, 0.0)  # a model that is wrong as often as right
            elif question.query.kind is QueryKind.VECTOR:
                values = tuple(self._rng.normal(0, self._deviation, question.values))
            else:
                values = (0.4,)
            answers.append(Answer(values, values, values))
        return tuple(answers)


def test_where_nothing_can_be_told_the_constant_is_concluded() -> None:
    """Before, noise was concluded: its error is above the constant's."""
    learner = logistic_regression(TRAITS).settled(with_noise(200, 500.0))
    assert text(learner)["decide"] == "constant"
    oracle = Coins(1, 1.0)
    model = learn(learner, oracle)
    assert oracle.kinds == [QueryKind.PREDICATE]
    assert model.is_constant
    assert model.intercept_[0] == pytest.approx(np.log(0.4 / 0.6), abs=1e-3)
    assert str(model) == "no for every row"


def test_a_model_that_fails_its_check_is_replaced_by_the_constant() -> None:
    checked = logistic_regression(TRAITS, rounds=8, rate=1, clip=1, decide="check")
    oracle = Coins(2, 1.0)
    assert learn(checked, oracle).is_constant
    asked = oracle.kinds.count(QueryKind.CATEGORY)
    assert asked == 2  # of 10 questions: a fifth of the users
    unchecked = logistic_regression(TRAITS, rounds=8, rate=1, clip=1, decide="model")
    assert not learn(unchecked, Coins(2, 1.0)).is_constant


@pytest.mark.parametrize("decide", ["check", "constant"])
def test_a_regression_concludes_the_mean_where_nothing_can_be_told(decide: str) -> None:
    schema = plane_schema(2)
    rng = np.random.default_rng(4)
    columns = {name: rng.uniform(-1, 1, 500) for name in ("x0", "x1")}
    columns["y"] = np.full(500, 0.25) + rng.choice([-0.1, 0.1], 500)
    exact = ExactOracle(schema, columns)

    class Noisy:
        def answer(self, batch: Batch) -> Answers:
            answers = exact.answer(batch)
            if batch.questions[0].query.kind is not QueryKind.VECTOR:
                return answers
            values = tuple(rng.normal(0, 1, batch.values))
            return (Answer(values, values, values),)

    learner = linear_regression(schema, rounds=8, rate=1, clip=1, decide=decide)
    model = learn(learner, Noisy())
    assert not any(model.weights[1:])
    assert model.weights[0] == pytest.approx(columns["y"].mean(), abs=1e-3)


def test_a_model_that_passes_its_check_is_concluded() -> None:
    schema = plane_schema(1)
    line = np.linspace(-1, 1, 501).round(3)
    exact = ExactOracle(schema, {"x0": line, "y": line / 2})
    model = learn(linear_regression(schema, rounds=64, rate=1, decide="check"), exact)
    assert model.weights == pytest.approx((0, 0.5), abs=0.02)


def test_a_verdict_says_that_the_constant_was_concluded() -> None:
    made = named("logistic-regression", epsilon=1, users=150, settings={"columns": "age,member"})
    run = simulate(made.study, made.people, fleet="columns", seed=1)
    assert run.trials[0].outcome.hypothesis.is_constant
    assert run.trials[0].assessment.summary == CONSTANT
    assert CONSTANT in run.to_json()["verdict"]


def test_a_penalty_that_is_not_given_is_a_part_of_the_noise() -> None:
    learner = ridge_regression(plane_schema(3), columns=["x0", "x1", "x2"])
    penalties = [
        Fraction(text(learner.settled(with_noise(users, 8.0)))["penalty"])
        for users in (2_000, 200_000)
    ]
    relative = sqrt(4 * 8.0 / 2_000)
    assert float(penalties[0]) == pytest.approx(relative / 8, abs=1e-3)
    assert float(penalties[0] / penalties[1]) == pytest.approx(10, rel=0.1)


def test_a_study_is_settled_for_its_population_and_runs_as_planned() -> None:
    study = Study(logistic_regression(TRAITS, columns=["member", "height"]), epsilon=8)
    planned = study.plan(2_000)
    chosen = settled(study.learner, study.nano_nats, study.beta, 2_000)
    assert {**study.learner.parameters, **planned.settings} == chosen.parameters
    assert study.settled(2_000).parameters == chosen.parameters
