"""Exact tails of a mean among users who have the number, held against full enumeration."""

from __future__ import annotations

from itertools import product
from math import exp

import numpy as np
import pytest
from scipy.stats import multinomial

from askance_aggregator.estimation import PresentLaw
from askance_aggregator.families import best_for
from askance_aggregator.learners import Question, SampleMean
from askance_aggregator.planning.precision import tail_of
from askance_aggregator.planning.present import PresenceCells, Present
from askance_aggregator.planning.sizing import choices
from askance_aggregator.queries import among_present
from askance_client.queries import Real, Schema

NAT = 10**9
NUMBER = Schema("s", 1, x=Real(-1, 1)).x


def three_valued(epsilon: float) -> PresentLaw:
    """Randomized response on -1, 1 and "missing": the scores' sums are N and S of three counts."""
    own = exp(epsilon) / (exp(epsilon) + 2)
    other = (1 - own) / 2
    rows = np.full((3, 3), other) + (own - other) * np.eye(3)
    gap = own - other
    numbers = np.array([-1, 1, 0]) / gap
    presences = np.array([1 - 2 * other, 1 - 2 * other, -2 * other]) / gap
    return PresentLaw(rows, numbers, presences, False)


def failure(law: PresentLaw, mean: float, share: float, shift: float, users: int) -> float:
    """Enumerate P[|A/B - mean| >= shift, or B <= 0] over all counts of three symbols."""
    low, high, missing = law.rows
    chances = share * ((1 - mean) * low + (1 + mean) * high) / 2 + (1 - share) * missing
    counts = np.array(
        [(a, b, users - a - b) for a in range(users + 1) for b in range(users - a + 1)]
    )
    number, presence = counts @ law.numbers, counts @ law.presences
    off = np.abs(number - mean * presence) >= (shift - 1e-12) * np.abs(presence)
    return float(multinomial.pmf(counts[off | (presence <= 0)], users, chances).sum())


def at(mean: float, share: float, across: float = 0.0, along: float = 0.0) -> PresenceCells:
    return PresenceCells(*(np.array([part]) for part in (mean, across, share, along)))


@pytest.mark.parametrize("epsilon", [0.7, 2.0, 6.0])
@pytest.mark.parametrize(("mean", "share"), [(0.0, 1.0), (0.55, 0.8), (-0.9, 0.6)])
def test_a_bound_is_above_the_exact_chance_and_near_it(
    epsilon: float, mean: float, share: float
) -> None:
    law, users, shift = three_valued(epsilon), 90, 0.35 if epsilon > 1 else 1.2
    exact = failure(law, mean, share, shift, users)
    (bound,) = at(mean, share).failure(law, shift, users, 0.05)
    assert exact <= bound
    # Smoothing moves the threshold by at most 8 % of its distance from the mean.
    assert bound <= failure(law, mean, share, 0.92 * shift, users) + 0.002


@pytest.mark.parametrize("mean", [-1.0, 0.999])
def test_a_failure_that_cannot_be_costs_nothing(mean: float) -> None:
    # All have one number: a sum that fails on the one side needs reports that are hardly ever sent.
    law = three_valued(8.0)
    (alone,) = at(mean, 1.0).failure(law, 0.1, 700, 0.01)
    assert alone < 1e-4
    beside = PresenceCells(np.array([mean, 0.0]), np.zeros(2), np.ones(2), np.zeros(2))
    (bound,) = at(0.0, 1.0).failure(law, 0.1, 700, 0.01)
    assert beside.failure(law, 0.1, 700, 0.01)[1] == pytest.approx(bound, rel=0.05)


@pytest.mark.parametrize(
    ("epsilon", "shift", "mean", "share", "across", "along"),
    [
        (0.7, 1.4, 0.3, 0.75, 0.04, 0.02),
        (4.0, 0.4, 0.3, 0.75, 0.04, 0.02),
        (4.0, 0.5, 0.0, 0.5, 0.02, 0.1),  # so wide that its middle says too little of its ends
    ],
)
def test_a_bound_of_a_cell_is_above_all_of_its_populations(
    epsilon: float, shift: float, mean: float, share: float, across: float, along: float
) -> None:
    law, users = three_valued(epsilon), 60
    (bound,) = at(mean, share, across, along).failure(law, shift, users, 0.05)
    moves = product(np.linspace(-across, across, 5), np.linspace(-along, along, 3))
    inside = [failure(law, mean + up, share + more, shift, users) for up, more in moves]
    assert max(inside) <= bound <= 3 * max(inside)


@pytest.mark.parametrize(("epsilon", "tau"), [(2.0, 0.4), (6.0, 0.3)])
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_a_size_by_exact_tails_holds_and_is_smaller(
    epsilon: float, tau: float, share: float
) -> None:
    tail = Present(three_valued(epsilon), share, 1.0, 0.0, exact=True)
    users, beta = tail.users(tau, 0.05), 0.05
    bounded = tail.failure(tau)
    assert bounded(users) > 1.1 * beta  # what Chernoff's bound, sharpened, would have asked for
    populations = product(np.linspace(-1, 1, 21), [share, (share + 1) / 2, 1.0])
    worst = max(failure(tail.law, mean, each, tau, users) for mean, each in populations)
    assert 0.4 * beta < worst <= beta


@pytest.mark.parametrize(
    ("question", "exact"),
    [
        (Question(among_present(NUMBER), tau="1/10"), True),
        (Question(among_present(NUMBER)), False),  # an open tolerance is a stand-in
        (Question(among_present(NUMBER, 16), tau="1/10", aim=SampleMean()), False),
    ],
)
def test_sizes_are_exact_where_a_population_is_a_mean_and_a_share(
    question: Question, exact: bool
) -> None:
    (choice,) = choices(question, 2 * NAT, best_for)
    tail = tail_of(question, choice.randomizer, choice.decode)
    assert isinstance(tail, Present)
    assert tail.fails(2000, 0.1, 0.05) is not exact
    assert tail.tolerance(2000, 0.05) < 0.1  # the bound shows it
    # Of the range 2, at beta .01; 1,385 by the bound.
    assert not exact or 1200 < tail.users(0.1, 0.01) < 1300
