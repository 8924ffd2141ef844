"""Probability that round 1 of MASKED-PARITY misreads a mask, by its exact law.

A failure is one trial's: a uniform mask, so many users of its concept, a tally, and a mask that is
read from it. Each trial's chance of a failure is what is averaged, and of what can be integrated
exactly nothing is drawn:

- *printed*: the groups of the d questions are independent, and so are the bits of the mask: one
  less a product of binomial tails.
- *Hadamard sign*: users are independent, so the 2^(m + 1) reports are multinomial; a trial has the
  chance 0 or 1.
- *signed sets*: which values are in whose sets is drawn; given that, the signs of all but the own
  values are fair coins, and a trial's chance is one less a product of binomial tails again.
- *cells*: tallies are drawn (`askance_simulation.counts`); a trial has the chance 0 or 1.

What is read from a tally is what the learner reads from the estimates; `tests/benchmarks` holds one
against the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, log1p, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import HadamardFamily
from askance_aggregator.learners import Batch, masked_parity, masked_parity_schema
from askance_aggregator.planning import RoundPlan, plan_batch
from askance_aggregator.planning.precision import randomizer_text
from askance_aggregator.queries import encode_columns, evaluate_columns
from askance_client.accounting import parse_epsilon
from askance_client.exact_laws import probability
from askance_client.randomizers import (
    Channel,
    HadamardSign,
    Randomizer,
    SignedSubsetSelection,
)
from askance_simulation.counts import sample_levels, sample_signed_sets, sample_tally
from askance_simulation.randomness import Seed

BETA = 0.01  # round 1 fails at most this often
CLEAR = 4.0  # standard errors from BETA at which a probe ends

Masks = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Failure:
    """Estimate of the probability that a mask is misread.

    Args:
        rate: the chance, or its estimate.
        error: one standard deviation of the estimate.
        trials: that it was averaged over; 0: it is exact.
    """

    rate: float
    error: float
    trials: int


class Scheme(Protocol):
    """Round 1 of one of the schemes."""

    plan: RoundPlan

    @property
    def groups(self) -> int:
        """Number of fresh groups of users, all of the same size."""

    @property
    def group_users(self) -> int:
        """The planner's size of one group."""

    def failure(self, users: int, batches: int) -> Failure:
        """Estimate the failure probability at that many users per group, over that many batches."""


class Printed:
    """KLNRS08's: d predicates, each of a fresh group."""

    def __init__(self, d: int, epsilon: str) -> None:
        self._d = d
        self.batch = _asked(d, "printed")
        self.plan = _planned(self.batch, epsilon)
        channel = self.plan.groups[0].randomizer
        if not isinstance(channel, Channel):
            raise AssertionError(f"a predicate has a table, found {channel.name}")
        other, own = (
            probability(channel, 0, b"\1"),
            probability(channel, 1, b"\1"),
        )
        share = Fraction(1, 2 * d)  # E[g_j] for r_j = 1; 0 for r_j = 0
        self._yes = (other, (1 - share) * other + share * own)
        self._threshold = (1 - share / 2) * other + share / 2 * own  # an answer of tau = 1/(4d)

    @property
    def groups(self) -> int:
        """Number of groups of users: d."""
        return len(self.plan.groups)

    @property
    def group_users(self) -> int:
        """Number of users of one question."""
        return int(self.plan.groups[0].users)

    def most_for_zero(self, users: int) -> int:
        """Return the greatest number of "yes" that the learner reads as r_j = 0.

        An answer of at most tau.
        """
        return floor(users * self._threshold)

    def failure(self, users: int, batches: int) -> Failure:
        """Compute the exact probability, for any batches."""
        from scipy.special import bdtr, bdtrc  # slow to import, and only needed here

        most = self.most_for_zero(users)
        misread = bdtrc(most, users, float(self._yes[0])) + bdtr(most, users, float(self._yes[1]))
        rate = -np.expm1(self._d * log1p(-float(misread) / 2))
        return Failure(float(rate), 0.0, 0)


