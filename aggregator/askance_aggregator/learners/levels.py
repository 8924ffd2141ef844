"""P-values from intervals: the least level at which intervals reject a hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log

from askance_aggregator.learners.learning import Answer, Answers

LEAST = 1e-12
"""The smallest p-value that is told: an interval at a smaller level rejects, too."""

_HALVINGS = 14  # of the logarithm's range: the level is exact to 0.2 %


def p_value(answers: Answers, rejected: Callable[[Sequence[Answer]], bool]) -> float | None:
    """Compute the least level at which the answers' intervals reject a hypothesis.

    The chance of a level is divided evenly over the answers. If the hypothesis is true, intervals
    at a level reject it with a chance of at most that level; so the p-value is valid whenever the
    intervals are, for every number of users.

    Args:
        answers: of one batch.
        rejected: whether intervals reject; if some do, all narrower ones do.

    Returns:
        A number from `LEAST` to 1, rounded up; None where an answer has no law.
    """
    laws = [answer.law for answer in answers if answer.law is not None]
    if len(laws) < len(answers):
        return None

    def rejects(level: float) -> bool:
        return rejected([law.at(level / len(laws)) for law in laws])

    if rejects(LEAST):
        return LEAST
    low, high = log(LEAST), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rejects(exp(middle)) else (middle, high)
    return min(exp(high), 1.0)
