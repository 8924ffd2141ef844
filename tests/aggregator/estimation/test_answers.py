"""From a tally to an answer: exactly unbiased, and covered at every level, by enumeration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
import pytest

from askance_aggregator.estimation import clopper_pearson, estimate
from askance_aggregator.families import best_for, family_of, randomized_response
from askance_aggregator.learners import Question, neutral_answer
from askance_aggregator.queries import (
    bucketize,
    category,
    predicate,
    real,
    signed,
)
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability
from askance_client.queries import (
    Integer,
    Query,
    Real,
    Schema,
)
from askance_client.randomizers import (
    COIN_SPACE,
    Channel,
    HadamardSign,
    KaryResponse,
    LinearHashing,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)

SCHEMA = Schema("s", 1, n=Integer(0, 2), k=Integer(0, 3), t=Real(-1, 3, 4), age=Integer(17, 90))
PREDICATE = Question(predicate(SCHEMA["n"] == 1))
TWO_CELLS = Question(category(bucketize(SCHEMA["n"], [1])))
THREE_CELLS = Question(category(SCHEMA["n"]))
FOUR_CELLS = Question(category(SCHEMA["k"]))
SIGNED = Question(signed(SCHEMA["n"]))
TWO_SIGNED = Question(signed(Schema("s", 1, k=Integer(0, 4))["k"]))
REAL = Question(real(SCHEMA["t"]))

WARNER = randomized_response(1_000_000_000)
Q = COIN_SPACE // 4
FLIPPING = Channel(((Q, 3 * Q), (3 * Q, Q)))  # says the opposite, mostly: a negative gap
LOPSIDED = Channel(((Q, 3 * Q), (3 * Q - 5, Q + 5)))
KARY = KaryResponse(3, COIN_SPACE // 5)
SUBSETS = SubsetSelection(4, 2, 3 * Q)
HASHES = LinearHashing(4, 2, Q)
SIGN = HadamardSign(1, 3 * Q)
CONTRARY = HadamardSign(1, Q)  # says the opposite sign, mostly
SIGNED_SETS = SignedSubsetSelection(1, 1, 3 * Q)
TABLE = Channel(((2 * Q, Q, Q), (Q, 2 * Q, Q), (Q, Q, 2 * Q)))
WIDE = Channel(((2 * Q, Q, Q), (Q, Q, 2 * Q)))

CASES = [
    pytest.param(PREDICATE, WARNER, id="predicate-warner"),
    pytest.param(PREDICATE, FLIPPING, id="predicate-flipping"),
    pytest.param(PREDICATE, LOPSIDED, id="predicate-lopsided"),
    pytest.param(PREDICATE, WIDE, id="predicate-wide"),
    pytest.param(TWO_CELLS, LOPSIDED, id="two-cells-lopsided"),
    pytest.param(THREE_CELLS, KARY, id="cells-k-ary"),
    pytest.param(THREE_CELLS, TABLE, id="cells-table"),
    pytest.param(FOUR_CELLS, SUBSETS, id="cells-subsets"),
    pytest.param(FOUR_CELLS, HASHES, id="cells-hashes"),
    pytest.param(SIGNED, KARY, id="signed-k-ary"),
    pytest.param(SIGNED, SIGN, id="signed-sign"),
    pytest.param(SIGNED, CONTRARY, id="signed-contrary"),
    pytest.param(SIGNED, SIGNED_SETS, id="signed-sets"),
    pytest.param(TWO_SIGNED, HadamardSign(2, 3 * Q), id="two-signed-sign"),
    pytest.param(TWO_SIGNED, SignedSubsetSelection(2, 1, 3 * Q), id="two-signed-sets"),
    pytest.param(SIGNED, TABLE, id="signed-table"),
    pytest.param(REAL, WARNER, id="real-warner"),
    pytest.param(REAL, LOPSIDED, id="real-lopsided"),
    pytest.param(REAL, TABLE, id="real-table"),
]

Shares = Sequence[Fraction]


def inclusion_of(randomizer: Randomizer) -> tuple[float, float]:
    """Return the rates of a randomizer of cells."""
    rates = family_of(randomizer).inclusion(0)
    assert rates is not None
    return float(rates.own), float(rates.other)


def truth(question: Question, shares: Shares) -> list[Fraction]:
    """Return the answer's values for a population with these shares of the levels."""
    if question in (SIGNED, TWO_SIGNED):
        return [shares[2 * j] - shares[2 * j + 1] for j in range(question.values)]
    if question is REAL:  # levels are equally spaced
        low, spread, last = question.bounds[0], question.spread, len(shares) - 1
        return [sum((low + spread * x / last) * f for x, f in enumerate(shares))]  # type: ignore[list-item]  # a sum of Fractions
    return [shares[1]] if question.values == 1 else list(shares)


