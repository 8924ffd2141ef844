"""An enclosure says "not above" only of what is nowhere above."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.planning.tails import Reals, exceeds

STEEPEST = 7.0


def saw(point: Reals) -> Reals:
    """Compute a saw that rises with slope 2 and falls to 0 at each multiple of 1/3."""
    return np.asarray(2 * (point - np.floor(3 * point - 1e-12) / 3))


def enclosed(left: Reals, right: Reals) -> Reals:
    """Bound the saw from above on an interval: a slope of 7 from the better of its ends."""
    return np.maximum(saw(left), saw(right)) + STEEPEST * (right - left)


@given(st.floats(0.05, 1.5), st.floats(0, 0.9), st.floats(0, 0.6))
def test_what_is_above_somewhere_is_never_cleared(beta: float, low: float, length: float) -> None:
    high = low + length
    points = np.append(np.linspace(low, high, 2001), [low, high])
    if not exceeds(enclosed, low, high, beta):
        assert saw(points).max() <= beta + 1e-9


def test_a_saw_is_cleared_just_above_its_teeth() -> None:
    """The teeth of the saw are 2/3; the interval between is wide enough to be divided."""
    assert not exceeds(enclosed, 0.1, 0.9, 2 / 3 + 0.005)
    assert exceeds(enclosed, 0.1, 0.9, 2 / 3 - 0.005)


def test_a_family_of_one_is_a_point() -> None:
    assert not exceeds(enclosed, 0.2, 0.2, 0.4 + 1e-9)
    assert exceeds(enclosed, 0.2, 0.2, 0.4 - 1e-9)


def test_what_cannot_be_decided_counts_as_above() -> None:
    """A bound that never gets closer than 1, of a quantity that is 0."""

    def careless(left: Reals, right: Reals) -> Reals:
        return np.where(left == right, 0.0, 1.0)

    assert exceeds(careless, 0.0, 1.0, 0.5)
