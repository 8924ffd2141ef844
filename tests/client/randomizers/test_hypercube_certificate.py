"""The distance of a sign pattern's draws from uniform is charged, the rank's part included."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from askance_client.randomizers.hypercube_draws import certified_ratio


def test_the_rank_and_every_range_are_charged() -> None:
    """For s = 5 the rank counts as 1, two draws have ranges 4 and 5: S = 10, of 2^10 coins."""
    numerator, denominator = certified_ratio(5, 2, 512, 1 << 10)
    assert Fraction(numerator, denominator) == Fraction(1 << 10, (1 << 10) - 20)


def test_one_component_draws_nothing() -> None:
    assert Fraction(*certified_ratio(1, 0, 768, 1 << 10)) == 3


def test_terms_of_fewer_bits_than_are_kept_are_not_cut() -> None:
    """By hand: 3 components, 1 near and 7 far patterns, 15 coins of which 8 are near."""
    bias = 2 + 1 * (2 * 3 - 1 + 1)
    assert certified_ratio(3, 0, 8, 15) == (8 * 7 * 15, 7 * 1 * (15 - bias)) == (840, 49)


@pytest.mark.parametrize("threshold", [1, (1 << 63) + 1, (1 << 63) + 5, (1 << 64) - 1])
@pytest.mark.parametrize(("components", "radius"), [(701, 100), (700, 350), (1023, 511)])
def test_a_ratio_of_long_terms_is_cut_outward(components: int, radius: int, threshold: int) -> None:
    """Never below t F M over (M - t) N (M - 2 S), or its inverse.

    Where near and far are almost even, a greater term that is rounded down would be.
    """
    space, half = 1 << 64, components // 2
    near = sum(comb(components, distance) for distance in range(radius + 1))
    inside, outside = threshold * ((1 << components) - near), (space - threshold) * near
    greater, less = max(inside, outside), min(inside, outside)
    bound = Fraction(greater * space, less * (space - 2 - half * (2 * components - half + 1)))
    ratio = Fraction(*certified_ratio(components, radius, threshold))
    assert bound <= ratio < bound * (1 + Fraction(1, 1 << 250))
