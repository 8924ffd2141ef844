"""Guarantee over several results of one study, whose users may be the same: epochs.

Two bounds, each with half of delta, so that the less of both may be stated: privacy loss
distributions of steps that are fixed before the first answer, and a filter, which holds for any
steps. Both hold whatever ends the study. Statements and proofs: docs/math/two_guarantees.md,
section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import fsum, inf

import numpy as np

from askance_aggregator.amplification.account import RenyiBudgets, rounded_answers
from askance_aggregator.amplification.accountant import curve, local_epsilon
from askance_aggregator.amplification.ends import Curve, local_curve
from askance_aggregator.amplification.loss_pairs import LossPair, composed_epsilon, pair_of
from askance_aggregator.amplification.outer import (
    LIARS,
    Outer,
    OuterBatch,
    decisive_cohorts,
    honest,
    local_sum,
    spent_epsilon,
)
from askance_aggregator.composition.events import outward
from askance_client.randomizers import Randomizer

Cohort = tuple[OuterBatch, ...]
"""Batches that the same users answer in one epoch, by randomizer."""


@dataclass(frozen=True, slots=True)
class FixedSteps:
    """Steps of all epochs, fixed before the first answer to any.

    Args:
        positions: randomizers that the first, second, ... question of a user may have.
        least_answers: that the study signs, of each question; 0: none.
    """

    positions: tuple[frozenset[Randomizer], ...]
    least_answers: int

    @classmethod
    def of(cls, cohorts: Iterable[Sequence[Randomizer]], least_answers: int) -> FixedSteps:
        """Return the steps of the first round that a study asks, which no answer has chosen."""
        positions: list[set[Randomizer]] = []
        for randomizers in cohorts:
            for place, randomizer in enumerate(sorted(randomizers, key=_order)):
                if place == len(positions):
                    positions.append(set())
                positions[place].add(randomizer)
        return cls(tuple(map(frozenset, positions)), least_answers)

    def cover(self, cohort: Cohort) -> bool:
        """Return whether the steps dominate the batches of a cohort."""
        return len(cohort) <= len(self.positions) and all(
            batch.randomizer in allowed and batch.answers >= self.least_answers
            for batch, allowed in zip(cohort, self.positions, strict=False)
        )

    def epsilon(self, epochs: int, delta: Fraction, liars: Fraction = LIARS) -> float | None:
        """Bound so many epochs together, a number that no answer has chosen.

        None where too few answers are signed.
        """
        hidden = honest(self.least_answers, liars)
        if hidden < 2 or not self.positions or not epochs:
            return None
        steps = [(_pair_of_any(allowed, hidden), epochs) for allowed in self.positions]
        return composed_epsilon(steps, delta)


def cohort_of(batches: Iterable[OuterBatch]) -> Cohort:
    """Return the batches of one cohort in the order in which `FixedSteps` has its positions."""
    return tuple(sorted(batches, key=lambda batch: _order(batch.randomizer)))


def outer_of_epochs(
    epochs: Sequence[Sequence[Cohort]],
    signed: int,
    fixed: FixedSteps,
    delta: Fraction,
    liars: Fraction = LIARS,
) -> Outer | None:
    """Bound what readers of all tallies of these epochs learn of any one user.

    Args:
        epochs: cohorts of each that has tallies; the users of one may be those of another.
        signed: number of epochs that the study has at most, fixed before the first.
        fixed: steps that were fixed before the first.
        delta: of all epochs together.
        liars: share of each batch's answers that is assumed to lie.

    Returns:
        None where no user is promised less than the sum of the local epsilons.
    """
    decisive = [decisive_cohorts(cohorts) for cohorts in epochs]
    local = fsum(max(map(local_sum, cohorts)) for cohorts in decisive)
    found = [_filter(decisive, signed, delta / 2, liars)]
    if all(fixed.cover(cohort) for cohorts in decisive for cohort in cohorts):
        found += _by_steps(fixed, len(epochs), signed, delta / 2, liars)
    if not epochs or min(found) >= local:
        return None
    answers = min(batch.answers for cohorts in decisive for one in cohorts for batch in one)
    return Outer(min(found), delta, answers, liars)


def outer_of_signed(
    signed: int, fixed: FixedSteps, delta: Fraction, liars: Fraction = LIARS
) -> Outer | None:
    """Bound all signed epochs, as long as each has the signed answers to no other questions.

    It is no less than what `outer_of_epochs` states of them in the end.
    """
    epsilon = min(_by_steps(fixed, signed, signed, delta / 2, liars), default=inf)
    local = signed * fsum(max(map(local_epsilon, allowed)) for allowed in fixed.positions)
    return Outer(epsilon, delta, fixed.least_answers, liars) if epsilon < local else None


def _by_steps(
    fixed: FixedSteps, epochs: int, signed: int, delta: Fraction, liars: Fraction
) -> list[float]:
    """Return bounds by fixed steps of so many epochs, a number that a tally may have chosen."""
    # A bound for all signed epochs, with half of delta, bounds fewer too. The other half is shared
    # by the lesser numbers.
    bounds = [fixed.epsilon(signed, delta / 2, liars)]
    if epochs < signed:
        bounds.append(fixed.epsilon(epochs, delta / (2 * (signed - 1)), liars))
    return [bound for bound in bounds if bound is not None]


def _order(randomizer: Randomizer) -> tuple[float, bytes]:
    return -local_epsilon(randomizer), randomizer.canonical


def _filter(
    epochs: Sequence[Sequence[Cohort]], signed: int, delta: Fraction, liars: Fraction
) -> float:
    """Return the less of two bounds that hold whatever chose the epochs' steps."""
    budgets = RenyiBudgets(delta / 4)
    each = delta / max(signed, 1)
    spent = []
    rhos = np.zeros(len(budgets.orders))
    for cohorts in epochs:
        spent.append(max(spent_epsilon(cohort, each / 2, liars) for cohort in cohorts))
        renyi = [_renyi(cohort, budgets.orders, each / 4, liars) for cohort in cohorts]
        rhos = rhos + np.max(renyi, axis=0)
    rhos = np.nextafter(rhos * (1 + 2.0**-40), np.inf)
    return min(outward(fsum(spent)), float(budgets.epsilons(rhos[None])[0]))


