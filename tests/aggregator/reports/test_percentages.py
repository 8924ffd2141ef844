"""Percentages: one form of shares and of levels."""

from __future__ import annotations

import pytest

from askance_aggregator.reports.figures import level_text, share_text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (-0.0001, "0 %"),
        (0.0004, "0 %"),
        (0.1667, "16.7 %"),
        (0.53, "53 %"),
        (0.1, "10 %"),
        (1.0, "100 %"),
    ],
)
def test_a_share_has_one_decimal_or_none(share: float, text: str) -> None:
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("level", "text"), [(0.95, "95 %"), (0.999, "99.9 %"), (0.999999, "99.9999 %"), (0.9, "90 %")]
)
def test_a_level_has_its_digits(level: float, text: str) -> None:
    assert level_text(level) == text


def test_no_decimal_keeps_its_zeros() -> None:
    assert (share_text(1, 0), share_text(0.3, 0)) == ("100 %", "30 %")
