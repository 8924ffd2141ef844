"""Least epsilon at which a number of users is enough for a learner's tolerances.

Sizes are saws in epsilon, and designs switch, so that a study may be possible at one epsilon and
not at a greater one. The search therefore plans every epsilon of a grid, the greatest first, and
stops at the first that is not possible: all that are greater are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from askance_aggregator.learners import Learner
from askance_aggregator.planning import EpsilonCurve, StudyPlan, rehearse
from askance_aggregator.studies.study import Study
from askance_client.accounting import NANO_NATS_PER_NAT, format_nats
from askance_client.errors import InvalidParameter, PlanRefused

_STEPS = ((10, 10), (100, 50), (1_000, 100), (4_000, 250), (8_000, 1_000), (16_000, 0))
"""First epsilon of a range and the step up to the next one, in thousandths of a nat: a step is a
tenth of an epsilon or less from .1 nats on, and above 8 nats there is little left to choose."""

_NANO_PER_MILLI = NANO_NATS_PER_NAT // 1000

GRID = (
    *(
        milli * _NANO_PER_MILLI
        for (first, step), (end, _) in pairwise(_STEPS)
        for milli in range(first, end, step)
    ),
    _STEPS[-1][0] * _NANO_PER_MILLI,
)
"""Epsilons that are tried, in nano-nats, rising."""

GRID_TEXT = f"{_STEPS[0][0] / 1000:g}" + ",".join(
    f" to {end / 1000:g} by {step / 1000:g}" for (_, step), (end, _) in pairwise(_STEPS)
)


def plan_least_epsilon(
    study_at: Callable[[Decimal], Study], users: int, *, whole: bool = False
) -> StudyPlan:
    """Plan a study at the least epsilon of `GRID` from which on so many users are enough.

    Enough means that the plan at this epsilon, and at every greater one of the grid, takes at most
    `users`. An epsilon at which the study is refused is not enough.

    Args:
      study_at: makes the study at an epsilon in nats.
      users: how many there are, 1 or more.
      whole: whether the curve is of the whole grid; else it ends at the first epsilon that is not
        enough.

    Returns:
      The plan at that epsilon, with the curve. If not even the greatest epsilon is enough, its
      plan, which is not feasible.
    """
    needs: list[tuple[int, int | None]] = []
    least: StudyPlan | None = None
    holds = True
    for nano_nats in reversed(GRID):
        try:
            study = study_at(Decimal(nano_nats) / NANO_NATS_PER_NAT)
            if not needs:  # before anything is sized
                _check_tolerances(study.learner.bound(study.schema))
            plan = study.plan(users)
        except (InvalidParameter, PlanRefused):
            if not needs:
                raise
            plan = None
        if not needs:
            least = plan
        needs.append((nano_nats, None if plan is None else plan.users_needed))
        holds = holds and plan is not None and plan.feasible
        if holds:
            least = plan
        elif not whole:
            break
    assert least is not None  # the greatest epsilon has a plan
    curve = EpsilonCurve(tuple(reversed(needs)), users, GRID_TEXT)
    if least.feasible:
        return replace(least, curve=curve)
    greatest = format_nats(GRID[-1])
    reason = (
        f"no epsilon up to {greatest} nats is enough: at {greatest} the plan needs"
        f" {least.users_needed:,} users, and there are {users:,} (allow a wider tolerance, ask a"
        " simpler question, or find more users)"
    )
    return replace(least, curve=curve, reason=reason)


def _check_tolerances(learner: Learner[object]) -> None:
    """Refuse a learner with an answer that has no tolerance to be kept."""
    for batch in rehearse(learner):
        if any(question.tau is None for question in batch.questions):
            raise InvalidParameter(
                f"epsilon: expected a number of nats, or a tolerance (tau) for each answer of"
                f" {learner.name}, from which the least epsilon follows, got neither"
            )
