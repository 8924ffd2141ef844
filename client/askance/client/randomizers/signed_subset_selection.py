"""Signed subset selection: a random set of signed values that favours the own one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import comb
from typing import ClassVar

import numpy as np

from askance.client.accounting import NANO_NATS_PER_NAT, exp_bounds, ratio_within
from askance.client.errors import InvalidParameter
from askance.client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance.client.randomizers.fitting import check_expressible, check_positive, greatest
from askance.client.randomizers.floyd import draw_members
from askance.client.randomizers.loss import PrivacyLoss
from askance.client.randomizers.randomizer import (
    Counts,
    Reports,
    check_counts,
    check_integer,
)
from askance.client.randomizers.signed_randomizer import (
    SignedRandomizer,
    SignRates,
    check_values,
)
from askance.client.randomizers.signed_sets import certified_ratio, even_coins, opposite_coins

_TALLY_ROWS = 1 << 14  # reports unpacked at a time: bounds memory, changes no count
_SIZES_ASIDE = 2


@dataclass(frozen=True, slots=True)
class SignedSubsetSelection(SignedRandomizer):
    """Reports `size` of the values, each with a sign: the own one with its own sign by preference.

    For a user at s of value j the report contains (j, s) with probability threshold / 2^64 and
    (j, -s) with `opposite` / 2^64; the rest of it is even. So all reports with (j, s) are alike,
    and so are all others, with (j, -s) or without j, but for the rounding of `opposite`. To a
    neutral user all reports are alike: value 0 stands for the own one, by even chances.

    A report is a bitmap of ceil(2 d / 8) bytes, canonical because a set has no order in it: (j, +)
    is item 2j and (j, -) item 2j + 1, item v is bit 7 - v % 8 of byte v // 8, trailing bits are 0.
    As no value has both signs, it is never all ones.

    Privacy: pure eps-LDP, replace-one; the loss is the greatest ratio of the levels' chances of a
    report, of which there are five (`signed_sets.certified_ratio`), enlarged by what the draws are
    short of even.
    Utility: unbiased; with x = size / (2 d) the second moment of a value that a user is not at is
    2 (1 + (e^eps - 1) x)^2 / ((e^eps - 1)^2 x), at best 8 / (e^eps - 1), for size near
    2 d / (e^eps - 1): below the C^2 of one sign (`HadamardSign`) from eps = ln 3 on.

    Args:
        values: d, 1..32767.
        size: 1..d.
        threshold: 1..2^64-1.

    Raises:
        InvalidParameter: they are not, or the threshold leaves no coin to the other reports.

    Source: Ye and Barg 2018 (subset selection), of signed values.
    """

    name: ClassVar[str] = "signed-subset-selection"

    values: int
    size: int
    threshold: int
    _loss: PrivacyLoss = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_values(self.values)
        check_integer("size", self.size)
        check_integer("threshold", self.threshold)
        if not 1 <= self.size <= self.values:
            raise InvalidParameter(
                f"a subset of {self.values} signed values has a size in 1..{self.values}, "
                f"found {self.size}"
            )
        if not 1 <= self.threshold < COIN_SPACE:
            raise InvalidParameter("a threshold lies in 1..2^64-1, found one outside")
        loss = PrivacyLoss(*certified_ratio(self.values, self.size, self.threshold))
        object.__setattr__(self, "_loss", loss)

    @property
    def opposite(self) -> int:
        """How many of the 2^64 coins report the own value with the other sign."""
        return opposite_coins(self.values, self.size, self.threshold)

    @property
    def even(self) -> int:
        """How many of the 2^64 coins of a neutral user report value 0 with +; the same with -."""
        return even_coins(self.values, self.size)

    @property
    def coins(self) -> int:
        """One for the own value, one a member, used or not, and a bit a value for its sign."""
        return 1 + self.size + -(-self.values // COIN_BITS)

    @property
    def width(self) -> int:
        """The bitmap's bytes."""
        return -(-2 * self.values // 8)

    @property
    def loss(self) -> PrivacyLoss:
        """Certified from above."""
        return self._loss

    @property
    def parameters(self) -> tuple[int, ...]:
        """Values, size and threshold."""
        return (self.values, self.size, self.threshold)

    @property
    def sign_rates(self) -> SignRates:
        """With even draws; a user elsewhere is a neutral one where that is the greater chance."""
        own, other = Fraction(self.threshold, COIN_SPACE), Fraction(self.opposite, COIN_SPACE)
        return SignRates(own, other, max(self._strays))

    @property
    def least_stray(self) -> Fraction:
        """The least chance of `sign_rates.stray`: of a user at another value, as a rule."""
        return min(self._strays)

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Draws the set and its signs, and serialises it as its bitmap."""
        level, words = self.check_draw(level, coins)
        own, plus, either = self.own_coins(level)
        members = draw_members(self.values, self.size, either, own, words[: 1 + self.size])
        signs = 0
        for word in words[1 + self.size :]:
            signs = (signs << COIN_BITS) | word
        signs >>= -self.values % COIN_BITS
        bit = 1 << (self.values - 1 - own)
        if words[0] < either:
            said_plus = (words[0] < plus) != (level % 2 == 1)
            signs = signs | bit if said_plus else signs & ~bit
        return self._bitmap(members & signs, members & ~signs)

    def own_coins(self, level: int) -> tuple[int, int, int]:
        """(j, coins that report j with the own sign, coins that report j), for a level."""
        if level == 2 * self.values:
            return 0, self.even, 2 * self.even
        return level // 2, self.threshold, self.threshold + self.opposite

    def valid(self, report: bytes) -> bool:
        """`width` bytes with exactly `size` bits set, no two of one value, none trailing."""
        if not isinstance(report, bytes) or len(report) != self.width:
            return False
        bits, spare = int.from_bytes(report, "big"), 8 * self.width - 2 * self.values
        if bits & ((1 << spare) - 1) or bits.bit_count() != self.size:
            return False
        bits >>= spare
        return not bits & (bits >> 1) & _every_other(self.values)

    def alphabet(self) -> Iterator[bytes]:
        """All C(d, size) 2^size sets with signs."""
        for chosen in combinations(range(self.values), self.size):
            bits = [1 << (self.values - 1 - value) for value in chosen]
            for signs in product((0, 1), repeat=self.size):
                plus = sum(bit for bit, minus in zip(bits, signs, strict=True) if not minus)
                yield self._bitmap(plus, sum(bits) - plus)

    def probability(self, level: int, report: bytes) -> Fraction:
        """The probability with even draws; the device's differs by a factor within the bias."""
        self.check_level(level)
        if not self.valid(report):
            return Fraction()
        own, plus, either = self.own_coins(level)
        signs = [report[item // 8] >> (7 - item % 8) & 1 for item in (2 * own, 2 * own + 1)]
        if level % 2:
            signs.reverse()
        if not any(signs):
            sets = comb(self.values - 1, self.size) << self.size
            return Fraction(COIN_SPACE - either, COIN_SPACE * sets)
        sets = comb(self.values - 1, self.size - 1) << (self.size - 1)
        return Fraction(plus if signs[0] else either - plus, COIN_SPACE * sets)

    def tally(self, reports: Reports) -> Counts:
        """How many reports contain each item: (0, +), (0, -), (1, +), ..."""
        self.check_reports(reports)
        items = 2 * self.values
        counts = np.zeros(items, dtype=np.int64)
        for start in range(0, len(reports), _TALLY_ROWS):
            bits = np.unpackbits(reports[start : start + _TALLY_ROWS], axis=1)
            wrong = bits.sum(axis=1, dtype=np.int64) != self.size
            wrong |= bits[:, items:].any(axis=1)
            wrong |= (bits[:, 0:items:2] & bits[:, 1:items:2]).any(axis=1)
            if wrong.any():
                raise InvalidParameter(
                    f"reports are bitmaps of {self.size} of {self.values} signed values, "
                    f"found {np.count_nonzero(wrong)} others from row {start} on"
                )
            counts += bits[:, :items].sum(axis=0, dtype=np.int64)
        return counts

    def pointing(
        self, counts: Sequence[int] | Counts, n: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The counts of items, by sign."""
        plain = check_counts(counts, n, 2 * self.values, n * self.size)
        return tuple(plain[0::2]), tuple(plain[1::2])

    def value_variance(self) -> Fraction:
        """n x conditional variance, averaged over values, for a user at one of them."""
        own, other = Fraction(self.threshold, COIN_SPACE), Fraction(self.opposite, COIN_SPACE)
        gap = self.sign_gap
        spread = own + other - gap * gap
        if self.values > 1:
            spread += (self.values - 1) * 2 * self._beside(own + other)
        return Fraction(spread, self.values * gap * gap)

    @property
    def _strays(self) -> tuple[Fraction, ...]:
        """P[+ of a value is in] for users elsewhere: neutral ones, and those at another value."""
        neutral = Fraction(self.even, COIN_SPACE)
        if self.values == 1:
            return (neutral,)
        own_in = Fraction(self.threshold + self.opposite, COIN_SPACE)
        return neutral, self._beside(own_in), self._beside(2 * neutral)

    def _beside(self, own_in: Fraction) -> Fraction:
        """P[a value that is not the own one is in with +], where the own one is in that often."""
        return Fraction(self.size - own_in, 2 * (self.values - 1))

    def _bitmap(self, plus: int, minus: int) -> bytes:
        items = _spread(plus) << 1 | _spread(minus)
        return (items << (8 * self.width - 2 * self.values)).to_bytes(self.width, "big")


@lru_cache(maxsize=256, typed=True)
def signed_subset_selection(values: int, nano: int) -> SignedSubsetSelection:
    """The signed subset selection that spends a budget with the least second moment.

    The greatest threshold that fits, bias included, is found for the sizes around
    2 d / (e^eps - 1); of those the least second moment of a value that the user is not at wins, and
    the smaller size a tie.

    Args:
        values: 1..32767.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: values or nano is out of range, or 64-bit coins cannot express nano.
    """
    check_values(values)
    check_positive(nano)
    exponential, _ = exp_bounds(min(nano, 64 * NANO_NATS_PER_NAT), COIN_BITS)
    middle = min((2 * values << COIN_BITS) // max(exponential - COIN_SPACE, 1), values)
    sizes = range(max(1, middle - _SIZES_ASIDE), min(values, middle + 1 + _SIZES_ASIDE) + 1)
    best = min((_fitting(values, size, nano) for size in sizes), key=_second_moment)
    last = opposite_coins(values, best.size, best.threshold + 1) == 0
    check_expressible(best.loss, nano, last)
    return best


def _second_moment(candidate: SignedSubsetSelection) -> tuple[Fraction, int]:
    rates = candidate.sign_rates
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


def _spread(bits: int) -> int:
    """Puts a 0 before every bit: binary digits read to base 4."""
    return int(f"{bits:b}", 4)


def _every_other(values: int) -> int:
    """Ones at the places of + and zeros at those of -, shifted to the latter."""
    return _spread((1 << values) - 1)
