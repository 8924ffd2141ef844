"""Sizes for the sides of levels: exact laws of reports, and searches with all signs."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, lgamma, log

import numpy as np
import pytest

from askance_aggregator.estimation.laws import ReportsLaw, TalliedReports
from askance_aggregator.families import k_ary_response, subset_selection
from askance_aggregator.learners import Batch, Crossing, Question
from askance_aggregator.planning import plan_batch
from askance_aggregator.planning.crossing import Crossed
from askance_aggregator.planning.precision import tail_of
from askance_aggregator.queries import bucketize, category, predicate
from askance_client.errors import InvalidParameter
from askance_client.queries import Integer, Schema

HALF, TENTH = Fraction(1, 2), Fraction(1, 10)
SCHEMA = Schema("s", 1, n=Integer(0, 63))


def binomial(n: int, p: float) -> np.ndarray:
    """Return the law of a count, by logarithms of factorials."""
    logs = [lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) for k in range(n + 1)]
    return np.exp([c + k * log(p) + (n - k) * log(1 - p) for k, c in enumerate(logs)])


def k_ary(cells: int, epsilon: float) -> tuple[float, float]:
    """Return the chances of a user's own cell and of each other one, by the definition."""
    return exp(epsilon) / (exp(epsilon) + cells - 1), 1 / (exp(epsilon) + cells - 1)


def wrong_coin(n: int, first: int, own: float, other: float, level: float, tau: float) -> float:
    """Return the chance of a wrong sign where the share of the first cells is tau off the level."""
    at = n * (other * first + (own - other) * level)
    counts = np.arange(n + 1)
    chances = []
    for side in (-1, 1):
        law = binomial(n, other * first + (own - other) * (level + side * tau))
        below = counts < at - 1e-9
        chances.append(law[~below].sum() if side < 0 else law[below].sum())
    return float(max(chances))


class TestCoins:
    @pytest.mark.parametrize(
        ("values", "level", "tau", "epsilon"),
        [
            (1, HALF, 0.1, 1.0),
            (1, TENTH, 0.05, 1.0),
            (1, TENTH, 0.05, 4.0),
            (4, HALF, 0.1, 2.0),
            (8, TENTH, 0.08, 4.0),
        ],
    )
    def test_a_size_keeps_its_chance_and_all_larger_ones_do(
        self, values: int, level: Fraction, tau: float, epsilon: float
    ) -> None:
        """Signs: 1 of two sides, 2 of four cells (near a level one on each side), 4 of eight."""
        cells, signs = max(values, 2), {1: 1, 4: 2, 8: 4}[values]
        own, other = k_ary(cells, epsilon)
        beta = 0.01
        n = Crossed(Crossing(values, (level,)), own, other).users(tau, beta)

        def worst(users: int) -> float:
            firsts = range(1, cells)
            return max(wrong_coin(users, one, own, other, float(level), tau) for one in firsts)

        allowed = beta * values / signs
        assert all(worst(n + more) <= allowed for more in range(20))
        assert max(worst(int(0.93 * n) + more) for more in range(6)) > allowed

    def test_a_level_that_nothing_can_pass_by_tau_has_one_side(self) -> None:
        own, other = k_ary(2, 1.0)
        low = Crossed(Crossing(1, (Fraction(1, 20),)), own, other)
        at = other + (own - other) / 20
        below = np.arange(401) < 400 * at
        wrong = binomial(400, other + (own - other) * 0.15)[below].sum()
        assert wrong <= low.failure(0.1)(400) <= 1.35 * wrong

    def test_a_population_at_the_end_of_a_range_that_floats_round_is_counted(self) -> None:
        """-3 .. 4.1: all values at an end are .55 of the range below the level, or are not."""
        own, other = k_ary(2, 1.0)
        level = -3 + Fraction(11, 20) * Fraction(7.1)
        tail = Crossed(Crossing(1, (level,)), own, other, -3.0, 7.1)
        at = other + (own - other) * 0.55
        n = tail.users(0.55 * 7.1, 0.05)
        assert binomial(n, other)[np.arange(n + 1) >= n * at].sum() <= 0.05


def wrong_sum(
    n: int, first: int, cells: int, rates: tuple[float, float], level: float, distance: float
) -> np.ndarray:
    """Return the chances of a wrong sign by the missing share, by summing over two counts."""
    own, other = rates
    constant = other * (first * (1 - level) - (cells - first) * level)
    found = []
    for absent in (0.0, 0.1, 0.3):
        before = level * (1 - absent) + distance
        law = np.array([before, 1 - absent - before, absent]) * (own - other)
        law += other * np.array([first, cells - first, 1])
        none = binomial(n, law[2])
        chance = 0.0
        for count, part in enumerate(none):
            rest = n - count
            ones = np.arange(rest + 1)
            below = (1 - level) * ones - level * (rest - ones) < n * constant - 1e-9
            wrong = ~below if distance < 0 else below
            chance += part * binomial(rest, law[0] / (law[0] + law[1]))[wrong].sum()
        found.append(chance)
    return np.array(found)