def outcomes(
    randomizer: Randomizer, shares: Shares, n: int
) -> Iterator[tuple[np.ndarray, Fraction]]:
    """Generate every tally of n reports of a population, with its probability."""
    alphabet = list(family_of(randomizer).alphabet())
    chance = {
        report: sum(
            (f * probability(randomizer, x, report) for x, f in enumerate(shares)),
            Fraction(),
        )
        for report in alphabet
    }
    for reports in combinations_with_replacement(alphabet, n):
        times = Counter(reports)
        ways = factorial(n) // prod(factorial(count) for count in times.values())
        rows = np.array([list(report) for report in reports], dtype=np.uint8)
        weight = prod((chance[report] ** count for report, count in times.items()), start=ways)
        yield family_of(randomizer).tally(rows), Fraction(weight)


def populations(levels: int) -> list[Shares]:
    corners = [[Fraction(int(x == y)) for y in range(levels)] for x in range(levels)]
    even = [Fraction(1, levels)] * levels
    tilted = [Fraction(2 * x + 1, levels * levels) for x in range(levels)]
    return [*corners, even, tilted]


@pytest.mark.parametrize(("question", "randomizer"), CASES)
def test_values_are_unbiased_and_intervals_cover_jointly(
    question: Question, randomizer: Randomizer
) -> None:
    """Enumerated: every tally of n reports, for corners and inner points of the populations."""
    alpha = 0.2
    for n in (1, 8 if len(list(family_of(randomizer).alphabet())) <= 4 else 4):
        for shares in populations(randomizer.levels):
            expected = truth(question, shares)
            mean = [Fraction()] * len(expected)
            covered, total = Fraction(), Fraction()
            for counts, weight in outcomes(randomizer, shares, n):
                answer = estimate(question, randomizer, counts, n, alpha)
                mean = [m + weight * Fraction(v) for m, v in zip(mean, answer.values, strict=True)]
                rows = zip(answer.lows, expected, answer.highs, strict=True)
                total += weight
                covered += weight * all(
                    low - 1e-12 <= value <= high + 1e-12 for low, value, high in rows
                )
            assert total == 1
            assert covered >= 1 - alpha
            for m, value in zip(mean, expected, strict=True):
                assert float(m) == pytest.approx(float(value), abs=1e-12)


@pytest.mark.parametrize("share", [Fraction(k, 12) for k in range(13)])
@pytest.mark.parametrize("n", [5, 40])
def test_a_predicate_is_covered_exactly_and_not_always(n: int, share: Fraction) -> None:
    """Coverage over all n + 1 counts is at least 95 % for every share, and is not vacuous."""
    covered = missed = Fraction()
    for counts, weight in _binomial_tallies(share, n):
        answer = estimate(PREDICATE, WARNER, counts, n, 0.05)
        if answer.low - 1e-12 <= share <= answer.high + 1e-12:
            covered += weight
        else:
            missed += weight
    assert covered + missed == 1
    assert covered >= Fraction(95, 100)
    assert n == 5 or share in (0, 1) or missed > 0


def _binomial_tallies(share: Fraction, n: int) -> Iterator[tuple[np.ndarray, Fraction]]:
    kept = Fraction(WARNER.table[1][1], COIN_SPACE)
    p = share * kept + (1 - share) * (1 - kept)
    for count in range(n + 1):
        ways = factorial(n) // (factorial(count) * factorial(n - count))
        yield np.array([n - count, count]), ways * p**count * (1 - p) ** (n - count)


@pytest.mark.parametrize("yes", [0, 3, 10, 20])
def test_the_share_of_the_sample_at_hand_is_covered_as_well(yes: int) -> None:
    """Given their records users answer with two different probabilities: Poisson binomial."""
    n, kept = 20, Fraction(WARNER.table[1][1], COIN_SPACE)
    chances = [Fraction(1)]
    for user in range(n):
        p = kept if user < yes else 1 - kept
        said_no, said_yes = [*chances, Fraction()], [Fraction(), *chances]
        chances = [(1 - p) * no + p * say for no, say in zip(said_no, said_yes, strict=True)]
    covered = Fraction()
    for count, weight in enumerate(chances):
        answer = estimate(PREDICATE, WARNER, np.array([n - count, count]), n, 0.05)
        covered += weight * (answer.low <= yes / n <= answer.high)
    assert covered >= Fraction(95, 100)


