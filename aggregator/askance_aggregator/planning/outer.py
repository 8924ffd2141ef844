"""Guarantee of a plan towards readers of its tallies."""

from __future__ import annotations

from fractions import Fraction

from askance_aggregator.amplification.account import Outer, OuterBatch, delta_for, honest, outer_of
from askance_aggregator.planning.plans import StudyPlan


def outer_of_plan(plan: StudyPlan, delta: Fraction | None = None) -> Outer | None:
    """Bound what readers of a plan's tallies learn, from above.

    Args:
        plan: whose tallies have `least_answers` fresh answers each, or more.
        delta: in (0, 1); None: that of a result for the plan's users.

    Returns:
        None where no less than the local epsilon holds: with too few answers, for one.
    """
    if honest(plan.least_answers) < 2:
        return None
    distinct = {  # cohorts of alike randomizers have alike bounds
        tuple(sorted(group.randomizer.canonical for group in groups)): groups
        for planned in plan.rounds
        for groups in planned.cohorts
    }
    batches = [
        OuterBatch(group.randomizer, plan.least_answers, cohort)
        for cohort, groups in enumerate(distinct.values())
        for group in groups
    ]
    return outer_of(batches, delta or delta_for(plan.n_users or plan.users_needed or 1))
