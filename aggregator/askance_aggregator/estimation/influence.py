"""Influence of one lying device on an answer."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from askance_aggregator.estimation.present import scale_of, share_seen
from askance_aggregator.estimation.statistics import (
    Decode,
    check_decode,
    check_suits,
    known_scores,
    scores,
)
from askance_aggregator.families import CodebookFamily, TableFamily, family_of
from askance_aggregator.learners import Question
from askance_client.errors import InvalidParameter
from askance_client.queries import QueryKind
from askance_client.randomizers import Randomizer


def influence(
    question: Question,
    randomizer: Randomizer,
    answered: int,
    decode: Decode | None = None,
    present: float = 1.0,
) -> Fraction:
    """Bound the change of a value when one of `answered` reports is replaced by another.

    Utility: attained; m such reports move a value by at most m times as much. It is stated for each
    value alone (one report moves several cells at once) and for the raw answer, not for what a
    learner makes of it.

    Returns:
        The greatest change over the values of the answer, in real units of the answer. Of a query
        with a missing level it depends on `present`, the share of users who have the number, as the
        reports show it (`Presence.share`).
    """
    if answered < 1:
        raise InvalidParameter(f"influence: expected 1 answer or more, found {answered}")
    check_suits(question, randomizer)
    if question.over_present:
        return _of_present(question, randomizer, answered, decode, Fraction(present))
    return _range(question, randomizer, decode) / answered


def share_of_numbers(
    question: Question,
    randomizer: Randomizer,
    counts: Sequence[int],
    answered: int,
    decode: Decode | None = None,
) -> float:
    """Estimate the share of users who have the number; 1 of a query without a missing level."""
    if not question.over_present:
        return 1.0
    return float(share_seen(*known_scores(question, randomizer, decode), counts, answered))


def _of_present(
    question: Question,
    randomizer: Randomizer,
    answered: int,
    decode: Decode | None,
    present: Fraction,
) -> Fraction:
    """Bound (da - m db) / (B + db) for any m in [-1, 1], with B the sum of presences."""
    # At most the whole range: so much if one report may decide whether any user has the number.
    table, scores_of = known_scores(question, randomizer, decode)
    symbols = table.randomizer.symbols
    numbers, presences = scores_of[:symbols], scores_of[symbols:]
    left = answered * present - (max(presences) - min(presences))
    sums = ([a - m * b for a, b in zip(numbers, presences, strict=True)] for m in (-1, 1))
    most = max(max(each) - min(each) for each in sums)
    _, half = scale_of(question, table.randomizer.levels)
    return min(half * most / left, question.spread) if left > 0 else question.spread


def _range(question: Question, randomizer: Randomizer, decode: Decode | None) -> Fraction:
    """The distance of the two reports that move a value the most."""
    if decode is not None:
        each = scores(question, check_decode(question, randomizer, decode), 0, decode)
        return max(each) - min(each)
    family = family_of(randomizer)
    if family.signed is not None:
        return 2 / abs(family.signed.sign_gap)  # from + to -
    if isinstance(family, CodebookFamily):  # from a code to its opposite
        radius = Fraction(family.randomizer.radius, 1 << question.query.frac)
        return 2 * radius * Fraction(family.reach)
    rates = family.inclusion(0)
    if rates is not None:
        one = 1 / abs(rates.own - rates.other)
        if question.query.kind is QueryKind.SIGNED:
            return 2 * one  # from the pair's one cell to its other
        numbers = question.query.kind in (QueryKind.REAL, QueryKind.VECTOR)
        return question.spread * one if numbers else one
    if not isinstance(family, TableFamily):
        raise InvalidParameter(f"no influence is known for the family {randomizer.name}")
    every = [scores(question, family, value) for value in range(question.values)]
    return max(max(each) - min(each) for each in every)
