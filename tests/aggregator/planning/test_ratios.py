"""Means of numbers that may be missing, asked as vectors: sizes and intervals, by enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from askance_aggregator.estimation import ReportsLaw, TalliedReports
from askance_aggregator.estimation.sign_pairs import SignPair, ratio_intervals
from askance_aggregator.families import hypercube_response
from askance_aggregator.learners import RatiosKept, mean_vector
from askance_aggregator.planning.blocks import blocks_of
from askance_aggregator.planning.precision import tail_of
from askance_aggregator.planning.ratios import RatioCells, Ratios
from askance_client.errors import InvalidParameter
from askance_client.queries import Real, Schema

NAT = 10**9
Reals = NDArray[np.float64]


def laws(mean: float, share: float, gap: float, users: int) -> Reals:
    """Return the chances of all pairs of counts of +, shape (users + 1, users + 1).

    A user who has the number x reports + for x with the chance (1 + gap x) / 2, for -x with
    (1 - gap x) / 2, and one who lacks it + with (1 - gap) / 2 in both.
    """
    one, two = (
        share * (1 + gap * side * mean) / 2 + (1 - share) * (1 - gap) / 2 for side in (1, -1)
    )
    counts = np.arange(users + 1)
    return np.outer(binom.pmf(counts, users, one), binom.pmf(counts, users, two))


def estimates(gap: float, users: int) -> tuple[Reals, Reals]:
    """Return the estimated mean, clipped to -1 .. 1, and share of every pair of counts."""
    seen = (2 * np.arange(users + 1) / users - 1) / gap + 1
    both = seen[:, None] + seen[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(both > 0, (seen[:, None] - seen[None, :]) / both, 0.0)
    return np.clip(ratio, -1, 1), both / 2


def failure(mean: float, share: float, gap: float, tau: float, users: int) -> float:
    found, _ = estimates(gap, users)
    return float(laws(mean, share, gap, users)[np.abs(found - mean) >= tau - 1e-12].sum())


POPULATIONS = list(product(np.linspace(-1, 1, 21), (0.0, 0.5, 1.0)))
MANY = list(product(np.linspace(-1, 1, 41), (0.0, 0.1, 0.5)))


@pytest.mark.parametrize(
    ("gap", "share", "tau", "beta"),
    [
        (0.6, 1.0, 0.6, 0.02),
        (0.95, 1.0, 0.25, 0.02),
        (0.95, 0.6, 0.25, 0.02),
        (0.6, 0.6, 0.6, 0.02),
        (0.4, 1.0, 0.6, 0.02),
        (0.9, 0.8, 0.3, 0.0005),
    ],
)
def test_a_size_holds_for_all_populations_and_is_hardly_too_large(
    gap: float, share: float, tau: float, beta: float
) -> None:
    users = Ratios(gap, share).users(tau, beta)
    worst = max(failure(mean, share + part * (1 - share), gap, tau, users) for mean, part in MANY)
    assert worst <= 2 * beta  # two components are asked, each with beta
    fewer = int(0.93 * users)
    assert max(failure(mean, share, gap, tau, fewer) for mean, _ in MANY) > 2 * beta


@pytest.mark.parametrize(
    ("means", "shares"),
    [((-0.4, -0.1), (0.6, 0.9)), ((-1.0, -0.8), (0.5, 0.55)), ((-0.02, 0.0), (0.5, 1.0))],
)
def test_the_bound_of_a_cell_is_above_all_its_populations_and_exact_at_a_point(
    means: tuple[float, float], shares: tuple[float, float]
) -> None:
    gap, tau, users = 0.8, 0.3, 40
    cell = RatioCells(*(np.array([end]) for end in (*means, *shares)))
    (bound,) = cell.failures(gap, tau, users)
    inside = product(np.linspace(*means, 9), np.linspace(*shares, 9))
    exact = [failure(mean, share, gap, tau, users) for mean, share in inside]
    assert max(exact) <= bound
    mean, share = (sum(ends) / 2 for ends in (means, shares))
    assert share * gap > 0.4  # so that A_hat + B_hat + 2 <= 0 has no chance to speak of
    (point,) = cell.centres.failures(gap, tau, users)
    assert point == pytest.approx(failure(mean, share, gap, tau, users), rel=1e-3)


def test_parts_of_a_cell_are_the_cell() -> None:
    cell = RatioCells(*(np.array([end]) for end in (-0.5, -0.25, 0.5, 1.0)))
    of_shares = cell.divided(tau=0.5)  # .25 / .5 of the means, .5 / .5 of the shares
    assert of_shares.low.tolist() == [-0.5, -0.5]
    assert of_shares.high.tolist() == [-0.25, -0.25]
    assert sorted(zip(of_shares.least, of_shares.most, strict=True)) == [(0.5, 0.75), (0.75, 1.0)]
    of_means = cell.divided(tau=0.1)
    assert sorted(zip(of_means.low, of_means.high, strict=True)) == [
        (-0.5, -0.375),
        (-0.375, -0.25),
    ]
    every = RatioCells.all_from(0.7)
    assert (every.low.min(), every.high.max()) == (-1.0, 0.0)
    area = ((every.high - every.low) * (every.most - every.least)).sum()
    assert area == pytest.approx(0.3)


@pytest.mark.parametrize(("gap", "share"), [(0.1, 1.0), (0.3, 0.7), (0.9, 1.0)])
def test_many_users_are_hardly_more_than_the_normal_law_asks_for(gap: float, share: float) -> None:
    tau, beta = 0.02, 0.001
    means = np.linspace(-1, 1, 401)
    moved = means + tau
    # n times the variances of A and of B, and that of D at M = m + tau, whose mean is -2 q tau.
    one, two = ((1 - (gap * (share * (1 + side * means) - 1)) ** 2) / gap**2 for side in (1, -1))
    variance = (1 - moved) ** 2 * one + (1 + moved) ** 2 * two
    sides = np.where(moved <= 1, 2 * share * tau / np.sqrt(variance), np.inf)

    def failed(users: float) -> float:
        upward = norm.sf(np.sqrt(users) * sides)
        return float((upward + upward[::-1]).max())

    users = Ratios(gap, share).users(tau, beta)
    assert failed(users) < 2 * beta < failed(users / 1.06)


@pytest.mark.parametrize(("gap", "share", "tau"), [(0.3, 0.8, 0.5), (0.9, 0.5, 0.3)])
def test_a_bound_is_above_the_exact_chance_at_every_number_of_users(
    gap: float, share: float, tau: float
) -> None:
    bounded = Ratios(gap, share).failure(tau)
    rate = Ratios(gap, share).exponent(tau)
    for users in (5, 20, 60, 120):
        exact = max(
            failure(mean, share + part * (1 - share), gap, tau, users) for mean, part in POPULATIONS
        )
        assert exact <= 2 * bounded(users)
        assert exact <= 2 * np.exp(-users * rate)


@pytest.mark.parametrize("gap", [0.4, 0.9])
@pytest.mark.parametrize(("mean", "share"), [(0.0, 1.0), (0.9, 0.7), (-1.0, 0.5), (0.3, 0.1)])
def test_intervals_miss_as_rarely_as_they_say(gap: float, mean: float, share: float) -> None:
    users, alpha = 40, 0.1
    places = np.array(list(product(np.arange(users + 1), repeat=2))).T
    pair = SignPair(np.full(places.shape, float(users)), np.full(places.shape, gap))
    rows = ratio_intervals(pair, (2 * places / users - 1) / gap, alpha)
    chances = laws(mean, share, gap, users).ravel()
    ends = np.array([(*row.mean, *row.share) for row in rows]).T
    mean_out = (mean < ends[0] - 1e-12) | (mean > ends[1] + 1e-12)
    share_out = (share < ends[2] - 1e-12) | (share > ends[3] + 1e-12)
    assert chances[share_out].sum() <= alpha
    assert chances[mean_out | share_out].sum() <= 2 * alpha


def test_an_interval_of_many_reports_is_about_that_of_the_normal_law() -> None:
    users, gap, alpha = 400_000.0, 0.5, 0.05
    pair = SignPair(np.full((2, 1), users), np.full((2, 1), gap))
    (ends,) = ratio_intervals(pair, np.array([[0.35], [-0.55]]), alpha)
    # q = .9 and m = .5; A has the variance (1 - (g A)^2) / (n g^2), and D = .5 A - 1.5 B - 1.
    variance = (1 - (gap * np.array([0.35, 0.55])) ** 2) / (users * gap**2)
    of_mean = 1.96 * np.sqrt(0.5**2 * variance[0] + 1.5**2 * variance[1]) / (2 * 0.9)
    of_share = 1.96 * np.sqrt(variance.sum()) / 2
    assert np.subtract(ends.mean, 0.5) == pytest.approx([-of_mean, of_mean], rel=0.08)
    # Whatever m is: A and B may both be -.1, which varies the most.
    assert np.subtract(ends.share, 0.9) == pytest.approx([-of_share, of_share], rel=0.1)


SCHEMA = Schema("s", 1, a=Real(0, 1), b=Real(0, 1, required=True), c=Real(0, 1))


@pytest.mark.parametrize("nano", [NAT, 8 * NAT])
def test_the_components_of_a_number_are_told_by_different_users(nano: int) -> None:
    (question,) = mean_vector(SCHEMA, tau="1/10", present="1/2").batch.questions
    assert question.decision == RatiosKept(5, 2, Fraction(1, 2))
    blocks = blocks_of(question, nano)
    sizes = [block.values for block in blocks]
    first = sum(block.decision is not None for block in blocks) // 2
    assert sizes[:first] == sizes[first : 2 * first]
    assert sum(sizes[:first]) == 2
    assert [block.decision for block in blocks[2 * first :]] == [None]
    with pytest.raises(InvalidParameter, match="told by sign patterns of different users"):
        tail_of(question, hypercube_response(5, nano))


def test_a_law_encloses_ratios_where_users_differ_and_no_others() -> None:
    (question,) = mean_vector(SCHEMA, ["a", "c"]).batch.questions
    reports = []
    for block in blocks_of(question, NAT):
        randomizer = hypercube_response(block.values, NAT)
        counts = np.full(block.values, 500, dtype=np.int64)
        reports.append(TalliedReports(block, randomizer, counts, 1_000))
    (one, other) = ReportsLaw(question, tuple(reports), 0.05).ratios(2) or ()
    assert one == other  # A = B = 0: q = 1 and m = 0
    assert one.mean[0] == pytest.approx(-one.mean[1], rel=1e-3)
    whole = TalliedReports(question, hypercube_response(4, NAT), np.full(4, 500), 1_000)
    assert ReportsLaw(question, (whole,), 0.05).ratios(2) is None
