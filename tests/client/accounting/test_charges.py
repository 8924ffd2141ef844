"""A charge is the least whole number of nano-nats that covers a likelihood ratio."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_client.accounting import charge, exp_bounds, ratio_within
from askance_client.errors import InvalidParameter

NAT = 10**9
parts = st.integers(1, 2**80)


def decimal_charge(numerator: int, denominator: int) -> int:
    """The same by the decimal module, whose ln is correctly rounded: an independent oracle."""
    with localcontext() as context:
        context.prec = 100
        nano = (Decimal(numerator) / Decimal(denominator)).ln() * NAT
        return max(0, int(nano.to_integral_value(ROUND_CEILING)))


@given(parts, parts)
def test_it_is_the_logarithm_rounded_up(numerator: int, denominator: int) -> None:
    assert charge(numerator, denominator) == decimal_charge(numerator, denominator)


RATIOS = [
    *[(2, 1), (3, 2), (3, 1), (7, 5), (19, 7), (1, 2), (5, 5), (1000, 1), (10**9 + 1, 10**9)],
    *[(2**64, 2**64 - 1), (2**64 - 1, 1), (2**64, 3), (2**80 - 1, 2**79), (2**130, 7)],
    *[(2**63 + 1, 2**63 - 1), (3 * 2**62, 2**62 + 1), (2**64 - 2**40, 2**40)],
]


@pytest.mark.parametrize(("numerator", "denominator"), RATIOS, ids=range(len(RATIOS)))
def test_some_ratios_cost_their_logarithm_rounded_up(numerator: int, denominator: int) -> None:
    """The same as above on stated ratios, in little time."""
    nano = charge(numerator, denominator)
    assert nano == decimal_charge(numerator, denominator)
    for more in (0, 1, 2, NAT):
        assert ratio_within(numerator, denominator, nano + more)
    for less in (1, 2, 1000):
        assert nano < less or not ratio_within(numerator, denominator, nano - less)


@given(parts, parts)
def test_it_fits_and_one_nano_nat_less_does_not(numerator: int, denominator: int) -> None:
    nano = charge(numerator, denominator)
    assert ratio_within(numerator, denominator, nano)
    assert nano == 0 or not ratio_within(numerator, denominator, nano - 1)


@pytest.mark.parametrize("nano", [1, 10**7, 5 * 10**8, NAT, 20 * NAT, 44 * NAT])
@pytest.mark.parametrize("bits", [1, 64, 300, 1000])
def test_neighbours_of_the_bound_are_told_apart(nano: int, bits: int) -> None:
    """floor(e^x 2^bits) over 2^bits is within e^x, and one more is not, however many bits."""
    fine, _ = exp_bounds(nano, bits + 64)
    floor = fine >> 64
    assert ratio_within(floor, 1 << bits, nano)
    assert not ratio_within(floor + 1, 1 << bits, nano)


@pytest.mark.parametrize("nano", [1, 5 * 10**8, NAT, 7 * NAT])
def test_best_approximations_are_told_apart(nano: int) -> None:
    """Convergents a/b of e^x are within 1/b^2, in turn below and above: bits must be added."""
    above_last, sides = False, set()
    rest = Fraction(exp_bounds(nano, 3000)[0], 2**3000)
    a, b, last_a, last_b = 1, 0, 0, 1
    while b.bit_length() < 500:
        digit = rest.numerator // rest.denominator
        a, b, last_a, last_b = digit * a + last_a, digit * b + last_b, a, b
        rest = 1 / (rest - digit)
        assert ratio_within(a, b, nano) is not above_last
        sides.add(above_last)
        above_last = not above_last
    assert sides == {False, True}


def test_no_loss_is_free_and_zero_budget_admits_only_that() -> None:
    assert charge(7, 7) == 0
    assert charge(0, 7) == 0
    assert ratio_within(7, 7, 0)
    assert not ratio_within(2**64 + 1, 2**64, 0)


def test_parts_of_0_or_1_and_budgets_at_their_ends_are_accepted() -> None:
    assert charge(0, 1) == charge(1, 1) == 0
    assert ratio_within(0, 1, 0)
    assert ratio_within(2, 1, 10**15)


def test_a_step_above_no_loss_costs_one() -> None:
    assert charge(2**64 + 1, 2**64) == 1


def test_a_huge_budget_is_decided_at_once() -> None:
    assert ratio_within(2**64, 1, 10**15)
    assert not ratio_within(2**2000, 1, 1386 * NAT)
    assert ratio_within(2**2000, 1, 1387 * NAT)


@pytest.mark.parametrize("numerator", [0, 1, 2**64])
def test_an_infinite_loss_is_refused(numerator: int) -> None:
    with pytest.raises(InvalidParameter, match="infinite"):
        charge(numerator, 0)
    with pytest.raises(InvalidParameter, match="infinite"):
        ratio_within(numerator, 0, NAT)


@pytest.mark.parametrize(
    ("numerator", "denominator"), [(-1, 1), (1, -1), (-2, 1), (1, -2), (-1, -1)]
)
def test_negative_parts_are_refused(numerator: int, denominator: int) -> None:
    with pytest.raises(InvalidParameter, match="negative"):
        charge(numerator, denominator)


@pytest.mark.parametrize("nano", [-2, -1, 10**15 + 1, 10**15 + 2, True])
def test_what_is_no_budget_is_refused(nano: int) -> None:
    with pytest.raises(InvalidParameter, match="budget"):
        ratio_within(2, 1, nano)
