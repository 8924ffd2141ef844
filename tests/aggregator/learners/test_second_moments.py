"""Regressions and principal components from exact moments are those of the whole population."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Batch,
    Learner,
    LinearModel,
    PrincipalComponents,
    hypothesis_from_json,
    linear_regression,
    plane_schema,
    principal_components,
    ridge_regression,
)
from askance_aggregator.learners.encodings import numbers_of
from askance_aggregator.learners.pca import SecondMoments, best_clip, nearest_semidefinite
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.queries import EncodedColumns, encode_columns, evaluate_vectors
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Bit,
    Category,
    Integer,
    Label,
    Real,
    Schema,
)
from askance_simulation.populations import plane
from askance_simulation.randomness import Seed

SCHEMA = Schema(
    "s",
    1,
    age=Integer(20, 80),
    height=Real(1, 2),
    smokes=Bit(),
    colour=Category("abc"),
    sick=Label(["no", "yes"]),
)


def people(count: int = 4_000) -> EncodedColumns:
    rng = np.random.default_rng(3)
    age = rng.integers(20, 81, count)
    smokes = rng.integers(0, 2, count)
    colour = rng.integers(0, 3, count)
    height = np.clip(1.2 + age / 200 + 0.1 * colour + rng.normal(0, 0.05, count), 1, 2)
    sick = (rng.random(count) < 0.2 + 0.5 * smokes).astype(int)
    return encode_columns(
        SCHEMA,
        {
            "age": age,
            "height": height,
            "smokes": smokes,
            "colour": np.array(list("abc"))[colour],
            "sick": np.array(["no", "yes"])[sick],
        },
    )


ROWS = people()
NUMBERS = numbers_of(SCHEMA)


def learned(learner: Learner[Any]) -> Any:
    return learn(learner, ExactOracle(SCHEMA, ROWS))


def design(names: tuple[str, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.stack([number.of(ROWS) for number in NUMBERS if number.field in names], axis=1)


def test_the_moments_are_one_vector_no_longer_than_is_promised() -> None:
    """Six numbers about a centre: 6 differences, 6 squares and 15 products."""
    centre = np.round(np.linspace(-0.5, 0.5, 6) * 1024) / 1024
    fields = {name: SCHEMA[name] for name in SCHEMA.fields}
    moments = SecondMoments(NUMBERS, centre, 0.25, Fraction(24), fields)
    (question,) = moments.questions(None)
    assert len(NUMBERS) == 6
    assert question.values == 6 + 6 + 15
    vectors = evaluate_vectors(question.query, ROWS) / (1 << question.query.frac)
    assert question.length is not None
    assert np.sqrt((vectors**2).sum(axis=1)).max() <= float(question.length)
    stacked = np.stack([number.of(ROWS) for number in NUMBERS], axis=1)
    covariance = moments.covariance(ExactOracle(SCHEMA, ROWS).answer(Batch([question])), 1.0)
    assert covariance == pytest.approx(np.cov(stacked.T, bias=True), abs=1e-4)


def test_the_products_are_as_long_as_their_matrix() -> None:
    """The root makes every entry of the matrix count once, on either side of the diagonal."""
    moments = SecondMoments(NUMBERS, np.zeros(6), 0.0, Fraction(6), None)
    (question,) = moments.questions(None)
    vectors = evaluate_vectors(question.query, ROWS) / (1 << question.query.frac)
    stacked = np.stack([number.of(ROWS) for number in NUMBERS], axis=1)
    squares = (stacked**2).sum(axis=1)
    assert (vectors**2).sum(axis=1) == pytest.approx(squares + squares**2, abs=1e-2)


def test_more_moments_than_a_vector_has_are_several_vectors() -> None:
    schema = Schema.of("wide", 1, {f"x{place}": Real(-1, 1) for place in range(45)})
    moments = SecondMoments(numbers_of(schema), np.zeros(45), 0.0, Fraction(45), None)
    assert [question.values for question in moments.questions(None)] == [1024, 1080 - 1024]


@pytest.mark.parametrize(
    ("count", "values"),
    [(44, [1024, 10]), (61, [1024, 928]), (250, [532] * 59 + [237])],
)
def test_complete_cases_of_many_numbers_are_asked(count: int, values: list[int]) -> None:
    """Before, 43 numbers and more were refused: each product had four nodes, of 4,096 in all."""
    schema = Schema.of("wide", 1, {f"x{place}": Real(-1, 1) for place in range(count)})
    fields = {name: schema[name] for name in schema.fields}
    asked = SecondMoments(
        numbers_of(schema), np.zeros(count), 0.0, Fraction(1), fields, Fraction(1, 4)
    ).questions(None)
    assert [question.values for question in asked] == values


def test_a_record_without_a_number_has_the_zero_vector() -> None:
    schema = plane_schema(2)
    columns = {"x0": [0.5, None], "x1": [0.25, 0.5], "y": [-0.5, 1.0]}
    fields = {name: schema[name] for name in schema.fields}
    (question,) = SecondMoments(
        numbers_of(schema), np.zeros(3), 0.0, Fraction(4), fields
    ).questions(None)
    whole, lacking = evaluate_vectors(question.query, encode_columns(schema, columns))
    assert (whole != 0).all()
    assert (lacking == 0).all()


@pytest.mark.parametrize("weight", [Fraction(1), Fraction(1, 8)])
def test_a_weight_of_the_differences_changes_no_covariance(weight: Fraction) -> None:
    centre = np.full(6, 0.25)
    moments = SecondMoments(NUMBERS, centre, 0.5, Fraction(24), None, weight)
    answers = ExactOracle(SCHEMA, ROWS).answer(Batch(moments.questions(None)))
    stacked = np.stack([number.of(ROWS) for number in NUMBERS], axis=1)
    assert moments.covariance(answers, 1.0) == pytest.approx(np.cov(stacked.T, bias=True), abs=1e-3)


@pytest.mark.parametrize(
    ("noise", "clip"),
    [
        # The least of noise (c / (1 - e^-c))^2 + e^-c / 1024, on multiples of 1/8 from 1/2 to 16.
        (1.0, "1/2"),  # 1.62, and 2.03 at 3/4
        (1e-3, "1/2"),  # .002207, and .002331 at 5/8
        (1e-4, "11/8"),  # .0005856; .0005867 at 5/4, .0005907 at 3/2
        (1e-5, "23/8"),  # .0001479; .0001487 at 11/4, .0001483 at 3
        (1e-6, "37/8"),  # .00003139; .00003156 at 9/2, .00003141 at 19/4
        (1e-12, "16"),
    ],
)
def test_the_clip_has_the_least_error_by_the_stated_tails(noise: float, clip: str) -> None:
    assert best_clip(noise) == Fraction(clip)


def test_less_noise_never_shortens_the_clip_nor_raises_its_error() -> None:
    noises = [2.0**-place for place in range(40)]
    clips = [best_clip(noise) for noise in noises]
    assert clips == sorted(clips)
    assert len(set(clips)) > 20


@pytest.mark.parametrize("seed", range(10))
def test_the_nearest_semidefinite_matrix_is_no_farther_from_any(seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(4, 4))
    noisy = (raw + raw.T) / 2
    projected = nearest_semidefinite(noisy)
    assert np.linalg.eigvalsh(projected).min() > -1e-12
    for _ in range(50):
        root = rng.normal(size=(4, 4))
        other = root @ root.T
        assert np.linalg.norm(projected - other) <= np.linalg.norm(noisy - other) + 1e-12


def test_coefficients_are_in_the_fields_own_units() -> None:
    """The stated line is the prediction, but for the grid of the scales."""
    model = learned(ridge_regression(SCHEMA, "height", ("age", "smokes")))
    raw = np.array([[25.0, 1.0], [60.0, 0.0]])
    stated = model.intercept_ + raw @ model.coef_
    assert model.predict({"age": raw[:, 0], "smokes": raw[:, 1]}) == pytest.approx(stated, abs=1e-3)
    assert model.predict(raw) == pytest.approx(stated, abs=1e-3)


def test_a_direction_in_which_nothing_varies_gets_no_weight() -> None:
    schema = plane_schema(2)
    line = np.linspace(-1, 1, 101)
    columns = {"x0": line, "x1": line, "y": line / 2}
    model = learn(linear_regression(schema), ExactOracle(schema, columns))
    assert model.weights == pytest.approx((0, 0.25, 0.25), abs=1e-3)


def test_whoever_lacks_a_feature_counts_as_the_middle() -> None:
    model = learned(linear_regression(SCHEMA, "height", ("age",)))
    predicted = model.predict({"age": [None, 50]})
    assert predicted[0] == pytest.approx(predicted[1])


def test_principal_components_are_scikit_learn_s() -> None:
    from sklearn.decomposition import PCA

    names = ("age", "height", "smokes")
    model: PrincipalComponents = learned(principal_components(SCHEMA, None, 2))
    other = PCA(2).fit(design(names))
    assert np.abs(model.components_) == pytest.approx(np.abs(other.components_), abs=1e-6)
    ratios = other.explained_variance_ratio_
    assert model.explained_variance_ratio_ == pytest.approx(ratios, abs=1e-6)
    assert model.mean_ == pytest.approx(other.mean_)
    ours, theirs = model.transform(ROWS), other.transform(design(names))
    assert np.abs(ours) == pytest.approx(np.abs(theirs), abs=1e-5)
    assert all(row[np.abs(row).argmax()] > 0 for row in model.components_)
    assert "of the variance: +" in str(model)


def test_the_default_target_is_the_label_or_the_last_number() -> None:
    assert linear_regression(SCHEMA).parameters == {}
    assert "sick" in learned(linear_regression(SCHEMA)).target
    people = plane(100, Seed.of(1), 2)
    model = learn(
        linear_regression(people.schema), ExactOracle(people.schema, people.columns(0, 9))
    )
    assert model.target == "y"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear_regression(SCHEMA, "colour"), "target expects a number, a bit or"),
        (lambda: linear_regression(SCHEMA, "weight"), "expected one of the fields age"),
        (lambda: ridge_regression(SCHEMA, penalty="-1"), "penalty expects a number >= 0"),
        (lambda: ridge_regression(SCHEMA, tau=0), "tau expects a positive number"),
        (lambda: linear_regression(Schema("s", 1, a=Category("ab"))), "target set to a number"),
        (
            lambda: principal_components(SCHEMA, components=4),
            r"components: expected a whole number in 1\.\.3, as there are 3 numbers, got",
        ),
        (
            lambda: principal_components(SCHEMA, ("colour",), 0),
            r"components: expected a whole number in 1\.\.2",
        ),
    ],
)
def test_a_wrong_setting_is_named(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_a_file_that_does_not_fit_together_is_refused() -> None:
    line: LinearModel = learned(linear_regression(SCHEMA, "height", ("age",)))
    with pytest.raises(
        InvalidParameter, match="one number to predict and 2 weights, found 1 and 1"
    ):
        hypothesis_from_json("linear-regression", {**line.to_json(), "weights": [0.5]})
    axes: PrincipalComponents = learned(principal_components(SCHEMA))
    with pytest.raises(InvalidParameter, match="expects 3 numbers per component"):
        hypothesis_from_json("pca", {**axes.to_json(), "mean": [0.5]})
