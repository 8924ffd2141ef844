"""Rates and sizes as text: three digits, whatever the size."""

from __future__ import annotations

import pytest

from askance_aggregator.learners import EstimateRow
from askance_aggregator.reports.figures import bytes_text, estimate_texts, rate_text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [
        (13_888.9, "13,889 per second"),
        (999.6, "1,000 per second"),
        (27.78, "27.8 per second"),
        (1.0, "1 per second"),
        (0.999, "59.9 per minute"),
        (1 / 60, "1 per minute"),
        (0.0046, "16.6 per hour"),
        (4 / 86_400, "0.167 per hour"),
        (0.0, "0 per hour"),
    ],
)
def test_a_rate_has_three_digits(per_s: float, text: str) -> None:
    assert rate_text(per_s) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999.4, "999 B"),
        (999.6, "1 kB"),
        (9_880, "9.88 kB"),
        (98_800_000, "98.8 MB"),
        (988e9, "988 GB"),
    ],
)
def test_a_size_has_three_digits(number: float, text: str) -> None:
    assert bytes_text(number) == text


def test_a_rate_of_bytes_has_both_units() -> None:
    assert rate_text(709_000, bytes_text) == "709 kB per second"
    assert rate_text(0.5, bytes_text) == "30 B per minute"


def test_what_is_rounded_to_zero_has_no_sign() -> None:
    (text,) = estimate_texts([EstimateRow("", -0.0003, -0.03, 0.2)], (-0.0004,), shares=False)
    assert (text.estimate, text.truth, text.low, text.high) == ("0.00", "0.00", "-0.03", "0.20")


@pytest.mark.parametrize(
    ("truth", "shares", "is_asymmetric"),
    [
        (5.6, False, True),  # 9.4 less 4.3 is 5.1
        (5.9, False, False),
        (4.9, False, False),  # neither the interval nor the half width reaches it
        (13.8, False, False),
        (0.056, True, True),
        (0.059, True, False),
    ],
)
def test_an_interval_that_misses_the_truth_is_not_shown_by_a_half_width_that_reaches_it(
    truth: float, shares: bool, is_asymmetric: bool
) -> None:
    unit = 0.01 if shares else 1.0
    row = EstimateRow("may", 9.4 * unit, 5.86 * unit, 13.67 * unit)
    (text,) = estimate_texts((row,), (truth,), shares=shares)
    assert (text.half_width, text.is_asymmetric) == ("4.3", is_asymmetric)
