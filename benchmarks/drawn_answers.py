"""Answers of a study drawn at once: the means over users, and errors of the planned variance.

A normal error of variance `n_variance / users` stands for one report per user. Of a vector that
variance is the reports' whole one, so its mean is over the law; of all else it is conditional, and
the users of a question are drawn first, as counts of the law's rows. Intervals are those of a study
where a vector is asked by directions, else the normal law's.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation.answers import half_width
from askance_aggregator.estimation.statistics import recorded_question
from askance_aggregator.families import CodebookFamily, family_of
from askance_aggregator.learners import Answer, Answers, Batch, Learner, Question
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import plan, plan_batch, settled
from askance_aggregator.planning.plans import GroupPlan
from askance_aggregator.planning.precision import n_variance
from askance_aggregator.queries import EncodedColumns, evaluate_vectors
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import PlanRefused
from askance_client.queries import QueryKind, Schema

BETA, ALPHA = 0.01, 0.05
Values = NDArray[np.float64]
T = TypeVar("T")


def learned(
    learner: Learner[T],
    schema: Schema,
    rows: EncodedColumns,
    *,
    epsilon: Fraction | int,
    users: int,
    seed: tuple[int, ...],
) -> T:
    """Run a learner, settled and planned as in a study, on drawn answers.

    Args:
        learner: with or without a schema.
        schema: of the rows.
        rows: the law: users are independent draws of them.
        epsilon: the whole budget of each user, in nats.
        users: how many there are.
        seed: of the users and the errors; the same at another epsilon gives paired answers.

    Raises:
        PlanRefused: the users are too few.
    """
    nano_nats = round(epsilon * NANO_NATS_PER_NAT)
    chosen = settled(learner.bound(schema), nano_nats, BETA, users)
    return learn(chosen, DrawnAnswers(chosen, schema, rows, nano_nats, users, seed))


class DrawnAnswers:
    """Oracle of a settled learner's study; arguments are as of `learned`."""

    def __init__(
        self,
        learner: Learner[Any],
        schema: Schema,
        rows: EncodedColumns,
        nano_nats: int,
        users: int,
        seed: tuple[int, ...],
    ) -> None:
        self.schema = schema
        self._rows, self._nano_nats, self._left, self._seed = rows, nano_nats, users, seed
        self._plan = plan(learner, nano_nats, BETA, users)
        if not self._plan.feasible:
            raise PlanRefused(self._plan.reason or "")
        self._round = 0

    def answer(self, batch: Batch) -> Answers:
        """Return an answer per question."""
        allowance = self._plan.allowance(self._round, self._left)
        planned = plan_batch(batch, self._nano_nats, self._plan.beta_per_value, allowance)
        self._left -= planned.users
        rng = np.random.default_rng((*self._seed, self._round))
        self._round += 1
        groups: list[list[GroupPlan]] = [[] for _ in batch.questions]
        for group in planned.groups:
            groups[group.question].append(group)
        alpha = ALPHA / len(groups)
        return tuple(
            self._answer(question, own, alpha, rng)
            for question, own in zip(batch.questions, groups, strict=True)
        )

    def _answer(
        self,
        question: Question,
        groups: list[GroupPlan],
        alpha: float,
        rng: np.random.Generator,
    ) -> Answer:
        values, halves = [], []
        for group in groups:
            asked = (
                question
                if len(groups) == 1
                else recorded_question(group.query, group.randomizer, group.decode)
            )
            family = family_of(group.randomizer)
            variance = float(n_variance(asked, group.randomizer, group.decode)) / group.users
            by_directions = isinstance(family, CodebookFamily)
            if asked.query.kind is QueryKind.VECTOR:
                length = float(question.length or 0) if by_directions else None
                mean = self._vectors(asked, length)
            else:
                mean = self._sampled(asked, group.users, rng)
            each = alpha / question.values
            half = sqrt(variance) * NormalDist().inv_cdf(1 - each / 2)
            if isinstance(family, CodebookFamily):
                half = half_width(asked, family, group.users, each)
            values.append(mean + sqrt(variance) * rng.standard_normal(len(mean)))
            halves.append(np.full(len(mean), half))
        found, reach = np.concatenate(values), np.concatenate(halves)
        low, high = (float(bound) for bound in question.bounds)
        lows, highs = np.clip(found - reach, low, high), np.clip(found + reach, low, high)
        return Answer(tuple(found.tolist()), tuple(lows.tolist()), tuple(highs.tolist()))

    def _vectors(self, question: Question, length: float | None) -> Values:
        """Return the mean vector over the law; longer ones are drawn back to the length."""
        table = evaluate_vectors(question.query, self._rows) / float(1 << question.query.frac)
        if length is not None:
            norms = np.sqrt((table * table).sum(axis=1))
            table = table * np.minimum(1.0, length / np.maximum(norms, length / 2))[:, None]
        return np.asarray(table.mean(axis=0))

    def _sampled(self, question: Question, users: int, rng: np.random.Generator) -> Values:
        """Return the values over so many users."""
        count = self._rows.rows
        weights = rng.multinomial(users, np.full(count, 1 / count))
        (answer,) = ExactOracle(self.schema, self._rows, weights).answer(Batch([question]))
        return np.array(answer.values)