def test_a_signed_interval_is_the_difference_of_two_at_half_the_alpha() -> None:
    """Two pairs at alpha = .2: each of four cells is covered but for .05, so all pairs but .2."""
    question, randomizer = (
        Question(signed(Schema("s", 1, k=Integer(0, 4))["k"])),
        best_for(5, 10**9),
    )
    assert isinstance(randomizer, KaryResponse)
    counts, n = np.array([90, 30, 20, 50, 10]), 200
    answer = estimate(question, randomizer, counts, n, 0.2)
    own, other = inclusion_of(randomizer)
    lows, highs = ((end - other) / (own - other) for end in clopper_pearson(counts, n, 0.05))
    for pair in (0, 1):
        assert answer.lows[pair] == pytest.approx(max(lows[2 * pair] - highs[2 * pair + 1], -1))
        assert answer.highs[pair] == pytest.approx(min(highs[2 * pair] - lows[2 * pair + 1], 1))


def test_values_are_raw_and_intervals_are_clipped_to_what_is_possible() -> None:
    answer = estimate(PREDICATE, WARNER, [10, 0], 10, 0.05)
    assert answer.value < 0
    assert answer.low == 0.0
    answer = estimate(FOUR_CELLS, SUBSETS, [3, 3, 0, 0], 3, 0.05)
    assert max(answer.values) > 0.5
    assert min(answer.lows) >= 0
    assert max(answer.highs) <= 1


def test_a_real_value_is_in_real_units() -> None:
    """(c/n - q)/(p - q) of the way from 17 to 90."""
    question = Question(real(SCHEMA["age"]))
    lie = Fraction(WARNER.table[0][1], COIN_SPACE)
    answer = estimate(question, WARNER, [40, 60], 100, 0.05)
    share = (Fraction(6, 10) - lie) / (1 - 2 * lie)
    assert answer.value == float(17 + 73 * share)
    assert 17 <= answer.low < answer.value < answer.high <= 90


@pytest.mark.parametrize("question", [PREDICATE, FOUR_CELLS, SIGNED, REAL])
def test_nobody_answered(question: Question) -> None:
    """No report: the whole range, and a value that is possible (never NaN)."""
    levels = 2 if question is REAL else question.query.cells
    randomizer = best_for(levels, 10**9)
    counts = [0] * levels
    assert estimate(question, randomizer, counts, 0, 0.05) == neutral_answer(question)


def test_intervals_narrow_with_users_and_widen_with_confidence() -> None:
    def width(n: int, alpha: float) -> float:
        answer = estimate(PREDICATE, WARNER, [n // 2, n // 2], n, alpha)
        return answer.high - answer.low

    assert width(100_000, 0.05) < width(1_000, 0.05) / 9
    assert width(1_000, 0.001) > width(1_000, 0.05)


ALPHA = 1e-6


def test_joint_coverage_at_a_size_of_practice() -> None:
    """300 surveys of 2000 users in 8 cells: at alpha = .2 more than 102 misses are a 1e-6 event.

    A miss rate above .41 would be seen with probability 1/2 or more.
    """
    from scipy.stats import binom

    rng, surveys, n, alpha = np.random.default_rng(3), 300, 2000, 0.2
    schema = Schema("s", 1, c=Integer(0, 7))
    question = Question(category(schema["c"]))
    randomizer = best_for(8, 2_000_000_000)
    assert isinstance(randomizer, KaryResponse)
    shares = rng.dirichlet([1.0] * 8)
    own, other = inclusion_of(randomizer)
    misses = 0
    for _ in range(surveys):
        counts = rng.multinomial(n, other + shares * (own - other))
        answer = estimate(question, randomizer, counts, n, alpha)
        inside = np.array(answer.lows) <= shares
        misses += not (inside & (shares <= np.array(answer.highs))).all()
    assert misses <= binom.isf(ALPHA, surveys, alpha)


@pytest.mark.parametrize("alpha", [0, 1, -1, 2])
def test_alpha_is_a_probability(alpha: float) -> None:
    with pytest.raises(InvalidParameter, match="alpha expects"):
        estimate(PREDICATE, WARNER, [1, 1], 2, alpha)


@pytest.mark.parametrize(
    ("query", "randomizer", "counts", "n"),
    [
        (PREDICATE.query, KARY, [1, 1, 0], 2),
        (THREE_CELLS.query, WARNER, [1, 1], 2),
        (REAL.query, KARY, [1, 1, 0], 2),
        (THREE_CELLS.query, SIGN, [1], 2),
        (SIGNED.query, SIGN, [3], 2),
        (SIGNED.query, SIGN, [1, 1], 2),
        (SIGNED.query, SIGNED_SETS, [1, 0], 2),
        (PREDICATE.query, WARNER, [1, 1], 3),
        (PREDICATE.query, WARNER, [1, 1, 1], 3),
        (PREDICATE.query, WARNER, [-1, 3], 2),
    ],
)
def test_what_does_not_fit_is_refused(
    query: Query, randomizer: Randomizer, counts: list[int], n: int
) -> None:
    with pytest.raises(InvalidParameter):
        estimate(Question(query), randomizer, counts, n, 0.05)
