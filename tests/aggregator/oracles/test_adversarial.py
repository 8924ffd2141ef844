"""The adversaries: valid always, and as far from the truth as that allows."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.learners import Batch, MaskedParity, Question, masked_parity_schema
from askance_aggregator.oracles import (
    CentreOracle,
    ExactOracle,
    FairHalfOracle,
    FairOracle,
    LazyOracle,
    MaskedParityOracle,
    Oracle,
    RandomSignOracle,
    WrongSideOracle,
    lazy_masked_parity,
    with_free_labels,
)
from askance_aggregator.queries import (
    category,
    dot,
    encode_columns,
    parity,
    predicate,
    real,
    signed,
    where,
)
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Integer, Label, Schema
from askance_simulation.randomness import Seed, SeededWords

SCHEMA = Schema("s", 1, n=Integer(0, 4), y=Label([0, 1]))
ROWS = {"n": [0, 1, 2, 3, 4, 4], "y": [0, 0, 1, 1, 1, 0]}
QUERIES = (
    predicate(SCHEMA["n"] >= 3),
    real(SCHEMA["n"]),
    category(SCHEMA["n"]),
    signed(SCHEMA["n"]),
)
TRUTH = ExactOracle(SCHEMA, ROWS)


def adversaries(seed: int) -> dict[str, Oracle]:
    return {
        "lazy": LazyOracle(TRUTH, CentreOracle()),
        "wrong side": WrongSideOracle(TRUTH),
        "random signs": RandomSignOracle(TRUTH, SeededWords(Seed.of(seed))),
    }


@pytest.mark.parametrize("name", adversaries(0))
@given(
    place=st.integers(0, 3),
    tau=st.fractions(Fraction(1, 10**6), Fraction(3, 4)),
    seed=st.integers(0, 100),
)
def test_every_answer_is_off_by_less_than_tau(
    name: str, place: int, tau: Fraction, seed: int
) -> None:
    batch = Batch([Question(QUERIES[place], tau)])
    (said,) = adversaries(seed)[name].answer(batch)
    (true,) = TRUTH.answer(batch)
    for one, other in zip(said.values, true.values, strict=True):
        assert abs(Fraction(one) - Fraction(other)) < tau


@pytest.mark.parametrize("name", ["wrong side", "random signs"])
def test_and_by_almost_all_of_it(name: str) -> None:
    batch = Batch([Question(query, Fraction(1, 20)) for query in QUERIES])
    for said, true in zip(adversaries(3)[name].answer(batch), TRUTH.answer(batch), strict=True):
        for one, other in zip(said.values, true.values, strict=True):
            assert abs(one - other) == pytest.approx(0.05, rel=1e-9)


def test_random_signs_are_both() -> None:
    batch = Batch([Question(QUERIES[0], Fraction(1, 20))] * 64)
    said = adversaries(5)["random signs"].answer(batch)
    above = sum(answer.value > 0.5 for answer in said)
    assert 10 < above < 54


def test_the_wrong_side_is_past_the_threshold_where_tau_reaches() -> None:
    share = Question(predicate(SCHEMA["n"] == 0), Fraction(1, 6))  # 1/6: at its threshold
    more = Question(predicate(SCHEMA["n"] >= 3), Fraction(1, 4))
    number = Question(real(SCHEMA["n"]), Fraction(1, 2))
    at, above, middle = WrongSideOracle(TRUTH).answer(Batch([share, more, number]))
    assert at.value > 1 / 6
    assert above.value == pytest.approx(0.25)
    assert middle.value < 2  # 14/6, lowered past the middle of 0 .. 4
    (told,) = WrongSideOracle(TRUTH, lambda _: (0.9,)).answer(Batch([more]))
    assert told.value == pytest.approx(0.75)


def test_the_lazy_one_says_the_truth_only_where_it_has_to() -> None:
    question = QUERIES[0]
    lazy = LazyOracle(TRUTH, CentreOracle())
    (near,) = lazy.answer(Batch([Question(predicate(SCHEMA["n"] >= 2), Fraction(1, 5))]))
    (far,) = lazy.answer(Batch([Question(predicate(SCHEMA["n"] >= 2), Fraction(1, 6))]))
    assert near.value == 0.5
    assert far.value == 4 / 6
    assert lazy.answer(Batch([Question(question, Fraction(1, 10))]))[0].value == 0.5


def test_labels_are_freed_row_by_row() -> None:
    columns = encode_columns(SCHEMA, ROWS)
    free = np.array(ROWS["n"]) < 3
    oracle = ExactOracle(SCHEMA, *with_free_labels(SCHEMA, "y", columns, [2, 1, 1, 1, 1, 1], free))
    (share,) = oracle.answer(Batch([Question(predicate(SCHEMA["y"] == "1"))]))
    assert share.value == pytest.approx((4 / 2 + 2) / 7)
    with pytest.raises(InvalidParameter, match="category of the schema"):
        with_free_labels(SCHEMA, "n", columns)


class TestMaskedParityInClosedForm:
    D = 4
    SCHEMA = masked_parity_schema(D)
    X, INDEX, B = SCHEMA["x"], SCHEMA["i"], SCHEMA["b"]
    MINUS = SCHEMA["y"] == "-1"
    QUERIES = (
        predicate((INDEX == 2) & (B == 1) & MINUS),
        predicate((B == 0) & (parity(X, "1010") != MINUS)),
        predicate((B == 0) & ((X[0] & X[1]) != MINUS)),
        real(where(B == 0, dot([1, -2, 0, 3], X), 0) * where(MINUS, -1, 1)),
        signed(where(B == 1, 2 * INDEX + MINUS, 2 * D)),
    )

    def domain(self, concept: MaskedParity) -> ExactOracle:
        x, i, b = zip(*product(product((0, 1), repeat=self.D), range(4), (0, 1)), strict=True)
        columns = {"x": np.array(x), "i": np.array(i), "b": np.array(b)}
        return ExactOracle(self.SCHEMA, {**columns, "y": concept.predict(columns)})

    def test_it_is_the_enumerated_domain(self) -> None:
        batch = Batch([Question(query) for query in self.QUERIES])
        for r in product((0, 1), repeat=self.D):
            concept = MaskedParity(r, r[0] ^ 1)
            assert MaskedParityOracle(concept).answer(batch) == self.domain(concept).answer(batch)

    def test_fair_coins_say_nothing_of_the_hidden_half_and_all_of_the_other(self) -> None:
        shown, hidden = (Batch([Question(self.QUERIES[place])]) for place in (0, 1))
        for r in product((0, 1), repeat=self.D):
            concept = MaskedParity(r, 1)
            half = FairHalfOracle(concept)
            assert half.answer(shown) == MaskedParityOracle(concept).answer(shown)
            assert half.answer(hidden)[0].value == 0.25
            assert FairOracle(concept).answer(shown)[0].value == 1 / 16

    def test_it_goes_where_no_domain_can_be_enumerated(self) -> None:
        concept = MaskedParity((1, 0) * 128, 1)
        schema = masked_parity_schema(256)
        wrong = (schema["y"] == "-1") != parity(schema["x"], concept.r)
        question = Question(predicate((schema["b"] == 0) & wrong), Fraction(1, 8))
        assert MaskedParityOracle(concept).answer(Batch([question]))[0].value == 0.5
        assert lazy_masked_parity(concept).answer(Batch([question]))[0].value == 0.5
        other = (schema["y"] == "-1") != parity(schema["x"], (1,) * 256)
        silent = Question(predicate((schema["b"] == 0) & other), Fraction(1, 8))
        assert lazy_masked_parity(concept).answer(Batch([silent]))[0].value == 0.25

    def test_a_question_that_sees_too_much_is_refused(self) -> None:
        schema = masked_parity_schema(32)
        question = Question(real(dot([1] * 32, schema["x"])))
        with pytest.raises(InvalidQuery, match="at most 16 independent parities"):
            MaskedParityOracle(MaskedParity((0,) * 32, 0)).answer(Batch([question]))
