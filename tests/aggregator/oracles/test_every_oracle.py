"""Conformance suite of all oracles: every kind of question, within tau, on one population.

The local ones are fleets of simulated devices: a study's learner asks the questions, and what it is
is answered is returned as its hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from askance_aggregator.learners import (
    Adaptive,
    Answers,
    Batch,
    Conjunction,
    Learner,
    Learning,
    MaskedParity,
    Question,
    conjunctions,
    conjunctions_schema,
    masked_parity,
    masked_parity_schema,
)
from askance_aggregator.oracles import (
    CentreOracle,
    CheckedOracle,
    ClassificationNoiseOracle,
    EmpiricalOracle,
    ExactOracle,
    LazyOracle,
    MaskedParityOracle,
    Oracle,
    RandomSignOracle,
    WrongSideOracle,
    lazy_masked_parity,
    learn,
)
from askance_aggregator.oracles.central import CentralOracle
from askance_aggregator.queries import (
    EncodedColumns,
    category,
    encode_columns,
    index_of,
    predicate,
    real,
    signed,
    vector,
)
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidAnswer
from askance_simulation.experiments import local_oracle
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6
D = 4
SCHEMA = masked_parity_schema(D)
TARGET = MaskedParity((0, 1, 1, 0), 1)
Opened = AbstractContextManager[Oracle]
Opening = Callable[[Learner[object]], Opened]


class Draws:
    """Uniform examples of the target; a label is flipped at the rate eta."""

    def __init__(self, seed: int, eta: float = 0.0) -> None:
        self.rng, self.eta = np.random.default_rng(seed), eta

    def __call__(self, rows: int) -> EncodedColumns:
        columns = {
            "x": self.rng.integers(0, 2, (rows, D)),
            "i": self.rng.integers(0, D, rows),
            "b": self.rng.integers(0, 2, rows),
        }
        flips = 1 - 2 * (self.rng.random(rows) < self.eta).astype(np.int64)
        return encode_columns(SCHEMA, {**columns, "y": TARGET.predict(columns) * flips})


def domain() -> dict[str, np.ndarray]:
    x, i, b = zip(*product(product((0, 1), repeat=D), range(D), (0, 1)), strict=True)
    return {"x": np.array(x), "i": np.array(i), "b": np.array(b)}


def exact() -> ExactOracle:
    return ExactOracle(SCHEMA, {**domain(), "y": TARGET.predict(domain())})


@contextmanager
def given(oracle: Oracle) -> Iterator[Oracle]:
    yield oracle


def on_fleet(fleet: str, users: int, epsilon: str) -> Opening:
    """Return a fleet that is drawn from the distribution, for this learner."""

    @contextmanager
    def opened(learner: Learner[object]) -> Iterator[Oracle]:
        people = Draws(6)(users)
        population = Population(
            "drawn", SCHEMA, users, lambda start, stop: people.take(slice(start, stop)), TARGET
        )
        study = Study(learner, SCHEMA, epsilon=epsilon, beta="0.000001")
        with local_oracle(study, population, fleet=fleet, seed=Seed.of(7)) as oracle:
            yield oracle

    return opened


def plain(make: Callable[[], Oracle]) -> Opening:
    return lambda _: given(make())


ORACLES: dict[str, Opening] = {
    "exact": plain(exact),
    "closed form": plain(lambda: MaskedParityOracle(TARGET)),
    "empirical": plain(lambda: EmpiricalOracle(Draws(1), ALPHA)),
    "lazy": plain(lambda: LazyOracle(exact(), CentreOracle())),
    "lazy on the hidden half": plain(lambda: lazy_masked_parity(TARGET)),
    "wrong side": plain(lambda: WrongSideOracle(exact())),
    "random signs": plain(lambda: RandomSignOracle(exact(), SeededWords(Seed.of(2)))),
    "noisy labels": plain(
        lambda: ClassificationNoiseOracle(Draws(3, 0.2), SCHEMA, "y", Fraction(1, 5), ALPHA)
    ),
    "central": plain(lambda: CentralOracle(Draws(4)(200_000), "1", SeededWords(Seed.of(5)), ALPHA)),
    "local, objects": on_fleet("objects", 6_000, "8"),
    "local, columns": on_fleet("columns", 40_000, "4"),
}
QUESTIONS = (
    Question(predicate(SCHEMA["y"] == "-1"), Fraction(1, 8)),
    Question(predicate((SCHEMA["b"] == 1) & SCHEMA["x"][0]), Fraction(1, 8)),
    Question(real(SCHEMA["i"] * SCHEMA["b"]), Fraction(1, 2)),
    Question(category(SCHEMA["y"]), Fraction(1, 8)),
    Question(signed(2 * (SCHEMA["i"] == 1) + index_of(SCHEMA["y"]) * SCHEMA["b"] * 2), "1/4"),
    Question(vector([SCHEMA["i"], 3 * SCHEMA["b"], index_of(SCHEMA["y"])], 0, 3), "2/3"),
)


def asks(*batches: Batch) -> Adaptive[tuple[Answers, ...]]:
    """Make a learner whose hypothesis is the answers."""

    def run() -> Learning[tuple[Answers, ...]]:
        told = []
        for batch in batches:
            answers = yield batch
            told.append(answers)
        return tuple(told)

    return Adaptive(name="asks", version=1, parameters={}, schema=SCHEMA, factory=run)


@pytest.mark.parametrize("name", ORACLES)
def test_every_answer_is_within_tau_in_the_shape_of_its_question(name: str) -> None:
    learner = asks(Batch(QUESTIONS[:2]), Batch(QUESTIONS[2:]))
    with ORACLES[name](learner) as oracle:
        told = learn(learner, CheckedOracle(oracle))
    truth = exact().answer(Batch(QUESTIONS))
    for question, answer, true in zip(QUESTIONS, [*told[0], *told[1]], truth, strict=True):
        assert len(answer.values) == len(answer.lows) == len(answer.highs) == question.values
        for value, other in zip(answer.values, true.values, strict=True):
            assert abs(value - other) < float(question.working_tau)


@pytest.mark.parametrize("candidates", [None, 4, 15])
@pytest.mark.parametrize("name", ORACLES)
def test_masked_parity_is_learned(name: str, candidates: int | None) -> None:
    learner = masked_parity(SCHEMA, candidates=candidates)
    with ORACLES[name](learner) as oracle:
        assert learn(learner, oracle) == TARGET


def test_outside_the_promise_the_answer_is_named() -> None:
    """An oracle that is off by ten times tau: the learner does not come to a hypothesis."""

    class Careless:
        def answer(self, batch: Batch) -> Answers:
            wider = Batch([Question(q.query, 10 * q.working_tau) for q in batch.questions])
            return RandomSignOracle(exact(), SeededWords(Seed.of(1))).answer(wider)

    with pytest.raises(InvalidAnswer, match=r"round 1, question 1: expected .* found"):
        learn(masked_parity(SCHEMA), CheckedOracle(Careless()))


class TestConjunctionsUnderAdversaries:
    X = np.array(list(product((0, 1), repeat=D)))

    @pytest.mark.parametrize("accuracy", [Fraction(1, 4), Fraction(1, 20)])
    def test_the_error_stays_below_the_accuracy(self, accuracy: Fraction) -> None:
        schema = conjunctions_schema(D)
        rng = np.random.default_rng(5)
        learner = conjunctions(schema, accuracy)
        for trial in range(40):
            weights = [int(w) for w in rng.integers(0, 100, len(self.X))]
            variables = tuple(int(v) for v in np.flatnonzero(rng.integers(0, 2, D)))
            labels = Conjunction(D, variables).predict({"x": self.X})
            truth = ExactOracle(schema, {"x": self.X, "y": labels}, weights)
            words = SeededWords(Seed.of(trial))
            for oracle in (
                LazyOracle(truth, CentreOracle()),
                WrongSideOracle(truth),
                RandomSignOracle(truth, words),
            ):
                learned = learn(learner, CheckedOracle(oracle))
                wrong = np.asarray(weights)[learned.predict({"x": self.X}) != labels].sum()
                assert set(variables) <= set(learned.variables)
                assert Fraction(int(wrong), sum(weights)) < accuracy
