"""From queries to devices: a learner as a local algorithm (Lemma 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from askance.aggregator.equivalence.local_algorithms import Interactive, LocalCall, LocalRun
from askance.aggregator.estimation import estimate
from askance.aggregator.learners import Answer, Learner, Question
from askance.aggregator.learners.rationals import Rational, rational
from askance.aggregator.planning import GroupPlan, plan, plan_batch
from askance.client.accounting import parse_epsilon
from askance.client.errors import InvalidParameter

T = TypeVar("T")


def local_algorithm(learner: Learner[T], epsilon: str, beta: Rational) -> Interactive[T]:
    """Asks each of a learner's questions of a fresh group of users, sized by the planner.

    Privacy: each user answers one question, at epsilon.
    Utility: all answers are within their tolerances with probability at least 1 - beta, if users
    are independent draws of the distribution and the learner asks no more than it rehearses.

    Args:
        learner: what asks; numbers are not asked of devices here, but through `BooleanOracle`.
        epsilon: nats.
        beta: the probability of failure, in (0, 1).

    Raises:
        InvalidParameter: a number out of range, or a learner without a schema.

    Source: KLNRS08 Lemma 4.3.
    """
    if learner.schema is None:
        raise InvalidParameter(f"{learner.name} expects a schema, found none")
    nano = parse_epsilon(epsilon)
    planned = plan(learner, nano, rational(beta, "beta"))

    def run() -> LocalRun[T]:
        asking, user = learner.run(), 0
        try:
            batch = next(asking)
            while True:
                groups = plan_batch(batch, nano, planned.beta_per_value).groups
                answers = []
                for question, group in zip(batch.questions, groups, strict=True):
                    answer = yield from _ask(question, group, user, planned.alpha(question))
                    user += group.users
                    answers.append(answer)
                batch = asking.send(tuple(answers))
        except StopIteration as end:
            concluded: T = end.value
            return concluded
        finally:
            asking.close()

    return Interactive(
        name=learner.name,
        schema=learner.schema,
        nano_nats=nano,
        factory=run,
        most=planned.users_needed,
    )


def _ask(question: Question, group: GroupPlan, start: int, alpha: float) -> LocalRun[Answer]:
    reports: list[bytes] = []
    for user in range(start, start + group.users):
        report = yield LocalCall(user, group.query, group.randomizer)
        reports.append(report)
    counts = group.randomizer.tally(_stacked(reports))
    return estimate(question, group.randomizer, counts, len(reports), alpha)


def _stacked(reports: Sequence[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), -1)
