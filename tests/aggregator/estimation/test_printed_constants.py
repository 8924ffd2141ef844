"""Constants that no simulation is sharp enough to tell, held against what is printed."""

from __future__ import annotations

from math import log, sqrt

import pytest

from askance_aggregator.estimation.intervals import empirical_bernstein


def test_bernsteins_interval_is_the_printed_one_on_both_sides() -> None:
    """Maurer and Pontil 2009, Theorem 11: sqrt(2 V ln(2/d) / n) + 7 ln(2/d) / (3 (n - 1))."""
    each = log(2 / 0.025)
    printed = 3 * (sqrt(2 * 0.5 / 9 * each / 20) + 7 * each / (3 * 19))
    assert empirical_bernstein(3.0, 0.5, 20, 0.05) == pytest.approx(printed)
