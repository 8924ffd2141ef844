"""Outer guarantee of one result: groups, questions of one cohort, liars, and too few answers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from askance_aggregator.amplification import Ends
from askance_aggregator.amplification import outer as module
from askance_aggregator.amplification.outer import (
    Outer,
    OuterBatch,
    decisive_cohorts,
    delta_for,
    honest,
    outer_of,
)
from askance_aggregator.families import best_for
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer

BIT = best_for(2, 10**9)
OTHER = best_for(2, 2 * 10**9)
MILLIONTH = Fraction(1, 10**6)


def test_delta_of_a_person() -> None:
    assert delta_for(100) == MILLIONTH
    assert delta_for(10_000) == MILLIONTH
    assert delta_for(1_000_000) == Fraction(1, 10**8)
    with pytest.raises(InvalidParameter, match="enrolled"):
        delta_for(0)


def test_answers_that_hide() -> None:
    assert honest(1000) == 990
    assert honest(1001) == 990  # 10.01 liars are 11
    assert honest(1000, Fraction(0), known=3) == 997
    assert honest(1, known=5) == 0
    with pytest.raises(InvalidParameter, match="liars"):
        honest(10, Fraction(2))


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, Fraction]]]:
    """A batch of n has the epsilon 100 / n here; what was asked is noted."""
    asked = []

    def found(_: Randomizer, answers: int, delta: Fraction) -> Ends:
        asked.append((answers, delta))
        return Ends(0.0, 100 / answers)

    monkeypatch.setattr(module, "epsilon_ends", found)
    module.upper_epsilon.cache_clear()
    yield asked
    module.upper_epsilon.cache_clear()


def test_of_disjoint_groups_the_largest_is_stated(ends: list[tuple[int, Fraction]]) -> None:
    outer = outer_of([OuterBatch(BIT, 1000, 0), OuterBatch(BIT, 500, 1)], MILLIONTH)
    assert outer is not None
    assert outer.epsilon == pytest.approx(100 / 495)
    assert (outer.delta, outer.answers, outer.liars) == (MILLIONTH, 500, Fraction(1, 100))
    assert ends == [(990, MILLIONTH), (495, MILLIONTH)]


def test_of_alike_cohorts_one_stands_for_all() -> None:
    """The fewest answers to each question, the most known ones and the most choices count."""
    alike = [
        (OuterBatch(BIT, 90, 0, known=1, choices=1), OuterBatch(OTHER, 70, 0, known=4, choices=5)),
        (OuterBatch(BIT, 80, 1, known=2, choices=3), OuterBatch(OTHER, 75, 1, known=0, choices=6)),
    ]
    alone = [(OuterBatch(BIT, 9, 2),), (OuterBatch(OTHER, 8, 3), OuterBatch(BIT, 7, 3))]
    assert decisive_cohorts([*alike, *alone]) == [
        (OuterBatch(BIT, 80, 0, known=2, choices=3), OuterBatch(OTHER, 70, 0, known=4, choices=6)),
        *alone,
    ]


def test_the_questions_of_one_cohort_compose(ends: list[tuple[int, Fraction]]) -> None:
    outer = outer_of([OuterBatch(BIT, 500), OuterBatch(BIT, 500)], MILLIONTH, Fraction(0))
    assert outer is not None
    assert outer.epsilon == pytest.approx(0.4)
    assert ends == [(500, MILLIONTH / 2)]  # kept for the second


def test_the_curves_of_one_cohort_compose_to_less_than_their_sum() -> None:
    """Two bits of 1,000: the worst population has .1812 by enumeration, the sum is above .25."""
    both = [OuterBatch(BIT, 1000), OuterBatch(BIT, 1000)]
    outer = outer_of(both, MILLIONTH, Fraction(0))
    assert outer is not None
    assert 0.1812 <= outer.epsilon <= 0.205


def test_too_small_a_batch_has_no_statement(ends: list[tuple[int, Fraction]]) -> None:
    assert (
        outer_of([OuterBatch(BIT, 1000), OuterBatch(BIT, 100, 1)], MILLIONTH, Fraction(0)) is None
    )
    assert outer_of([OuterBatch(BIT, 1)], MILLIONTH) is None
    assert outer_of([], MILLIONTH) is None


def test_disclosed_reports_are_not_counted(ends: list[tuple[int, Fraction]]) -> None:
    assert outer_of([OuterBatch(BIT, 1000, known=490)], MILLIONTH) is not None
    assert ends == [(500, MILLIONTH)]


def test_the_statement_as_json() -> None:
    assert Outer(0.0036, MILLIONTH, 1_000_000).to_json() == {
        "epsilon": 0.0036,
        "delta": 1e-6,
        "answers": 1_000_000,
        "liars": 0.01,
        "holds_for": "replace-one in a user's record, given who answers",
    }
