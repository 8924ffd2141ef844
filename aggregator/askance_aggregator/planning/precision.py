"""Precision of a randomizer for a question: its tail bound and its variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import exp
from typing import Any

from askance_aggregator import estimation
from askance_aggregator.families import (
    CodebookFamily,
    Family,
    SignRates,
    TableFamily,
    best_for,
    family_of,
    hypercube_response,
    k_ary_response,
    shares_for,
    signed_for,
)
from askance_aggregator.learners import Crossing, Question, RatiosKept, SharesKept
from askance_aggregator.planning.blocks import codebook_for
from askance_aggregator.planning.cells import Binomial, JointShares
from askance_aggregator.planning.crossing import Crossed
from askance_aggregator.planning.decided import Decided
from askance_aggregator.planning.designed import designed_tail, figure
from askance_aggregator.planning.present import present_tail, present_variance
from askance_aggregator.planning.ratios import Ratios
from askance_aggregator.planning.scored import Scored
from askance_aggregator.planning.tails import Failure, Tail
from askance_aggregator.planning.ternary import Ternary
from askance_client.errors import InvalidParameter
from askance_client.messages import Conduct
from askance_client.queries import QueryKind
from askance_client.randomizers import COIN_SPACE, KaryResponse, Randomizer
from askance_client.randomizers.channel import MIN_SIDE

MOST_LEVELS = 64  # that a design is called with for a number: its table is inverted exactly

Design = Callable[[int, int], Randomizer]
"""The randomizer for a number of levels and a budget in nano-nats."""


@dataclass(frozen=True, slots=True)
class RoundRules:
    """Rules by which the rounds of a study are planned.

    Args:
        design: the randomizer for a number of levels and a budget.
        waves: in how many parts, fixed in advance, a round's users are asked where it can end
            early; sizes are of all parts together.
        least_answers: users in every group of every round, at least: a group is planned larger
            than its tolerance needs where it would have fewer.
    """

    design: Design = best_for
    waves: int = 1
    least_answers: int = 0

    @classmethod
    def of(cls, conduct: Conduct, design: Design = best_for) -> RoundRules:
        """Return the rules of a study's signed conduct."""
        return cls(design, conduct.waves, conduct.least_answers)


AT_ONCE = RoundRules()
"""Rules of a round that is asked at once, of as few users as its tolerances need."""


def randomizer_of(design: Design, levels: int, nano_nats: int) -> Randomizer:
    """Call a design, and refuse what is no randomizer."""
    randomizer = design(levels, nano_nats)
    if not isinstance(randomizer, Randomizer):
        raise InvalidParameter(
            f"a design expects to return a randomizer, found {type(randomizer).__name__}"
        )
    return randomizer


def candidates(question: Question, nano_nats: int, design: Design) -> tuple[Randomizer, ...]:
    """The randomizers that a plan may choose from for a question; it takes the least need.

    A design of one's own is taken at its word: it is the only one, and is called with the
    question's levels (`design_levels`). The usual one, `best_for`, knows levels only; shares that
    are to be within a tolerance, and signed values, may be answered by randomizers made for them
    too (`shares_for`, `signed_for`), and a real value takes one bit (Duchi). A vector takes a
    hypercube response, or the codebook of `codebook_for`, whatever the design: no table holds its
    levels.
    """
    kind = question.query.kind
    if kind is QueryKind.VECTOR:
        book = codebook_for(question, nano_nats)
        return (book or hypercube_response(question.query.components, nano_nats),)
    of_sums = kind is QueryKind.CATEGORY and isinstance(question.decision, Crossing)
    if of_sums and design is best_for:
        return (k_ary_response(question.values, nano_nats),)  # the law of sums of shares is known
    one_bit = design is best_for and kind is QueryKind.REAL
    levels = MIN_SIDE if one_bit else design_levels(question)
    randomizer = randomizer_of(design, levels, nano_nats)
    estimation.check_suits(question, randomizer)
    if design is best_for and _of_shares(question) and question.tau is not None:
        return (randomizer, *shares_for(question.values, nano_nats))
    if design is best_for and question.query.kind is QueryKind.SIGNED:
        return (randomizer, *signed_for(question.values, nano_nats))
    return (randomizer,)


def _of_shares(question: Question) -> bool:
    """Return whether the shares of a category are wanted, and no conclusion from them."""
    every = question.decision is None or isinstance(question.decision, SharesKept)
    return question.query.kind is QueryKind.CATEGORY and every


