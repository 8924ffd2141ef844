"""Influence of one lying device on an answer."""

from __future__ import annotations

from fractions import Fraction

from askance_aggregator.estimation.statistics import (
    Decode,
    check_decode,
    check_suits,
    scores,
)
from askance_aggregator.families import family_of
from askance_aggregator.learners import Question
from askance_client.errors import InvalidParameter
from askance_client.queries import QueryKind
from askance_client.randomizers import Randomizer


def influence(
    question: Question, randomizer: Randomizer, answered: int, decode: Decode | None = None
) -> Fraction:
    """Bound the change of a value when one of `answered` reports is replaced by another.

    Utility: attained; m such reports move a value by at most m times as much. It is stated for each
    value alone (one report moves several cells at once) and for the raw answer, not for what a
    learner makes of it.

    Args:
        question: the question that the reports answer.
        randomizer: the randomizer of the reports.
        answered: how many reports there are, 1 or more.
        decode: of a designed table.

    Returns:
        The greatest change over the values of the answer, in real units of the answer.

    Raises:
        InvalidParameter: the randomizer does not suit the question, or there is no answer.
    """
    if answered < 1:
        raise InvalidParameter(f"influence: expected 1 answer or more, found {answered}")
    check_suits(question, randomizer)
    return _range(question, randomizer, decode) / answered


def _range(question: Question, randomizer: Randomizer, decode: Decode | None) -> Fraction:
    """The distance of the two reports that move a value the most."""
    if decode is not None:
        each = scores(question, check_decode(question, randomizer, decode), 0, decode)
        return max(each) - min(each)
    family = family_of(randomizer)
    if family.signed is not None:
        return 2 / abs(family.signed.sign_gap)  # from + to -
    rates = family.inclusion(0)
    if rates is not None:
        one = 1 / abs(rates.own - rates.other)
        if question.query.kind is QueryKind.SIGNED:
            return 2 * one  # from the pair's one cell to its other
        numbers = question.query.kind in (QueryKind.REAL, QueryKind.VECTOR)
        return question.spread * one if numbers else one
    if family.table is None:
        raise InvalidParameter(f"no influence is known for the family {randomizer.name}")
    every = [scores(question, family.table, value) for value in range(question.values)]
    return max(max(each) - min(each) for each in every)
