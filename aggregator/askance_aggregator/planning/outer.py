"""Guarantee of a plan towards readers of its tallies."""

from __future__ import annotations

from fractions import Fraction

from askance_aggregator.amplification.account import Batch, Outer, outer_of
from askance_aggregator.planning.plans import StudyPlan


def outer_of_plan(plan: StudyPlan, answers: int, delta: Fraction) -> Outer | None:
    """Bound what readers of a plan's tallies learn, from above; None: the local epsilon alone.

    Args:
        plan: whose tallies are published.
        answers: fresh ones in every group, at least.
        delta: in (0, 1).
    """
    distinct = {  # cohorts of alike randomizers have alike bounds
        tuple(sorted(group.randomizer.canonical for group in groups)): groups
        for planned in plan.rounds
        for groups in planned.cohorts
    }
    batches = [
        Batch(group.randomizer, answers, cohort)
        for cohort, groups in enumerate(distinct.values())
        for group in groups
    ]
    return outer_of(batches, delta)
