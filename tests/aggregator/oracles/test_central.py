"""The curator's oracle: what it costs, exactly, how many rows it takes, and that it is right."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest

from askance_aggregator.composition import Pure, ReleaseLedger, SumFilter
from askance_aggregator.learners import Batch, Question
from askance_aggregator.oracles.central import CentralOracle, central_rows, laplace_of, totals
from askance_aggregator.queries import (
    EncodedColumns,
    category,
    encode_columns,
    predicate,
    real,
    signed,
    vector,
)
from askance_client.errors import InvalidParameter, PlanExceeded, PlanRefused
from askance_client.queries import Category, Integer, Schema
from askance_simulation.randomness import Seed, SeededWords

SCHEMA = Schema("s", 1, n=Integer(0, 4), c=Category(["p", "q", "r"]))
QUESTIONS = (
    Question(predicate(SCHEMA["n"] >= 3), Fraction(1, 20)),
    Question(real(SCHEMA["n"] * 3), Fraction(1, 2)),
    Question(category(SCHEMA["c"]), Fraction(1, 20)),
    Question(signed(SCHEMA["n"]), Fraction(1, 20)),
)
VECTOR = Question(vector([SCHEMA["n"], 4 - SCHEMA["n"] * 1]), Fraction(1, 2))


def people(rows: int) -> EncodedColumns:
    return encode_columns(SCHEMA, {"n": np.arange(rows) % 5, "c": ["p", "q"] * (rows // 2)})


def oracle(rows: int, epsilon: str = ".5", beta: float = 1e-6) -> CentralOracle:
    return CentralOracle(people(rows), epsilon, SeededWords(Seed.of(1)), beta)


@pytest.mark.parametrize("question", [*QUESTIONS, VECTOR])
def test_the_sensitivity_is_what_replacing_one_row_can_do_and_no_less(question: Question) -> None:
    rows = list(product(range(5), ["p", "q", "r"]))
    worst = 0
    for before, after in product(rows, rows):
        sums = [
            totals(question, encode_columns(SCHEMA, {"n": [1, n], "c": ["p", c]}))
            for n, c in (before, after)
        ]
        worst = max(worst, int(np.abs(sums[0] - sums[1]).sum()))
    assert laplace_of(question, Fraction(1)).sensitivity == worst


def test_all_answers_together_cost_epsilon_once() -> None:
    asked = oracle(100_000)
    assert asked.event == Pure(Fraction(0))
    asked.answer(Batch(QUESTIONS))
    asked.answer(Batch(QUESTIONS))
    assert [part.event for part in asked.parts] == [Pure(Fraction(1, 2))] * 8
    assert sum(part.rows for part in asked.parts) == asked.used <= 100_000
    ledger = ReleaseLedger(SumFilter(Fraction(1, 2)))
    ledger.compose(asked.event)
    with pytest.raises(PlanRefused):
        ledger.compose(asked.event)


def test_no_row_is_in_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[slice] = []
    honest = EncodedColumns.take

    def take(self: EncodedColumns, rows: slice) -> EncodedColumns:
        seen.append(rows)
        return honest(self, rows)

    monkeypatch.setattr(EncodedColumns, "take", take)
    oracle(100_000).answer(Batch(QUESTIONS))
    assert [part.start for part in seen[1:]] == [part.stop for part in seen[:-1]]


def test_answers_are_valid_and_their_intervals_hold() -> None:
    for answer, truth in zip(
        oracle(100_000).answer(Batch(QUESTIONS)),
        [(0.4,), (6.0,), (0.5, 0.5, 0.0), (0.0, 0.0)],
        strict=True,
    ):
        for value, low, high, true in zip(
            answer.values, answer.lows, answer.highs, truth, strict=True
        ):
            assert abs(value - true) < 0.5
            assert low <= true <= high


def test_rows_are_the_sample_s_and_the_draw_s() -> None:
    """At least those of Theorem 6, at most twice tau/2 for each; 1/(eps tau) at small epsilon."""
    question, share = QUESTIONS[0], 0.01
    for epsilon in (Fraction(1, 100), Fraction(1), Fraction(100)):
        rows = central_rows(question, epsilon, share)
        tau = 0.05
        least = log(4 / share) / (2 * tau**2)
        draw = log(2 / share) / (float(epsilon) * tau)
        assert max(least, draw) <= rows <= 4 * least + 3 * draw


def test_too_few_rows_release_nothing() -> None:
    asked = oracle(2_000)
    with pytest.raises(PlanRefused, match=r"expected \d+ rows not used before, found 2000"):
        asked.answer(Batch([QUESTIONS[0]] * 20))
    assert asked.parts == ()
    assert asked.used == 0


def test_too_few_rows_for_a_later_batch_leave_the_earlier_ones_charged() -> None:
    asked = oracle(5_000)
    asked.answer(Batch([QUESTIONS[0]]))
    used = asked.used
    with pytest.raises(PlanExceeded):
        asked.answer(Batch([QUESTIONS[0]] * 20))
    assert asked.used == used > 0


def test_numbers_out_of_range() -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        oracle(10, "0")
    with pytest.raises(InvalidParameter, match="beta"):
        oracle(10, beta=0)
    with pytest.raises(InvalidParameter, match="share"):
        central_rows(QUESTIONS[0], Fraction(1), 1)
