"""Tail bounds hold, by exact enumeration of tails, and are never worse than Hoeffding's."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, cosh, exp, log, sinh

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from askance.aggregator.planning import Binomial, Bounded, Tail, Ternary
from askance.aggregator.planning.precision import pair_rates
from askance.client.errors import InvalidParameter
from askance.client.randomizers import (
    COIN_SPACE,
    KaryResponse,
    LinearHashing,
    Randomizer,
    SubsetSelection,
    best_for,
    hadamard_sign,
    signed_subset_selection,
)

probabilities = st.floats(0.01, 0.99)


def binomial_failure(n: int, p: float, shift: float) -> float:
    """P[|W - p| >= shift] for W the mean of n coins of bias p."""
    counts = np.arange(n + 1)
    return float(binom.pmf(counts, n, p)[np.abs(counts / n - p) >= shift - 1e-12].sum())


def ternary_failure(n: int, up: float, down: float, shift: float) -> float:
    """P[|W - (up - down)| >= shift] for W the mean of n terms +1, -1, 0."""
    law = np.array([1.0])
    for _ in range(n):
        law = np.convolve(law, [down, 1 - up - down, up])
    sums = np.arange(-n, n + 1)
    return float(law[np.abs(sums / n - (up - down)) >= shift - 1e-12].sum())


@pytest.mark.parametrize("beta", [0.1, 1e-4])
@pytest.mark.parametrize(("low", "high"), [(0.3, 0.7), (0.02, 0.1), (0.9, 0.98), (0.4, 0.4)])
@pytest.mark.parametrize("tau", [0.2, 0.05])
def test_planned_coins_fail_seldom_enough_for_every_bias_allowed(
    low: float, high: float, tau: float, beta: float
) -> None:
    tail = Binomial(low, high, 0.8)
    users = tail.users(tau, beta)
    worst = max(binomial_failure(users, p, 0.8 * tau) for p in np.linspace(low, high, 41))
    assert worst <= beta
    fewer = max(binomial_failure(users // 4, p, 0.8 * tau) for p in np.linspace(low, high, 41))
    assert users < 4 or fewer > beta  # the size is not idle


@given(probabilities, probabilities, st.floats(0.05, 1), st.floats(0.001, 1), st.floats(1e-9, 0.5))
def test_coins_never_take_more_than_hoeffding(
    p: float, q: float, gap: float, tau: float, beta: float
) -> None:
    tail = Binomial(min(p, q), max(p, q), gap)
    assert tail.users(tau, beta) <= ceil(log(2 / beta) / (2 * (tau * gap) ** 2))


def test_a_promise_saves_coins() -> None:
    """A share of at most 1/100 has less variance than one that may be a half."""
    anything, little = Binomial(0.02, 0.98, 0.96), Binomial(0.02, 0.0296, 0.96)
    assert little.users(0.01, 0.01) * 4 < anything.users(0.01, 0.01)


RATES = [
    pytest.param(best_for(9, 1_000_000_000), id="eps-1"),
    pytest.param(best_for(17, 2_000_000_000), id="eps-2"),
    pytest.param(best_for(9, 4_000_000_000), id="eps-4"),
    pytest.param(best_for(301, 1_000_000_000), id="hashed"),
    pytest.param(hadamard_sign(8, 1_000_000_000), id="sign"),
    pytest.param(signed_subset_selection(8, 2_000_000_000), id="signed-sets"),
]


@pytest.mark.parametrize("mass", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("randomizer", RATES)
def test_planned_signs_fail_seldom_enough_for_all_masses_allowed(
    randomizer: Randomizer, mass: float
) -> None:
    rates = pair_rates(randomizer)
    hit, miss, stray = map(float, rates)
    tail, tau, beta = Ternary(hit, miss, stray, mass), 0.25, 0.05
    users = tail.users(tau, beta)
    worst = max(_sign_failures(users, tail, tau))
    assert worst <= beta
    assert max(_sign_failures(users // 4, tail, tau)) > beta


def _sign_failures(n: int, tail: Ternary, tau: float) -> list[float]:
    failures = []
    for total in (0.0, tail.mass / 2, tail.mass):
        for plus in np.linspace(0, total, 5):
            minus, none = total - plus, 1 - total
            up = none * tail.stray + plus * tail.hit + minus * tail.miss
            down = none * tail.stray + plus * tail.miss + minus * tail.hit
            failures.append(ternary_failure(n, up, down, tail.gap * tau))
    return failures


@given(st.floats(0.05, 3), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1))
def test_the_log_moment_is_the_worst_over_masses(
    s: float, part: float, plus: float, mass: float
) -> None:
    """ln E[e^(s (W - E[W]))] of any population allowed is at most what the exponent uses."""
    hit, miss, stray = map(float, pair_rates(best_for(17, 2_000_000_000)))
    tail = Ternary(hit, miss, stray, mass)
    total = part * mass
    f_plus, f_minus = plus * total, (1 - plus) * total
    up = (1 - total) * stray + f_plus * hit + f_minus * miss
    down = (1 - total) * stray + f_plus * miss + f_minus * hit
    actual = log(1 + (cosh(s) - 1) * (up + down) + sinh(s) * (up - down)) - s * (up - down)
    assert actual <= tail.log_moment(s) + 1e-12


@given(st.floats(0.001, 1), st.floats(1e-9, 0.5), st.sampled_from([0.5, 1, 2, 4, 8]))
def test_signs_never_take_more_than_hoeffding(tau: float, beta: float, epsilon: float) -> None:
    hit, miss, stray = map(float, pair_rates(best_for(17, int(epsilon * 10**9))))
    tail = Ternary(hit, miss, stray, 1.0)
    assert tail.users(tau, beta) <= ceil(2 * log(2 / beta) / (tau * tail.gap) ** 2)


@pytest.mark.parametrize(
    "randomizer",
    [SubsetSelection(5, 2, 3 << 62), SubsetSelection(7, 3, 1 << 63), KaryResponse(5, 1 << 61)],
)
def test_pair_rates_are_those_of_the_alphabet(randomizer: KaryResponse | SubsetSelection) -> None:
    def holds(report: bytes, cell: int) -> bool:
        tally = randomizer.tally(np.frombuffer(report, dtype=np.uint8).reshape(1, -1))
        return bool(tally[cell])

    expected = []
    for level in (1, 2, 0):  # the user is at the given cell, at the other one, elsewhere
        chances = [
            randomizer.probability(level, report)
            for report in randomizer.alphabet()
            if holds(report, 1) and not holds(report, 2)
        ]
        expected.append(sum(chances, Fraction()))
    assert list(pair_rates(randomizer)) == expected


@pytest.mark.parametrize(("cells", "modulus"), [(5, 2), (8, 2), (9, 3), (20, 3), (27, 5)])
def test_pair_rates_of_hashes_are_the_worst_over_cells(cells: int, modulus: int) -> None:
    """Proportional vectors and independent ones: enumerated for every third cell."""
    randomizer = LinearHashing(cells, modulus, COIN_SPACE // (modulus + 3))
    rates = pair_rates(randomizer)
    holds = [
        randomizer.tally(np.frombuffer(report, dtype=np.uint8).reshape(1, -1)).astype(bool)
        for report in randomizer.alphabet()
    ]
    strays = set()
    for plus, minus in ((0, 1), (1, 2), (3, 4)):
        for level in range(cells):
            chance = sum(
                (
                    randomizer.probability(level, report)
                    for report, in_ in zip(randomizer.alphabet(), holds, strict=True)
                    if in_[plus] and not in_[minus]
                ),
                Fraction(),
            )
            if level == plus:
                assert chance == rates.hit
            elif level == minus:
                assert chance == rates.miss
            else:
                strays.add(chance)
    assert max(strays) == rates.stray


def test_a_sign_has_the_tail_of_its_coin() -> None:
    """Every report points to + or -: a binomial count, whose exponent is the same."""
    sign = hadamard_sign(8, 10**9)
    hit, miss, stray = map(float, pair_rates(sign))
    for mass in (1 / 16, 1.0):
        tail = Ternary(hit, miss, stray, mass)
        coin = Binomial(0.5 - mass * (hit - 0.5), 0.5 + mass * (hit - 0.5), hit - 0.5)
        for tau in (0.01, 1 / 16, 0.3):
            assert tail.users(tau, 0.01) == pytest.approx(coin.users(tau, 0.01), rel=1e-6, abs=1)


def test_bounded_terms_take_what_hoeffding_says() -> None:
    tail = Bounded(3.0)
    users = tail.users(0.1, 0.01)
    assert 2 * exp(-2 * users * (0.1 / 3) ** 2) <= 0.01
    assert 2 * exp(-2 * (users - 1) * (0.1 / 3) ** 2) > 0.01


@pytest.mark.parametrize(
    "tail", [Binomial(0.2, 0.8, 0.6), Ternary(0.4, 0.1, 0.15, 0.5), Bounded(2.0)]
)
@pytest.mark.parametrize("users", [1, 50, 10_000])
def test_a_tolerance_is_the_least_that_so_many_users_are_enough_for(tail: Tail, users: int) -> None:
    tau = tail.tolerance(users, 0.01)
    assert tail.users(tau, 0.01) <= users
    assert tail.users(tau * (1 - 1e-4), 0.01) > users


def test_a_tolerance_is_that_of_somebody() -> None:
    with pytest.raises(InvalidParameter, match="at least one user"):
        Bounded(1.0).tolerance(0, 0.01)


def test_an_error_that_cannot_happen_takes_one_user() -> None:
    assert Binomial(0.3, 0.7, 1.0).users(0.8, 0.01) == 1
