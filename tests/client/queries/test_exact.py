"""Numbers as exact ratios: the sign, the two ends of the decades, and the text that is read."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from askance_client.queries.exact import ceil_to_grid, exact_ratio, floor_to_grid, to_grid

LARGEST = 10**100


@pytest.mark.parametrize(
    ("value", "ratio"),
    [
        (Decimal("1e100"), (LARGEST, 1)),
        (Decimal("9e100"), (9 * LARGEST, 1)),  # of the same decade
        (Decimal("1e101"), (LARGEST, 1)),
        (Decimal("-1e101"), (-LARGEST, 1)),
        (Decimal("7e-100"), (7, LARGEST)),
        (Decimal("1e-100"), (1, LARGEST)),
        (Decimal("9e-101"), (1, LARGEST)),
        (Decimal("-9e-101"), (-1, LARGEST)),
        (Decimal("-0"), (0, 1)),
        (Decimal("0e999"), (0, 1)),
        (Decimal("-2.5"), (-5, 2)),
        (Decimal("nan"), None),
        (Decimal("-inf"), None),
        ("1e999999999", (LARGEST, 1)),
        ("-1e999999999", (-LARGEST, 1)),
        ("1e-999999999", (1, LARGEST)),
        ("1e99999999999999999999", None),
        (" -.5 ", (-1, 2)),
        ("+3.", (3, 1)),
        ("-6/4", (-3, 2)),
        ("1/0", None),
        ("0/1", (0, 1)),
        ("1/-2", None),
        ("1_0", None),
        ("", None),
        ("0" * 127 + "7", (7, 1)),
        ("0" * 128 + "7", None),
        (" " * 200 + "7", (7, 1)),
        (True, (1, 1)),
        (np.bool_(True), (1, 1)),
        (np.float32(0.5), (1, 2)),
        (Fraction(-7, 3), (-7, 3)),
        (float("nan"), None),
        (float("inf"), None),
        (np.timedelta64(1, "s"), None),
        (b"1", None),
        (1 + 0j, None),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_number_is_its_exact_ratio_within_a_hundred_decades(
    value: object, ratio: tuple[int, int] | None
) -> None:
    assert exact_ratio(value) == ratio


@pytest.mark.parametrize("frac", [0, 1, 5])
def test_rounding_to_a_grid_is_half_to_even_and_outward_on_demand(frac: int) -> None:
    for eighths in range(-40, 41):
        for denominator in (8, 24):  # not in lowest terms, and thirds
            scaled = Fraction(eighths, denominator) * (1 << frac)
            assert to_grid((eighths, denominator), frac) == round(scaled)
            assert floor_to_grid((eighths, denominator), frac) == scaled.__floor__()
            assert ceil_to_grid((eighths, denominator), frac) == scaled.__ceil__()