def _renyi(
    cohort: Cohort, orders: Sequence[float], cut_delta: Fraction, liars: Fraction
) -> list[float]:
    """Return a cohort's Renyi divergence of each order, of losses up to a cut."""
    share = cut_delta / len(cohort)
    pairs = []
    for batch in cohort:
        answers = rounded_answers(honest(batch.answers, liars, batch.known))
        pair = _pair(batch.randomizer, answers)
        pairs.append((pair, pair.cut(share)))
    return [fsum(pair.renyi(order, cut) for pair, cut in pairs) for order in orders]


@lru_cache(maxsize=256)
def _curve(randomizer: Randomizer, answers: int) -> Curve:
    if answers < 2:
        return local_curve(local_epsilon(randomizer))
    return curve(randomizer, answers)


@lru_cache(maxsize=256)
def _pair(randomizer: Randomizer, answers: int) -> LossPair:
    return pair_of(_curve(randomizer, answers))


@lru_cache(maxsize=64)
def _pair_of_any(randomizers: frozenset[Randomizer], answers: int) -> LossPair:
    """Return a pair that dominates a batch of any of these randomizers."""
    curves = [_curve(randomizer, answers) for randomizer in randomizers]
    epsilons = sorted({epsilon for one in curves for epsilon in one.epsilons})
    deltas = [max(one.delta(epsilon) for one in curves) for epsilon in epsilons]
    return pair_of(Curve(tuple(epsilons), tuple(deltas)))
