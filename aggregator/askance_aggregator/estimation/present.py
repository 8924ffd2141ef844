"""The mean of a number over those users who have it, from the two scores of every report.

With A and B the means of the scores (`table_design.presence`), A/B is the estimate. A mean m is in
its interval if A - m B, whose expectation is 0 for the true m, is not too far from 0 (Fieller 1954,
with tails that hold for every n in place of the normal law's). How far is too far depends on the
share of users who have the number, which is enclosed first, with a part of alpha of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation.present_law import Cases, PresentLaw, Reals, present_law
from askance_aggregator.families import TableFamily
from askance_aggregator.families.family import check_counts
from askance_aggregator.learners import Answer, Presence, Question, SampleMean
from askance_aggregator.queries import number_in
from askance_client.errors import InvalidParameter

MAX_SCORE_BIAS = Fraction(1, 10**6)  # of both scores

SHARE_PART = Fraction(1, 10)
"""Of alpha, what the interval of the share of users who have the number may spend."""

_POINTS = 17  # that are looked at together for an end of an interval
_ZOOMS = 5  # each between two neighbours: 16^-5 of the range in the end

PresentDecode = tuple[Fraction, ...]
"""Both scores of a table with a level for "missing": a of every symbol, then b of every symbol."""


def check_present(question: Question, table: TableFamily, decode: PresentDecode) -> None:
    """Refuse scores that are not unbiased for a table, or levels that a number can pass.

    Raises:
        InvalidParameter: they are not: a is a number's place on [-1, 1] and b is 1, and both are 0
            for the last level, exactly at the ends and there and within `MAX_SCORE_BIAS` elsewhere;
            or a number would be rounded onto the last level.
    """
    _check_levels(question, table.randomizer.levels)
    if len(decode) != 2 * table.randomizer.symbols:
        raise InvalidParameter(
            f"decode values expect two a symbol, {2 * table.randomizer.symbols},"
            f" found {len(decode)}"
        )
    score_bias(table, decode)


@lru_cache(maxsize=64)
def score_bias(table: TableFamily, decode: PresentDecode) -> Fraction:
    """The most that a - m b is off in expectation, for any m in [-1, 1].

    Raises:
        InvalidParameter: that is more than `MAX_SCORE_BIAS`, or more than 0 where it must be exact.
    """
    symbols, levels = table.randomizer.symbols, table.randomizer.levels
    points = [Fraction(2 * level, levels - 2) - 1 for level in range(levels - 1)]
    numbers = table.moved_grid(decode[:symbols])
    presences = table.moved_grid(decode[symbols:])
    wanted = zip([*points, Fraction(0)], [*[1] * (levels - 1), 0], strict=True)
    off = [
        abs(number - point) + abs(presence - one)
        for number, presence, (point, one) in zip(numbers, presences, wanted, strict=True)
    ]
    if off[0] or off[-2] or off[-1] or max(off) > MAX_SCORE_BIAS:
        raise InvalidParameter(
            "decode values expect to be unbiased for their table,"
            f" got a bias of {float(max(off)):g}"
        )
    return max(off)


def present_answer(
    question: Question,
    table: TableFamily,
    decode: PresentDecode,
    counts: Sequence[int] | NDArray[np.int64],
    n: int,
    alpha: float,
) -> Answer:
    """The mean over the users who have the number, and the share who have it.

    Utility: with probability 1 - alpha both intervals contain the truth, whatever the population
    (for `SampleMean`, whatever the users who answered). If the reports do not show that any user
    has the number, the interval is the whole range and the value its middle. The value lies in the
    range.
    """
    symbols = table.randomizer.symbols
    plain = check_counts(counts, n, symbols, n)
    number, presence = (
        sum((a * count for a, count in zip(part, plain, strict=True)), Fraction()) / n
        for part in (decode[:symbols], decode[symbols:])
    )
    law = present_law(table.randomizer, decode, isinstance(question.aim, SampleMean))
    bias = float(score_bias(table, decode))
    share = _share(law, float(presence), n, alpha * float(SHARE_PART), bias)
    chance = alpha * float(1 - SHARE_PART) / 2
    ratio = number / presence if presence > 0 else Fraction(0)
    low, high = (
        _end(law, (float(number), float(presence)), share, n, chance, bias, float(ratio), side)
        for side in (-1, 1)
    )
    start, half = scale_of(question, table.randomizer.levels)
    least, most = (float(bound) for bound in question.bounds)
    first, last = (
        min(max(float(start) + float(half) * (end + 1), least), most) for end in (low, high)
    )
    # A ratio is not unbiased, and far outside the range where few users seem to have the number.
    raw = float(start + half * (ratio + 1)) if presence > 0 else None
    value = (least + most) / 2 if raw is None else min(max(raw, least), most)
    seen = Presence(float(presence), *share)
    return Answer((value,), (first,), (last,), present=seen, unclamped=raw)


def share_seen(
    table: TableFamily, decode: PresentDecode, counts: Sequence[int] | NDArray[np.int64], n: int
) -> Fraction:
    """Estimate the share of users who have the number; unbiased."""
    symbols = table.randomizer.symbols
    plain = check_counts(counts, n, symbols, n)
    return sum((b * c for b, c in zip(decode[symbols:], plain, strict=True)), Fraction()) / n


def scale_of(question: Question, levels: int) -> tuple[Fraction, Fraction]:
    """The least number and half of the range of the levels that are numbers, in real units."""
    query = question.query
    step = Fraction(query.high - query.low, (levels - 1) << query.frac)
    return Fraction(query.low, 1 << query.frac), step * (levels - 2) / 2


def _check_levels(question: Question, levels: int) -> None:
    query = question.query
    last = query.low + Fraction(query.high - query.low, levels - 1) * (levels - 2)
    if levels < 3 or number_in(query).high > last:
        raise InvalidParameter(
            'a table with a level for "missing" expects every number on the levels before it,'
            f" found {levels} levels, of which the last but one is {float(last):g} and the greatest"
            f" number {number_in(query).high}"
        )


def _share(law: PresentLaw, seen: float, n: int, alpha: float, bias: float) -> tuple[float, float]:
    """The interval of the share of users who have the number."""

    def kept(side: int, shares: Reals) -> NDArray[np.bool_]:
        scores = np.repeat(side * law.presences[:, None], len(shares), axis=1)
        shift = side * np.full(len(shares), seen) - bias
        # Below the share the reports would show too much, above it too little.
        return _probable(law, scores, Cases(None, shares, shares), shift, n, alpha / 2)

    centre = min(max(seen, 0.0), 1.0)
    low = _outermost(lambda shares: kept(1, shares), centre, 0.0)
    high = _outermost(lambda shares: kept(-1, shares), centre, 1.0)
    return low, high


def _end(
    law: PresentLaw,
    seen: tuple[float, float],
    share: tuple[float, float],
    n: int,
    chance: float,
    bias: float,
    ratio: float,
    side: int,
) -> float:
    """The end of the mean's interval below (-1) or above (1) the estimate, on [-1, 1]."""

    def kept(means: Reals) -> NDArray[np.bool_]:
        # Above the estimate the true mean would make a - m b as low as seen only by chance.
        scores = -side * (law.numbers[:, None] - means * law.presences[:, None])
        shift = -side * (seen[0] - means * seen[1]) - bias
        users = Cases(means, np.full(len(means), share[0]), np.full(len(means), share[1]))
        return _probable(law, scores, users, shift, n, chance)

    return _outermost(kept, min(max(ratio, -1.0), 1.0), float(side))


def _probable(
    law: PresentLaw, scores: Reals, users: Cases, shifts: Reals, n: int, chance: float
) -> NDArray[np.bool_]:
    """Return for each law whether a mean of scores of `shifts` or more has this chance."""
    rate, landing = law.bounds(scores, users, shifts)
    return np.asarray(-n * rate + np.log(np.minimum(landing / sqrt(n), 1.0)) > log(chance))


def _outermost(kept: Callable[[Reals], NDArray[np.bool_]], centre: float, end: float) -> float:
    """The point between a centre and an end beyond which no point is kept, rounded outward."""
    inner, outer = centre, end
    for _ in range(_ZOOMS):
        if inner == outer:
            break
        points = np.linspace(inner, outer, _POINTS)
        good = np.flatnonzero(kept(points))
        place = int(good[-1]) if len(good) else 0
        if place == _POINTS - 1:
            return outer
        inner, outer = float(points[place]), float(points[place + 1])
    return outer
