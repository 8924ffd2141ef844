"""Means of vectors: what is asked, how a rotation is turned back, what clipping costs."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.encoding import encode_query
from askance_aggregator.learners import MeanVector, find, hypothesis_from_json, mean_vector
from askance_aggregator.learners.rotation import Rotation, clipping_bias, clipping_for
from askance_aggregator.learners.schemas import vectors_schema
from askance_aggregator.oracles import ExactOracle, RandomSignOracle, learn
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, QueryKind, Real, Schema
from askance_simulation.experiments import named, run_trial
from askance_simulation.populations import unit_vectors
from askance_simulation.randomness.seeds import Seed
from askance_simulation.randomness.words import SeededWords

USERS = 3_000


def truths(d: int) -> tuple[ExactOracle, NDArray[np.float64]]:
    people = unit_vectors(USERS, Seed.of(d), d)
    columns = people.columns(0, USERS)
    means = [np.asarray(columns.values[f"x{j}"]).mean() / (1 << 16) for j in range(d)]
    return ExactOracle(people.schema, columns), np.array(means)


def matrix_of(rotation: Rotation) -> NDArray[np.int64]:
    """Make the matrix by Sylvester's construction, with the columns' signs."""
    matrix = np.ones((1, 1), np.int64)
    while len(matrix) < rotation.order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.asarray(matrix[:, : rotation.size] * rotation.signs)


@pytest.mark.parametrize("d", [1, 5, 12, 40])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_exact_answers_give_the_means(d: int, norm: str) -> None:
    """Rotated from d = 10 on; then up to the bias that clipping was allowed."""
    oracle, means = truths(d)
    found = learn(mean_vector(vectors_schema(d), norm=norm), oracle)
    error = np.array(found.estimates) - means
    assert found.fields == tuple(f"x{j}" for j in range(d))
    if norm == "l2" and d > 9:
        assert found.bias is not None
        assert found.bias <= 1 / 20
        assert np.linalg.norm(error) <= found.bias
    else:
        assert np.abs(error).max() < 1e-12
        assert found.bias is None


@pytest.mark.parametrize("d", [4, 40])
def test_answers_off_by_tau_leave_an_error_of_length_tau(d: int) -> None:
    """l2: tau is for the vector; random signs of every answer's error do no more than that."""
    oracle, means = truths(d)
    learner = mean_vector(vectors_schema(d), norm="l2", tau="1/10")
    for seed in range(5):
        found = learn(learner, RandomSignOracle(oracle, SeededWords(Seed.of(seed))))
        error = float(np.linalg.norm(np.array(found.estimates) - means))
        assert error <= 0.1 + (found.bias or 0)
        assert error > 0.04  # the adversary is at work


@pytest.mark.parametrize(("norm", "values"), [("linf", 1000), ("l2", 1024)])
def test_a_thousand_numbers_are_one_question_that_fits_a_request(norm: str, values: int) -> None:
    (question,) = mean_vector(vectors_schema(1000), norm=norm, missing="default").batch.questions
    assert question.query.kind is QueryKind.VECTOR
    assert question.values == values
    assert encode_query(question.query).ByteSize() < 20_000


@pytest.mark.parametrize("d", [1, 2, 3, 8, 11, 64])
def test_a_rotation_is_turned_back_exactly(d: int) -> None:
    rotation = Rotation(d, "7")
    matrix = matrix_of(rotation)
    assert rotation.order // 2 < d <= rotation.order
    assert (matrix.T @ matrix == rotation.order * np.eye(d)).all()
    x = np.random.default_rng(d).normal(size=d)
    assert rotation.back(matrix @ x) == pytest.approx(x)
    assert (np.abs(matrix) == 1).all()


def test_signs_follow_from_the_seed() -> None:
    one, two = Rotation(300, "1"), Rotation(300, "2")
    assert one.signs.tolist() == Rotation(300, "1").signs.tolist()
    assert one.signs.tolist()[:8] == Rotation(8, "1").signs.tolist()
    assert abs(int((one.signs * two.signs).sum())) < 90  # 5 standard deviations


