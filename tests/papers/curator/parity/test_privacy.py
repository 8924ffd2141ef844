"""Releases of A and A* on every data set that is small enough, and their privacy loss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import exp, log

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_papers.curator.parity import (
    ParityExamples,
    PrivateParity,
    even_keeping,
    law,
    likelihood_ratio,
    printed_keeping,
    sharper_keeping,
)
from askance_simulation.populations.labelled_bits import Parity

N, D = 3, 2
Example = tuple[int, int, int]
KINDS: Sequence[Example] = [(a, b, y) for a, b, y in product((0, 1), repeat=D + 1)]
NEVER = (1 << 64) - 1
Law = Mapping[Parity | None, Fraction]


class Script:
    """Source of chosen words, which fails when they are used up."""

    def __init__(self, words: Sequence[int]) -> None:
        self.left = list(words)

    def take(self, count: int) -> NDArray[np.uint64]:
        assert count <= len(self.left)
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def examples(data: Sequence[Example]) -> ParityExamples:
    table = np.array(data, dtype=np.uint8)
    return ParityExamples.of_bits(table[:, :D], table[:, D])


def data_sets() -> Sequence[tuple[Example, ...]]:
    """List all data sets up to order: the coins are independent and alike for all examples."""
    return list(combinations_with_replacement(KINDS, N))


def neighbours(data: tuple[Example, ...]) -> set[tuple[Example, ...]]:
    return {
        tuple(sorted((*data[:place], other, *data[place + 1 :])))
        for place in range(N)
        for other in KINDS
    } - {data}


@cache
def laws(keep: Fraction, runs: int) -> Mapping[tuple[Example, ...], Law]:
    return {data: law(examples(data), keep, runs) for data in data_sets()}


def worst_ratio(keep: Fraction, runs: int) -> Fraction:
    """Return the largest likelihood ratio of an output, over all pairs of neighbours."""
    found = Fraction(0)
    table = laws(keep, runs)
    for data, mine in table.items():
        for other in neighbours(data):
            theirs = table[other]
            assert mine.keys() == theirs.keys(), "an output is impossible on one side only"
            found = max(found, *(chance / theirs[said] for said, chance in mine.items()))
    return found


class TestOneRun:
    @pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "3.8"])
    def test_the_printed_p_costs_what_the_proof_says_and_no_more(self, epsilon: str) -> None:
        mechanism = PrivateParity.once(epsilon, printed_keeping)
        p = mechanism.keep
        assert p == Fraction(epsilon) / 4
        assert worst_ratio(p, 1) == 1 + 2 * p / (1 - p) == likelihood_ratio(p, 1)
        assert log(worst_ratio(p, 1)) <= float(epsilon)

    def test_the_printed_p_is_not_private_at_3_point_9(self) -> None:
        assert worst_ratio(printed_keeping(Fraction("3.9"), 1), 1) > exp(3.9)

    @pytest.mark.parametrize("epsilon", ["0.1", "1", "2", "4"])
    def test_tanh_costs_epsilon_exactly(self, epsilon: str) -> None:
        ratio = worst_ratio(PrivateParity.once(epsilon).keep, 1)
        assert ratio <= exp(float(epsilon)) * (1 + 1e-15)
        assert log(ratio) == pytest.approx(float(epsilon), abs=1e-14)


class TestManyRuns:
    @pytest.mark.parametrize(
        ("epsilon", "runs"), [("0.5", 8), ("1", 4), ("1", 8), ("2", 5), ("4", 8), ("4", 9)]
    )
    def test_the_sharper_p_costs_epsilon_exactly(self, epsilon: str, runs: int) -> None:
        budget = Fraction(epsilon)
        p = sharper_keeping(budget, runs)
        ratio = worst_ratio(p, runs)
        assert ratio == (1 + p) ** runs == likelihood_ratio(p, runs)
        assert log(ratio) == pytest.approx(float(epsilon), abs=1e-13)

    @pytest.mark.parametrize(("epsilon", "runs"), [("1", 2), ("1", 3), ("2", 4), ("4", 5)])
    def test_where_answers_are_dearer_it_costs_no_more(self, epsilon: str, runs: int) -> None:
        p = sharper_keeping(Fraction(epsilon), runs)
        assert (1 + p) ** runs < likelihood_ratio(p, runs), "here an answer is the dearest"
        assert worst_ratio(p, runs) <= likelihood_ratio(p, runs)
        assert log(likelihood_ratio(p, runs)) == pytest.approx(float(epsilon), abs=1e-13)

    def test_an_even_split_wastes_about_half(self) -> None:
        p = even_keeping(Fraction(1), 8)
        assert log(worst_ratio(p, 8)) < 0.52
        assert 2 < sharper_keeping(Fraction(1), 8) / p < 2.2


class TestTheLaw:
    """The enumerated law is the mechanism's: every coin it may toss is tossed."""

    @pytest.mark.parametrize(
        "data",
        [
            ((0, 0, 0), (0, 1, 1), (1, 0, 1)),
            ((0, 0, 1), (0, 1, 0), (1, 1, 1)),  # no parity fits: 0 = 1
            ((1, 0, 0), (1, 0, 1), (1, 1, 0)),  # nor here: two labels of one x
            ((0, 0, 0), (0, 0, 0), (0, 0, 0)),
        ],
    )
    def test_it_is_that_of_every_word_that_may_be_drawn(self, data: tuple[Example, ...]) -> None:
        p = Fraction(1, 5)
        below, above = (1 << 64) // 5 - 1, (1 << 64) // 5 + 1  # the last that keeps, the first not
        given = examples(data)
        mechanism = PrivateParity(Fraction(2), 1, p)
        found: defaultdict[Parity | None, Fraction] = defaultdict(Fraction)
        gives_up, goes_on = (1 << 63) - 1, 1 << 63
        found[mechanism.release(given, Script([gives_up]))] += Fraction(1, 2)
        for kept in product((False, True), repeat=N):
            chance = p ** sum(kept) * (1 - p) ** (N - sum(kept)) / 2
            for free in range(1 << D):
                words = [goes_on, *(below if keep else above for keep in kept), free]
                found[mechanism.release(given, Script(words))] += chance / (1 << D)
        assert found == law(given, p, 1)
        assert sum(found.values()) == 1

    def test_runs_follow_each_other_until_one_speaks(self) -> None:
        given = examples([(0, 0, 0), (0, 1, 1), (1, 0, 1)])
        mechanism = PrivateParity(Fraction(2), 3, Fraction(1, 5))
        speaks = [NEVER, 0, 0, 0, 0]
        assert mechanism.release(given, Script([0, 0, *speaks])) == Parity((1, 1))
        script = Script([*speaks, 7])
        assert mechanism.release(given, script) == Parity((1, 1))
        assert script.left == [7], "the first answer is the last run"
        assert mechanism.release(given, Script([0, 0, 0])) is None
        once, thrice = law(given, mechanism.keep, 1), law(given, mechanism.keep, 3)
        silent = once[None]
        assert thrice[None] == silent**3
        assert thrice[Parity((1, 1))] == once[Parity((1, 1))] * (1 + silent + silent**2)

    def test_order_does_not_matter(self) -> None:
        data = [(0, 1, 1), (1, 1, 0), (0, 1, 0)]
        p = Fraction(1, 3)
        assert law(examples(data), p, 2) == law(examples(data[::-1]), p, 2)
