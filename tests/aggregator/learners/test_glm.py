"""Generalised linear models: the gradient that is asked, the promise, and the models concluded."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.learners import (
    Batch,
    huber_regression,
    linear_regression,
    linear_svm,
    logistic_regression,
    plane_schema,
    ridge_regression,
)
from askance_aggregator.learners.encodings import numbers_of
from askance_aggregator.learners.glm_gradients import (
    Features,
    GradientQuestion,
    Huber,
    Logistic,
    Loss,
    SmoothHinge,
    Squared,
    check_width,
)
from askance_aggregator.learners.linear_classifiers import coordinates_of, on_weight_grid
from askance_aggregator.oracles import (
    ExactOracle,
    Oracle,
    RandomSignOracle,
    WrongSideOracle,
    learn,
)
from askance_aggregator.planning import plan_batch
from askance_aggregator.queries import encode_columns, evaluate_vectors, round_to
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Bits, Category, Integer, Label, Real, Schema
from askance_client.randomizers import RandomCodebook
from askance_simulation.randomness import Seed, SeededWords

SCHEMA = Schema(
    "people",
    1,
    age=Integer(0, 100),
    member=Bit(),
    colour=Category(["red", "green", "blue"]),
    height=Real(0, 2),
    y=Label(["no", "yes"]),
)
FEATURES = Schema("people", 1, **{name: SCHEMA.fields[name] for name in list(SCHEMA.fields)[:4]})
RNG = np.random.default_rng(8)
N = 3_000
COLUMNS: dict[str, Any] = {
    "age": RNG.integers(0, 101, N),
    "member": RNG.integers(0, 2, N),
    "colour": RNG.choice(["red", "green", "blue"], N),
    "height": RNG.uniform(0, 2, N).round(3),
}
TRUE = 1.5 * (COLUMNS["age"] - 50) / 50 + COLUMNS["member"] - 2 * (COLUMNS["colour"] == "red")
COLUMNS["y"] = np.where(RNG.random(N) < 1 / (1 + np.exp(-2 * TRUE)), "yes", "no")
ROWS = encode_columns(SCHEMA, COLUMNS)
COORDINATES = coordinates_of(FEATURES)
X = np.column_stack([np.ones(N), *(item.values(ROWS) for item in COORDINATES)])
POSITIVE = SCHEMA["y"] == "yes"
SIGN = np.where(COLUMNS["y"] == "yes", 1.0, -1.0)
SCALED_HEIGHT = round_to(SCHEMA["height"], 10) - 1  # from 0 .. 2 to -1 .. 1
WEIGHTS = on_weight_grid(RNG.normal(size=X.shape[1]))

Residuals = Callable[[NDArray[np.float64]], NDArray[np.float64]]
LOSSES: list[tuple[Loss, Residuals]] = [
    (Logistic(POSITIVE), lambda s: 1 / (1 + np.exp(-s)) - (SIGN > 0)),
    (SmoothHinge(POSITIVE), lambda s: -SIGN * np.clip(1 - SIGN * s, 0, 1)),
    (Squared(SCALED_HEIGHT), lambda s: s - (COLUMNS["height"] - 1)),
    (
        Huber(SCALED_HEIGHT, Fraction(1, 4)),
        lambda s: np.clip(s - (COLUMNS["height"] - 1), -0.25, 0.25),
    ),
]
IDS = ["logistic", "hinge", "squared", "huber"]


def asked_of(loss: Loss, clip: Fraction) -> GradientQuestion:
    return GradientQuestion(Features.of_coordinates(COORDINATES), loss, clip)


def gradients(question: GradientQuestion, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each record's answer in real units, shape (N, components)."""
    query = question.at(weights).query
    values = np.asarray(evaluate_vectors(query, ROWS), dtype=np.float64)
    table = values if values.shape[0] == N else values.T
    return np.asarray(np.ldexp(table, -query.frac))


@pytest.mark.parametrize(("loss", "residuals"), LOSSES, ids=IDS)
def test_a_record_s_answer_is_its_residual_times_its_features(
    loss: Loss, residuals: Residuals
) -> None:
    answered = gradients(asked_of(loss, Fraction(8)), WEIGHTS)
    truth = X * residuals(X @ WEIGHTS)[:, None]
    assert np.abs(answered - truth).max() < 2e-3  # the logistic function's table: 2^-10


@pytest.mark.parametrize("loss", [loss for loss, _ in LOSSES], ids=IDS)
@pytest.mark.parametrize("clip", [Fraction(1, 4), Fraction(1)])
def test_no_answer_is_longer_than_the_clip(loss: Loss, clip: Fraction) -> None:
    """Checked on records of all lengths: with every feature at its greatest magnitude, too."""
    lengths = np.linalg.norm(gradients(asked_of(loss, clip), 8 * WEIGHTS), axis=1)
    assert lengths.max() <= clip
    # The ranges of |x|^2 are narrow: clipped residuals are not much shorter than they may be.
    assert np.quantile(lengths, 0.9) > 0.9 * min(clip, Fraction(1, 2))


