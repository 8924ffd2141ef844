"""Figure 1 with an oracle's answers: no curator holds the records."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.learners import Answers, Batch, Question
from askance_aggregator.oracles import EmpiricalOracle, ExactOracle, Oracle
from askance_aggregator.queries import EncodedColumns, encode_columns, predicate
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Integer, Schema
from askance_papers.curator.synopsis import (
    Histogram,
    MarginalFamily,
    MatrixQueries,
    Universe,
    boosted_locally,
    boosting_rehearsal,
    conjunctions,
    rounds_for,
)
from askance_simulation.experiments.trials import local_oracle
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededWords

UNIVERSE = Universe((2, 3, 2, 2))
PAIRS = MarginalFamily(UNIVERSE, 2)
SCHEMA = Schema("people", 1, a=Bit(), b=Integer(0, 2), c=Bit(), d=Bit())
ASKED = conjunctions(PAIRS, [SCHEMA[name] for name in "abcd"])
ACCURACY = (Fraction(1, 50), Fraction(1, 20))


def people(n: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(3)
    first = (rng.random(n) < 0.8).astype(np.int64)
    second = np.where(rng.random(n) < 0.8, 2 * first, rng.integers(0, 3, n))
    third = first ^ (rng.random(n) < 0.1)
    return np.stack([first, second, third, rng.integers(0, 2, n)], axis=1)


TABLE = people(3000)
COLUMNS = {name: TABLE[:, place] for place, name in enumerate("abcd")}
TRUTH = PAIRS.counts(Histogram.of(UNIVERSE, TABLE)) / len(TABLE)


class Counting:
    """Counts what another oracle is asked."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.batches: list[Batch] = []

    def answer(self, batch: Batch) -> Answers:
        self.batches.append(batch)
        return self._oracle.answer(batch)


def test_predicates_ask_what_the_family_counts() -> None:
    oracle = ExactOracle(SCHEMA, COLUMNS)
    answers = [oracle.answer(Batch([_question(query)]))[0].value for query in range(PAIRS.size)]
    assert answers == pytest.approx(TRUTH.tolist())


def _question(query: int) -> Question:
    return Question(ASKED(query), Fraction(1, 100))


def test_an_exact_oracle_brings_every_query_within_the_bound(
    words: Callable[[str], SeededWords],
) -> None:
    oracle = Counting(ExactOracle(SCHEMA, COLUMNS))
    release = boosted_locally(PAIRS, oracle, ASKED, ACCURACY, 20, words("exact"))
    assert np.abs(release.answers - TRUTH).max() <= 0.02 + 0.05
    assert release.events == ()
    assert release.table(100, words("rows")).shape == (100, 4)
    everything, *rounds = oracle.batches
    assert len(everything.questions) == PAIRS.size
    assert {question.tau for question in everything.questions} == {Fraction(1, 80)}
    assert all(len(batch.questions) <= 20 for batch in rounds)
    assert {question.tau for batch in rounds for question in batch.questions} == {Fraction(1, 100)}


def test_a_fleet_does_too_and_its_users_are_asked_once_each(
    words: Callable[[str], SeededWords],
) -> None:
    """With 80,000 devices at epsilon 4, no curator holds the records of the synopsis."""
    universe = Universe((2, 2, 2))
    schema = Schema("people", 1, a=Bit(), b=Bit(), c=Bit())
    pairs = MarginalFamily(universe, 2)
    asked = conjunctions(pairs, [schema[name] for name in "abc"])
    table = people(80_000)[:, [0, 2, 3]]
    accurate, slack = Fraction(1, 10), Fraction(1, 5)
    learner = boosting_rehearsal(pairs, asked, schema, (accurate, slack), 4)
    users = Population.from_columns(schema, {n: table[:, i] for i, n in enumerate("abc")})
    study = Study(learner, schema, epsilon=4)
    with local_oracle(study, users, fleet="columns", seed=Seed.of(1)) as oracle:
        release = boosted_locally(pairs, oracle, asked, (accurate, slack), 4, words("fleet"))
    truth = pairs.counts(Histogram.of(universe, table)) / len(table)
    assert np.abs(release.answers - truth).max() <= accurate + slack * 5 / 4
    assert len(oracle.tallies) == 1 + rounds_for(pairs.size)
    assert oracle.users_used <= users.size


def test_an_oracle_of_samples_does_too(words: Callable[[str], SeededWords]) -> None:
    rng = np.random.default_rng(4)

    def sampler(rows: int) -> EncodedColumns:
        drawn = TABLE[rng.integers(0, len(TABLE), rows)]
        return encode_columns(SCHEMA, {name: drawn[:, place] for place, name in enumerate("abcd")})

    oracle = EmpiricalOracle(sampler, 1e-6)
    accuracy = (Fraction(1, 10), Fraction(1, 10))
    release = boosted_locally(PAIRS, oracle, ASKED, accuracy, 10, words("samples"))
    assert np.abs(release.answers - TRUTH).max() <= 0.1 + 0.125


class TestWhatIsRefused:
    class Nobody:
        def answer(self, batch: Batch) -> Answers:
            raise AssertionError("expected nothing asked")

    @pytest.mark.parametrize("accuracy", [(0, 0.1), (0.1, 0), (1, 0.1), ("x", 0.1)])
    def test_an_accuracy(self, accuracy: tuple[object, object], no_words: SeededWords) -> None:
        with pytest.raises(InvalidParameter, match="accuracy"):
            boosted_locally(PAIRS, self.Nobody(), ASKED, accuracy, 10, no_words)  # type: ignore[arg-type]  # the point

    def test_no_sample(self, no_words: SeededWords) -> None:
        with pytest.raises(InvalidParameter, match="samples: expected 1 or more"):
            boosted_locally(PAIRS, self.Nobody(), ASKED, ACCURACY, 0, no_words)

    def test_values_that_are_no_predicates(self, no_words: SeededWords) -> None:
        halves = MatrixQueries(UNIVERSE, np.full((2, UNIVERSE.cells), 0.5))
        nothing = predicate(SCHEMA["a"])
        with pytest.raises(InvalidParameter, match="expected predicates"):
            boosted_locally(halves, self.Nobody(), lambda _: nothing, ACCURACY, 10, no_words)

    def test_columns_that_are_missing(self) -> None:
        with pytest.raises(InvalidParameter, match="columns: expected 4 expressions, found 1"):
            conjunctions(PAIRS, [SCHEMA["a"]])
