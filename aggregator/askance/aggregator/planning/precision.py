"""Precision of a randomizer for a question: its tail bound and its variance."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from askance.aggregator.estimation import (
    Decode,
    check_decode,
    check_suits,
    inclusion,
    levels_of,
    scores,
)
from askance.aggregator.learners import Question
from askance.aggregator.planning.binomial import Binomial
from askance.aggregator.planning.designed import designed_tail, figure
from askance.aggregator.planning.scored import Scored
from askance.aggregator.planning.tails import Tail
from askance.aggregator.planning.ternary import Ternary
from askance.client.errors import InvalidParameter
from askance.client.queries import QueryKind
from askance.client.randomizers import (
    COIN_SPACE,
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    Randomizer,
    SignedRandomizer,
    SignedSubsetSelection,
    SignRates,
    SubsetSelection,
    best_for,
    hypercube_response,
    signed_for,
)

Design = Callable[[int, int], Randomizer]
"""The randomizer for a number of levels and a budget in nano-nats."""


def candidates(question: Question, nano_nats: int, design: Design) -> tuple[Randomizer, ...]:
    """The randomizers that a plan may choose from for a question; it takes the least need.

    A design of one's own is taken at its word: it is the only one. The usual one, `best_for`, knows
    levels only; signed values may be answered by randomizers made for them too (`signed_for`). A
    real value takes one bit (Duchi), and a vector a hypercube response, whatever the design: no
    table holds its patterns.
    """
    if question.query.kind is QueryKind.VECTOR:
        return (hypercube_response(question.query.components, nano_nats),)
    randomizer = design(levels_of(question) or 2, nano_nats)
    if not isinstance(randomizer, Randomizer):
        raise InvalidParameter(
            f"a design expects to return a randomizer, found {type(randomizer).__name__}"
        )
    check_suits(question, randomizer)
    if design is best_for and question.query.kind is QueryKind.SIGNED:
        return (randomizer, *signed_for(question.values, nano_nats))
    return (randomizer,)


def tail_of(question: Question, randomizer: Randomizer, decode: Decode | None = None) -> Tail:
    """The worst tail of a value of the answer, among populations that keep the promise.

    Of decode values that were designed with a table, of what the question is for.
    """
    check_suits(question, randomizer)
    if decode is not None:
        return designed_tail(question, check_decode(question, randomizer, decode), decode)
    mass = question.cell_mass if question.cell_mass is not None else Fraction(1)
    rates = inclusion(randomizer, 1)
    if rates is None and not isinstance(randomizer, SignedRandomizer):
        return _scored(question, randomizer)
    if rates is None or question.query.kind is QueryKind.SIGNED:
        return _of_pairs(randomizer, mass)
    if question.query.kind in (QueryKind.REAL, QueryKind.VECTOR):
        mass = Fraction(1)  # no cells, so no promise about them
    gap = rates.own - rates.other
    ends = sorted((rates.other, rates.other + mass * gap))
    return Binomial(float(ends[0]), float(ends[1]), float(abs(gap) / question.spread))


def _of_pairs(randomizer: Randomizer, mass: Fraction) -> Tail:
    """Signed values: a coin where every report points to + or to -, else the three of `Ternary`."""
    pair = pair_rates(randomizer)
    gap = pair.hit - pair.miss
    if pair.hit + pair.miss == 2 * pair.stray == 1:
        # W = 2 X - 1, E[X] = (1 + gap g) / 2.
        reach = mass * abs(gap) / 2
        return Binomial(float(1 - 2 * reach) / 2, float(1 + 2 * reach) / 2, float(abs(gap)) / 2)
    least = None
    if isinstance(randomizer, LinearHashing):
        least = float(min(_hashed_strays(randomizer)))
    if isinstance(randomizer, SignedSubsetSelection):
        least = float(randomizer.least_stray)
    return Ternary(float(pair.hit), float(pair.miss), float(pair.stray), float(mass), least)


@lru_cache(maxsize=64)
def pair_rates(randomizer: Randomizer) -> SignRates:
    """P[one given cell of a pair is in the report and the other is not].

    "Elsewhere" is any third cell; where that is not the same for all (linear hashing), the greatest
    chance counts, which is the worst for a tail (`Ternary`).

    Raises:
        InvalidParameter: no such rates are known of the family.
    """
    if isinstance(randomizer, SignedRandomizer):
        return randomizer.sign_rates
    if isinstance(randomizer, KaryResponse):
        own, other = randomizer.rates.own, randomizer.rates.other
        return SignRates(own, other, other)
    if isinstance(randomizer, LinearHashing):
        return _hashed_pair_rates(randomizer)
    if not isinstance(randomizer, SubsetSelection):
        raise InvalidParameter(f"no pairs are known for the family {randomizer.name}")
    own, size, rest = randomizer.rates.own, randomizer.size, randomizer.cells - 1
    with_own = Fraction(size - 1, rest)  # another given cell is in, if the own one is
    without = Fraction(size, rest)  # the same, if it is not
    stray = own * with_own * (1 - Fraction(size - 2, rest - 1)) + (1 - own) * without * (
        1 - Fraction(size - 1, rest - 1)
    )
    return SignRates(own * (1 - with_own), (1 - own) * without, stray)


def _hashed_pair_rates(randomizer: LinearHashing) -> SignRates:
    """Compute `pair_rates` for linear hashing."""
    own, other = Fraction(randomizer.own, COIN_SPACE), Fraction(randomizer.other, COIN_SPACE)
    apart = 1 - randomizer.collisions
    return SignRates(own * apart, other * apart, max(_hashed_strays(randomizer)))


def _hashed_strays(randomizer: LinearHashing) -> tuple[Fraction, Fraction]:
    """P[+ is supported and - is not | the user is at a third cell], of the two kinds of that.

    With p the own value's chance, r each other's: the user at u reports value a.u + d, d = 0 with
    chance p. It supports + if a.(x - u) = d, and - if a.(y - u) = d. If x - u and y - u are
    independent vectors, both hold for q^(t-2) - 1 hashes at d = 0 and q^(t-2) at each other d; if
    they are proportional, for q^(t-1) - 1 at d = 0 only.
    """
    own, other = Fraction(randomizer.own, COIN_SPACE), Fraction(randomizer.other, COIN_SPACE)
    q, vectors, one = randomizer.modulus, randomizer.vectors, randomizer.rates.other
    both = own * (vectors // (q * q) - 1) + (q - 1) * other * (vectors // (q * q))
    return one - both / (vectors - 1), one - own * randomizer.collisions


def n_variance(
    question: Question, randomizer: Randomizer, decode: Decode | None = None
) -> Fraction:
    """n times the variance of one value of the answer, n the users asked this question.

    A real value, or a component of a vector, scaled to [-1, 1]: the worst second moment (what
    counts for a population; C^2 for one bit), or of decode values that were designed with a table
    what they were designed for: the worst conditional variance, or the second moment under the
    prior. A predicate, in [0, 1], and the shares of cells:
    conditional on the users at hand, averaged over cells, where it is the same for every truth.
    Signed values: the same, averaged over the pairs, for users each of whom is in a signed cell.
    """
    kind = question.query.kind
    if decode is not None:
        return figure(question, check_decode(question, randomizer, decode), decode)
    if kind is QueryKind.REAL and isinstance(randomizer, Channel):
        low, half = question.bounds[0], question.spread / 2
        values = [(score - low) / half - 1 for score in scores(question, randomizer, 0)]
        return max(randomizer.second_moment(level, values) for level in range(randomizer.levels))
    if isinstance(randomizer, HypercubeResponse):
        return 1 / randomizer.agreement**2
    if kind is not QueryKind.SIGNED:
        return randomizer.frequency_variance()
    if isinstance(randomizer, Channel):
        return _signed_table_variance(question, randomizer)
    if isinstance(randomizer, SignedRandomizer):
        return randomizer.value_variance()
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
    if isinstance(randomizer, LinearHashing):
        return f"linear-hashing({randomizer.cells}, {randomizer.modulus})"
    if isinstance(randomizer, HadamardSign):
        return f"hadamard-sign({randomizer.values})"
    if isinstance(randomizer, SignedSubsetSelection):
        return f"signed-subset-selection({randomizer.values}, {randomizer.size})"
    if isinstance(randomizer, HypercubeResponse):
        return f"hypercube({randomizer.components}, {randomizer.radius})"
    if isinstance(randomizer, Channel):
        table = randomizer.table
        if randomizer.levels == randomizer.symbols == 2 and table[0] == table[1][::-1]:
            return "randomized-response"
        return f"channel({randomizer.levels}, {randomizer.symbols})"
    return randomizer.name


def _scored(question: Question, randomizer: Randomizer) -> Scored:
    if not isinstance(randomizer, Channel):
        raise InvalidParameter(f"no tail is known for the family {randomizer.name}")
    rows = tuple(tuple(entry / COIN_SPACE for entry in row) for row in randomizer.table)
    each = (scores(question, randomizer, value) for value in range(question.values))
    return Scored(rows, tuple(tuple(map(float, values)) for values in each))


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