def test_a_clipped_answer_keeps_its_direction() -> None:
    loose = gradients(asked_of(LOSSES[0][0], Fraction(8)), WEIGHTS)
    tight = gradients(asked_of(LOSSES[0][0], Fraction(1, 8)), WEIGHTS)
    cosine = (loose * tight).sum(axis=1) / (
        np.linalg.norm(loose, axis=1) * np.linalg.norm(tight, axis=1)
    )
    assert cosine[np.linalg.norm(loose, axis=1) > 0.05].min() > 0.98


def test_a_record_without_a_field_has_no_part_in_the_gradient() -> None:
    """Before, a missing number counted as the middle of its range in every other component."""
    missing = {**COLUMNS, "height": [None] * N}
    query = asked_of(LOSSES[0][0], Fraction(1)).at(WEIGHTS).query
    assert not np.any(evaluate_vectors(query, encode_columns(SCHEMA, missing)))
    half = {**COLUMNS, "age": [None if row % 2 else age for row, age in enumerate(COLUMNS["age"])]}
    question = asked_of(LOSSES[0][0], Fraction(1))
    (answer,) = ExactOracle(SCHEMA, half).answer(Batch([question.at(WEIGHTS)]))
    complete = gradients(question, WEIGHTS)[::2]
    assert answer.values == pytest.approx(complete.sum(axis=0) / N, abs=1e-9)


def test_a_gradient_is_one_report_of_a_direction_for_all_components() -> None:
    """Before, components were rotated and clipped: 2.1 times the variance, and a bias."""
    wide = Schema("wide", 1, kind=Category([str(place) for place in range(63)]))
    features = Features.of_coordinates(coordinates_of(wide))
    question = GradientQuestion(features, LOSSES[0][0], Fraction(1)).at(np.zeros(64))
    assert question.length == 1
    privunit = {0.5: 24.98, 1: 6.273, 2: 1.596, 4: 0.4242, 8: 0.1243}  # exact, d = 64
    for epsilon, least in privunit.items():
        planned = plan_batch(Batch([question]), round(epsilon * 10**9), 0.01)
        (group,) = planned.groups
        assert isinstance(group.randomizer, RandomCodebook)
        assert least < planned.n_variance - 1 / 64 <= 1.05 * least  # that is a second moment


@pytest.mark.parametrize("clip", ["1/8", "1", "4"])
def test_the_variance_is_that_of_length_one_times_the_squared_clip(clip: str) -> None:
    """The settings rely on it: they look at the noise of a gradient of length 1 only."""
    made = [
        plan_batch(Batch([asked_of(LOSSES[0][0], Fraction(size)).at(WEIGHTS)]), 10**9, 0.01)
        for size in ("1", clip)
    ]
    ratio = made[1].n_variance / made[0].n_variance
    assert ratio == pytest.approx(float(Fraction(clip)) ** 2, rel=1e-3)


def test_more_features_than_a_vector_holds_are_refused() -> None:
    wide = Schema("wide", 1, bits=Bits(1024), y=Label(["no", "yes"]))
    with pytest.raises(InvalidParameter, match="columns expects fields of at most 1023 features"):
        check_width(
            Features.of_coordinates(coordinates_of(Schema("w", 1, bits=wide.fields["bits"])))
        )


def test_a_model_of_more_features_than_an_expression_is_deep_is_asked() -> None:
    """Before, the length of a record was a chain of sums: over 62 features were refused."""
    labels = [f"l{place}" for place in range(80)]
    wide = Schema("wide", 1, town=Category(labels), age=Integer(0, 100))
    rows = {"town": labels, "age": list(range(80))}
    features = Features.of_numbers(numbers_of(wide))
    question = GradientQuestion(features, Squared(round_to(wide["age"], 0) - 50), Fraction(1))
    values = evaluate_vectors(
        question.at(np.zeros(features.count)).query, encode_columns(wide, rows)
    )
    assert np.asarray(values).size == 80 * features.count


def test_a_regression_takes_every_other_field_unless_some_are_named() -> None:
    """Before, a category was used only where it was named."""
    people = Schema("people", 1, town=Category(["a", "b"]), pay=Integer(0, 100))
    towns = np.array(["a", "b"] * 500)
    oracle = ExactOracle(people, {"town": towns, "pay": np.where(towns == "a", 20, 80)})
    model = learn(linear_regression(people, target="pay", rate=1, rounds=64), oracle)
    assert model.feature_names_in_.tolist() == ["town=b"]
    assert model.predict({"town": ["a", "b"]}) == pytest.approx([20, 80], abs=1)