def design_levels(question: Question) -> int:
    """Return the number of levels that a design is called with.

    A category and signed values have a level per cell, a predicate two. A real value has a level
    per possible value, at most 64; a design may return a table of any number of levels, onto which
    numbers are rounded at random.
    """
    query = question.query
    return estimation.levels_of(question) or min(query.high - query.low + 1, MOST_LEVELS)


def tail_of(
    question: Question, randomizer: Randomizer, decode: estimation.Decode | None = None
) -> Tail:
    """The worst tail of a value of the answer, among populations that keep the promise.

    The shares of a category have one for all of them (`JointShares`), where each is read off a
    count. With decode values that were designed with a table, the tail is that of the question's
    aim. For a question with a decision it is that of the decision (`Decided`).
    """
    estimation.check_suits(question, randomizer)
    if isinstance(question.decision, Crossing):
        return _crossed(question, question.decision, randomizer)
    if isinstance(question.decision, RatiosKept):
        return _of_ratios(question, question.decision, randomizer)
    of_value = _value_tail(question, randomizer, decode)
    if isinstance(question.decision, SharesKept) and isinstance(of_value, JointShares):
        return replace(of_value, values=question.decision.values)
    return of_value if question.decision is None else Decided(of_value, question.decision)


def _value_tail(
    question: Question, randomizer: Randomizer, decode: estimation.Decode | None
) -> Tail:
    """Make the tail of one value by the kind of question and the family of the randomizer."""
    if question.over_present:
        return present_tail(question, *estimation.known_scores(question, randomizer, decode))
    if decode is not None:
        return designed_tail(
            question, estimation.check_decode(question, randomizer, decode).randomizer, decode
        )
    mass = question.cell_mass if question.cell_mass is not None else Fraction(1)
    family = family_of(randomizer)
    if isinstance(family, CodebookFamily):
        radius = family.randomizer.radius / (1 << question.query.frac)
        variance = radius * radius * family.greatest_variance
        return BoundedTerms(variance, radius * (1 + family.reach))
    rates = family.inclusion(1)
    if rates is None and family.signed is None:
        return _scored(question, family)
    if rates is None or question.query.kind is QueryKind.SIGNED:
        return _of_pairs(family, mass)
    if question.query.kind in (QueryKind.REAL, QueryKind.VECTOR):
        mass = Fraction(1)  # no cells, so no promise about them
    gap = rates.own - rates.other
    ends = sorted((rates.other, rates.other + mass * gap))
    of_one = Binomial(float(ends[0]), float(ends[1]), float(abs(gap) / question.spread))
    if not _of_shares(question):
        return of_one
    alike = family.has_one_count
    return JointShares(of_one, question.values, alike) if alike or gap > 0 else of_one


def _crossed(question: Question, decision: Crossing, randomizer: Randomizer) -> Tail:
    """Make the tail of the sides of levels; without known rates, by a table's scores."""
    family = family_of(randomizer)
    coin = randomizer.levels == 2
    rates = family.inclusion(1) if coin or isinstance(randomizer, KaryResponse) else None
    if rates is not None and rates.own > rates.other and coin == (decision.values == 1):
        ends = float(rates.own), float(rates.other), float(question.bounds[0])
        return Crossed(decision, *ends, float(question.spread), float(question.present))
    if decision.values == 1:
        return Decided(_value_tail(question, randomizer, None), decision)
    raise InvalidParameter(
        f"a level that sums of shares pass: expected k-ary response, got {randomizer.name}"
    )


def _of_ratios(question: Question, decision: RatiosKept, randomizer: Randomizer) -> Ratios:
    """Make the tail of a number's mean, one of whose two components is in this block."""
    rates = family_of(randomizer).inclusion(0)
    if rates is None or question.values > decision.pairs:
        raise InvalidParameter(
            "a mean over the users who have a number: expected its two components told by sign"
            f" patterns of different users, got {randomizer.name} of {question.values} components"
        )
    return Ratios(float(rates.own - rates.other), float(decision.present))


def _of_pairs(family: Family[Any], mass: Fraction) -> Tail:
    """Make the tail of signed values: one coin if every report has a sign there, else `Ternary`."""
    pair = pair_rates(family.randomizer)
    gap = pair.hit - pair.miss
    if pair.hit + pair.miss == 2 * pair.stray == 1:
        # W = 2 X - 1, E[X] = (1 + gap g) / 2.
        reach = mass * abs(gap) / 2
        return Binomial(float(1 - 2 * reach) / 2, float(1 + 2 * reach) / 2, float(abs(gap)) / 2)
    least = None if family.least_stray is None else float(family.least_stray)
    return Ternary(float(pair.hit), float(pair.miss), float(pair.stray), float(mass), least)


