"""How exactly a randomizer answers a question: its tail bound and its variance."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from askance.aggregator.estimation import check_suits, inclusion, levels_of, scores
from askance.aggregator.learners import Question
from askance.aggregator.planning.tails import Binomial, Bounded, Tail, Ternary
from askance.client.errors import InvalidParameter
from askance.client.queries import QueryKind
from askance.client.randomizers import Channel, KaryResponse, Randomizer, SubsetSelection

Design = Callable[[int, int], Randomizer]
"""The randomizer for a number of levels and a budget in nano-nats."""


class PairRates(NamedTuple):
    """P[one given cell of a pair is in the report and the other is not].

    Args:
        hit: the given cell is the user's own.
        miss: the other cell is the user's own.
        stray: neither is.
    """

    hit: Fraction
    miss: Fraction
    stray: Fraction


def design_for(question: Question, nano_nats: int, design: Design) -> Randomizer:
    """The randomizer that answers a question at a budget; a real value takes one bit (Duchi)."""
    randomizer = design(levels_of(question) or 2, nano_nats)
    if not isinstance(randomizer, Randomizer):
        raise InvalidParameter(
            f"a design expects to return a randomizer, found {type(randomizer).__name__}"
        )
    check_suits(question, randomizer)
    return randomizer


def tail_of(question: Question, randomizer: Randomizer) -> Tail:
    """The worst tail of a value of the answer, among populations that keep the promise."""
    check_suits(question, randomizer)
    mass = question.cell_mass if question.cell_mass is not None else Fraction(1)
    rates = inclusion(randomizer, 1)
    if rates is None:
        return Bounded(_widest_scores(question, randomizer))
    if question.query.kind is QueryKind.SIGNED:
        pair = pair_rates(randomizer)
        return Ternary(float(pair.hit), float(pair.miss), float(pair.stray), float(mass))
    if question.query.kind is QueryKind.REAL:
        mass = Fraction(1)  # no cells, so no promise about them
    gap = rates.own - rates.other
    ends = sorted((rates.other, rates.other + mass * gap))
    return Binomial(float(ends[0]), float(ends[1]), float(abs(gap) / question.spread))


@lru_cache(maxsize=64)
def pair_rates(randomizer: Randomizer) -> PairRates:
    """How two cells of one report differ.

    Raises:
        InvalidParameter: the family is neither k-ary response nor subset selection.
    """
    if isinstance(randomizer, KaryResponse):
        own, other = randomizer.rates.own, randomizer.rates.other
        return PairRates(own, other, other)
    if not isinstance(randomizer, SubsetSelection):
        raise InvalidParameter(f"no pairs are known for the family {randomizer.name}")
    own, size, rest = randomizer.rates.own, randomizer.size, randomizer.cells - 1
    with_own = Fraction(size - 1, rest)  # another given cell is in, if the own one is
    without = Fraction(size, rest)  # the same, if it is not
    stray = own * with_own * (1 - Fraction(size - 2, rest - 1)) + (1 - own) * without * (
        1 - Fraction(size - 1, rest - 1)
    )
    return PairRates(own * (1 - with_own), (1 - own) * without, stray)


def n_variance(question: Question, randomizer: Randomizer) -> Fraction:
    """n times the variance of one value of the answer, n the users asked this question.

    A real value, scaled to [-1, 1]: the worst second moment (what counts for a population; C^2 for
    one bit). A predicate, in [0, 1], and the shares of cells: conditional on the users at hand,
    averaged over cells, where it is the same for every truth. Signed values: the same, averaged
    over the pairs, for users each of whom is in a signed cell.
    """
    kind = question.query.kind
    if kind is QueryKind.REAL and isinstance(randomizer, Channel):
        low, half = question.bounds[0], question.spread / 2
        values = [(score - low) / half - 1 for score in scores(question, randomizer, 0)]
        return max(randomizer.second_moment(level, values) for level in range(randomizer.levels))
    if kind is not QueryKind.SIGNED:
        return randomizer.frequency_variance()
    if isinstance(randomizer, Channel):
        return _signed_table_variance(question, randomizer)
    pair = pair_rates(randomizer)
    gap = pair.hit - pair.miss
    at_pair = pair.hit + pair.miss - gap * gap
    return (at_pair + (question.values - 1) * 2 * pair.stray) / (question.values * gap * gap)


def randomizer_text(randomizer: Randomizer) -> str:
    """A randomizer in a few words: "randomized-response", "subset-selection(17, 2)"."""
    if isinstance(randomizer, KaryResponse):
        return f"k-ary-response({randomizer.cells})"
    if isinstance(randomizer, SubsetSelection):
        return f"subset-selection({randomizer.cells}, {randomizer.size})"
    if isinstance(randomizer, Channel):
        table = randomizer.table
        if randomizer.levels == randomizer.symbols == 2 and table[0] == table[1][::-1]:
            return "randomized-response"
        return f"channel({randomizer.levels}, {randomizer.symbols})"
    return randomizer.name


def _widest_scores(question: Question, randomizer: Randomizer) -> float:
    if not isinstance(randomizer, Channel):
        raise InvalidParameter(f"no tail is known for the family {randomizer.name}")
    spans = []
    for value in range(question.values):
        each = scores(question, randomizer, value)
        spans.append(max(each) - min(each))
    return float(max(spans))


def _signed_table_variance(question: Question, channel: Channel) -> Fraction:
    cells = 2 * question.values
    total = sum(
        (
            channel.conditional_variance(cell, scores(question, channel, value))
            for cell in range(cells)
            for value in range(question.values)
        ),
        Fraction(),
    )
    return total / (cells * question.values)
