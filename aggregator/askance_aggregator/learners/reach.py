"""Error bounds of answers, for learners that decide only beyond them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from askance_aggregator.learners.learning import Answer

CHANCE_PART = 0.5
"""Of joint intervals, how much a chance error is taken to be (about two standard deviations): to
act in vain costs users, not to act costs predictions."""


def reach_of(answer: Answer, tau: Fraction | None) -> float:
    """Return the error bound of an answer: the tolerance, or else half of its intervals."""
    return float(tau) if tau is not None else half_width(answer) * CHANCE_PART


def half_width(answer: Answer) -> float:
    """Half of the widest interval of an answer, as it was before it was clipped."""
    above = np.subtract(answer.highs, answer.values)
    below = np.subtract(answer.values, answer.lows)
    return float(np.maximum(above, below).max())