class Ours:
    """Signed question, with the randomizer that the planner chooses."""

    def __init__(self, d: int, epsilon: str) -> None:
        self.name = f"signed {d} {epsilon}"
        self._d = d
        self.batch = _asked(d, "signed")
        self.plan = _planned(self.batch, epsilon)
        self.randomizer: Randomizer = self.plan.groups[0].randomizer
        self._levels = _levels_of_records(self.batch, d)

    @property
    def randomizer_text(self) -> str:
        """Short text of the planner's choice."""
        return randomizer_text(self.randomizer)

    @property
    def groups(self) -> int:
        """Number of groups: one."""
        return len(self.plan.groups)

    @property
    def group_users(self) -> int:
        """All users."""
        return int(self.plan.groups[0].users)

    def failure(self, users: int, batches: int) -> Failure:
        """Average over trials, until it is clear whether the rate is above BETA.

        At most that many batches of trials are run.
        """
        seed = Seed.of(0) / self.name / users
        rng = np.random.default_rng(int.from_bytes(seed.key, "big"))
        seen: list[float] = []
        for _ in range(batches):
            masks = rng.integers(0, 2, (self.trials_at_once, self._d))
            seen += self.misread(users, masks, rng).tolist()
            rate, error = float(np.mean(seen)), float(np.std(seen, ddof=1)) / sqrt(len(seen))
            if abs(rate - BETA) > CLEAR * error:
                break
        return Failure(rate, error, len(seen))

    @property
    def trials_at_once(self) -> int:
        """Those of signed sets are worth a thousand others each, and take as long."""
        return 10 if isinstance(self.randomizer, SignedSubsetSelection) else 1000

    def misread(self, users: int, masks: Masks, rng: np.random.Generator) -> Floats:
        """Return the chance of a failure for each mask, given what was drawn."""
        law, trials = self.law(masks), len(masks)
        if isinstance(self.randomizer, HadamardSign):
            return _of_points(2 * _plus_counts(self.randomizer, law, users, rng) - users, masks)
        counts = sample_levels(law, users, rng, trials)
        if isinstance(self.randomizer, SignedSubsetSelection):
            return _of_sets(*sample_signed_sets(self.randomizer, counts, rng, trials), masks)
        tally = sample_tally(self.randomizer, counts, rng, trials)
        return _of_points(tally[:, : 2 * self._d : 2] - tally[:, 1 : 2 * self._d : 2], masks)

    def law(self, masks: Masks) -> Floats:
        """Compute the distribution of users over levels, one row per mask."""
        onto = np.eye(self.randomizer.levels)[self._levels]
        law: Floats = record_weights(masks) @ onto
        return law


def record_weights(masks: Masks) -> Floats:
    """Compute P[(i, b, y)] for each mask, in the order of the records below: 4 records for each i.

    i is uniform and b a fair bit. With b = 1, y is (-1)^(r_i); with b = 0 it is a fair sign, for
    <r,x> + a is a fair bit (but for r = 0; no question of round 1 reads y where b = 0).
    """
    each = np.full((*masks.shape, 4), 1 / 4)
    each[:, :, 2] = (masks == 0) / 2
    each[:, :, 3] = (masks == 1) / 2
    weights: Floats = each.reshape(len(masks), -1) / masks.shape[1]
    return weights


def _levels_of_records(batch: Batch, d: int) -> NDArray[np.int64]:
    """Return the level of every record (i, b, y); x is not asked for in round 1."""
    place = np.arange(4 * d)
    columns = encode_columns(
        masked_parity_schema(d),
        {
            "x": np.zeros((len(place), d), dtype=np.int64),
            "i": place // 4,
            "b": place // 2 % 2,
            "y": 1 - 2 * (place % 2),
        },
    )
    (question,) = batch.questions
    levels: NDArray[np.int64] = evaluate_columns(question.query, columns)
    return levels


def _plus_counts(
    randomizer: HadamardSign, law: Floats, users: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Tally of Hadamard signs, all reports of a trial drawn at once.

    In row r a user of level law has the sign + with probability (1 + gap sum_j g_j H[r, j]) / 2,
    with g_j the share of + at value j less that of -.
    """
    from scipy.linalg import hadamard  # slow to import, and only needed here

    rows = 1 << randomizer.row_bits
    signed = law[:, :-1:2] - law[:, 1::2]
    mean = float(HadamardFamily(randomizer).sign_gap) * signed @ hadamard(rows)[: randomizer.values]
    reports = np.stack((1 + mean, 1 - mean), axis=2) / (2 * rows)
    drawn = rng.multinomial(users, reports.reshape(len(law), -1))
    return HadamardFamily(randomizer).plus_counts(drawn.reshape(len(law), rows, 2))


def _of_points(points: NDArray[np.int64], masks: Masks) -> Floats:
    """Return 0 or 1 per trial: a bit is read as 1 if fewer reports point to + than to -."""
    wrong = (points < 0) != (masks == 1)
    return np.asarray(wrong.any(axis=1), dtype=np.float64)


def _of_sets(bound: NDArray[np.int64], strays: NDArray[np.int64], masks: Masks) -> Floats:
    """Compute the law of signed sets.

    A bit is read as 1 if 2 X < N - b, with X the number of + among N strays, fair coins, and b
    the excess of + over - among the bound.
    """
    from scipy.special import bdtr, bdtrc  # slow to import, and only needed here

    most = -((bound[:, 0::2] - bound[:, 1::2] - strays) // 2) - 1  # the greatest X read as 1
    most = np.clip(most, -1, strays)
    inside = np.maximum(most, 0)
    as_one = np.where(most < 0, 0.0, bdtr(inside, strays, 0.5))
    as_zero = np.where(most < 0, 1.0, bdtrc(inside, strays, 0.5))
    wrong = np.where(masks == 1, as_zero, as_one)
    with np.errstate(divide="ignore"):  # a bit that is surely misread
        chances: Floats = -np.expm1(np.log1p(-wrong).sum(axis=1))
    return chances


def _asked(d: int, variant: str) -> Batch:
    """Return the learner's first batch."""
    run = masked_parity(masked_parity_schema(d), variant).run()
    batch = next(run)
    run.close()
    return batch


def _planned(batch: Batch, epsilon: str) -> RoundPlan:
    return plan_batch(batch, parse_epsilon(epsilon), BETA / batch.values)
