"""Curves as pairs of laws: their convolution, their Renyi divergence, and what both bound."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest

from askance_aggregator.amplification import Curve
from askance_aggregator.amplification.loss_pairs import (
    LossPair,
    composed_epsilon,
    pair_of,
)
from askance_client.errors import InvalidParameter
from tests.aggregator.amplification.test_two_guarantees import delta, laws

MILLIONTH = Fraction(1, 10**6)


def pure_pair(epsilon: float) -> LossPair:
    """Return the pair of randomized response at an epsilon above 0, which dominates every other."""
    share = 1 / (1 + np.exp(-epsilon))
    return LossPair(np.array([-epsilon, epsilon]), np.array([1 - share, share]) * (1 + 2.0**-50))


def bits(answers: int, points: int = 60) -> Curve:
    """Exact curve of one-bit reports at local epsilon 1, all populations enumerated."""
    grid = [0.0, *np.geomspace(0.02, 1.0, points)[:-1].tolist(), 1.0]
    return Curve(tuple(grid), (*(delta(answers, each) for each in grid[:-1]), 0.0))


def test_the_curve_of_randomized_response_is_its_own_pair() -> None:
    share = (exp(1.0) - 1) / (exp(1.0) + 1)
    pair = pair_of(Curve((0.0, 1.0), (share, 0.0)))
    assert pair.losses == pytest.approx([-1, 0, 1])
    assert pair.masses == pytest.approx([1 / (1 + exp(1)), 0, exp(1) / (1 + exp(1))], abs=1e-12)


@pytest.mark.parametrize(("rounds", "optimum"), [(10, 0.99937), (100, 4.77457), (1000, 19.34467)])
def test_pure_rounds_compose_to_the_optimum(rounds: int, optimum: float) -> None:
    """Kairouz, Oh, Viswanath 2015, as another library computes them (epsilon .1, delta 1e-6)."""
    found = composed_epsilon([(pure_pair(0.1), rounds)], MILLIONTH)
    assert optimum - 1e-5 <= found <= optimum * 1.0001 + 1e-5


def test_a_pair_is_above_its_curve_and_meets_it_at_its_points() -> None:
    curve = bits(6)
    pair = pair_of(curve)
    for epsilon, known in zip(curve.epsilons, curve.deltas, strict=True):
        assert known <= pair.delta(epsilon) <= known + 1e-9
    for epsilon in (0.05, 0.3, 0.77):
        assert delta(6, epsilon) <= pair.delta(epsilon)


def test_a_point_that_is_too_high_is_lowered_to_the_hull() -> None:
    straight = Curve((0.0, log(2), log(3)), (0.4, 0.2, 0.0))  # a line in e^epsilon
    raised = Curve((0.0, log(2), log(3)), (0.4, 0.3, 0.0))
    assert pair_of(raised).delta(log(2)) == pytest.approx(0.2)
    assert pair_of(straight).delta(log(1.5)) == pytest.approx(0.3)


def test_two_rounds_of_every_population_are_within_the_composition() -> None:
    """4 users and one bit, with others chosen anew in each round: 16 pairs, both directions."""
    pair = pair_of(bits(4, 200))
    for target in (Fraction(1, 10), Fraction(1, 100)):
        epsilon, least = composed_epsilon([(pair, 2)], target), 0.0
        for first in range(4):
            for second in range(4):
                (p, q), (other_p, other_q) = laws(4, first), laws(4, second)
                p, q = np.outer(p, other_p), np.outer(q, other_q)
                for above, below in ((p, q), (q, p)):
                    assert np.maximum(above - exp(epsilon) * below, 0).sum() <= target
                    least = max(least, np.maximum(above - exp(epsilon * 0.9) * below, 0).sum())
        assert least > target  # a tenth less is not enough for the worst of them


def test_unequal_steps_compose_as_their_number_says() -> None:
    pair, pure = pair_of(bits(8)), pure_pair(0.3)
    apart = composed_epsilon([(pair, 2), (pure, 1), (pair, 3)], MILLIONTH)
    together = composed_epsilon([(pair, 5), (pure, 1)], MILLIONTH)
    assert apart == pytest.approx(together, rel=1e-6)
    assert apart <= 5 + 0.3 + 1e-9


def test_renyi_of_randomized_response() -> None:
    """ln((p^2/q + q^2/p)) for order 2, p = e/(1+e): 1.0 nat has .73576."""
    p = exp(1.0) / (1 + exp(1.0))
    expected = log(p**2 / (1 - p) + (1 - p) ** 2 / p)
    assert pure_pair(1.0).renyi(2.0) == pytest.approx(expected, rel=1e-9)
    assert pure_pair(1.0).renyi(1e6) <= 1.0


def test_losses_beyond_the_cut_do_not_count() -> None:
    pair = LossPair(np.array([-1.0, 0.0, 1.0]), np.array([0.1, 0.899, 0.001]))
    assert pair.cut(Fraction(1, 500)) == 0.0
    assert pair.cut(Fraction(1, 2000)) == 1.0
    assert pair.renyi(50.0, 0.0) == 0.0
    assert pair.renyi(50.0) > 0.8


@pytest.mark.parametrize("wrong", [[], [(pure_pair(1.0), 0)]])
def test_no_steps_are_refused(wrong: list[tuple[LossPair, int]]) -> None:
    with pytest.raises(InvalidParameter, match="composition: expected steps"):
        composed_epsilon(wrong, MILLIONTH)
