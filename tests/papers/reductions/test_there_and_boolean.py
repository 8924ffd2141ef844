"""Learners as local algorithms, and back; numbers asked through their digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.learners import (
    Adaptive,
    Answer,
    Answers,
    Batch,
    Conjunction,
    MaskedParity,
    Question,
    conjunctions,
    conjunctions_schema,
    masked_parity,
    masked_parity_schema,
)
from askance_aggregator.oracles import (
    ExactOracle,
    Oracle,
    WrongSideOracle,
    learn,
)
from askance_aggregator.queries import (
    category,
    encode_columns,
    evaluate_columns,
    predicate,
    real,
    signed,
    vector,
)
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import (
    Category,
    Integer,
    QueryKind,
    Real,
    Schema,
)
from askance_papers.reductions import (
    BooleanOracle,
    by_adaptive_queries,
    digits_of,
    local_algorithm,
    one_round_algorithm,
    run_locally,
)
from askance_papers.reproduce.counting import AskedOnce
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededWords


class TestThere:
    @pytest.mark.parametrize("trial", range(3))
    def test_masked_parity_is_learned_from_devices(self, trial: int) -> None:
        learner = masked_parity(masked_parity_schema(2))
        algorithm = local_algorithm(learner, "4", "1/1000")
        people = Population.generated("masked-parity", algorithm.most, seed=trial, d=2)
        found = run_locally(algorithm, people.columns(0, people.size), SeededWords(Seed.of(trial)))
        assert isinstance(found, MaskedParity)
        assert found == people.target

    def test_every_user_is_asked_once_within_the_budget(self) -> None:
        algorithm = local_algorithm(conjunctions(conjunctions_schema(2), "1/2"), "2", "1/10")
        run, users = algorithm.run(), []
        call = next(run)
        try:
            while True:
                users.append(call.user)
                assert call.randomizer.loss.nano_nats <= algorithm.nano_nats == 2 * 10**9
                call = run.send(b"\x00")
        except StopIteration:
            pass
        assert users == list(range(algorithm.calls_at_most))

    def test_a_learner_that_asks_at_once_makes_an_algorithm_that_does(self) -> None:
        learner = conjunctions(conjunctions_schema(3), "1/2")
        algorithm = one_round_algorithm(learner, "3", "1/1000")
        assert algorithm.calls_at_most == local_algorithm(learner, "3", "1/1000").most
        rng = np.random.default_rng(3)
        x = rng.integers(0, 2, (algorithm.calls_at_most, 3))
        target = Conjunction(3, (0, 2))
        people = encode_columns(conjunctions_schema(3), {"x": x, "y": target.predict({"x": x})})
        assert run_locally(algorithm, people, SeededWords(Seed.of(4))) == target

    def test_a_learner_needs_a_schema(self) -> None:
        bare = Adaptive[None](name="bare", version=1, parameters={}, factory=lambda: iter(()))  # type: ignore[arg-type, return-value]  # never run
        with pytest.raises(InvalidParameter, match="bare expects a schema"):
            local_algorithm(bare, "1", "1/10")


def test_there_and_back_a_conjunction_is_learned() -> None:
    """A learner as a local algorithm, and that again as a learner that asks an oracle."""
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    target = Conjunction(2, (0,))
    oracle = ExactOracle(conjunctions_schema(2), {"x": x, "y": target.predict({"x": x})})
    algorithm = local_algorithm(conjunctions(conjunctions_schema(2), "1/2"), "2", "1/100")
    learner = by_adaptive_queries(algorithm, "1/100", lambda: SeededWords(Seed.of(1)))
    assert learn(learner, AskedOnce(oracle)) == target


SCHEMA = Schema("s", 1, n=Integer(-3, 9), t=Real(-2, 3, 6), c=Category(["p", "q", "r"]))
QUERIES = (
    real(SCHEMA["n"]),
    real(SCHEMA["t"]),
    real(SCHEMA["t"] * SCHEMA["n"], -5, 7, 1),
    real(SCHEMA["n"] * 4096),
    predicate(SCHEMA["n"] > 2),
    category(SCHEMA["c"], 1),
    signed(SCHEMA["n"] + 3),
    vector([SCHEMA["n"], SCHEMA["t"]], -1, 2),
)


class OnlyPredicates:
    """Refuses anything else; moves answers towards the middle by almost their tolerance."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = WrongSideOracle(oracle, lambda _: (0.5,))
        self.asked = 0

    def answer(self, batch: Batch) -> Answers:
        assert {question.query.kind for question in batch.questions} == {QueryKind.PREDICATE}
        self.asked = len(batch.questions)
        return self.oracle.answer(batch)


