"""Sizes for all cells of a category hold for all shares, at all larger numbers of users too."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import binom, multinomial

from askance_aggregator.families import best_for, family_of, k_ary_response
from askance_aggregator.learners import Question, frequency
from askance_aggregator.planning import Binomial, plan, tail_of
from askance_aggregator.planning.cells import JointShares
from askance_aggregator.queries import category
from askance_client.queries import Integer, Schema

Reals = NDArray[np.float64]

BETA = 0.05


def question(cells: int, tau: str = "1/20") -> Question:
    return Question(category(Schema("s", 1, cell=Integer(0, cells - 1))["cell"]), tau)


def tail_for(cells: int, nats: float) -> JointShares:
    tail = tail_of(question(cells), best_for(cells, int(nats * 10**9)))
    assert isinstance(tail, JointShares)
    return tail


def failing(n: int, tail: JointShares, tau: float, share: Reals) -> Reals:
    """Compute P[an estimated share is off by tau or more] by the binomial law, for each share."""
    s = tail.of_cell.low + share * tail.of_cell.gap
    shift = n * tau * tail.of_cell.gap
    above, below = np.ceil(n * s + shift - 1e-9), np.floor(n * s - shift + 1e-9)
    chances: Reals = binom.sf(above - 1, n, s) + binom.cdf(below, n, s)
    return chances


def worst_pair(n: int, tail: JointShares, tau: float) -> float:
    """Maximize the sum over cells where two share all users, at every jump of one of them."""
    low, gap = tail.of_cell.low, tail.of_cell.gap
    jumps = np.arange(n + 1) / n
    shares = np.concatenate([(jumps - tau * gap - low) / gap, (jumps + tau * gap - low) / gap])
    allowed = shares[(shares >= 0.5) & (shares <= 1)]
    empty = (tail.cells - 2) * failing(n, tail, tau, np.zeros(1))
    return float(
        (failing(n, tail, tau, allowed) + failing(n, tail, tau, 1 - allowed) + empty).max()
    )


@pytest.mark.parametrize(
    ("cells", "nats", "least", "most", "by_each"),
    [
        # least: with fewer users, a share of one half or of 1 alone is off more often than in 1 of
        # 20, whatever the size of the sets.
        (1000, 4, 730, 1030, 6834),
        (1000, 8, 420, 590, 2987),
        (16, 4, 588, 820, 1509),
        (16, 1, 11_000, 11_534, 15_240),
        (2, 1, 1800, 1860, 2439),
    ],
)
def test_many_cells_take_the_users_of_a_few(
    cells: int, nats: float, least: int, most: int, by_each: int
) -> None:
    """Two cells are off together; with beta/k for each cell it is `by_each`."""
    planned = plan(frequency(question(cells).query, tau="1/20"), int(nats * 10**9), BETA)
    assert least <= planned.users_needed <= most
    assert tail_for(cells, nats).of_cell.users(0.05, BETA / cells) == by_each


@pytest.mark.parametrize(("cells", "nats"), [(1000, 4), (1000, 8), (16, 4)])
def test_a_size_of_cells_holds_from_there_on_and_a_tenth_less_is_too_few(
    cells: int, nats: float
) -> None:
    """Exact tails are a saw in n: neither this n nor one of the next is a gap of it."""
    tail = tail_for(cells, nats)
    users = tail.users(0.05, BETA / cells)
    assert max(worst_pair(n, tail, 0.05) for n in range(users, users + 20)) <= BETA
    assert worst_pair(9 * users // 10, tail, 0.05) > BETA


def test_three_cells_that_look_alike_spend_the_chance_of_three() -> None:
    """At .01 nats every share has the same tail, so that the union bound is nearly attained."""
    tail = tail_for(3, 0.01)
    users = tail.users(0.2, BETA / 3)
    chance = 3 * failing(users, tail, 0.2, np.full(1, 1 / 3))[0]
    assert 0.97 * BETA < chance <= BETA


@pytest.mark.parametrize("tau", [0.05, 0.11])
def test_two_cells_of_one_count_are_planned_as_one_value(tau: float) -> None:
    tail = tail_for(2, 1)
    assert tail.alike
    users = tail.users(tau, BETA / 2)
    for n in range(users, users + 20):
        jumps = np.arange(n + 1) / n
        shares = (jumps - tail.of_cell.low) / tail.of_cell.gap
        allowed = np.concatenate([shares - tau, shares + tau])
        allowed = allowed[(allowed >= 0) & (allowed <= 1)]
        assert failing(n, tail, tau, allowed).max() <= BETA


def test_three_cells_fail_seldom_enough_by_the_law_of_their_counts() -> None:
    """The law of all three counts is enumerated, for shares in steps of a sixteenth."""
    response = k_ary_response(3, 2 * 10**9)
    rates = family_of(response).inclusion(0)
    assert rates is not None
    own, other = float(rates.own), float(rates.other)
    tail = JointShares(Binomial(other, own, own - other), 3)
    n = tail.users(0.3, BETA / 3)
    counts = np.array([c for c in product(range(n + 1), repeat=3) if sum(c) == n])
    chances = []
    for left, right in product(range(17), repeat=2):
        if left + right <= 16:
            shares = np.array([left, right, 16 - left - right]) / 16
            law = multinomial.pmf(counts, n, other + shares * (own - other))
            estimates = (counts / n - other) / (own - other)
            off = (np.abs(estimates - shares) >= 0.3 - 1e-12).any(axis=1)
            chances.append(law[off].sum())
    assert BETA / 3 < max(chances) <= BETA


@given(st.floats(0.01, 0.99), st.floats(0.01, 1), st.floats(0.5, 5000), st.floats(1.01, 3))
def test_the_incomplete_beta_function_falls_with_users(
    t: float, part: float, n: float, times: float
) -> None:
    more = betainc(times * n * t, times * n * (1 - t) + 1, part * t)
    assert more <= betainc(n * t, n * (1 - t) + 1, part * t) * (1 + 1e-9)


@pytest.mark.parametrize("cells", [2, 4, 300, 5000])
@pytest.mark.parametrize("nats", [0.25, 2, 12])
def test_cells_together_never_take_more_users_than_each_by_itself(cells: int, nats: float) -> None:
    tail = tail_for(cells, nats)
    users = tail.users(0.1, BETA / cells)
    assert users <= tail.of_cell.users(0.1, BETA / cells) * 1.01
    assert 0.1 * 0.98 < tail.tolerance(users, BETA / cells) <= 0.1 * 1.0002


@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.parametrize(("cells", "mass"), [(10, 1.0), (10, 0.25), (400, 1.0)])
def test_the_bound_is_above_the_sum_over_cells_for_many_shares(
    n: int, cells: int, mass: float
) -> None:
    """Random shares from even to all in few cells; the promise of a greatest share is used."""
    rates = family_of(best_for(cells, 3 * 10**9)).inclusion(0)
    assert rates is not None
    own, other = float(rates.own), float(rates.other)
    tail = JointShares(Binomial(other, other + mass * (own - other), own - other), cells)
    tau = tail.tolerance(n, BETA / cells)
    random = np.random.default_rng(5)
    drawn = [random.dirichlet(np.full(cells, width)) for width in (0.02, 0.1, 1, 10) * 25]
    kept = [shares for shares in drawn if shares.max() <= mass]
    assert len(kept) > 20
    assert max(failing(n, tail, tau, shares).sum() for shares in kept) <= BETA


def test_a_category_at_the_greatest_epsilon_of_64_bit_coins_is_planned_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Hardly any report is of another cell: all users at one cell leave the others without any."""
    assert tail_for(3, 44).users(0.1, BETA / 3) > 0
    assert not recwarn.list
