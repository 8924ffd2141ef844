"""exp_bounds: two integers with e^x between them, and next to each other."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_client.accounting import exp_bounds
from askance_client.accounting.exponential import taylor_bounds
from askance_client.errors import InvalidParameter


@given(st.integers(1, 60 * 10**9), st.integers(0, 200))
def test_the_bounds_enclose_the_exponential_tightly(nano: int, bits: int) -> None:
    low, high = exp_bounds(nano, bits)
    with localcontext() as context:
        context.prec = 150  # the decimal module's exp is correctly rounded
        exact = (Decimal(nano) / 10**9).exp() * 2**bits
        assert low < exact < high
    assert high - low <= 2


@pytest.mark.parametrize("bits", [0, 1, 2, 17, 64, 200])
@pytest.mark.parametrize(
    "nano", [1, 62_500_000, 62_500_001, 999_999_999, 10**9, 10**9 + 1, 7 * 10**9, 60 * 10**9]
)
def test_some_exponentials_are_enclosed_tightly(nano: int, bits: int) -> None:
    """The same on stated numbers, in little time: at ends of the halvings, and between."""
    low, high = exp_bounds(nano, bits)
    with localcontext() as context:
        context.prec = 150
        exact = (Decimal(nano) / 10**9).exp() * 2**bits
        assert low < exact < high
    assert high - low <= 2


@given(st.integers(1, 2000 * 10**9))
def test_more_bits_agree_with_fewer(nano: int) -> None:
    low, high = exp_bounds(nano, 10)
    fine_low, fine_high = exp_bounds(nano, 90)
    assert low <= fine_high >> 80
    assert fine_low >> 80 <= high
    assert high - low <= 2
    assert fine_high - fine_low <= 2


def test_no_nats_are_exact() -> None:
    assert exp_bounds(0, 64) == (2**64, 2**64)


def test_e_itself() -> None:
    low, high = exp_bounds(10**9, 64)
    assert low <= 50143449209799256682 < 50143449209799256683 <= high


@pytest.mark.parametrize("bits", [-1, -2, -64])
def test_a_negative_precision_is_refused(bits: int) -> None:
    with pytest.raises(InvalidParameter, match="precision"):
        exp_bounds(1, bits)
    with pytest.raises(InvalidParameter, match="precision"):
        exp_bounds(0, bits)


@pytest.mark.parametrize("places", [0, 1, 2, 3, 8, 30, 64, 100])
@pytest.mark.parametrize("numerator", [1, 3, 10**11 + 7, 10**12 - 1, 10**12])
def test_some_series_are_rounded_outward(numerator: int, places: int) -> None:
    low, high = taylor_bounds(numerator, 16 * 10**12, places)
    with localcontext() as context:
        context.prec = 100
        exact = (Decimal(numerator) / (16 * 10**12)).exp() * 2**places
        assert low < exact < high
    assert high - low <= 2 + places // 2  # a unit per term, and terms fall by 16


@given(st.integers(1, 10**12), st.integers(0, 100))
def test_the_series_is_rounded_outward_in_its_last_place(numerator: int, places: int) -> None:
    """Without the extra places that would hide a rounding to the wrong side."""
    low, high = taylor_bounds(numerator, 16 * 10**12, places)
    with localcontext() as context:
        context.prec = 100
        exact = (Decimal(numerator) / (16 * 10**12)).exp() * 2**places
        assert low < exact < high
