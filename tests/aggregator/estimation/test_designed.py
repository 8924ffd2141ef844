"""Designed tables: unbiased up to the stated bias; intervals cover samples and populations.

By the exact law of tallies or of sums; nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.estimation import bias_of, check_decode, deviations, estimate, influence
from askance_aggregator.families import TableFamily, k_ary_response
from askance_aggregator.learners import Answer, PriorMean, Question, SampleMean
from askance_aggregator.queries import category, real
from askance_aggregator.table_design import (
    Conditional,
    DesignedTable,
    Prior,
    design_table,
    prior_at,
)
from askance_client.errors import InvalidParameter
from askance_client.queries import Integer, Schema
from askance_client.randomizers import COIN_SPACE, Channel

SCHEMA = Schema("s", 1, n=Integer(10, 18))
NUMBER = real(SCHEMA["n"])
SAMPLE = Question(NUMBER, aim=SampleMean())
PRIOR = Question(NUMBER, aim=PriorMean(((Fraction(14), Fraction(3)), (Fraction(15), Fraction(1)))))
LEVELS = 5
WEIGHTS = prior_at([(Fraction(0), Fraction(3)), (Fraction(1, 4), Fraction(1))], LEVELS)


def table_of(question: Question, nats: int = 2) -> DesignedTable:
    objective = Conditional() if question is SAMPLE else Prior(WEIGHTS)
    return design_table(LEVELS, nats * 10**9, objective)


def laws(table: DesignedTable, levels: Sequence[int]) -> list[list[Fraction]]:
    rows = table.channel.table
    return [[Fraction(entry, COIN_SPACE) for entry in rows[level]] for level in levels]


def tallies(table: DesignedTable, levels: Sequence[int]) -> Iterator[tuple[list[int], Fraction]]:
    """Generate every way in which users at these levels report, and its chance."""
    symbols = range(table.channel.symbols)
    each = laws(table, levels)
    for reports in product(symbols, repeat=len(levels)):
        chance = Fraction(1)
        for law, symbol in zip(each, reports, strict=True):
            chance *= law[symbol]
        yield [reports.count(symbol) for symbol in symbols], chance


@pytest.mark.parametrize("question", [SAMPLE, PRIOR])
def test_an_answer_is_unbiased_up_to_what_is_told(question: Question) -> None:
    table = table_of(question)
    bias = bias_of(TableFamily(table.channel), table.values)
    assert 0 < bias < Fraction(1, 10**6)
    for levels in ((0, 0), (4, 4), (1, 3), (2, 4)):
        found = Fraction()
        for counts, chance in tallies(table, levels):
            decoded = total(table, counts)
            found += chance * (14 + 4 * decoded / len(levels))
        (counts, _), *_ = tallies(table, levels)
        decoded = total(table, counts)
        expected = float(14 + 4 * decoded / len(levels))
        assert answer_of(question, table, counts).value == expected
        truth = Fraction(sum(10 + 2 * level for level in levels), len(levels))
        assert abs(found - truth) <= 4 * bias


def total(table: DesignedTable, counts: Sequence[int]) -> Fraction:
    return sum((a * c for a, c in zip(table.values, counts, strict=True)), Fraction())


def answer_of(question: Question, table: DesignedTable, counts: Sequence[int]) -> Answer:
    return estimate(question, table.channel, counts, sum(counts), 0.05, table.values)


@pytest.mark.parametrize("question", [SAMPLE, PRIOR])
def test_intervals_of_a_few_hold_for_every_sample(question: Question) -> None:
    """Empty claims would be the whole range: at 6 nats they are not."""
    table, n, alpha = table_of(question, 6), 2, 0.2
    told: dict[tuple[int, ...], Answer] = {}
    for levels in combinations_with_replacement(range(LEVELS), n):
        truth = sum(10 + 2 * level for level in levels) / n
        missed = Fraction()
        for counts, chance in tallies(table, levels):
            if tuple(counts) not in told:
                told[tuple(counts)] = estimate(
                    question, table.channel, counts, n, alpha, table.values
                )
            answer = told[tuple(counts)]
            missed += chance * (not answer.low <= truth <= answer.high)
        assert missed <= alpha
    assert min(answer.high - answer.low for answer in told.values()) < 8


def law_of_sum(law: NDArray[np.float64], steps: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """Compute P[the sum of n whole numbers is 0, 1, ...], each of `steps` by its chance."""
    one = np.zeros(n * int(steps.max()) + 1)
    np.add.at(one, steps, law)
    size = 1 << len(one).bit_length()
    return np.fft.irfft(np.fft.rfft(one, size) ** n, size)[: len(one)]


@pytest.mark.parametrize("question", [SAMPLE, PRIOR])
@pytest.mark.parametrize(("n", "alpha"), [(100, 0.05), (400, 0.01)])
def test_a_half_width_holds_by_the_exact_law_and_is_not_much_more_than_needed(
    question: Question, n: int, alpha: float
) -> None:
    """All users at one level; of a population, half of them at another too.

    Values are rounded to a grid of 1/200, which moves a mean by less than a step: allowed for.
    """
    table, grid = table_of(question), 200
    law = deviations(question, table.channel, table.values)
    width = law.above.half_width(n, alpha) * law.span * grid
    values = np.array([float(value) for value in table.values]) * grid
    steps = np.floor(values - values.min()).astype(np.int64)
    mixtures = [(level,) for level in range(LEVELS)]
    worst = 0.0
    for levels in mixtures if question is SAMPLE else [*mixtures, (0, LEVELS - 1), (1, 3)]:
        mixed = np.mean([[float(p) for p in row] for row in laws(table, levels)], axis=0)
        told = law_of_sum(mixed, steps, n)
        beyond = np.arange(len(told)) / n - mixed @ (values - values.min())
        assert told[beyond >= width - 1].sum() <= alpha
        worst = max(worst, float(told[beyond >= 0.65 * width].sum()))
    assert worst > alpha  # two thirds of the width would not do


def test_a_prior_has_an_interval_near_the_normal_one_where_users_are_like_it() -> None:
    """An empirical Bernstein interval is at least 1.5 times as wide as the normal one."""
    table, n = table_of(PRIOR, 6), 200_000
    rows = np.array([[float(p) for p in row] for row in laws(table, range(LEVELS))])
    counts = np.rint(np.array([float(w) for w in WEIGHTS]) @ rows * n).astype(int).tolist()
    n = sum(counts)
    answer = estimate(PRIOR, table.channel, counts, n, 0.05, table.values)
    values = np.repeat([float(value) for value in table.values], counts)
    normal = 4 * 1.96 * float(values.std()) / sqrt(n)
    assert normal < (answer.high - answer.low) / 2 < 1.15 * normal


def test_a_prior_that_users_are_not_like_costs_little_beside_the_worst_population() -> None:
    table, n = table_of(PRIOR, 6), 20_000
    counts = [0] * table.channel.symbols
    counts[0] = counts[-1] = n // 2
    answer = estimate(PRIOR, table.channel, counts, n, 0.05, table.values)
    worst = deviations(PRIOR, table.channel, table.values)
    sides = (side.half_width(n, 0.025) for side in (worst.above, worst.below))
    assert answer.high - answer.low < 1.3 * 4 * sum(sides) * worst.span


def test_one_report_moves_an_answer_by_its_influence_at_most_and_that_is_attained() -> None:
    table = table_of(SAMPLE)
    bound = influence(SAMPLE, table.channel, 10, table.values)
    symbols = table.channel.symbols
    found = []
    for symbol in range(symbols):
        counts = [9] + [0] * (symbols - 1)
        counts[symbol] += 1
        found.append(answer_of(SAMPLE, table, counts).value)
    assert max(found) - min(found) == pytest.approx(float(bound), rel=1e-12)


def test_decode_values_are_held_against_their_table() -> None:
    table = table_of(SAMPLE)
    assert check_decode(SAMPLE, table.channel, table.values).randomizer is table.channel
    for wrong in (
        tuple(2 * value for value in table.values),
        tuple(value + Fraction(1, 10**9) for value in table.values),
        table.values[::-1],
    ):
        with pytest.raises(InvalidParameter, match="expect to be unbiased for their table"):
            estimate(SAMPLE, table.channel, [1] * len(wrong), len(wrong), 0.05, wrong)
    with pytest.raises(InvalidParameter, match="decode values, found"):
        check_decode(SAMPLE, table.channel, table.values[1:])
    shares = Question(category(SCHEMA["n"]))
    with pytest.raises(InvalidParameter, match="of a table for a number, found k-ary"):
        check_decode(shares, k_ary_response(9, 10**9), table.values)


@pytest.mark.parametrize("change", [1, -1])
def test_counts_that_are_no_tally_are_refused(change: int) -> None:
    table = table_of(SAMPLE)
    counts = [1] * table.channel.symbols
    with pytest.raises(InvalidParameter, match="counts"):
        estimate(SAMPLE, table.channel, counts, sum(counts) + change, 0.05, table.values)


def test_a_sample_s_interval_is_narrower_than_a_population_s() -> None:
    table = table_of(SAMPLE, 4)
    sample, population = (
        deviations(question, Channel(table.channel.table), table.values).above.half_width(
            5000, 0.05
        )
        for question in (SAMPLE, PRIOR)
    )
    assert sample < population
    # Near the normal law's width, for the worst variances.
    span = float(max(table.values) - min(table.values))
    assert sample * span < 1.3 * 1.645 * sqrt(float(table.figure) / 5000)
