"""Error bounds of answers, for learners that decide only beyond them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.learning import Answer

CHANCE_PART = 0.5
"""Of joint intervals, how much a chance error is taken to be (about two standard deviations): to
act in vain costs users, not to act costs predictions."""


def reach_of(answer: Answer, tau: Fraction | None) -> float:
    """Return the error bound of an answer: the tolerance, or else half of its intervals."""
    return float(tau) if tau is not None else half_width(answer) * CHANCE_PART


def standard_error(answer: Answer, tau: Fraction | None) -> float:
    """Return about the standard deviation of a value, of all values on the mean of squares."""
    if tau is not None:
        return float(tau) * CHANCE_PART / 2
    widths = _half_widths(answer)
    return float(np.sqrt(np.mean(widths * widths))) * CHANCE_PART / 2


def half_width(answer: Answer) -> float:
    """Half of the widest interval of an answer, as it was before it was clipped."""
    return float(_half_widths(answer).max())


def _half_widths(answer: Answer) -> NDArray[np.float64]:
    above = np.subtract(answer.highs, answer.values)
    below = np.subtract(answer.values, answer.lows)
    return np.maximum(above, below)
