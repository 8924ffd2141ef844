"""Sign patterns: draws with few coins, the certified bias, agreement in closed form, the radius."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, exp, log, sqrt, tanh

import numpy as np
import pytest

from askance_aggregator.families import HypercubeFamily, family_of, hypercube_response
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability, valid
from askance_client.randomizers import COIN_SPACE, HypercubeResponse
from askance_client.randomizers.hypercube_draws import (
    certified_ratio,
    draw_flips,
    patterns_within,
    rank_words,
)

ALPHA = 1e-6
NAT = 10**9


def law(components: int, radius: int, threshold: int, coin_bits: int) -> Counter[int]:
    """Count the tuples of small coins that yield each set of differing components."""
    coins = rank_words(components, coin_bits) + components // 2
    found: Counter[int] = Counter()
    for side, weight in ((0, threshold), ((1 << coin_bits) - 1, (1 << coin_bits) - threshold)):
        for rest in product(range(1 << coin_bits), repeat=coins):
            found[draw_flips(components, radius, threshold, (side, *rest), coin_bits)] += weight
    return found


@pytest.mark.parametrize(
    ("components", "radius", "coin_bits"), [(1, 0, 4), (2, 0, 4), (2, 1, 4), (3, 0, 4), (3, 1, 4)]
)
def test_the_certified_loss_covers_the_bias_of_few_coins(
    components: int, radius: int, coin_bits: int
) -> None:
    """A report is the own pattern with its flips, so the loss is the ratio of two sets of flips."""
    space = 1 << coin_bits
    within = patterns_within(components)
    needed = False
    for threshold in (1, space // 3, 3 * space // 4, space - 1):
        counts = law(components, radius, threshold, coin_bits)
        assert len(counts) == 1 << components
        exact = Fraction(max(counts.values()), min(counts.values()))
        assert exact <= Fraction(*certified_ratio(components, radius, threshold, space))
        near, far = within[radius], within[-1] - within[radius]
        inside, outside = threshold * far, (space - threshold) * near
        needed |= exact > Fraction(max(inside, outside), min(inside, outside))
    assert needed == (components > 1)


@pytest.mark.parametrize("radius", [0, 1, 2, 3])
def test_draws_that_divide_evenly_are_uniform_near_and_far(radius: int) -> None:
    """Every rank of every side, every value of both of Floyd's draws of four components."""
    within = patterns_within(4)
    for near, low, high in ((True, 0, within[radius]), (False, within[radius], 16)):
        found: Counter[int] = Counter()
        for rank, first, second in product(range(high - low), range(3), range(4)):
            joined = -(-(rank << 128) // (high - low))  # the least U of this rank
            words = (joined >> 64, joined % COIN_SPACE)
            draws = (-(-first * COIN_SPACE // 3), -(-second * COIN_SPACE // 4))
            coins = (0 if near else 1, *words, *draws)
            found[draw_flips(4, radius, 1, coins)] += 1
        assert all((flips.bit_count() <= radius) == near for flips in found)
        assert len(found) == high - low
        assert set(found.values()) == {12}


@pytest.mark.parametrize("components", [1, 2, 3, 5, 8])
def test_agreement_is_the_mean_sign_over_all_reports(components: int) -> None:
    for radius in range(components):
        randomizer = HypercubeResponse(components, radius, COIN_SPACE - COIN_SPACE // 5)
        own = 0b0110_1001 & (randomizer.levels - 1)
        for component in range(components):
            bit = 1 << component
            agrees = sum(
                probability(randomizer, own, report)
                for report in family_of(randomizer).alphabet()
                if not (int.from_bytes(report, "big") ^ own) & bit
            )
            assert agrees == (1 + HypercubeFamily(randomizer).agreement) / 2


def test_the_loss_is_attained_by_two_patterns_of_one_report() -> None:
    randomizer = hypercube_response(5, 2 * NAT)
    report = (0).to_bytes(1, "big")
    chances = [probability(randomizer, level, report) for level in range(32)]
    ratio = Fraction(randomizer.loss.numerator, randomizer.loss.denominator)
    assert 0 <= ratio / (max(chances) / min(chances)) - 1 < Fraction(1, 10**17)
    assert 0 <= 2 * NAT - randomizer.loss.nano_nats <= 1


@pytest.mark.parametrize("nano", [NAT // 2, NAT, 2 * NAT, 4 * NAT])
def test_one_component_is_warners_response_and_three_at_small_epsilon_duchis(nano: int) -> None:
    nats = nano / NAT
    assert float(HypercubeFamily(hypercube_response(1, nano)).agreement) == pytest.approx(
        tanh(nats / 2), rel=1e-9
    )
    duchi = HypercubeResponse(3, 1, 1)
    assert duchi.near == 4  # half of the patterns
    three = hypercube_response(3, nano)
    assert three.radius == (1 if nats < 1.9 else 0)
    if three.radius == 1:
        assert float(HypercubeFamily(three).agreement) == pytest.approx(
            tanh(nats / 2) * comb(2, 1) / 4, rel=1e-9
        )


@pytest.mark.parametrize("components", [2, 7, 16, 33])
@pytest.mark.parametrize("nano", [NAT // 4, NAT, 3 * NAT, 8 * NAT])
def test_no_other_radius_agrees_better(components: int, nano: int) -> None:
    best = hypercube_response(components, nano)
    e, within = exp(nano / NAT), patterns_within(components)
    for radius in range(components):
        near = within[radius]
        other = comb(components - 1, radius) * (e - 1) / (e * near + within[-1] - near)
        assert float(HypercubeFamily(best).agreement) >= other * (1 - 1e-9)
    assert best.loss.fits(nano)


def test_shares_are_unbiased_exactly() -> None:
    """Over all reports of four users, weighted by their probabilities."""
    randomizer = hypercube_response(2, NAT)
    users = (0b00, 0b01, 0b11, 0b11)
    expected = [Fraction(0), Fraction(0)]
    for reports in product(family_of(randomizer).alphabet(), repeat=len(users)):
        weight = Fraction(1)
        for level, report in zip(users, reports, strict=True):
            weight *= probability(randomizer, level, report)
        counts = family_of(randomizer).tally(
            np.array([list(report) for report in reports], dtype=np.uint8)
        )
        for place, share in enumerate(family_of(randomizer).frequencies(counts, len(users))):
            expected[place] += weight * share
    assert expected == [Fraction(1, 2), Fraction(3, 4)]


def test_sampled_components_agree_as_often_as_stated() -> None:
    """Size: n = 4,000 draws of 100 components, Hoeffding over all: .06 would be found."""
    randomizer = hypercube_response(100, 4 * NAT)
    source, own = random.Random(5), (1 << 50) - 1
    n = 4_000
    rows = [
        randomizer.randomize(own, [source.getrandbits(64) for _ in range(randomizer.coins)])
        for _ in range(n)
    ]
    counts = family_of(randomizer).tally(np.array([list(row) for row in rows], dtype=np.uint8))
    expected = [float(HypercubeFamily(randomizer).rates.other)] * 50 + [
        float(HypercubeFamily(randomizer).rates.own)
    ] * 50
    slack = sqrt(log(2 * 100 / ALPHA) / (2 * n))
    assert slack < 0.06 / 1.1
    assert np.abs(counts / n - expected).max() < slack


def test_a_report_is_the_pattern_after_a_zero_bit() -> None:
    randomizer = HypercubeResponse(8, 3, COIN_SPACE - 1)
    report = randomizer.randomize(0b1000_0001, [0] * randomizer.coins)
    assert report == bytes([0, 0b1000_0001])
    assert list(family_of(randomizer).tally(np.array([list(report)], dtype=np.uint8))) == [1] + [
        0
    ] * 6 + [1]
    assert not valid(randomizer, bytes([1, 0]))
    assert not valid(randomizer, b"\x00")
    with pytest.raises(InvalidParameter, match="patterns of 8"):
        family_of(randomizer).tally(np.array([[1, 0]], dtype=np.uint8))


@pytest.mark.parametrize("components", [1, 7, 8, 1024])
def test_no_report_is_all_ones(components: int) -> None:
    randomizer = HypercubeResponse(components, 0, 1)
    assert not valid(randomizer, b"\xff" * randomizer.width)


def test_the_most_components_are_drawn_at_every_distance() -> None:
    """The extreme ranks of both sides: no distance, the radius, the next one and all."""
    randomizer = hypercube_response(1024, 4 * NAT)
    rank = rank_words(1024)
    for side, edge, distance in (
        (0, 0, 0),
        (0, COIN_SPACE - 1, randomizer.radius),
        (COIN_SPACE - 1, 0, randomizer.radius + 1),
        (COIN_SPACE - 1, COIN_SPACE - 1, 1024),
    ):
        coins = [side, *[edge] * rank, *[COIN_SPACE // 3] * 512]
        report = randomizer.randomize(0, coins)
        assert int.from_bytes(report, "big").bit_count() == distance


@pytest.mark.parametrize(
    ("components", "radius", "threshold"),
    [(0, 0, 1), (1025, 0, 1), (3, 3, 1), (3, -1, 1), (3, 1, 0), (3, 1, COIN_SPACE), (True, 0, 1)],
)
def test_parameters_out_of_range_are_refused(components: int, radius: int, threshold: int) -> None:
    with pytest.raises(InvalidParameter):
        HypercubeResponse(components, radius, threshold)


def test_what_coins_cannot_express_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="64-bit coins express"):
        hypercube_response(2, 60 * NAT)
