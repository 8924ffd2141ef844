"""Means of vectors: what is asked and by what it is answered."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.encoding import encode_query
from askance_aggregator.estimation import influence
from askance_aggregator.estimation.intervals import bernstein
from askance_aggregator.families import CodebookFamily, best_for, random_codebook
from askance_aggregator.families.random_codebook import LENGTH
from askance_aggregator.learners import (
    MeanVector,
    Question,
    find,
    hypothesis_from_json,
    mean_vector,
)
from askance_aggregator.learners.schemas import vectors_schema
from askance_aggregator.oracles import ExactOracle, RandomSignOracle, learn
from askance_aggregator.planning.blocks import (
    block_size,
    block_variance,
    blocks_of,
    codebook_for,
)
from askance_aggregator.planning.precision import candidates, n_variance, tail_of
from askance_aggregator.queries import real
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Category, QueryKind, Real, Schema
from askance_simulation.experiments import named, run_trial
from askance_simulation.populations import unit_vectors
from askance_simulation.randomness import Seed, SeededWords

NAT = 10**9
USERS = 3_000


def truths(d: int) -> tuple[ExactOracle, NDArray[np.float64]]:
    people = unit_vectors(USERS, Seed.of(d), d)
    columns = people.columns(0, USERS)
    means = [np.asarray(columns.values[f"x{j}"]).mean() / (1 << 16) for j in range(d)]
    return ExactOracle(people.schema, columns), np.array(means)


@pytest.mark.parametrize("d", [1, 5, 12, 40])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_exact_answers_give_the_means(d: int, norm: str) -> None:
    oracle, means = truths(d)
    found = learn(mean_vector(vectors_schema(d), norm=norm), oracle)
    error = np.array(found.estimates) - means
    assert found.fields == tuple(f"x{j}" for j in range(d))
    assert np.abs(error).max() < 1e-12


@pytest.mark.parametrize("d", [4, 40])
def test_answers_off_by_tau_leave_an_error_of_length_tau(d: int) -> None:
    """l2: tau is for the vector; random signs of every answer's error do no more than that."""
    oracle, means = truths(d)
    learner = mean_vector(vectors_schema(d), norm="l2", tau="1/10")
    for seed in range(5):
        found = learn(learner, RandomSignOracle(oracle, SeededWords(Seed.of(seed))))
        error = float(np.linalg.norm(np.array(found.estimates) - means))
        assert error <= 0.1
        assert error > 0.04  # the adversary is at work


@pytest.mark.parametrize(("norm", "values"), [("linf", 1000), ("l2", 1000)])
def test_a_thousand_numbers_are_one_question_that_fits_a_request(norm: str, values: int) -> None:
    (question,) = mean_vector(vectors_schema(1000), norm=norm, missing="default").batch.questions
    assert question.query.kind is QueryKind.VECTOR
    assert question.values == values
    assert encode_query(question.query).ByteSize() < 20_000


def test_a_mean_vector_is_saved_and_read() -> None:
    for radius in (None, 0.5):
        found = MeanVector(("a", "b"), (0.5, -0.25), (0.0, -1.0), (1.0, 0.5), radius)
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
        ({"d": "4"}, "expect different records .d: to plan without data"),
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
    """12 numbers in blocks of 1 and more, of l2 by a codebook; jointly right with 95 %."""
    settings = {"norm": norm, "d": "12", "lean": "80"}
    made = named("mean-vector", epsilon=epsilon, users=20_000, settings=settings)
    people = made.people(Seed.of(3))
    trial = run_trial(made.study(people), people, fleet="columns", seed=Seed.of(4))
    assert trial.assessment.success
    assert trial.outcome.answers == 20_000
    assert trial.assessment.error is not None
    assert trial.assessment.error < (0.4 if norm == "linf" else 0.2)


def test_numbers_of_wide_ranges_are_asked_and_too_wide_ones_refused_by_name() -> None:
    for bits in (28, 30):
        learner = mean_vector(Schema("wide", 1, x=Real(0, 1 << bits, frac_bits=0)))
        (question,) = learner.batch.questions
        assert question.query.kind is QueryKind.VECTOR
    with pytest.raises(InvalidParameter, match="ranges of at most 2147483648, got 0"):
        mean_vector(Schema("wide", 1, x=Real(0, 1 << 32, frac_bits=0)))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_every_fleet_answers_a_vector_alike(norm: str) -> None:
    """Objects, devices over gRPC and columns: one transcript, to the bit."""
    made = named("mean-vector", epsilon="4", users=150, settings={"norm": norm, "d": "20"})
    people = made.people(Seed.of(1))
    study = made.study(people)
    digests = {
        fleet: run_trial(study, people, fleet=fleet, seed=Seed.of(2)).outcome.transcript
        for fleet in ("objects", "grpc", "columns")
    }
    assert len(set(digests.values())) == 1


def question_of(d: int, norm: str = "l2") -> Question:
    (question,) = mean_vector(vectors_schema(d), norm=norm, missing="default").batch.questions
    return question


@pytest.mark.parametrize("nano", [NAT // 2, NAT, 2 * NAT, 4 * NAT, 8 * NAT])
def test_a_vector_of_bounded_length_is_asked_by_what_has_less_variance(nano: int) -> None:
    for d in (1, 2, 16, 64):
        question = question_of(d)
        book = codebook_for(question, nano)
        patterns = float(block_variance(d, block_size(d, nano), nano))
        own = float(n_variance(question, random_codebook(d, 1 << 16, nano)))
        assert (book is not None) == (own < patterns)
        assert (book is None) == (d == 1)
        if book is not None:
            assert candidates(question, nano, best_for) == (book,)
            assert len(blocks_of(question, nano)) == 1
        assert codebook_for(question_of(d, "linf"), nano) is None


@pytest.mark.parametrize("nano", [NAT, 4 * NAT])
def test_the_plan_of_a_codebook_keeps_its_tolerance(nano: int) -> None:
    """Bernstein: users for tau in every component, at most 1.5 times the normal law's number."""
    question = question_of(16)
    book = random_codebook(16, 1 << 16, nano)
    tail = tail_of(question, book)
    users = tail.users(0.05, 1e-3)
    assert not tail.enough(users - 2, 0.05, 1e-3)
    variance = CodebookFamily(book).greatest_variance
    assert users < 1.5 * variance * (NormalDist().inv_cdf(1 - 5e-4) / 0.05) ** 2
    half = bernstein(variance, 1 + CodebookFamily(book).reach, users, 1e-3)
    assert half == pytest.approx(0.05, rel=1e-3)


def test_one_lying_device_moves_a_mean_by_its_influence() -> None:
    question, book = question_of(3), random_codebook(3, 1 << 16, NAT)
    family = CodebookFamily(book)
    most = float(influence(question, book, 10))
    assert most == pytest.approx(2 / family.agreement / 10)
    one, other = (family.means([sign * LENGTH, 0, 0], 10)[0] / (1 << 16) for sign in (1, -1))
    assert float(one - other) == pytest.approx(most)


def test_a_length_is_of_vectors_and_positive() -> None:
    with pytest.raises(InvalidQuery, match="length is of a VECTOR question, found REAL"):
        Question(real(vectors_schema(1).x0), length=1)
    with pytest.raises(InvalidParameter, match="length expects a positive number, got 0"):
        Question(question_of(2).query, length=0)
