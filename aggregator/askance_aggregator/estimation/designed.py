"""The answer of a table that was designed with its decode values, and how far it may be off."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation.betting import Bets
from askance_aggregator.estimation.deviations import Deviations, deviations
from askance_aggregator.estimation.statistics import Decode, bias_of
from askance_aggregator.families import TableFamily
from askance_aggregator.families.family import check_counts
from askance_aggregator.learners import PriorMean, Question
from askance_aggregator.table_design import Prior, prior_at
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

Ends = tuple[float, float]
_GENTLE = 0.25  # times the stake for the prior: for a population that varies more
_SHARES = (0.90, 0.07, 0.03)
"""Parts of alpha: bets with the stake for the prior, bets with the gentle stake, the worst law."""

Found = tuple[list[Fraction], tuple[NDArray[np.float64], NDArray[np.float64]]]


def designed(
    question: Question,
    table: TableFamily,
    decode: Decode,
    counts: Sequence[int] | NDArray[np.int64],
    n: int,
    alpha: float,
) -> Found:
    """The mean of the decode values, in real units, and the ends of its interval, not clipped.

    Utility: the value is off in expectation by `TableFamily.bias` half ranges at most, which is
    added to the interval on both sides. With probability 1 - alpha the interval contains what the
    question is for: the population's mean, or that of the users who answered (`SampleMean`). Its
    width is that of the worst population or sample (`deviations`), half of alpha a side; under a
    prior it is that of the reports at hand (`Bets`) wherever that is narrower for a population like
    the prior. The choice does not depend on the reports.

    Raises:
        InvalidParameter: the counts are no tally of n reports.
    """
    plain = check_counts(counts, n, table.randomizer.symbols, n)
    if sum(plain) != n:
        raise InvalidParameter(f"counts expect a tally of {n} reports, found one of {sum(plain)}")
    mean = sum((a * count for a, count in zip(decode, plain, strict=True)), Fraction()) / n
    law = deviations(question, table.randomizer, decode)
    ends = _worst(law, float(mean), n, alpha)
    expected = expected_moments(question, table, decode)
    if expected is not None:
        bets = Bets(np.array([float(value) for value in decode]), n)
        centre, variance = map(float, expected)
        own, gentle, rest = (share * alpha for share in _SHARES)
        stake = bets.stake(centre, variance, own)
        if 2 * bets.promised(stake, centre, variance, own) < ends[1] - ends[0]:
            tally = np.array(plain, dtype=np.float64)
            ends = _common(
                _worst(law, float(mean), n, rest),
                bets.interval(tally, stake, own),
                bets.interval(tally, _GENTLE * stake, gentle),
            )
    low, half = question.bounds[0], question.spread / 2
    value, bias = low + half * (mean + 1), float(bias_of(table, decode))
    down, up = float(mean) - ends[0] + bias, ends[1] - float(mean) + bias
    return [value], (
        np.array([float(value) - float(half) * down]),
        np.array([float(value) + float(half) * up]),
    )


def _worst(law: Deviations, mean: float, n: int, alpha: float) -> Ends:
    """Compute the interval by the law of the worst population or sample, half of alpha a side."""
    above, below = _half_widths(law, n, alpha / 2)
    return mean - above, mean + below


@lru_cache(maxsize=64)
def _half_widths(law: Deviations, n: int, alpha: float) -> tuple[float, float]:
    above, below = (side.half_width(n, alpha) * law.span for side in law[:2])
    return above, below


def _common(*intervals: Ends) -> Ends:
    """Intersect intervals; each contains the mean of the reports."""
    lows, highs = zip(*intervals, strict=True)
    return max(lows), min(highs)


def expected_moments(
    question: Question, table: TableFamily, decode: Decode
) -> tuple[Fraction, Fraction] | None:
    """Return mean and variance of a decode value for a population equal to the question's prior.

    Returns:
        Both scaled to [-1, 1]; None where there is no prior.
    """
    if not isinstance(question.aim, PriorMean):
        return None
    weights = Prior(prior_weights(question, table.randomizer.levels)).weights
    grid = table.moved_grid(decode)
    mean = sum((w * x for w, x in zip(weights, grid, strict=True)), Fraction())
    return mean, Prior(weights).figure(table.randomizer, decode) - mean * mean


def prior_weights(question: Question, levels: int) -> tuple[Fraction, ...]:
    """The question's prior, on levels.

    Raises:
        InvalidParameter: it has none.
    """
    return prior_at(prior_points(question), levels)


def prior_points(question: Question) -> list[tuple[Fraction, Fraction]]:
    """The points of the question's prior, scaled to [-1, 1], with their weights.

    Raises:
        InvalidParameter: it has none.
    """
    if not isinstance(question.aim, PriorMean):
        raise InvalidParameter(
            f"a question expects a prior, got the aim {value_text(question.aim)}"
        )
    low, half = question.bounds[0], question.spread / 2
    return [((at - low) / half - 1, weight) for at, weight in question.aim.points]