class TestBoolean:
    @given(
        rows=st.lists(
            st.tuples(
                st.one_of(st.none(), st.integers(-3, 9)),
                st.one_of(st.none(), st.floats(-2, 3)),
                st.sampled_from(["p", "q", "r", None]),
            ),
            min_size=1,
            max_size=6,
        ),
        place=st.integers(0, len(QUERIES) - 1),
        part=st.fractions(Fraction(1, 1000), Fraction(1, 3)),
    )
    def test_answers_are_valid(
        self, rows: list[tuple[int | None, float | None, str | None]], place: int, part: Fraction
    ) -> None:
        n, t, c = zip(*rows, strict=True)
        truth = ExactOracle(SCHEMA, {"n": list(n), "t": list(t), "c": list(c)})
        question = Question(QUERIES[place], part * Question(QUERIES[place]).spread)
        (said,) = BooleanOracle(OnlyPredicates(truth)).answer(Batch([question]))
        (true,) = truth.answer(Batch([question]))
        for one, other in zip(said.values, true.values, strict=True):
            assert abs(one - other) < float(question.working_tau)

    @pytest.mark.parametrize("query", QUERIES[:4])
    def test_all_digits_are_the_number(self, query: Question) -> None:
        """With nothing left out, record by record."""
        digits = digits_of(query, Fraction(0))  # type: ignore[arg-type]  # parametrised as a query
        assert digits.rest == 0
        n, t = (axis.ravel() for axis in np.meshgrid(np.arange(-3, 10), np.arange(-128, 193, 7)))
        columns = encode_columns(SCHEMA, {"n": n, "t": t / 64})
        total = [digits.offset] * columns.rows
        for one, weight in zip(digits.predicates, digits.weights, strict=True):
            total = [
                s + weight * int(v)
                for s, v in zip(total, evaluate_columns(one, columns), strict=True)
            ]
        scale = 1 << query.frac  # type: ignore[attr-defined]  # as above
        values = evaluate_columns(query, columns)  # type: ignore[arg-type]  # as above
        expected = [Fraction(int(value), scale) for value in values]
        assert total == expected

    def test_it_takes_logarithmically_many(self) -> None:
        truth = ExactOracle(SCHEMA, {"n": [1, 2], "t": [0, 1]})
        counts = []
        for power in (2, 4, 8):
            oracle = OnlyPredicates(truth)
            question = Question(real(SCHEMA["n"] * 4096), Fraction(12 * 4096, 1 << power))
            BooleanOracle(oracle).answer(Batch([question]))
            counts.append(oracle.asked)
        assert counts == [3, 5, 9]

    def test_what_has_no_digits(self) -> None:
        with pytest.raises(InvalidQuery, match="digits expect a REAL query"):
            digits_of(QUERIES[4], Fraction(1, 10))

    def test_a_batch_keeps_its_order(self) -> None:
        class Says:
            def answer(self, batch: Batch) -> Answers:
                shares = [k / 10 for k in range(len(batch.questions))]
                return tuple(Answer((s,), (s,), (s,)) for s in shares)

        told = BooleanOracle(Says()).answer(Batch([Question(QUERIES[5]), Question(QUERIES[4])]))
        assert [answer.values for answer in told] == [(0.0, 0.1, 0.2), (0.3,)]
