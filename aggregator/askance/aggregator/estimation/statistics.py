"""Of what an answer's value is made, report by report.

For the symmetric families and for a table of two levels and two symbols the value is read off one
count: each report contains the cell with probability `own` for a user at the cell and `other` for
any other user, so the count is binomial (`inclusion`). For any other table a value is the mean of
a score a report (`scores`), exactly unbiased by the table's left inverse.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from askance.aggregator.learners import Question
from askance.client.errors import InvalidParameter
from askance.client.queries import QueryKind
from askance.client.randomizers import (
    COIN_SPACE,
    Channel,
    KaryResponse,
    Randomizer,
    SubsetSelection,
)

Scores = tuple[Fraction, ...]


class Inclusion(NamedTuple):
    """P[the report contains the cell], for a user at the cell and for another user."""

    own: Fraction
    other: Fraction


def levels_of(question: Question) -> int | None:
    """How many levels a randomizer for the question has; None: any number (a real value)."""
    if question.query.kind is QueryKind.REAL:
        return None
    return int(question.query.cells)


def check_suits(question: Question, randomizer: Randomizer) -> None:
    """Refuses a randomizer whose levels are not the question's.

    Raises:
        InvalidParameter: they differ, or a real value meets a randomizer without equal steps.
    """
    expected = levels_of(question)
    if expected is None:
        if not isinstance(randomizer, Channel):
            raise InvalidParameter(f"a real value expects a table, found {randomizer.name}")
    elif randomizer.levels != expected:
        raise InvalidParameter(
            f"the question has {expected} levels, the randomizer {randomizer.levels}"
        )


def inclusion(randomizer: Randomizer, level: int) -> Inclusion | None:
    """The two rates of the count that shows a level's share; None where no one count does."""
    if isinstance(randomizer, KaryResponse | SubsetSelection):
        rates = randomizer.rates
        return Inclusion(rates.own, rates.other)
    if isinstance(randomizer, Channel) and randomizer.levels == randomizer.symbols == 2:
        own, other = randomizer.table[level][level], randomizer.table[1 - level][level]
        return Inclusion(Fraction(own, COIN_SPACE), Fraction(other, COIN_SPACE))
    return None


@lru_cache(maxsize=64)
def share_scores(channel: Channel) -> tuple[Scores, ...]:
    """For each level what each symbol contributes to its share: the table's left inverse."""
    columns = []
    for symbol in range(channel.symbols):
        one = [int(y == symbol) for y in range(channel.symbols)]
        columns.append(channel.frequencies(one, 1))
    return tuple(zip(*columns, strict=True))


def scores(question: Question, channel: Channel, value: int) -> Scores:
    """What each symbol contributes to a value of the answer, in real units.

    A real value stands on equally spaced levels from its low to its high end.
    """
    shares = share_scores(channel)
    kind = question.query.kind
    if kind is QueryKind.SIGNED:
        pairs = zip(shares[2 * value], shares[2 * value + 1], strict=True)
        return tuple(plus - minus for plus, minus in pairs)
    if kind is QueryKind.REAL:
        low, step = question.bounds[0], question.spread / (channel.levels - 1)
        points = [low + step * level for level in range(channel.levels)]
        return tuple(
            sum((point * share for point, share in zip(points, symbol, strict=True)), Fraction())
            for symbol in zip(*shares, strict=True)
        )
    return shares[1] if kind is QueryKind.PREDICATE else shares[value]