@lru_cache(maxsize=64)
def pair_rates(randomizer: Randomizer) -> SignRates:
    """Compute `Family.pair_rates`, once per randomizer."""
    return family_of(randomizer).pair_rates()


def n_variance(
    question: Question, randomizer: Randomizer, decode: estimation.Decode | None = None
) -> Fraction:
    """Return n times the variance of one value of the answer, n the users asked this question.

    The unit is the square of the answer's, for every kind of question: sqrt(n_variance / n) is a
    standard error in the unit of `Question.tau` (shares are in [0, 1], signed values in [-1, 1],
    numbers in their range). Of which variance it is:

    - a vector of a bounded length, by directions: the second moment of a component, averaged over
      the components of the longest vectors;
    - a real value or a component of a vector: the worst population's, from the middle of the range
      (C^2 for one bit, times the square of half the range); of decode values that were designed
      with a table, what they were designed for: the worst conditional variance, or the second
      moment under the prior;
    - a number that may be missing: that of the mean over users who have it, at the promised share;
    - a predicate: conditional on the users at hand, the worst of them;
    - the shares of cells: the same averaged over cells, where it is alike for every truth;
    - signed values: the same averaged over the pairs, for users each of whom is in a signed cell.
    """
    kind, half = question.query.kind, question.spread / 2
    if question.over_present:
        return half**2 * present_variance(
            question, *estimation.known_scores(question, randomizer, decode)
        )
    if decode is not None:
        table = estimation.check_decode(question, randomizer, decode)
        return half**2 * figure(question, table.randomizer, decode)
    family = family_of(randomizer)
    if kind is QueryKind.SIGNED:
        return _signed_variance(question, family)
    if isinstance(family, CodebookFamily):
        radius = Fraction(family.randomizer.radius, 1 << question.query.frac)
        return radius * radius * Fraction(family.component_variance)
    if kind is QueryKind.VECTOR:
        rates = family.inclusion(0)
        assert rates is not None, "a family of sign patterns counts components"
        return half**2 / (rates.own - rates.other) ** 2
    if not isinstance(family, TableFamily) or kind is QueryKind.CATEGORY:
        return family.frequency_variance()
    values = estimation.scores(question, family, 0)
    if kind is QueryKind.PREDICATE:
        return max(family.conditional_variance(level, values) for level in range(2))
    middle = question.bounds[0] + half
    centred = [score - middle for score in values]
    return max(family.second_moment(level, centred) for level in range(randomizer.levels))


def randomizer_text(randomizer: Randomizer) -> str:
    """Return `Family.text`: "randomized-response", "subset-selection(17, 2)"."""
    return family_of(randomizer).text


def _scored(question: Question, family: Family[Any]) -> Scored:
    if not isinstance(family, TableFamily):
        raise InvalidParameter(f"no tail is known for the family {family.randomizer.name}")
    rows = tuple(tuple(entry / COIN_SPACE for entry in row) for row in family.randomizer.table)
    each = (estimation.scores(question, family, value) for value in range(question.values))
    return Scored(rows, tuple(tuple(map(float, values)) for values in each))


def _signed_variance(question: Question, family: Family[Any]) -> Fraction:
    if isinstance(family, TableFamily):
        return _signed_table_variance(question, family)
    if family.signed is not None:
        return family.signed.value_variance()
    pair = pair_rates(family.randomizer)
    gap = pair.hit - pair.miss
    at_pair = pair.hit + pair.miss - gap * gap
    return (at_pair + (question.values - 1) * 2 * pair.stray) / (question.values * gap * gap)


def _signed_table_variance(question: Question, channel: TableFamily) -> Fraction:
    cells = 2 * question.values
    total = sum(
        (
            channel.conditional_variance(cell, estimation.scores(question, channel, value))
            for cell in range(cells)
            for value in range(question.values)
        ),
        Fraction(),
    )
    return total / (cells * question.values)


@dataclass(frozen=True, slots=True)
class BoundedTerms(Tail):
    """A term has at most this variance, and is at most `reach` from its mean (Bernstein)."""

    variance: float
    reach: float

    def exponent(self, tau: float) -> float:
        """Bernstein's exponent."""
        return tau * tau / (2 * (self.variance + self.reach * tau / 3))

    def failure(self, tau: float) -> Failure:
        """Bernstein's bound, on both sides."""
        rate = self.exponent(tau)
        return lambda users: 2 * exp(-users * rate)
