"""Conditions of a study that a learner may size itself by: users, noise, and users needed.

They are known before any user is asked and depend on no record, so a setting that follows from
them costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Protocol, TypeVar

from askance_aggregator.learners.learning import Learning, Question


def narrowest(
    widths: Sequence[int], affordable: Callable[[Sequence[int]], bool]
) -> tuple[int, ...]:
    """Keep fields as long as the model of those kept is affordable, the narrowest first."""
    # Each field costs twice: what is asked about it has errors of its own, and its questions take
    # users from all others. So a model of many columns from few users is worse than the constant.
    # Equal widths are in the schema's order. Widths come from the schema and the noise from the
    # planner, so the choice costs no privacy. It cannot see which fields matter: name those that
    # are known to matter (`columns`).
    #
    # With more fields a model never becomes affordable again. The places are increasing: at least
    # one, and all if they are affordable.
    kept: list[int] = []
    for place in sorted(range(len(widths)), key=lambda place: (widths[place], place)):
        if kept and not affordable([*kept, place]):
            break
        kept.append(place)
    return tuple(sorted(kept))


V = TypeVar("V")

_RISES = 2  # values in a row that need more users than the best
_TAU_STEPS = 1 << 16  # the grid of a planned tolerance


class Asking(Protocol):
    """Interface of a learner to what is planned: it can be run."""

    def run(self) -> Learning[Any]:
        """Return a fresh run."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions of a study, known before any user is asked.

    Args:
        users: size of the population; None: not known, as in a plan without one.
        noise: n times the variance of one value of a question's answer, in the square of its unit,
            n the users who are asked that question.
        tolerance: of a question, so many users who are asked it and so many values of the whole
            study: what each value keeps, in the question's unit.
        needed: the users that a learner needs; None: nothing can be planned with this budget.
        signing: the study is being made, to be signed: its population is not known yet and will
            be. A rule that depends on users sets nothing then.
    """

    users: int | None
    noise: Callable[[Question], float]
    tolerance: Callable[[Question, int, int], float]
    needed: Callable[[Any], int | None]
    signing: bool = False

    def fewest_users(self, values: Iterable[V], learner: Callable[[V], Asking]) -> V | None:
        """Return the value of a setting with which a learner needs the fewest users.

        Their order is that of a number along which users fall and then rise: the search ends once
        two in a row need more than the best so far. None: nothing can be planned with any value.
        """
        best, least, rises = None, None, 0
        for value in values:
            users = self.needed(learner(value))
            if users is None:
                continue
            if least is None or users < least:
                best, least, rises = value, users, 0
                continue
            rises += 1
            if rises == _RISES:
                break
        return best


def planned_tau(kept: float) -> Fraction:
    """Round a tolerance that users keep upward, to a multiple of 2^-16."""
    return Fraction(ceil(kept * _TAU_STEPS), _TAU_STEPS)


Settle = Callable[[Mapping[str, Any], Conditions], Mapping[str, Any]]
"""Rule of a learner: from its arguments by name and the conditions to the arguments that it sets.

An argument that was given is never changed.
"""
