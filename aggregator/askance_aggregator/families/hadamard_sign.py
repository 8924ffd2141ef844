"""Hadamard signs: tally, estimates, and the threshold for a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import family
from askance_aggregator.families.channel import randomized_response
from askance_aggregator.families.comparisons import Comparisons, TwoSymbols
from askance_aggregator.families.near_sets import Near, NearSets, beside
from askance_aggregator.families.rates import SignRates
from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_SPACE
from askance_client.randomizers.hadamard_sign import HadamardSign
from askance_client.randomizers.randomizer import check_integer
from askance_client.randomizers.signed_levels import MAX_VALUES


@family.describes(HadamardSign)
@dataclass(frozen=True, slots=True)
class HadamardFamily(family.SignedFamily[HadamardSign]):
    """Aggregator's side of Hadamard signs: tally and estimates."""

    complementary = True

    @property
    def text(self) -> str:
        return f"hadamard-sign({self.randomizer.values})"

    @property
    def sign_rates(self) -> SignRates:
        """Exact: a report points to + or to - at every value."""
        kept = Fraction(self.randomizer.threshold, COIN_SPACE)
        return SignRates(kept, 1 - kept, Fraction(1, 2))

    def comparisons(self) -> Comparisons | TwoSymbols:
        """Compare the two signs of a value, whose near sets share no symbol. Exact."""
        # Half of the symbols are near a sign; a third level is near half of each half. Other pairs
        # of signs share near symbols, and the neutral level is the mean of two signs: both are
        # bounded by this pair (docs/math/shuffled_families.md).
        law = NearSets(self.randomizer.threshold, 1, 2)
        if self.randomizer.values == 1:
            return law.bit()
        pair: dict[Near, int] = {(True, False): 1, (False, True): 1}
        third: dict[Near, int] = {(*near, at): 1 for near in pair for at in (False, True)}
        return Comparisons(
            [law.blanket(pair, "+ against - at value 0, any others")],
            [
                law.attained(third, "+ against - at value 0, others at + of value 1"),
                law.attained(beside(pair, 0), "+ against - at value 0, others at +"),
                law.attained(beside(pair, 1), "+ against - at value 0, others at -"),
            ],
        )

    def alphabet(self) -> Iterator[bytes]:
        """The rows in order, each with + and -."""
        for code in range(2 << self.randomizer.row_bits):
            yield code.to_bytes(self.randomizer.width, "big")

    def tally(self, reports: family.Reports) -> family.Counts:
        """Count the reports that point to + at each value."""
        self.check_reports(reports)
        codes = np.zeros(len(reports), dtype=np.int64)
        for byte in range(self.randomizer.width):
            codes = (codes << 8) | reports[:, byte]
        signs = np.bincount(codes, minlength=2 << self.randomizer.row_bits).astype(np.int64)
        if len(signs) > 2 << self.randomizer.row_bits:
            raise InvalidParameter(
                f"reports are codes in 0..{(2 << self.randomizer.row_bits) - 1}, "
                f"found {signs[2 << self.randomizer.row_bits :].sum()} others"
            )
        return self.plus_counts(signs.reshape(-1, 2))

    def plus_counts(self, signs: NDArray[np.int64]) -> family.Counts:
        """Count the reports that point to + at each value, from the counts of each row and sign."""
        # A report points to + at j where its sign is H[r, j], so with D = plus - minus of a row the
        # count is (n + sum_r H[r, j] D[r]) / 2; the sums of all j are a Walsh-Hadamard transform,
        # of integers. From shape (..., 2^m, 2) to shape (..., values).
        sums = signs[..., 0] - signs[..., 1]
        everyone = signs.sum(axis=(-2, -1), dtype=np.int64)
        shape = sums.shape
        for bit in range(self.randomizer.row_bits):
            pairs = sums.reshape(*shape[:-1], -1, 2, 1 << bit)
            one, two = pairs[..., 0, :], pairs[..., 1, :]
            sums = np.stack((one + two, one - two), axis=-2).reshape(shape)
        counts: family.Counts = (
            everyone[..., np.newaxis] + sums[..., : self.randomizer.values]
        ) // 2
        return counts

    def pointing(
        self, counts: Sequence[int] | family.Counts, n: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The counts, and what they leave of n."""
        plus = tuple(family.check_each_count(counts, n, self.randomizer.values))
        return plus, tuple(n - count for count in plus)

    def value_variance(self) -> Fraction:
        """C^2 - 1/d: the square of its mean, 1, is less by where the user is."""
        return Fraction(1, self.sign_gap * self.sign_gap) - Fraction(1, self.randomizer.values)


@family.makes("hadamard-sign")
@lru_cache(maxsize=256, typed=True)
def hadamard_sign(values: int, nano: int) -> HadamardSign:
    """The Hadamard sign that spends a budget: the greatest threshold whose loss fits.

    Args:
        values: 1..32767.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: values or nano is out of range, or 64-bit coins cannot express nano.
    """
    check_integer("values", values, 1, MAX_VALUES)
    return HadamardSign(values, randomized_response(nano).table[0][0])
