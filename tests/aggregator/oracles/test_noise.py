"""Labels that were flipped: the correction is exact in expectation, an unknown rate is found."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.learners import Batch, Conjunction, Question, conjunctions
from askance_aggregator.oracles import (
    ClassificationNoiseOracle,
    ExactOracle,
    expectations,
    learn,
    learn_under_noise,
    noise_grid,
    relabelled,
)
from askance_aggregator.queries import (
    EncodedColumns,
    category,
    encode_columns,
    index_of,
    predicate,
    real,
    signed,
    where,
)
from askance_client.errors import InvalidAnswer, InvalidParameter
from askance_client.queries import Bits, Label, Schema

SCHEMA = Schema("noisy", 1, x=Bits(4), y=Label([0, 1]))
X, Y = SCHEMA["x"], SCHEMA["y"]
POSITIVE = Y == "1"
QUESTIONS = (
    Question(predicate(X[0] & POSITIVE), Fraction(1, 20)),
    Question(real(where(X[1], index_of(Y) * 3, 1 - X[2])), Fraction(1, 8)),
    Question(category(Y), Fraction(1, 20)),
    Question(signed(where(X[3], index_of(Y), 2)), Fraction(1, 10)),
    Question(predicate(X[0] | X[1]), Fraction(1, 20)),
)
TARGET = Conjunction(4, (0, 2))


class Noisy:
    """Uniform x, labelled by the target; a label is flipped at a rate."""

    def __init__(self, eta: float, seed: int) -> None:
        self.eta, self.rng = eta, np.random.default_rng(seed)

    def __call__(self, rows: int) -> EncodedColumns:
        x = self.rng.integers(0, 2, (rows, 4))
        y = TARGET.predict({"x": x}) ^ (self.rng.random(rows) < self.eta)
        return encode_columns(SCHEMA, {"x": x, "y": y.astype(np.int64)})


def bits_of(columns: EncodedColumns) -> NDArray[np.int64]:
    (word,) = columns.values["x"]
    return np.stack([np.asarray(word) >> j & 1 for j in range(4)], axis=1)


def disagrees(hypothesis: Conjunction, rows: EncodedColumns) -> NDArray[np.bool_]:
    said = hypothesis.predict({"x": bits_of(rows)})
    return np.asarray(said != np.asarray(rows.values["y"]), dtype=np.bool_)


@pytest.mark.parametrize("eta", [Fraction(0), Fraction(1, 10), Fraction(2, 5)])
def test_the_correction_is_exact_in_expectation(eta: Fraction) -> None:
    """On the noisy law itself, as weights: the answers are those of the clean one."""
    x = np.array([[row >> j & 1 for j in range(4)] for row in range(16)])
    clean = encode_columns(SCHEMA, {"x": x, "y": TARGET.predict({"x": x})})
    flipped = relabelled(clean, "y", 1 - np.asarray(clean.values["y"]))
    for question in QUESTIONS:
        noisy = [
            [(1 - eta) * one + eta * other for one, other in zip(*both, strict=True)]
            for both in (
                (expectations(question, clean), expectations(question, flipped)),
                (expectations(question, flipped), expectations(question, clean)),
            )
        ]
        corrected = [((1 - eta) * a - eta * b) / (1 - 2 * eta) for a, b in zip(*noisy, strict=True)]
        assert tuple(corrected) == expectations(question, clean)


@pytest.mark.parametrize("eta", [0.0, 0.2, 0.4])
def test_answers_are_valid_for_the_true_labels(eta: float) -> None:
    x = np.array([[row >> j & 1 for j in range(4)] for row in range(16)])
    truth = ExactOracle(SCHEMA, {"x": x, "y": TARGET.predict({"x": x})}).answer(Batch(QUESTIONS))
    oracle = ClassificationNoiseOracle(Noisy(eta, 1), SCHEMA, "y", eta, 1e-6)
    for question, said, true in zip(QUESTIONS, oracle.answer(Batch(QUESTIONS)), truth, strict=True):
        for value, low, high, other in zip(
            said.values, said.lows, said.highs, true.values, strict=True
        ):
            assert abs(value - other) < float(question.working_tau)
            assert low <= other <= high


def test_a_wrong_rate_is_not_valid() -> None:
    question = Question(predicate(POSITIVE), Fraction(1, 20))
    oracle = ClassificationNoiseOracle(Noisy(0.4, 2), SCHEMA, "y", 0, 1e-6)
    assert oracle.answer(Batch([question]))[0].value > 0.25 + 0.1


def test_rows_grow_with_the_rate() -> None:
    for eta in (Fraction(0), Fraction(2, 5)):
        oracle = ClassificationNoiseOracle(Noisy(float(eta), 3), SCHEMA, "y", eta, 0.01, values=1)
        oracle.answer(Batch([QUESTIONS[0]]))
        assert oracle.drawn == ceil(log(200) / 2 * (20 / float(1 - 2 * eta)) ** 2)


@pytest.mark.parametrize("eta", [0.0, 0.3])
def test_a_conjunction_is_learned_at_a_known_rate(eta: float) -> None:
    learner = conjunctions(SCHEMA, Fraction(1, 4))
    oracle = ClassificationNoiseOracle(Noisy(eta, 4), SCHEMA, "y", eta, 1e-6)
    assert learn(learner, oracle) == TARGET


@pytest.mark.parametrize("eta", [0.0, 0.17, 0.35])
def test_and_at_an_unknown_one(eta: float) -> None:
    found = learn_under_noise(
        conjunctions(SCHEMA, Fraction(1, 2)),
        Noisy(eta, 5),
        SCHEMA,
        "y",
        disagrees,
        most=Fraction(2, 5),
        tau=Fraction(1, 16),
        extra=Fraction(1, 10),
        beta=1e-6,
    )
    assert found.hypothesis == TARGET
    assert abs(float(found.disagreement) - eta) < 0.02
    assert found.tried == len(noise_grid(Fraction(2, 5), Fraction(1, 16)))


def test_no_rate_is_far_from_the_grid() -> None:
    tau = Fraction(1, 20)
    grid = noise_grid(Fraction(2, 5), tau)
    assert grid[0] == 0
    assert grid[-1] == Fraction(2, 5)
    for percent in range(41):
        own = 1 / (1 - 2 * percent / 100)
        nearest = min(abs(float(1 / (1 - 2 * rate)) / own - 1) for rate in grid)
        assert nearest <= float(tau) * (1 + 1e-6)
    assert noise_grid(0, tau) == (Fraction(0),)


def test_a_learner_that_refuses_every_rate_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InvalidAnswer("no")

    monkeypatch.setattr("askance_aggregator.oracles.noise.learn", refuse)
    with pytest.raises(InvalidAnswer, match="at one of 1 rates, got none"):
        learn_under_noise(
            conjunctions(SCHEMA, Fraction(1, 2)),
            Noisy(0, 6),
            SCHEMA,
            "y",
            disagrees,
            most=0,
            tau=Fraction(1, 16),
            extra=Fraction(1, 2),
            beta=0.1,
        )


@pytest.mark.parametrize(
    ("eta", "label", "message"),
    [(Fraction(1, 2), "y", "eta expects"), (-1, "y", "eta expects"), (0, "x", "label expects")],
)
def test_what_is_out_of_range(eta: Fraction, label: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        ClassificationNoiseOracle(Noisy(0, 7), SCHEMA, label, eta, 0.1)
    with pytest.raises(InvalidParameter, match="a rate in"):
        noise_grid(Fraction(1, 2), Fraction(1, 4))
