"""Sizes hold, by exact enumeration of tails, are never above Chernoff's, and hardly idle."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, cosh, log, sinh, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from askance_aggregator.families import (
    SignedSubsetFamily,
    best_for,
    family_of,
    hadamard_sign,
    signed_subset_selection,
)
from askance_aggregator.learners import Question
from askance_aggregator.planning import Binomial, Scored, Tail, Ternary, tail_of
from askance_aggregator.planning.precision import pair_rates
from askance_aggregator.queries import signed
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import contains, probability
from askance_client.queries import Integer, Schema
from askance_client.randomizers import (
    COIN_SPACE,
    KaryResponse,
    LinearHashing,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)

probabilities = st.floats(0.01, 0.99)


def binomial_failure(n: int, p: float, shift: float) -> float:
    """Compute P[|W - p| >= shift] for W the mean of n coins of bias p."""
    counts = np.arange(n + 1)
    return float(binom.pmf(counts, n, p)[np.abs(counts / n - p) >= shift - 1e-12].sum())


def ternary_failure(n: int, up: float, down: float, shift: float) -> float:
    """Compute P[|W - (up - down)| >= shift] for W the mean of n terms +1, -1, 0."""
    law = np.array([1.0])
    for _ in range(n):
        law = np.convolve(law, [down, 1 - up - down, up])
    sums = np.arange(-n, n + 1)
    return float(law[np.abs(sums / n - (up - down)) >= shift - 1e-12].sum())


def worst_coin(n: int, tail: Binomial, shift: float) -> float:
    """Maximize the failure over p: each side jumps where a threshold is a whole number."""
    jumps = np.arange(n + 1) / n
    points = np.concatenate([jumps - shift, jumps + shift, np.linspace(tail.low, tail.high, 41)])
    allowed = points[(points >= tail.low) & (points <= tail.high)]
    return max(binomial_failure(n, p, shift) for p in allowed)


@pytest.mark.parametrize("beta", [0.1, 1e-4])
@pytest.mark.parametrize(("low", "high"), [(0.3, 0.7), (0.02, 0.1), (0.9, 0.98), (0.4, 0.4)])
@pytest.mark.parametrize("tau", [0.2, 0.07])
def test_planned_coins_fail_seldom_enough_for_every_bias_allowed(
    low: float, high: float, tau: float, beta: float
) -> None:
    """And 5/6 of them are too few, but for the lattice, where so few are asked that it counts."""
    tail = Binomial(low, high, 0.8)
    users = tail.users(tau, beta)
    assert worst_coin(users, tail, 0.8 * tau) <= beta
    assert users < 20 or worst_coin(5 * users // 6, tail, 0.8 * tau) > beta


@pytest.mark.parametrize("beta", [0.05, 1e-6])
@pytest.mark.parametrize(("low", "high"), [(0.3, 0.7), (0.02, 0.1), (0.97, 0.98)])
def test_the_sharp_bound_of_coins_is_above_their_tails_and_falls(
    low: float, high: float, beta: float
) -> None:
    tail, tau = Binomial(low, high, 0.8), 0.03
    bound = tail.failure(tau)
    size = tail.users(tau, beta)
    sizes = [size // 9, size // 3, size, 2 * size]
    for users in sizes:
        points = np.linspace(low, high, 201)
        up = binom.sf(np.ceil(users * (points + 0.024)) - 1, users, points)
        down = binom.cdf(np.floor(users * (points - 0.024)), users, points)
        assert (up + down).max() <= bound(users)
    bounds = [bound(users) for users in sizes]
    assert bounds == sorted(bounds, reverse=True)
    assert size < 1000 or bound(size * 1.1) <= beta <= bound(size * 0.9)


def test_coins_of_ten_thousand_million_users_are_sized_by_the_normal_law() -> None:
    """The size is n = (z sd / x)^2 with z = 4.4172 for beta = 1e-5, sd = 1/2."""
    users = Binomial(0.1, 0.9, 0.8).users(3e-5, 1e-5)
    assert users == pytest.approx((4.4172 / 2 / (0.8 * 3e-5)) ** 2, rel=1e-3)
    assert users > 8 * 10**9


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
    assert max(_sign_failures(2 * users // 3, tail, tau)) > beta


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
    """For any allowed population ln E[e^(s (W - E[W]))] is at most the exponent's value."""
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
        tally = family_of(randomizer).tally(np.frombuffer(report, dtype=np.uint8).reshape(1, -1))
        return bool(tally[cell])

    expected = []
    for level in (1, 2, 0):  # the user is at the given cell, at the other one, elsewhere
        chances = [
            probability(randomizer, level, report)
            for report in family_of(randomizer).alphabet()
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
        family_of(randomizer)
        .tally(np.frombuffer(report, dtype=np.uint8).reshape(1, -1))
        .astype(bool)
        for report in family_of(randomizer).alphabet()
    ]
    strays = set()
    for plus, minus in ((0, 1), (1, 2), (3, 4)):
        for level in range(cells):
            chance = sum(
                (
                    probability(randomizer, level, report)
                    for report, in_ in zip(family_of(randomizer).alphabet(), holds, strict=True)
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


FEW = [  # so few reports point somewhere that the tails themselves are summed
    pytest.param(best_for(17, 4_000_000_000), 1 / 16, id="masked-parity-8"),
    pytest.param(signed_subset_selection(4, 5_000_000_000), 1 / 8, id="signed-sets"),
]


@pytest.mark.parametrize(("randomizer", "mass"), FEW)
def test_sizes_by_exact_tails_hold_at_every_jump_of_every_mass(
    randomizer: Randomizer, mass: float
) -> None:
    """Trinomial tails by convolution, at the pairs whose thresholds are whole numbers."""
    hit, miss, stray = map(float, pair_rates(randomizer))
    tail, beta = Ternary(hit, miss, stray, mass), 1e-3
    users, shift = tail.users(mass, beta), mass * tail.gap
    assert not tail.fails(users, mass, beta)

    def worst(n: int) -> float:
        jumps = np.arange(-n, n + 1) / n / tail.gap
        points = np.concatenate([jumps - mass, jumps + mass, [-mass, 0, mass]])
        failures = []
        for g in points[np.abs(points) <= mass][::3]:
            for total in (abs(g), mass):
                q = 2 * stray + total * (hit + miss - 2 * stray)
                up, down = (q + tail.gap * g) / 2, (q - tail.gap * g) / 2
                failures.append(_trinomial_failure(n, up, down, shift))
        return max(failures)

    assert worst(users) <= beta
    assert worst(9 * users // 10) > beta
    chernoff = ceil(log(2 / beta) / tail.exponent(mass))
    assert users < 0.8 * chernoff


def _trinomial_failure(n: int, up: float, down: float, shift: float) -> float:
    """Compute P[|S - n (up - down)| >= n shift], S's law by the discrete Fourier transform."""
    size = 2 * n + 1
    turns = np.exp(2j * np.pi * np.arange(size) / size)
    law = np.fft.fft((1 - up - down + up * turns + down / turns) ** n).real / size
    sums = np.arange(size)
    sums[sums > n] -= size
    return float(law[np.abs(sums - n * (up - down)) >= n * shift - 1e-9].sum())


@pytest.mark.parametrize("mass", [1 / 16, 0.5, 1.0])
@pytest.mark.parametrize("randomizer", RATES)
def test_the_sharp_bound_of_signs_is_above_their_tails_and_falls(
    randomizer: Randomizer, mass: float
) -> None:
    hit, miss, stray = map(float, pair_rates(randomizer))
    tail, tau = Ternary(hit, miss, stray, mass), 0.2
    bound, shift = tail.failure(tau), tail.gap * 0.2
    bounds = []
    for users in (60, 250, 1000):
        bounds.append(bound(users))
        for total in (0.0, mass / 3, mass):
            for g in np.linspace(-total, total, 9):
                q = 2 * stray + total * (hit + miss - 2 * stray)
                up, down = (q + tail.gap * g) / 2, (q - tail.gap * g) / 2
                assert _trinomial_failure(users, up, down, shift) <= bounds[-1] + 1e-12
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("epsilon", [2, 4, 8])
@pytest.mark.parametrize("values", [2, 3, 8])
def test_the_sharp_bound_holds_wherever_users_elsewhere_are(values: int, epsilon: int) -> None:
    """At another value they stray less than neutral ones do: the plan's tail knows both."""
    randomizer = signed_subset_selection(values, epsilon * 10**9)
    schema = Schema("s", 1, n=Integer(0, 2 * values))
    mass = Fraction(1, 10)
    tail = tail_of(Question(signed(schema["n"]), cell_mass=mass), randomizer)
    assert isinstance(tail, Ternary)
    least = min(
        _points_to_plus(randomizer, level)
        for level in (2, 3, 2 * values)  # of value 0
    )
    assert tail.least_stray is not None
    assert tail.least_stray == pytest.approx(float(least), rel=1e-9)
    assert tail.least_stray < tail.stray
    bound, shift = tail.failure(0.05), tail.gap * 0.05
    for users in (100, 1000, 4000):
        for stray in np.geomspace(tail.least_stray, tail.stray, 4):
            for total in (0.0, 0.1):
                q = 2 * stray + total * (tail.hit + tail.miss - 2 * stray)
                for g in (-total, 0.0, total):
                    up, down = (q + tail.gap * g) / 2, (q - tail.gap * g) / 2
                    assert _trinomial_failure(users, up, down, shift) <= bound(users) + 1e-12


def _points_to_plus(randomizer: SignedSubsetSelection, level: int) -> Fraction:
    """Compute P[the report contains value 0 with +], by its alphabet."""
    alphabet = family_of(randomizer).alphabet()
    reports = (report for report in alphabet if contains(randomizer, report, 0))
    return sum((probability(randomizer, level, report) for report in reports), Fraction())


def test_cells_of_strays_cost_next_to_nothing() -> None:
    """At d = 32 at eps = 2: against a tail whose users elsewhere are all neutral."""
    randomizer = signed_subset_selection(32, 2 * 10**9)
    hit, miss, stray = map(float, pair_rates(randomizer))
    least = float(SignedSubsetFamily(randomizer).least_stray)
    alike, unlike = (Ternary(hit, miss, stray, 1 / 64, end) for end in (None, least))
    assert alike.users(1 / 64, 1e-3) <= unlike.users(1 / 64, 1e-3)
    assert unlike.users(1 / 64, 1e-3) < 1.005 * alike.users(1 / 64, 1e-3)
    assert unlike.least_variance() < alike.least_variance()


def test_the_sharp_bound_of_signs_costs_a_few_percent() -> None:
    """At d = 64 at eps = 4: against the normal law's size, z = 3.784 at beta = .01/65 two-sided."""
    hit, miss, stray = map(float, pair_rates(best_for(129, 4 * 10**9)))
    tail = Ternary(hit, miss, stray, 1 / 128)
    tau = 1 / 128
    variance = 2 * tail.stray + tail.mass * (tail.hit + tail.miss - 2 * tail.stray)
    normal = (3.784 * sqrt(variance) / (tau * tail.gap)) ** 2
    assert normal < tail.users(tau, 0.01 / 65) < 1.12 * normal


def test_a_sign_has_the_tail_of_its_coin() -> None:
    """Every report points to + or -: a binomial count, whose exponent is the same."""
    schema = Schema("s", 1, n=Integer(0, 16))
    sign = hadamard_sign(8, 10**9)
    hit, miss, stray = map(float, pair_rates(sign))
    for mass in (Fraction(1, 16), Fraction(1)):
        tail = Ternary(hit, miss, stray, float(mass))
        coin = tail_of(Question(signed(schema["n"]), cell_mass=mass), sign)
        assert isinstance(coin, Binomial)
        for tau in (0.01, 1 / 16, 0.3):
            assert coin.exponent(tau) == pytest.approx(tail.exponent(tau), rel=1e-5)
            assert coin.users(tau, 0.01) <= 1.01 * tail.users(tau, 0.01)


# Two levels and three symbols, a score each: no, yes and pass.
SCORED = Scored(((0.3, 0.2, 0.5), (0.1, 0.4, 0.5)), ((-1.0, 1.5, 0.0), (2.0, 0.0, 1.0)))


def scored_failure(n: int, part: float, value: int, tau: float) -> float:
    """Compute P[the mean score is off by tau], `part` of the users at level 1: over all counts."""
    law = (1 - part) * np.array(SCORED.rows[0]) + part * np.array(SCORED.rows[1])
    score = np.array(SCORED.scores[value])
    first, second = np.meshgrid(np.arange(n + 1), np.arange(n + 1))
    counts = np.stack([first, second, n - first - second], axis=-1)[first + second <= n]
    off = np.abs(counts @ score / n - law @ score) >= tau - 1e-12
    return float(multinomial.pmf(counts[off], n, law).sum())


@pytest.mark.parametrize("beta", [0.1, 1e-3])
def test_planned_scores_fail_seldom_enough_for_every_mixture(beta: float) -> None:
    tau = 0.3
    users = SCORED.users(tau, beta)
    parts = np.linspace(0, 1, 7)
    worst = max(scored_failure(users, part, value, tau) for part in parts for value in (0, 1))
    assert worst <= beta
    fewer = max(scored_failure(users // 2, part, value, tau) for part in parts for value in (0, 1))
    assert fewer > beta


@given(st.lists(st.tuples(*[st.floats(0.02, 1)] * 3), min_size=2, max_size=4), st.floats(0.05, 2))
def test_scores_never_take_more_than_bernstein_or_hoeffding(
    rows: list[tuple[float, float, float]], tau: float
) -> None:
    """Bernstein's for the worst variance of a mixture, by a grid of mixtures of two rows."""
    table = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    score = np.array([-1.0, 1.5, 0.0])
    tail = Scored(tuple(map(tuple, table.tolist())), (tuple(score.tolist()),))
    parts = np.linspace(0, 1, 51)[:, None, None, None]
    mixed = (1 - parts) * table[:, None] + parts * table[None, :]
    variance = float((mixed @ score**2 - (mixed @ score) ** 2).max())
    exponent = tau * tau / (2 * variance + 2 * tau * tail.span / 3)
    users = tail.users(tau, 0.01)
    assert users <= ceil(log(200) / exponent * (1 + 1e-9))
    assert users <= ceil(log(200) / 2 * (tail.span / tau) ** 2)


@pytest.mark.parametrize("tail", [Binomial(0.2, 0.8, 0.6), Ternary(0.4, 0.1, 0.1, 0.3), SCORED])
@pytest.mark.parametrize("users", [1, 50, 10_000])
def test_a_tolerance_is_the_least_that_so_many_users_are_enough_for(tail: Tail, users: int) -> None:
    tau = tail.tolerance(users, 0.01)
    assert tail.enough(users, tau, 0.01)
    assert not tail.enough(users, tau * (1 - 2e-4), 0.01)


def test_a_tolerance_is_that_of_somebody() -> None:
    with pytest.raises(InvalidParameter, match="at least one user"):
        SCORED.tolerance(0, 0.01)


def test_an_error_that_cannot_happen_takes_one_user() -> None:
    assert Binomial(0.3, 0.7, 1.0).users(0.8, 0.01) == 1