def test_the_bias_of_clipping_is_within_its_bound_over_seeds() -> None:
    """The worst kinds of vector: one number, a few, all alike. 200 seeds, the mean square."""
    d = 64
    vectors = [np.eye(d)[0], np.ones(d) / 8, np.r_[np.ones(4), np.zeros(60)] / 2]
    for t in (1.0, 2.0, 2.5):
        for x in vectors:
            squares = []
            for seed in range(200):
                rotation = Rotation(d, str(seed))
                turned = matrix_of(rotation) @ x
                moved = rotation.back(np.clip(turned, -t, t)) - x
                squares.append(float(moved @ moved))
            assert sqrt(np.mean(squares)) <= clipping_bias(t)


@pytest.mark.parametrize(("bias", "t"), [("1/10", 2.75), ("1/20", 3.125), ("1/100", 3.9375)])
def test_the_least_clipping_that_keeps_the_bias(bias: str, t: float) -> None:
    assert clipping_for(Fraction(bias)) == t
    assert clipping_bias(t) <= Fraction(bias) < clipping_bias(t - 1 / 16)
    for wrong in (Fraction(0), Fraction(-1), Fraction(1, 10**40)):
        with pytest.raises(InvalidParameter, match="bias expects"):
            clipping_for(wrong)


def test_a_mean_vector_is_saved_and_read() -> None:
    for radius, bias in ((None, None), (0.5, 0.01)):
        found = MeanVector(("a", "b"), (0.5, -0.25), (0.0, -1.0), (1.0, 0.5), radius, bias)
        assert hypothesis_from_json("mean-vector", found.to_json()) == found
    with pytest.raises(InvalidParameter, match="an interval a field"):
        MeanVector(("a",), (0.5, 1.0), (0.0,), (1.0,))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"norm": "l1"}, "norm: expected one of linf, l2, got 'l1'"),
        ({"bound": "0"}, "bound expects a positive number"),
        ({"columns": "x0,x0"}, "each field once"),
        ({"columns": "z"}, "z"),
        ({"d": "3"}, "d is for planning without data"),
        ({"norm": "l2", "bias": "0"}, "bias expects"),
    ],
)
def test_wrong_parameters_are_refused(settings: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidParameter, match=says):
        find("mean-vector").build(vectors_schema(3), settings)
    with pytest.raises(InvalidParameter, match="expected a number or a bit"):
        mean_vector(Schema("s", 1, c=Category(["a", "b"])), ["c"])


@pytest.mark.parametrize(
    ("norm", "epsilon"), [("linf", "1"), ("linf", "3"), ("l2", "3"), ("l2", "6")]
)
def test_devices_answer_within_what_is_said(norm: str, epsilon: str) -> None:
    """12 numbers in blocks of 1, 3 and more, rotated for l2; jointly right with 95 %."""
    settings = {"norm": norm, "d": "12", "lean": "80"}
    made = named("mean-vector", epsilon=epsilon, users=20_000, settings=settings)
    people = made.people(Seed.of(3))
    trial = run_trial(made.study(people), people, fleet="columns", seed=Seed.of(4))
    assert trial.assessment.success
    assert trial.outcome.answers == 20_000
    assert trial.assessment.error is not None
    assert trial.assessment.error < (0.4 if norm == "linf" else 1.2)


def test_numbers_of_wide_ranges_are_asked_and_too_wide_ones_refused_by_name() -> None:
    for bits in (28, 30):
        learner = mean_vector(Schema("wide", 1, x=Real(0, 1 << bits, frac_bits=0)))
        (question,) = learner.batch.questions
        assert question.query.kind is QueryKind.VECTOR
    with pytest.raises(InvalidParameter, match="ranges of at most 2147483648, got 0"):
        mean_vector(Schema("wide", 1, x=Real(0, 1 << 32, frac_bits=0)))
