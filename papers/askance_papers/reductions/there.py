"""From queries to devices: a learner as a local algorithm (Lemma 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from askance_aggregator.estimation import estimate
from askance_aggregator.families import family_of
from askance_aggregator.learners import Allocation, Answer, Batch, Learner, NonAdaptive, Question
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.planning import GroupPlan, plan_batch, rehearse
from askance_client.accounting import parse_epsilon
from askance_client.errors import InvalidParameter
from askance_client.queries import Schema
from askance_papers.reductions.local_algorithms import (
    Interactive,
    LocalCall,
    LocalRun,
    NonInteractive,
)

T = TypeVar("T")


def local_algorithm(learner: Learner[T], epsilon: str, beta: Rational) -> Interactive[T]:
    """Ask each of a learner's questions of a fresh group of users, sized by the planner.

    Where the planner would have the same users answer several questions, they get groups too.

    Privacy: each user answers one question, at epsilon.
    Utility: all answers are within their tolerances with probability at least 1 - beta, if users
    are independent draws of the distribution and the learner asks no more than it rehearses.

    Numbers are not asked of devices here, but through `BooleanOracle`.

    Raises:
        InvalidParameter: a number out of range, or a learner without a schema.

    Source: KLNRS08 Lemma 4.3.
    """
    schema, nano = _schema(learner), parse_epsilon(epsilon)
    rehearsed = rehearse(learner)
    share = rational(beta, "beta") / sum(batch.values for batch in rehearsed)

    def run() -> LocalRun[T]:
        asking, user = learner.run(), 0
        try:
            batch = next(asking)
            while True:
                answers = []
                for question, group in _groups(batch, nano, share):
                    answer = yield from _ask(question, group, user, share)
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
        schema=schema,
        nano_nats=nano,
        factory=run,
        most=sum(group.users for batch in rehearsed for _, group in _groups(batch, nano, share)),
    )


def one_round_algorithm(learner: NonAdaptive[T], epsilon: str, beta: Rational) -> NonInteractive[T]:
    """Ask everything that a learner asks at once, of groups: nothing depends on any report.

    All else is as of `local_algorithm`.
    """
    nano = parse_epsilon(epsilon)
    share = rational(beta, "beta") / learner.batch.values
    groups = _groups(learner.batch, nano, share)
    everybody = [group for _, group in groups for _ in range(group.users)]

    def conclude(reports: tuple[bytes, ...]) -> T:
        answers, start = [], 0
        for question, group in groups:
            told = reports[start : start + group.users]
            answers.append(_estimate(question, group, told, share))
            start += group.users
        return learner.conclude(tuple(answers))

    return NonInteractive(
        name=learner.name,
        schema=_schema(learner),
        nano_nats=nano,
        calls=tuple(
            LocalCall(user, group.query, group.randomizer) for user, group in enumerate(everybody)
        ),
        conclude=conclude,
    )


def _groups(batch: Batch, nano: int, share: Fraction) -> list[tuple[Question, GroupPlan]]:
    """Give each question a fresh group, whatever grouping the batch prefers."""
    fresh = Batch(batch.questions, allocation=Allocation.FRESH)
    groups = plan_batch(fresh, nano, float(share)).groups
    return list(zip(batch.questions, groups, strict=True))


def _schema(learner: Learner[T]) -> Schema:
    if learner.schema is None:
        raise InvalidParameter(f"{learner.name} expects a schema, got none")
    return learner.schema


def _ask(question: Question, group: GroupPlan, start: int, share: Fraction) -> LocalRun[Answer]:
    reports: list[bytes] = []
    for user in range(start, start + group.users):
        report = yield LocalCall(user, group.query, group.randomizer)
        reports.append(report)
    return _estimate(question, group, reports, share)


def _estimate(
    question: Question, group: GroupPlan, reports: Sequence[bytes], share: Fraction
) -> Answer:
    stacked = np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), -1)
    counts = family_of(group.randomizer).tally(stacked)
    return estimate(question, group.randomizer, counts, len(reports), share * question.values)
