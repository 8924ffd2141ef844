"""Waves are cut and paid for before any user is asked."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from askance_aggregator.estimation.intervals import clopper_pearson
from askance_aggregator.families import best_for
from askance_aggregator.learners import (
    Allocation,
    Batch,
    Question,
    frequency,
    masked_parity,
    masked_parity_schema,
)
from askance_aggregator.planning import (
    Binomial,
    RoundRules,
    plan,
    plan_batch,
    prefixes,
    shares,
    tail_of,
)
from askance_aggregator.planning.looks import can_end_early
from askance_aggregator.queries import category, predicate
from askance_client.errors import InvalidParameter
from askance_client.messages import MAX_WAVES
from askance_client.queries import Category, Integer, Schema

NAT = 10**9
SCHEMA = Schema("s", 1, n=Integer(0, 9), c=Category("abcd"))
YES = Question(predicate(SCHEMA["n"] > 4), tau=Fraction(1, 20))
NO = Question(predicate(SCHEMA["n"] < 2), tau=Fraction(1, 10))


@given(st.integers(1, MAX_WAVES), st.integers(0, 10**9))
def test_prefixes_are_halves_upward_and_each_wave_asks_somebody(waves: int, more: int) -> None:
    users = (1 << waves) + more
    ends = prefixes(users, waves)
    assert ends[-1] == users
    assert len(ends) == waves
    assert all(ends[wave] == -(-users // 2 ** (waves - 1 - wave)) for wave in range(waves))
    assert all(one < two for one, two in pairwise((0, *ends)))


@given(st.integers(1, MAX_WAVES))
def test_the_looks_share_the_whole_error(waves: int) -> None:
    assert sum(shares(waves)) == 1
    assert shares(waves)[-1] == (1 if waves == 1 else Fraction(3, 4))


def test_the_last_look_is_sized_for_its_share() -> None:
    planned = plan_batch(Batch([YES]), 6 * NAT, 0.01, rules=RoundRules(waves=4))
    assert planned.waves == 4
    assert planned.users == tail_of(YES, best_for(2, 6 * NAT)).users(0.05, 0.0075)
    at_once = plan_batch(Batch([YES]), 6 * NAT, 0.01)
    assert at_once.users < planned.users < 1.09 * at_once.users
    assert (at_once.waves, planned.lower_bound) == (1, at_once.lower_bound)
    assert planned.hoeffding_users == at_once.hoeffding_users


def test_a_confidence_sequence_would_be_wider_at_every_look() -> None:
    """Robbins' normal mixture: |S_m| < sqrt((m + r) (2 ln(1/beta) + ln((m + r)/r))), any r > 0."""
    beta, looks = 0.01, np.array([1 / 8, 1 / 4, 1 / 2, 1])

    def widths(r: float) -> np.ndarray:
        terms = 2 * np.log(1 / beta) + np.log((looks + r) / r)
        return np.asarray(np.sqrt((looks + r) * terms / looks))

    best = min((widths(r) for r in np.geomspace(1e-3, 1, 301)), key=lambda each: float(each[-1]))
    ours = -norm.ppf(beta * np.array([float(share) for share in shares(4)]) / 2)
    assert best == pytest.approx([4.1, 3.8, 3.6, 3.6], abs=0.06)
    assert ours == pytest.approx([3.3, 3.3, 3.3, 2.7], abs=0.06)


def test_one_wave_is_the_plan_that_there_always_was() -> None:
    learner = masked_parity(masked_parity_schema(4))
    assert plan(learner, NAT, 0.01, rules=RoundRules(waves=1)) == plan(learner, NAT, 0.01)


def test_an_open_tolerance_is_asked_at_once() -> None:
    """No look could say that it is exact enough."""
    batch = Batch([YES, replace(NO, tau=None)], Allocation.FRESH)
    planned = plan_batch(batch, NAT, 0.01, 50_000, rules=RoundRules(waves=4))
    assert planned == plan_batch(batch, NAT, 0.01, 50_000)
    learner = frequency(SCHEMA["c"])
    assert plan(learner, NAT, 0.05, 9_000, rules=RoundRules(waves=4)) == plan(
        learner, NAT, 0.05, 9_000
    )


@pytest.mark.parametrize("allocation", Allocation)
def test_looks_that_could_end_nothing_are_not_paid_for(allocation: Allocation) -> None:
    """At eps = 1 the randomizer's variance is most of it, whatever the truth.

    A cohort of unequal questions gives the easier one a small part of a large budget, too, so there
    the questions are alike.
    """
    batch = Batch([YES, NO], allocation)
    assert plan_batch(batch, NAT, 0.01, rules=RoundRules(waves=4)) == plan_batch(batch, NAT, 0.01)
    assert (
        plan_batch(Batch([YES, YES], allocation), 12 * NAT, 0.01, rules=RoundRules(waves=4)).waves
        == 4
    )


@given(st.integers(100, 100_000), st.floats(0.001, 0.3), st.floats(1e-6, 0.1))
def test_what_is_ruled_out_could_hardly_have_ended_early(n: int, tau: float, beta: float) -> None:
    """The best possible interval at n/2 users has no user at yes, at the expected count."""
    tail = tail_of(YES, best_for(2, 4 * NAT))
    assert isinstance(tail, Binomial)
    half, share = prefixes(n, 2)[0], float(shares(2)[0])
    expected = np.array([round(tail.low * half)])
    low, high = clopper_pearson(expected, half, beta * share)
    if not can_end_early(tail, tau, n, 2, beta):
        assert (high - low)[0] / 2 > 0.9 * tau * tail.gap


def test_a_group_too_small_to_be_cut_is_asked_at_once() -> None:
    batch = Batch([Question(category(SCHEMA["c"]), tau="9/10")])
    small = plan_batch(batch, 4 * NAT, 0.01)
    assert small.users < 1 << 8
    assert plan_batch(batch, 4 * NAT, 0.01, rules=RoundRules(waves=8)) == small


@pytest.mark.parametrize("waves", [0, -1, MAX_WAVES + 1])
def test_a_number_of_waves_is_small_and_positive(waves: int) -> None:
    with pytest.raises(InvalidParameter, match=f"waves expects 1 to 16, found {waves}"):
        plan_batch(Batch([YES]), NAT, 0.01, rules=RoundRules(waves=waves))
