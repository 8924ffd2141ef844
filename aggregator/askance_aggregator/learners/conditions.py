"""Conditions of a study that a learner may size itself by: users, and the noise of an answer.

They are known before any user is asked and depend on no record, so a setting that follows from
them costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from askance_aggregator.learners.learning import Question


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions of a study, known before any user is asked.

    Args:
        users: size of the population; None: not known, as in a plan without one.
        noise: n times the variance of one value of a question's answer, in the square of its unit,
            n the users who are asked that question.
    """

    users: int | None
    noise: Callable[[Question], float]


Settle = Callable[[Mapping[str, Any], Conditions], Mapping[str, Any]]
"""Rule of a learner: from its arguments by name and the conditions to the arguments that it sets.

An argument that was given is never changed.
"""
