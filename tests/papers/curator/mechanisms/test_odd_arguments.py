"""Unusual arguments: accepted, or refused before a word is drawn."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_client.errors import AskanceError, InvalidRecord
from askance_papers.curator.mechanisms import (
    CuratorQuery,
    Exponential,
    Gaussian,
    Laplace,
    Losses,
    PermuteAndFlip,
    ScoredCandidates,
    even_cuts,
    histogram,
    laplace,
    laplace_at,
    learn_agnostically,
    means,
    thresholds,
)
from askance_papers.curator.people import Boosting
from askance_simulation.randomness import Seed, SeededWords


class Untouched:
    """Words of which none may be drawn."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"{count} words drawn")


def words(name: str) -> SeededWords:
    return SeededWords(Seed.of(1) / name)


class Narrow:
    """Candidates whose scores have 8 bits: their difference has more."""

    size = 2

    def scores(self, chosen: NDArray[np.int64]) -> NDArray[Any]:
        return np.array([100, -100], dtype=np.int8)[chosen]


class TestNarrowNumbers:
    @pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
    def test_a_difference_of_scores_does_not_wrap_around(
        self, kind: type[Exponential] | type[PermuteAndFlip]
    ) -> None:
        chosen = [kind.of("0.1").choose(Narrow(), words(f"narrow {run}")) for run in range(200)]
        assert sum(chosen) <= 3  # e^-10 of a chance each: above 3 once in 10^10

    def test_mistakes_may_be_unsigned(self) -> None:
        losses = Losses(2, lambda chosen: np.array([3, 0], dtype=np.uint8)[chosen])  # type: ignore[arg-type,return-value]  # the point
        assert losses.scores(np.arange(2)).tolist() == [-3, 0]


class TestListsAndNumbersOfNumpys:
    def test_lists_are_read_as_arrays(self) -> None:
        x, y = [[1.0], [2.0], [3.0]], [-1, 1, 1]
        for one, other in ((x, y), (np.array(x), np.array(y))):
            found = learn_agnostically(thresholds([1.5]), one, other, 1000, words("lists"))
            assert found.number == 1
            committee = Boosting.of(1000, rounds=2).fit(thresholds([1.5]), one, other, words("b"))
            assert committee(np.array(x)).tolist() == y
        counted = histogram([0, 1, 1], 2, laplace_at(1000), words("codes"))
        assert counted.values.tolist() == [1, 2]
        scored = ScoredCandidates([0, 5])  # type: ignore[arg-type]  # the point
        assert Exponential.of(1000).choose(scored, words("scored")) == 1

    def test_numpys_numbers_are_numbers(self) -> None:
        found = laplace(1, sensitivity=np.int64(1), epsilon=np.int64(1000), words=words("numpy"))  # type: ignore[arg-type]  # the point
        assert found.values.tolist() == [1]


REFUSED: list[Callable[[], object]] = [
    lambda: Exponential(Fraction(-1), Fraction(1)),
    lambda: PermuteAndFlip(Fraction(1), Fraction(0)),
    lambda: histogram([0, 1], 2.5, laplace_at(1), Untouched()),  # type: ignore[arg-type]  # the point
    lambda: histogram([0, 1], 10**12, laplace_at(1), Untouched()),
    lambda: even_cuts(0, float("inf"), 3),
    lambda: even_cuts(0, 1, 2.5),  # type: ignore[arg-type]  # the point
    lambda: Laplace(Fraction(1), 1).half_width(1 - Fraction(1, 10**70)),
    lambda: Laplace(Fraction(1), 1).half_width("0.9", 2.5),  # type: ignore[arg-type]  # the point
    lambda: Gaussian(Fraction(1), 1).half_width("0.9", 0),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_meant_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(AskanceError):
        call()


def test_a_confidence_next_to_1_has_an_interval() -> None:
    """P[|k| > t] <= 2 e^(-t^2 / 2) for a variance of 1."""
    reach = Gaussian(Fraction(1, 2), 1).half_width(1 - Fraction(1, 10**30))
    assert 11 <= reach <= 14


def test_a_query_that_leaves_records_out_is_refused() -> None:
    """The number of omitted records depends on all users' values, and n is taken to be public."""
    ages = np.arange(20, 40)

    def over_30(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[rows > 30]

    old = CuratorQuery("old", over_30, 0, 100)
    with pytest.raises(InvalidRecord, match="a value for each record"):
        means([old], ages, laplace_at(1), Untouched())
