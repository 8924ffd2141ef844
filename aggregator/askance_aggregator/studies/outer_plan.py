"""Local epsilon at which the tallies of a study keep a wanted epsilon towards their readers.

The study signs `least_answers`: a round with fewer answers in a group ends it, and nothing is
published. So a tally that is published has at least as many, of which a share is assumed to lie:
the outer epsilon of a plan is that of so many fresh honest answers in each of its groups.

A greater local epsilon takes fewer users, or makes smaller errors, and has a greater outer epsilon.
The search halves a range of hundredths of a nat. The plan that it returns is bounded itself, so the
promise holds also where designs change within the range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from askance_aggregator.amplification.account import Outer, honest
from askance_aggregator.learners import Question
from askance_aggregator.oracles.central import central_rows
from askance_aggregator.planning import RoundPlan, StudyPlan, rehearse
from askance_aggregator.planning.outer import outer_of_plan
from askance_aggregator.planning.plans import ErrorsBeside, PlannedOuter
from askance_aggregator.studies.study import Study
from askance_client.accounting import NANO_NATS_PER_NAT, format_nats
from askance_client.errors import InvalidParameter, PlanRefused

MOST_LOCAL = 4 * NANO_NATS_PER_NAT
"""Nano-nats. Beyond, a report nearly says its record, and the aggregator sees reports: no outer
epsilon makes up for that."""

_STEP = NANO_NATS_PER_NAT // 100
_HALVINGS = 30  # of a range: a tolerance to one part in 10^9

StudyAt = Callable[[Decimal], Study]
"""Makes a study at an epsilon in nats."""


def plan_outer_epsilon(
    study_at: StudyAt,
    users: int | None,
    outer: int,
    delta: Fraction,
    most_local: int = MOST_LOCAL,
) -> StudyPlan:
    """Plan a study at the greatest local epsilon, in hundredths, that keeps an outer one.

    Args:
      study_at: makes the study, which signs `least_answers`, at an epsilon in nats.
      users: how many there are; None: as many as are needed.
      outer: wanted epsilon towards readers of tallies, nano-nats.
      delta: of the outer epsilon, in (0, 1).
      most_local: greatest local epsilon, nano-nats.

    Returns:
      The plan, with its outer epsilon and the errors of other ways to keep it.

    Raises:
      InvalidParameter: a local epsilon above 4 nats, or a study without `least_answers`.
      PlanRefused: there is no plan at the local epsilon that was found.
    """
    if most_local > MOST_LOCAL:
        raise InvalidParameter(
            f"local_at_most: expected a number of nats up to {format_nats(MOST_LOCAL)}, got"
            f" {format_nats(most_local)}"
        )
    answers = _study_at(study_at, most_local).conduct.least_answers
    if honest(answers) < 2:
        raise InvalidParameter(
            "least_answers: expected the fewest answers of a group that are published, 3 or more,"
            f" got {answers}"
        )

    def planned(nano_nats: int) -> tuple[StudyPlan, Outer | None]:
        plan = _study_at(study_at, nano_nats).plan(users)
        return plan, outer_of_plan(plan, answers, delta)

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
    study = _study_at(study_at, plan.nano_nats)
    beside = tuple(_errors_beside(study_at, study, plan, outer, users))
    wanted = outer / NANO_NATS_PER_NAT
    most_nats = most_local / NANO_NATS_PER_NAT
    return replace(plan, outer=PlannedOuter(attained, answers, wanted, most_nats, beside))


def _study_at(study_at: StudyAt, nano_nats: int) -> Study:
    return study_at(Decimal(nano_nats) / NANO_NATS_PER_NAT)


def _errors_beside(
    study_at: StudyAt, study: Study, plan: StudyPlan, outer: int, users: int | None
) -> Iterator[ErrorsBeside]:
    """Yield the errors of each round, by as many users in all as the plan has."""
    local: StudyPlan | None = None
    with suppress(InvalidParameter, PlanRefused):
        local = _study_at(study_at, outer).plan(users or plan.users_needed)
    epsilon = Fraction(outer, NANO_NATS_PER_NAT)
    for number, (planned, batch) in enumerate(
        zip(plan.rounds, rehearse(study.settled(users)), strict=True)
    ):
        same = local is not None and local.feasible
        yield ErrorsBeside(
            planned.tau,
            local.rounds[number].tau if local is not None and same else None,
            min(
                _curators_tau(question, _rows(planned, place), epsilon, plan.beta_per_value)
                for place, question in enumerate(batch.questions)
            ),
        )


def _rows(planned: RoundPlan, place: int) -> int:
    """Return the users whose rows a curator has for a question, each row being in one question."""
    together = Counter(group.cohort for group in planned.groups)
    groups = (group for group in planned.groups if group.question == place)
    return sum(group.users // together[group.cohort] for group in groups)


def _curators_tau(question: Question, rows: int, epsilon: Fraction, share: float) -> float:
    """Return the least tolerance that so many rows of a trusted curator keep, at most the range.

    Source: `CentralOracle`: half of the share is for the sample, half for Laplace noise.
    """
    low, high = Fraction(0), question.spread
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = central_rows(replace(question, tau=middle), epsilon, share) <= rows
        low, high = (low, middle) if enough else (middle, high)
    return float(high)