class TestSums:
    @pytest.mark.parametrize(
        ("cells", "level", "tau", "epsilon"),
        [(2, HALF, 0.15, 1.5), (4, Fraction(1, 4), 0.12, 4.0)],
    )
    def test_a_size_keeps_its_chance_where_values_are_missing(
        self, cells: int, level: Fraction, tau: float, epsilon: float
    ) -> None:
        """Up to .3 are missing; of so few users a quarter less is not enough."""
        own, other = k_ary(cells + 1, epsilon)
        beta, signs = 0.001, {2: 1, 4: 2}[cells]
        decision = Crossing(cells + 1, (level,), missing=True)
        tail = Crossed(decision, own, other, present=0.7)
        n = tail.users(tau, beta)

        def worst(users: int) -> float:
            rates, at = (own, other), float(level)
            pairs = product(range(1, cells), (-tau, tau))
            each = (wrong_sum(users, one, cells, rates, at, side) for one, side in pairs)
            return float(max(chances.max() for chances in each))

        allowed = beta * (cells + 1) / signs
        assert worst(n) <= allowed
        assert worst(int(0.75 * n)) > allowed

    def test_intervals_of_sums_miss_as_rarely_as_they_say(self) -> None:
        """By the exact law of 60 reports over three cells; weights .5, -.5 and 0."""
        response, n, alpha = k_ary_response(3, 2 * 10**9), 60, 0.2
        own, other = k_ary(3, 2.0)
        truth = np.array([0.5, 0.3, 0.2])
        law = other + (own - other) * truth
        question = Question(category(bucketize(SCHEMA["n"], [20, 40])))
        weights = np.array([[0.5, -0.5, 0.0]])
        missed = 0.0
        for none, part in enumerate(binomial(n, law[2])):
            rest = binomial(n - none, law[0] / (law[0] + law[1]))
            for ones, chance in enumerate(rest):
                if part * chance < 1e-9:
                    continue
                counts = np.array([ones, n - none - ones, none])
                reports = TalliedReports(question, response, counts, n)
                bounds = ReportsLaw(question, (reports,), alpha).sums(weights, 1.0)
                assert bounds is not None
                lows, highs = bounds
                if not lows[0] <= 0.1 <= highs[0]:
                    missed += part * chance
        assert alpha / 20 < missed <= alpha


class TestSigns:
    @pytest.mark.parametrize(("cells", "signs"), [(2, 1), (3, 2), (4, 2), (8, 4), (64, 10)])
    def test_a_search_meets_no_more_signs_that_must_be_right(self, cells: int, signs: int) -> None:
        """All places of the thresholds near a level, and either sign at each of them."""
        assert Crossing(cells if cells > 2 else 1, (HALF,)).signs == signs

        def met(below: int, up_to: int, near: range) -> set[int]:
            if below == up_to:
                return set()
            middle = (below + up_to) // 2
            if middle in near:
                return met(middle + 1, up_to, near) | met(below, middle, near)
            left = middle >= near.stop
            rest = met(below, middle, near) if left else met(middle + 1, up_to, near)
            return {middle} | rest

        zones = [range(low, high) for low in range(cells) for high in range(low, cells)]
        assert max(len(met(0, cells - 1, near)) for near in zones) == signs

    def test_levels_have_their_signs_each(self) -> None:
        assert Crossing(9, (TENTH, HALF), missing=True).signs == 8

    def test_a_decision_without_levels_is_refused(self) -> None:
        with pytest.raises(InvalidParameter, match="at least one level"):
            Crossing(1, ())


def test_a_tolerance_is_what_the_users_keep() -> None:
    tail = Crossed(Crossing(1, (HALF,)), *k_ary(2, 1.0))
    n = tail.users(0.05, 0.01)
    assert tail.tolerance(n, 0.01) == pytest.approx(0.05, rel=1e-3)
    assert tail.tolerance(n, 0.01) >= tail.tolerance(2 * n, 0.01)
    with pytest.raises(InvalidParameter, match="at least one user"):
        tail.tolerance(0, 0.01)


def test_sums_of_shares_are_read_off_k_ary_response_only() -> None:
    """No interval of a share shows a sum, so waves end no such round."""
    question = Question(
        category(bucketize(SCHEMA["n"], [16, 32, 48])), "1/20", decision=Crossing(4, (HALF,))
    )
    with pytest.raises(InvalidParameter, match="expected k-ary response, got subset-selection"):
        tail_of(question, subset_selection(4, 10**8))
    assert tail_of(question, k_ary_response(4, 10**9)).least_variance() == float("inf")
    sided = Question(predicate(SCHEMA["n"] < 30), "1/20", decision=Crossing(1, (HALF,)))
    assert (
        plan_batch(Batch([sided]), 10**9, 0.01).users
        < plan_batch(Batch([Question(sided.query, "1/20")]), 10**9, 0.01).users
    )
