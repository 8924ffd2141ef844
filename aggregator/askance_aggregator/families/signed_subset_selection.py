"""Signed subset selection: tally, estimates, and the set size for a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import perm

from askance_aggregator.families import family
from askance_aggregator.families.comparisons import (
    Atom,
    Comparison,
    Comparisons,
    TwoSymbols,
    merged,
)
from askance_aggregator.families.fitting import check_expressible, check_positive, greatest
from askance_aggregator.families.rates import SignRates
from askance_aggregator.families.sets import set_report, tally_sets
from askance_client.accounting import NANO_NATS_PER_NAT, exp_bounds, ratio_within
from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.randomizer import check_integer
from askance_client.randomizers.signed_levels import MAX_VALUES
from askance_client.randomizers.signed_sets import certified_ratio, even_coins, opposite_coins
from askance_client.randomizers.signed_subset_selection import SignedSubsetSelection

_SIZES_ASIDE = 2

_Level = tuple[int, int]
"""A value and 1 or -1, its sign; the neutral level has no value and the sign 0."""
_NEUTRAL: _Level = (-1, 0)


@family.describes(SignedSubsetSelection)
@dataclass(frozen=True, slots=True)
class SignedSubsetFamily(family.SignedFamily[SignedSubsetSelection]):
    """Aggregator's side of signed subset selection: tally and estimates."""

    @property
    def text(self) -> str:
        return f"signed-subset-selection({self.randomizer.values}, {self.randomizer.size})"

    @property
    def sign_rates(self) -> SignRates:
        """With even draws; a user elsewhere is a neutral one where that is the greater chance."""
        own, other = (
            Fraction(self.randomizer.threshold, COIN_SPACE),
            Fraction(self.randomizer.opposite, COIN_SPACE),
        )
        return SignRates(own, other, max(self._strays))

    @property
    def least_stray(self) -> Fraction:
        """The least chance of `sign_rates.stray`: of a user at another value, as a rule."""
        return min(self._strays)

    def comparisons(self) -> Comparisons | TwoSymbols:
        """Compare the two signs of a value, and signs of two values, by types."""
        # A type says of up to three values whether they are in the set, and with which sign. The
        # neutral level's even coins are taken as exactly even; the bias covers what they lack, and
        # what the draws do (`signed_sets.certified_ratio`).
        d, size = self.randomizer.values, self.randomizer.size
        if d == 1:
            coins = (self.randomizer.threshold, self.randomizer.opposite)
            return TwoSymbols(max(coins), min(coins), COIN_SPACE)
        plus, minus, apart = (0, 1), (0, -1), (1, 1)
        lower = [
            self._comparison(plus, other, rest)
            for other in (minus, apart)
            for rest in (plus, other, (1 + other[0], 1), _NEUTRAL)
            if rest[0] < d
        ]
        upper = [self._comparison(plus, minus), self._comparison(plus, apart)]
        bias = Fraction(size * (2 * d - size - 1) + 4 * d, 2 * COIN_SPACE)
        return Comparisons(upper, lower, bias)

    def _comparison(self, record: _Level, other: _Level, rest: _Level | None = None) -> Comparison:
        """Compare two levels with the other users at `rest`, or beside the least chance."""
        # Chances are in units of even ones over 2^64 size (d - size), or over 2^64 size if
        # size = d. Of all sets (size)_j (d - size)_(g - j) 2^(g - j) parts in (d)_g 2^g have j of
        # g given values with given signs, with falling factorials.
        d, size = self.randomizer.values, self.randomizer.size
        free = d - size or 1
        shares = (self.randomizer.threshold, self.randomizer.opposite)
        own, opposite = (2 * d * coins * free for coins in shares)
        absent, even = (COIN_SPACE - sum(shares)) * d * size, COIN_SPACE * size * free
        least = min(own, opposite, *([absent] if size < d else []))
        values = sorted({level[0] for level in (record, other, rest) if level and level[1]})

        def chance(level: _Level, signs: dict[int, int]) -> int:
            value, sign = level
            if not sign:
                return even
            return {sign: own, -sign: opposite, 0: absent}[signs[value]]

        atoms = []
        for drawn in product((0, 1, -1), repeat=len(values)):
            signs = dict(zip(values, drawn, strict=True))
            out = drawn.count(0)
            sets = perm(size, len(values) - out) * perm(d - size, out) << out
            beside = least if rest is None else chance(rest, signs)
            atoms.append(Atom(chance(record, signs), chance(other, signs), beside, sets))
        total = even * perm(d, len(values)) << len(values)
        return merged(atoms, total, f"{_text(record)} against {_text(other)}, {_others(rest)}")

    def alphabet(self) -> Iterator[bytes]:
        """All C(d, size) 2^size sets with signs."""
        for chosen in combinations(range(self.randomizer.values), self.randomizer.size):
            for signs in product((0, 1), repeat=self.randomizer.size):
                items = (2 * value + minus for value, minus in zip(chosen, signs, strict=True))
                yield set_report(self.randomizer, items)

    def tally(self, reports: family.Reports) -> family.Counts:
        """Count the reports that contain each item: (0, +), (0, -), (1, +), ..."""
        self.check_reports(reports)
        what = f"{self.randomizer.size} of {self.randomizer.values} signed values"
        return tally_sets(self.randomizer, reports, what, signs=2)

    def pointing(
        self, counts: Sequence[int] | family.Counts, n: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The counts of items, by sign."""
        plain = family.check_counts(counts, n, 2 * self.randomizer.values, n * self.randomizer.size)
        return tuple(plain[0::2]), tuple(plain[1::2])

    def value_variance(self) -> Fraction:
        """Return n times the conditional variance averaged over values, for a user at one."""
        own, other = (
            Fraction(self.randomizer.threshold, COIN_SPACE),
            Fraction(self.randomizer.opposite, COIN_SPACE),
        )
        gap = self.sign_gap
        spread = own + other - gap * gap
        if self.randomizer.values > 1:
            spread += (self.randomizer.values - 1) * 2 * self._beside(own + other)
        return Fraction(spread, self.randomizer.values * gap * gap)

    @property
    def _strays(self) -> tuple[Fraction, ...]:
        """P[+ of a value is in] for users elsewhere: neutral ones, and those at another value."""
        neutral = Fraction(self.randomizer.even, COIN_SPACE)
        if self.randomizer.values == 1:
            return (neutral,)
        own_in = Fraction(self.randomizer.threshold + self.randomizer.opposite, COIN_SPACE)
        return neutral, self._beside(own_in), self._beside(2 * neutral)

    def _beside(self, own_in: Fraction) -> Fraction:
        """P[a value that is not the own one is in with +], where the own one is in that often."""
        return Fraction(self.randomizer.size - own_in, 2 * (self.randomizer.values - 1))


@family.makes("signed-subset-selection")
@lru_cache(maxsize=256, typed=True)
def signed_subset_selection(values: int, nano: int) -> SignedSubsetSelection:
    """The signed subset selection that spends a budget with the least second moment.

    Args:
        values: 1..32767.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: values or nano is out of range, or 64-bit coins cannot express nano.
    """
    # The greatest threshold that fits, bias included, is found for the sizes around
    # 2 d / (e^eps - 1); of those the least second moment of a value that the user is not at wins,
    # and the smaller size a tie.
    check_integer("values", values, 1, MAX_VALUES)
    check_positive(nano)
    exponential, _ = exp_bounds(min(nano, 64 * NANO_NATS_PER_NAT), COIN_BITS)
    middle = min((2 * values << COIN_BITS) // max(exponential - COIN_SPACE, 1), values)
    sizes = range(max(1, middle - _SIZES_ASIDE), min(values, middle + 1 + _SIZES_ASIDE) + 1)
    best = min((_fitting(values, size, nano) for size in sizes), key=_second_moment)
    last = opposite_coins(values, best.size, best.threshold + 1) == 0
    check_expressible(best.loss, nano, last)
    return best


def _second_moment(candidate: SignedSubsetSelection) -> tuple[Fraction, int]:
    rates = SignedSubsetFamily(candidate).sign_rates
    return Fraction(2 * rates.stray, (rates.hit - rates.miss) ** 2), candidate.size


def _fitting(values: int, size: int, nano: int) -> SignedSubsetSelection:
    def fits(threshold: int) -> bool:
        numerator, denominator = certified_ratio(values, size, threshold)
        return denominator > 0 and ratio_within(numerator, denominator, nano)

    even = even_coins(values, size)
    threshold = greatest(even + 1, COIN_SPACE - 1, fits)
    if threshold is not None:
        return SignedSubsetSelection(values, size, threshold)
    raise InvalidParameter(
        f"no signed set of {size} in {values} values is as even as {nano} nano-nats ask"
    )


def _text(level: _Level) -> str:
    """Name a level."""
    return f"{'-' if level[1] < 0 else '+'} at value {level[0]}" if level[1] else "neutral"


def _others(level: _Level | None) -> str:
    """Name the level of the other users."""
    return "any others" if level is None else f"others {_text(level)}"
