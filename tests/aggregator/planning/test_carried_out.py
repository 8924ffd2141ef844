"""Plans carried out: reports of the planned users, randomized one by one, teach the learner."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from askance_aggregator.estimation import estimate
from askance_aggregator.families import family_of
from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    Learner,
    MaskedParity,
    conjunctions,
    conjunctions_schema,
    masked_parity,
    masked_parity_schema,
)
from askance_aggregator.oracles import learn
from askance_aggregator.planning import plan, plan_batch
from askance_aggregator.queries import EncodedColumns, encode_columns, evaluate_columns
from askance_client.queries import QueryKind
from askance_client.randomizers import round_to_levels

NAT = 10**9


class Crowd:
    """Planned users who answer through their randomizers; records and coins are seeded."""

    def __init__(
        self, learner: Learner[object], columns: EncodedColumns, nano: int, seed: int
    ) -> None:
        self._plan = plan(learner, nano, Fraction(1, 100), n_users=len(columns))
        self._columns, self._nano, self._next, self._round = columns, nano, 0, 0
        self._coins = random.Random(seed)
        assert self._plan.feasible

    def answer(self, batch: Batch) -> Answers:
        left = len(self._columns) - self._next
        allowance = self._plan.allowance(self._round, left)
        planned = plan_batch(batch, self._nano, self._plan.beta_per_value, allowance)
        assert planned.users <= left
        starts = dict.fromkeys((group.cohort for group in planned.groups), -1)
        answers: list[Answer] = []
        for group in planned.groups:
            if starts[group.cohort] < 0:
                starts[group.cohort], self._next = self._next, self._next + group.users
            start = starts[group.cohort]
            cohort = self._columns.take(slice(start, start + group.users))
            randomizer, query = group.randomizer, group.query
            reports = []
            for value in map(int, evaluate_columns(query, cohort)):
                level = value
                if query.kind is QueryKind.REAL:
                    coin = self._coins.getrandbits(64)
                    level = round_to_levels(value, query.low, query.high, 2, coin)
                coins = [self._coins.getrandbits(64) for _ in range(randomizer.coins)]
                reports.append(np.frombuffer(randomizer.randomize(level, coins), dtype=np.uint8))
            counts = family_of(randomizer).tally(np.stack(reports))
            question = batch.questions[group.question]
            answers.append(estimate(question, randomizer, counts, group.users, 0.05))
        self._round += 1
        return tuple(answers)


@pytest.mark.parametrize(
    ("variant", "d", "epsilon", "trials"),
    [("signed", 8, 4, 12), ("signed", 8, 2, 2), ("signed", 4, 1, 2), ("printed", 4, 4, 4)],
)
def test_the_planned_users_teach_masked_parity(
    variant: str, d: int, epsilon: int, trials: int
) -> None:
    """Every trial fails with probability at most 1 %; with these seeds none does.

    With one candidate: a list's second question is a vector, which this crowd does not answer.
    """
    schema = masked_parity_schema(d)
    learner = masked_parity(schema, variant, candidates=1)
    users = plan(learner, epsilon * NAT, Fraction(1, 100)).users_needed
    rng = np.random.default_rng(d + epsilon)
    for trial in range(trials):
        bits = rng.integers(0, 2, d + 1)
        concept = MaskedParity(tuple(int(bit) for bit in bits[:d]), int(bits[d]))
        columns = {
            "x": rng.integers(0, 2, (users, d)),
            "i": rng.integers(0, d, users),
            "b": rng.integers(0, 2, users),
        }
        encoded = encode_columns(schema, {**columns, "y": concept.predict(columns)})
        assert learn(learner, Crowd(learner, encoded, epsilon * NAT, trial)) == concept


@pytest.mark.parametrize("epsilon", [2, 12])
def test_the_planned_users_teach_a_conjunction(epsilon: int) -> None:
    """At eps = 12 as one cohort that divides its budget, at eps = 2 as fresh groups."""
    schema = conjunctions_schema(3)
    learner = conjunctions(schema, "3/10")
    users = plan(learner, epsilon * NAT, Fraction(1, 100)).users_needed
    x = np.random.default_rng(epsilon).integers(0, 2, (users, 3))
    encoded = encode_columns(schema, {"x": x, "y": x[:, 0] & x[:, 2]})
    hypothesis = learn(learner, Crowd(learner, encoded, epsilon * NAT, 1))
    assert hypothesis.variables == (0, 2)