PLANE = plane_schema(2)
POINTS = RNG.uniform(-1, 1, size=(2_000, 2)).round(3)
OUTCOMES = np.clip(
    0.5 * POINTS[:, 0] - 0.25 * POINTS[:, 1] + RNG.normal(0, 0.1, 2_000), -1, 1
).round(3)
LINE = {"x0": POINTS[:, 0], "x1": POINTS[:, 1], "y": OUTCOMES}


def adversary(name: str) -> Oracle:
    exact = ExactOracle(PLANE, LINE)
    oracles: dict[str, Oracle] = {
        "exact": exact,
        "wrong side": WrongSideOracle(exact),
        "random signs": RandomSignOracle(exact, SeededWords(Seed.of(2))),
    }
    return oracles[name]


@pytest.mark.parametrize("name", ["exact", "wrong side", "random signs"])
@pytest.mark.parametrize("penalty", ["0", "1/10"])
def test_the_loss_is_near_the_least_if_every_answer_is_within_tau(name: str, penalty: str) -> None:
    """The promise of `glm`, against adversaries; weights of other signs break it."""
    tau, rounds, rate = 1 / 200, 64, Fraction(1, 4)
    learner = ridge_regression(
        PLANE, penalty=penalty, tau=Fraction(1, 200), rounds=rounds, rate=rate, clip=8
    )
    found = np.array(learn(learner, adversary(name)).weights)
    x = np.column_stack([np.ones(2_000), POINTS])
    shrunk = float(Fraction(penalty)) * np.diag([0.0, 1.0, 1.0])
    best = np.linalg.solve(x.T @ x / 2_000 + shrunk, x.T @ OUTCOMES / 2_000)

    def loss(weights: NDArray[Any]) -> float:
        missed = np.square(x @ weights - OUTCOMES).mean()
        return float(missed + weights @ shrunk @ weights) / 2

    error = (tau + 2.0**-13 / float(rate)) * sqrt(3)
    reach = np.linalg.norm(best) + float(rate) * error * rounds
    slack = reach**2 / (float(rate) * rounds) + error * reach
    assert loss(found) - loss(best) <= slack
    assert loss(np.zeros(3)) - loss(best) > slack / 3  # so the promise says something
    assert loss(-best) - loss(best) > slack


def test_logistic_regression_comes_near_to_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    model = learn(logistic_regression(SCHEMA), ExactOracle(SCHEMA, ROWS))
    reference = LogisticRegression(C=1e4).fit(X[:, 1:], COLUMNS["y"])
    ours = (model.predict(COLUMNS) == COLUMNS["y"]).mean()
    assert ours > reference.score(X[:, 1:], COLUMNS["y"]) - 0.005
    apart = model.predict_proba(COLUMNS)[:, 1] - reference.predict_proba(X[:, 1:])[:, 1]
    assert np.abs(apart).mean() < 0.03


def test_a_support_vector_machine_comes_near_to_scikit_learn() -> None:
    from sklearn.svm import LinearSVC

    model = learn(linear_svm(SCHEMA), ExactOracle(SCHEMA, ROWS))
    reference = LinearSVC(dual=False).fit(X[:, 1:], COLUMNS["y"])
    ours = (model.predict(COLUMNS) == COLUMNS["y"]).mean()
    assert ours > reference.score(X[:, 1:], COLUMNS["y"]) - 0.01


def test_least_squares_come_near_to_scikit_learn() -> None:
    from sklearn.linear_model import LinearRegression

    model = learn(linear_regression(PLANE, rate=1, rounds=64), ExactOracle(PLANE, LINE))
    other = LinearRegression().fit(POINTS, OUTCOMES)
    assert model.predict(LINE) == pytest.approx(other.predict(POINTS), abs=0.005)
    assert model.coef_ == pytest.approx(other.coef_, abs=0.005)


@pytest.mark.parametrize("penalty", ["1/100", "1"])
def test_the_ridge_comes_near_to_scikit_learn(penalty: str) -> None:
    from sklearn.linear_model import Ridge

    learner = ridge_regression(PLANE, penalty=penalty, rate="1/2", rounds=64)
    model = learn(learner, ExactOracle(PLANE, LINE))
    other = Ridge(alpha=float(Fraction(penalty)) * 2_000).fit(POINTS, OUTCOMES)
    assert model.predict(LINE) == pytest.approx(other.predict(POINTS), abs=0.005)
    assert model.penalty == float(Fraction(penalty))


def test_outliers_move_a_huber_regression_less_than_least_squares() -> None:
    broken = {**LINE, "y": np.where(np.arange(2_000) % 10 == 0, 1.0, OUTCOMES)}

    def slope_error(make: Any) -> float:
        model = learn(make(PLANE, rounds=256), ExactOracle(PLANE, broken))
        at_zero = float(model.predict({"x0": [0.0], "x1": [0.0]})[0])
        return abs(at_zero)

    assert slope_error(huber_regression) < 0.4 * slope_error(linear_regression)
