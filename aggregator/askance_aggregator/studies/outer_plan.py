"""Local epsilon at which the tallies of a study keep a wanted epsilon towards their readers.

The study signs `least_answers`: a round with fewer answers in a group ends it without a result. So
every tally of a result has at least as many, of which a share is assumed to lie: the outer epsilon
of a plan is that of so many fresh honest answers in each of its groups. A study that ended for too
few answers has a tally of few in its transcript, and the local statement alone.

A greater local epsilon takes fewer users, or makes smaller errors, and has a greater outer epsilon.
The search halves a range of hundredths of a nat. The plan that it returns is bounded itself, so the
promise holds also where designs change within the range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from askance_aggregator.amplification.outer import Outer, honest
from askance_aggregator.learners import Batch, Question
from askance_aggregator.oracles.central import central_rows, laplace_of, step_of
from askance_aggregator.planning import RoundPlan, RoundRules, StudyPlan, rehearse
from askance_aggregator.planning import plan as plan_of
from askance_aggregator.planning.plans import CostsBeside, WantedOuter
from askance_aggregator.studies.study import Study
from askance_client.accounting import NANO_NATS_PER_NAT, format_nats
from askance_client.errors import InvalidParameter, PlanRefused

MOST_LOCAL = 4 * NANO_NATS_PER_NAT
"""Nano-nats. Beyond, a report nearly says its record, and the aggregator sees reports: no outer
epsilon makes up for that."""

_STEP = NANO_NATS_PER_NAT // 100
_NEARLY_EXACT = 8 * NANO_NATS_PER_NAT  # reports add less than 1 % to a sample's variance

StudyAt = Callable[[Decimal], Study]
"""Makes a study at an epsilon in nats."""


def plan_outer_epsilon(
    study_at: StudyAt,
    users: int | None,
    outer: int,
    delta: Fraction | None = None,
    most_local: int = MOST_LOCAL,
) -> StudyPlan:
    """Plan a study at the greatest local epsilon, in hundredths, that keeps an outer one.

    Args:
      study_at: makes the study, which signs `least_answers`, at an epsilon in nats.
      users: how many there are; None: as many as are needed.
      outer: wanted epsilon towards readers of tallies, nano-nats.
      delta: of the outer epsilon, in (0, 1); None: that of a result for the plan's users.
      most_local: greatest local epsilon, nano-nats.

    Returns:
      The plan, with its outer epsilon and the errors of other ways to keep it.
    """
    if most_local > MOST_LOCAL:
        raise InvalidParameter(
            f"local_at_most: expected a number of nats up to {format_nats(MOST_LOCAL)}, got"
            f" {format_nats(most_local)}"
        )
    answers = _study_at(study_at, most_local).conduct.least_answers
    if honest(answers) < 2:
        raise InvalidParameter(
            "least_answers: expected the fewest answers in a group of a result, 3 or more,"
            f" got {answers}"
        )

    def planned(nano_nats: int) -> tuple[StudyPlan, Outer | None]:
        plan = _study_at(study_at, nano_nats).plan(users)
        return plan, plan.outer(delta)

    # Readers of tallies learn no more than the aggregator, so the wanted epsilon itself will do.
    low = min(outer, most_local)
    found: tuple[StudyPlan, Outer | None] | None = None
    least, most = 0, (most_local - low) // _STEP + 1  # steps below `most_local`, counted from low
    steps = most - 1
    while most - least > 1:
        middle = (least + most) // 2
        tried = planned(most_local - (steps - middle) * _STEP)
        if tried[1] is not None and tried[1].epsilon <= outer / NANO_NATS_PER_NAT:
            least, found = middle, tried
        else:
            most = middle
    plan, attained = planned(low) if found is None else found
    beside = _costs_beside(study_at, _study_at(study_at, plan.nano_nats), plan, outer)
    wanted = outer / NANO_NATS_PER_NAT
    most_nats = most_local / NANO_NATS_PER_NAT
    return replace(plan, wanted=WantedOuter(attained, answers, wanted, most_nats, beside))


def _study_at(study_at: StudyAt, nano_nats: int) -> Study:
    return study_at(Decimal(nano_nats) / NANO_NATS_PER_NAT)


def _costs_beside(study_at: StudyAt, study: Study, plan: StudyPlan, outer: int) -> CostsBeside:
    """Return what a round's answers cost by three ways to keep an outer epsilon."""
    # Users are the plan's where a tolerance is open; where all are stated, as many as they need.
    batches = rehearse(study.settled(plan.n_users))
    is_open = any(one.tau is None for batch in batches for one in batch.questions)
    users = (plan.n_users or plan.users_needed) if is_open else None
    alone: StudyPlan | None = None
    with suppress(InvalidParameter, PlanRefused):
        alone = _study_at(study_at, outer).plan(users)
    epsilon = Fraction(outer, NANO_NATS_PER_NAT)
    curator = (
        _curators_tau(study, plan, batches, epsilon)
        if is_open
        else sum(
            central_rows(question, epsilon, plan.beta_per_value)
            for batch in batches
            for question in batch.questions
        )
    )

    def cost(of: StudyPlan) -> float:
        return max(planned.tau for planned in of.rounds) if is_open else of.users_needed

    # A curator can draw the reports itself, and publish their tallies.
    own = cost(plan)
    return CostsBeside(
        is_open, own, None if alone is None else cost(alone), min(curator or own, own)
    )


def _curators_tau(
    study: Study, plan: StudyPlan, batches: Sequence[Batch], epsilon: Fraction
) -> float | None:
    """Return the tolerance of a trusted curator with the plan's users, each in one question."""
    # Half of beta is for the sample, as planned for reports that are nearly exact, and half for
    # Laplace noise, as of `CentralOracle`.
    rules = RoundRules.of(study.conduct, study.design)
    users, learner = plan.n_users or plan.users_needed, study.settled(plan.n_users)
    try:
        exact = plan_of(learner, _NEARLY_EXACT, study.beta / 2, users, rules)
    except (InvalidParameter, PlanRefused):
        return None
    return max(
        planned.tau
        + max(
            _noise(question, _rows(planned, place), epsilon, plan.beta_per_value / 2)
            for place, question in enumerate(batch.questions)
        )
        for planned, batch in zip(exact.rounds, batches, strict=True)
    )


def _rows(planned: RoundPlan, place: int) -> int:
    """Return the users whose rows a curator has for a question, each row being in one question."""
    together = Counter(group.cohort for group in planned.groups)
    groups = (group for group in planned.groups if group.question == place)
    return max(sum(group.users // together[group.cohort] for group in groups), 1)


def _noise(question: Question, rows: int, epsilon: Fraction, share: float) -> float:
    """Return the most that Laplace noise moves a mean over rows, but for a chance of `share`."""
    # A mean over the rows that have a number is a quotient of two noisy sums.
    draws = 2 if question.over_present else 1
    width = laplace_of(question, epsilon).half_width(1 - Fraction(share) / draws)
    return draws * float(width * step_of(question)) / (rows * float(question.present))
