"""Epsilon of a plan towards readers of its tallies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from math import ceil

from askance_aggregator.composition.rounding import upward
from askance_aggregator.planning.plans import GroupPlan, StudyPlan
from askance_client.randomizers import Randomizer


def outer_epsilon(plan: StudyPlan, answers: int, delta: Fraction) -> float:
    """Bound the epsilon towards readers of a plan's tallies, from above.

    Every user is in one cohort of one round, so the worst cohort decides. Groups of one cohort are
    composed: delta is divided evenly, and epsilons add.

    Args:
        plan: whose tallies are published.
        answers: honest and fresh ones in every group, at least.
        delta: in (0, 1).
    """
    from askance_aggregator.amplification import epsilon_ends  # imports what few plans need

    cohorts = {
        tuple(sorted(randomizers, key=lambda one: one.canonical))
        for planned in plan.rounds
        for randomizers in _cohorts(planned.groups)
    }
    return max(
        upward(sum(Fraction(epsilon_ends(one, answers, delta / len(all_)).upper) for one in all_))
        for all_ in cohorts
    )


def _cohorts(groups: Iterable[GroupPlan]) -> Iterable[list[Randomizer]]:
    """Return the randomizers by which the users of each cohort answer."""
    found: defaultdict[int, list[Randomizer]] = defaultdict(list)
    for group in groups:
        found[group.cohort].append(group.randomizer)
    return found.values()


LIARS = Fraction(1, 100)
"""Share of a tally's answers that is assumed to lie, where nothing else is stated."""


def honest_answers(answers: int, liars: Fraction = LIARS) -> int:
    """Return how many of a tally's answers are no lies, at least."""
    return answers - ceil(answers * liars)
