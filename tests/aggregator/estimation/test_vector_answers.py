"""Vector answers: exact expectation, intervals that cover, influence attained, blocks joined."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from askance_aggregator.estimation import alpha_of, estimate, influence, joined
from askance_aggregator.families import HypercubeFamily, family_of, hypercube_response
from askance_aggregator.learners import Answer, Question
from askance_aggregator.queries import vector
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability
from askance_client.queries import Real, Schema

NAT = 10**9
S = Schema("s", 1, x=Real(-1, 3, 4), y=Real(-1, 3, 4))
QUESTION = Question(vector([S.x, S.y]))


def test_the_values_are_unbiased_exactly() -> None:
    """Over all tallies of two users at 3 and -1, weighted by their probabilities."""
    randomizer = hypercube_response(2, NAT)
    expected = [Fraction(0), Fraction(0)]
    for reports in product(family_of(randomizer).alphabet(), repeat=2):
        weight = probability(randomizer, 0b10, reports[0]) * probability(
            randomizer, 0b11, reports[1]
        )
        counts = family_of(randomizer).tally(
            np.array([list(report) for report in reports], dtype=np.uint8)
        )
        answer = estimate(QUESTION, randomizer, counts, 2, 0.05)
        for place, value in enumerate(answer.values):
            expected[place] += weight * Fraction(value)
    assert float(expected[0]) == pytest.approx(3)  # both at the high end
    assert float(expected[1]) == pytest.approx(1)


def test_intervals_cover_jointly() -> None:
    """Coverage of 5,000 answers of 60 users, two values, jointly at 90 %.

    At a true coverage of 90 %, 5,000 draws show less than 88 % with probability 1e-6; by
    Clopper-Pearson's excess the true coverage is higher.
    """
    randomizer = hypercube_response(2, 2 * NAT)
    rng = np.random.default_rng(1)
    own, n, runs = float(HypercubeFamily(randomizer).rates.own), 60, 5_000
    other = float(HypercubeFamily(randomizer).rates.other)
    plus = np.array([20, 45])  # how many of the users have each component at the high end
    counts = rng.binomial(plus, own, (runs, 2)) + rng.binomial(n - plus, other, (runs, 2))
    truth = [-1 + 4 * share / n for share in plus]
    covered = 0
    for row in counts:
        answer = estimate(QUESTION, randomizer, row, n, 0.1)
        rows = zip(answer.lows, truth, answer.highs, strict=True)
        covered += all(low <= true <= high for low, true, high in rows)
        assert min(answer.lows) >= -1
        assert max(answer.highs) <= 3
    assert covered / runs >= 0.9 - 0.02


def test_the_influence_of_a_report_is_attained() -> None:
    randomizer = hypercube_response(2, NAT)
    one, other = (estimate(QUESTION, randomizer, [k, 5], 10, 0.05).values[0] for k in (4, 5))
    assert other - one == pytest.approx(float(influence(QUESTION, randomizer, 10)))


def test_nobody_answers_neutrally() -> None:
    answer = estimate(QUESTION, hypercube_response(2, NAT), [0, 0], 0, 0.05)
    assert (answer.values, answer.lows, answer.highs) == ((0, 0), (-1, -1), (3, 3))


def test_blocks_are_joined_in_order() -> None:
    block = Question(vector([S.x], -1, 3))
    parts = [Answer((1.0,), (0.0,), (2.0,)), Answer((-1.0,), (-1.0,), (0.5,))]
    assert joined(parts, QUESTION) == Answer((1.0, -1.0), (0.0, -1.0), (2.0, 0.5))
    assert alpha_of(block, QUESTION, 0.05) == 0.025
    with pytest.raises(InvalidParameter, match="2 values together, found 1"):
        joined(parts[:1], QUESTION)
