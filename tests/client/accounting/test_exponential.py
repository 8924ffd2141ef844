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


def test_a_negative_precision_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="precision"):
        exp_bounds(1, -1)


@given(st.integers(1, 10**12), st.integers(0, 100))
def test_the_series_is_rounded_outward_in_its_last_place(numerator: int, places: int) -> None:
    """Without the extra places that would hide a rounding to the wrong side."""
    low, high = taylor_bounds(numerator, 16 * 10**12, places)
    with localcontext() as context:
        context.prec = 100
        exact = (Decimal(numerator) / (16 * 10**12)).exp() * 2**places
        assert low < exact < high
