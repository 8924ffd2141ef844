"""Contribution of each report to an answer's value.

For the symmetric families and for a table of two levels and two symbols the value is read off one
count: each report contains the cell with probability `own` for a user at the cell and `other` for
any other user, so the count is binomial (`Family.inclusion`). A family of signed values points to
+, to - or to neither (`SignedFamily.pointing`). For any other table a value is the mean of a score
a report (`scores`), exactly unbiased by the table's left inverse.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from askance_aggregator.estimation.present import check_present
from askance_aggregator.families import TableFamily, family_of
from askance_aggregator.learners import Question
from askance_aggregator.queries import fits_missing_level, number_in
from askance_client.errors import InvalidParameter
from askance_client.queries import Query, QueryKind
from askance_client.randomizers import Randomizer

MAX_BIAS = Fraction(1, 10**6)  # of decode values, in half ranges

Scores = tuple[Fraction, ...]

Decode = tuple[Fraction, ...]
"""Decode values that were designed with a table for a number, one a symbol, on [-1, 1]."""


def levels_of(question: Question) -> int | None:
    """Return the levels of a randomizer for the question; None of a real value and of a vector.

    Of a query with a missing level they are the fewest of which the last is reached by no number.
    """
    if question.over_present:
        low, high = question.query.low, question.query.high
        return 1 - (low - high) // (high - number_in(question.query).high)
    if question.query.kind in (QueryKind.REAL, QueryKind.VECTOR):
        return None
    return int(question.query.cells)


def check_suits(question: Question, randomizer: Randomizer) -> None:
    """Refuse a randomizer whose levels are not the question's."""
    kind = question.query.kind
    expected = None if kind is QueryKind.REAL else levels_of(question)
    family = family_of(randomizer)
    if family.signed is not None and kind is not QueryKind.SIGNED:
        raise InvalidParameter(
            f"{randomizer.name} expects a question of signed values, found one of kind {kind.name}"
        )
    if randomizer.vector_components != (question.values if kind is QueryKind.VECTOR else 0):
        raise InvalidParameter(
            f"{kind.name} question of {question.values} values: expected a randomizer of as many"
            f" components, or of levels, got {randomizer.name} of {randomizer.vector_components}"
            " components"
        )
    if kind is QueryKind.VECTOR:
        return
    if expected is None:
        if not isinstance(family, TableFamily):
            raise InvalidParameter(f"a real value expects a table, found {randomizer.name}")
    elif randomizer.levels != expected:
        raise InvalidParameter(
            f"the question has {expected} levels, the randomizer {randomizer.levels}"
        )


def check_decode(question: Question, randomizer: Randomizer, decode: Decode) -> TableFamily:
    """Refuse decode values that are not unbiased for a table and a number.

    Returns:
        The table. Its expectations run from -1 to 1 exactly, and are elsewhere within `MAX_BIAS` of
        its equally spaced levels; of a query with a missing level, see `present.check_present`.
    """
    table = family_of(randomizer)
    if question.over_present:
        return known_scores(question, randomizer, decode)[0]
    if question.query.kind is not QueryKind.REAL or not isinstance(table, TableFamily):
        raise InvalidParameter(
            f"decode values are of a table for a number, found {randomizer.name} for a question of"
            f" kind {question.query.kind.name}"
        )
    bias_of(table, decode)
    return table


@lru_cache(maxsize=64)
def bias_of(channel: TableFamily, decode: Decode) -> Fraction:
    """The most that decode values are off in expectation, in half ranges."""
    grid, bias = channel.moved_grid(decode), channel.bias(decode)
    if grid[0] != -1 or grid[-1] != 1 or bias > MAX_BIAS:
        raise InvalidParameter(
            "decode values expect to be unbiased for their table,"
            f" got a bias of {float(bias):g} half ranges"
        )
    return bias


@lru_cache(maxsize=64)
def inverse_scores(channel: TableFamily) -> Decode:
    """Both scores of a table with a level for "missing", by its left inverse.

    They are unbiased for any such table; for one that was designed there are better ones.
    """
    shares = share_scores(channel)
    last = len(shares) - 2
    points = [Fraction(2 * level, last) - 1 for level in range(last + 1)]
    numbers = tuple(
        sum((point * share for point, share in zip(points, symbol, strict=True)), Fraction())
        for symbol in zip(*shares[:-1], strict=True)
    )
    presences = tuple(sum(symbol, Fraction()) for symbol in zip(*shares[:-1], strict=True))
    return numbers + presences


def recorded_question(query: Query, randomizer: Randomizer, decode: Decode | None) -> Question:
    """Restore from a recorded request what its answer's range and scores depend on.

    Only a mean over the users who have the number has two decode values per symbol. The question
    has no tolerance, aim or decision.
    """
    table = family_of(randomizer)
    if (
        not isinstance(table, TableFamily)
        or decode is None
        or len(decode) != 2 * table.randomizer.symbols
    ):
        return Question(query, over_present=False)
    return Question(query, over_present=fits_missing_level(query))


def known_scores(
    question: Question, randomizer: Randomizer, decode: Decode | None
) -> tuple[TableFamily, Decode]:
    """The table of a query with a missing level, and its scores: the given or the inverse's."""
    table = family_of(randomizer)
    if not isinstance(table, TableFamily):
        raise InvalidParameter(f"a real value expects a table, found {randomizer.name}")
    known = inverse_scores(table) if decode is None else decode
    check_present(question, table, known)
    return table, known


@lru_cache(maxsize=64)
def share_scores(channel: TableFamily) -> tuple[Scores, ...]:
    """For each level what each symbol contributes to its share: the table's left inverse."""
    columns = []
    symbols = channel.randomizer.symbols
    for symbol in range(symbols):
        one = [int(y == symbol) for y in range(symbols)]
        columns.append(channel.frequencies(one, 1))
    return tuple(zip(*columns, strict=True))


def scores(
    question: Question, channel: TableFamily, value: int, decode: Decode | None = None
) -> Scores:
    """Compute the contribution of each symbol to a value of the answer, in real units.

    A real value stands on equally spaced levels from its low to its high end.
    """
    if decode is not None:
        low, half = question.bounds[0], question.spread / 2
        return tuple(low + half * (value + 1) for value in decode)
    shares = share_scores(channel)
    kind = question.query.kind
    if kind is QueryKind.SIGNED:
        pairs = zip(shares[2 * value], shares[2 * value + 1], strict=True)
        return tuple(plus - minus for plus, minus in pairs)
    if kind is QueryKind.REAL:
        low, step = question.bounds[0], question.spread / (channel.randomizer.levels - 1)
        points = [low + step * level for level in range(channel.randomizer.levels)]
        return tuple(
            sum((point * share for point, share in zip(points, symbol, strict=True)), Fraction())
            for symbol in zip(*shares, strict=True)
        )
    return shares[1] if kind is QueryKind.PREDICATE else shares[value]
