"""From a tally of reports to an unbiased answer with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation.designed import designed
from askance_aggregator.estimation.intervals import (
    are_apart,
    bernstein,
    clopper_pearson,
    hoeffding,
    joint_shares,
)
from askance_aggregator.estimation.present import present_answer
from askance_aggregator.estimation.statistics import (
    Decode,
    check_decode,
    check_suits,
    known_scores,
    scores,
)
from askance_aggregator.families import CodebookFamily, Family, SignedFamily, TableFamily, family_of
from askance_aggregator.learners import Answer, Question, neutral_answer
from askance_aggregator.learners.learning import Ends
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import QueryKind
from askance_client.randomizers import Randomizer

Counts = Sequence[int] | NDArray[np.int64]


def estimate(
    question: Question,
    randomizer: Randomizer,
    counts: Counts,
    n: int,
    alpha: float | Fraction,
    decode: Decode | None = None,
) -> Answer:
    """The raw unbiased answer to a question, with intervals that hold together.

    Utility: unbiased: values are exact fractions of the counts, rounded once to a float, and not
    projected onto the simplex, so a share may leave [0, 1]. With probability at least 1 - alpha
    all intervals contain the population's values; alpha is divided by their number. They are
    Clopper-Pearson intervals of the counts, put through the exact decoding (of a category by what
    its shares, which sum to 1, may miss together (`joint_shares`); for a signed value,
    the difference of its two cells' intervals at half the alpha each; where every report points to
    + or to -, that of the one count), Hoeffding intervals for tables other than 2 x 2, Bernstein
    intervals for directions of vectors, or those of a table's own law where decode values were
    designed with it (`designed`); clipped to what is possible; of a query with a missing level see
    `present_answer`. Of what was promised about the population only a vector's `length` is used.

    Args:
        question: what was asked.
        randomizer: what answered.
        counts: `Family.tally` of the reports.
        n: how many reports there are; 0 gives the neutral answer, whose intervals are the whole
            range and whose values are the possible ones nearest to zero.
        alpha: in (0, 1).
        decode: of a table that was designed with its decode values.
    """
    _check(question, randomizer, alpha)
    if n == 0:
        return neutral_answer(question)
    if question.over_present:
        scores_of = known_scores(question, randomizer, decode)
        return present_answer(question, *scores_of, counts, n, float(alpha))
    if decode is not None:
        channel = check_decode(question, randomizer, decode)
        return _answer(*designed(question, channel, decode, counts, n, float(alpha)), question)
    family = family_of(randomizer)
    if family.signed is not None:
        return _by_signs(question, family.signed, counts, n, float(alpha) / question.values)
    if isinstance(family, CodebookFamily):
        return _by_directions(question, family, counts, n, float(alpha))
    shares = family.frequencies(counts, n)  # refuses what is not a tally, too
    if family.inclusion(0) is None:
        return _by_scores(question, family, counts, n, float(alpha))
    each = float(alpha) / question.values
    kind = question.query.kind
    if kind is QueryKind.SIGNED:
        pairs = range(0, 2 * question.values, 2)
        plus = _share_intervals(family, counts, n, list(pairs), each / 2)
        minus = _share_intervals(family, counts, n, [cell + 1 for cell in pairs], each / 2)
        return _answer(
            [shares[cell] - shares[cell + 1] for cell in pairs],
            (plus[0] - minus[1], plus[1] - minus[0]),
            question,
        )
    if kind is QueryKind.CATEGORY:
        return _answer(shares, _joint_intervals(family, counts, n, float(alpha)), question)
    # Bits: the predicate's, or those of numbers rounded at random onto the two ends.
    cells = list(range(question.values)) if kind is QueryKind.VECTOR else [1]
    low, spread = question.bounds[0], question.spread
    lows, highs = _share_intervals(family, counts, n, cells, each)
    ends = (float(low) + float(spread) * lows, float(low) + float(spread) * highs)
    return _answer([low + spread * shares[cell] for cell in cells], ends, question)


def _check(question: Question, randomizer: Randomizer, alpha: float | Fraction) -> None:
    if not 0 < alpha < 1:
        raise InvalidParameter(f"alpha expects a probability in (0, 1), got {value_text(alpha)}")
    check_suits(question, randomizer)


def _by_signs(
    question: Question, family: SignedFamily[Any], counts: Counts, n: int, each: float
) -> Answer:
    """Estimate signed values as reports for + less reports for -, each interval at alpha `each`."""
    values = family.signed_values(counts, n)  # refuses what is not a tally, too
    plus, minus = (np.asarray(pointing, dtype=np.int64) for pointing in family.pointing(counts, n))
    if family.complementary:
        one = clopper_pearson(plus, n, each)
        low, high = 2 * one[0] - 1, 2 * one[1] - 1
    else:
        one, two = clopper_pearson(plus, n, each / 2), clopper_pearson(minus, n, each / 2)
        low, high = one[0] - two[1], one[1] - two[0]
    gap = float(family.sign_gap)
    low, high = low / gap, high / gap
    return _answer(values, (np.minimum(low, high), np.maximum(low, high)), question)


def _by_directions(
    question: Question, family: CodebookFamily, counts: Counts, n: int, alpha: float
) -> Answer:
    """Estimate a mean vector, with Bernstein intervals by the greatest variance that can be."""
    unit = Fraction(1, 1 << question.query.frac)
    values = [mean * unit for mean in family.means(counts, n)]
    half = half_width(question, family, n, alpha / len(values))
    middle = np.asarray([float(value) for value in values], dtype=np.float64)
    return _answer(values, (middle - half, middle + half), question)


def half_width(
    question: Question, family: CodebookFamily, n: int, alpha: float, most: float | None = None
) -> float:
    """Bound the error of a mean vector in one direction, which it passes with chance alpha.

    A user's own vector reaches at most `most` in that direction; None: its whole length.
    """
    radius = float(Fraction(family.randomizer.radius, 1 << question.query.frac))
    along = 1.0 if most is None else min(most / radius, 1.0) ** 2
    return radius * bernstein(family.variance_along(along), 1 + family.reach, n, alpha)


def _share_intervals(
    family: Family[Any], counts: Counts, n: int, cells: list[int], alpha: float
) -> Ends:
    """Intervals for the shares of cells, each at alpha, not clipped."""
    seen = np.asarray([family.containing(counts, cell) for cell in cells], dtype=np.int64)
    low, high = clopper_pearson(seen, n, alpha)
    rates = [rate for rate in map(family.inclusion, cells) if rate]
    # Most cells share one object of rates, and converting a Fraction is slow: once per object.
    distinct = {id(rate): rate for rate in rates}
    floats = {i: (float(rate.other), float(rate.own - rate.other)) for i, rate in distinct.items()}
    other, gap = np.asarray([floats[id(rate)] for rate in rates], dtype=np.float64).T
    one, two = (low - other) / gap, (high - other) / gap
    return np.minimum(one, two), np.maximum(one, two)  # a table may flip: a negative gap


def _joint_intervals(family: Family[Any], counts: Counts, n: int, alpha: float) -> Ends:
    """Intervals for the shares of all cells, not clipped, which hold together."""
    cells = list(range(family.randomizer.levels))
    if are_apart():
        return _share_intervals(family, counts, n, cells, alpha / len(cells))
    if family.has_one_count:
        return _share_intervals(family, counts, n, cells, alpha)  # both miss, or none
    rates = family.inclusion(0)
    assert rates is not None, "a family that counts cells"
    seen = np.asarray([family.containing(counts, cell) for cell in cells], dtype=np.int64)
    return joint_shares(seen, n, alpha, float(rates.own), float(rates.other), len(cells))


def _by_scores(
    question: Question, family: Family[Any], counts: Counts, n: int, alpha: float
) -> Answer:
    """Means of scores, with Hoeffding intervals: any table that has a left inverse."""
    if not isinstance(family, TableFamily):
        raise InvalidParameter(f"no interval is known for the family {family.randomizer.name}")
    values, halves = [], []
    for value in range(question.values):
        each = scores(question, family, value)
        total = sum(
            (int(count) * score for count, score in zip(counts, each, strict=True)), Fraction()
        )
        values.append(total / n)
        halves.append(hoeffding(float(max(each) - min(each)), n, alpha / question.values))
    middle = np.asarray([float(value) for value in values], dtype=np.float64)
    half = np.asarray(halves, dtype=np.float64)
    return _answer(values, (middle - half, middle + half), question)


def _answer(values: Sequence[Fraction], ends: Ends, question: Question) -> Answer:
    """The answer, its intervals clipped to what is possible."""
    low, high = (float(bound) for bound in question.bounds)
    lows, highs = (np.clip(end, low, high) for end in ends)
    return Answer(
        tuple(float(value) for value in values),
        tuple(float(end) for end in lows),
        tuple(float(end) for end in highs),
    )


def alpha_of(block: Question, question: Question, alpha: float | Fraction) -> float:
    """A block's part of the chance that an interval of the question's answer misses."""
    return float(alpha) * block.values / question.values


def joined(blocks: Sequence[Answer], question: Question) -> Answer:
    """The answer of which the blocks, in order, are the parts; of one block, that one.

    Utility: each value is the block's own, unbiased; intervals hold together if the blocks had
    `alpha_of` it each.
    """
    values = sum(len(block.values) for block in blocks)
    if values != question.values:
        raise InvalidParameter(f"blocks expect {question.values} values together, found {values}")
    if len(blocks) == 1:
        return blocks[0]
    return Answer(
        tuple(value for block in blocks for value in block.values),
        tuple(low for block in blocks for low in block.lows),
        tuple(high for block in blocks for high in block.highs),
    )
