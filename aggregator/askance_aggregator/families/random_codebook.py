"""Random codebook: tally of directions, estimates, and the codebook for a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import exp

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families.codebook_law import greatest_sums
from askance_aggregator.families.family import Counts, Family, Reports, describes
from askance_aggregator.families.fitting import check_expressible, check_positive, greatest
from askance_aggregator.families.rotation_columns import signs_of
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, RandomCodebook
from askance_client.randomizers.public_rotations import STEPS, public_octets

LENGTH = 1 << STEPS // 2  # of a code, as an integer vector
WORTH = Fraction(1, 100)  # the part of the variance that twice the bases must save
_MOST_CODES = 1 << 12  # with which several bases are considered: devices score each of them
_TALLY_ROWS = 1 << 12  # reports at a time: bounds memory, changes no sum
_LARGE_NATS = 40.0  # past it the near codes are as good as certain


@describes(RandomCodebook)
@dataclass(frozen=True, slots=True)
class CodebookFamily(Family[RandomCodebook]):
    """Aggregator's side of a random codebook: sums of directions and estimates of means."""

    @property
    def text(self) -> str:
        """Name, components, number of codes and of near ones."""
        book = self.randomizer
        return f"codebook({book.components}, {book.near} of {book.codes})"

    @property
    def agreement(self) -> float:
        """m: the mean inner product of a reported code, as a unit vector, with the own point.

        Relative error below 10^-6 (`codebook_law`); rotations are taken as even.
        """
        return _agreement(self._law()[0], self._near, self.randomizer.codes, self._chance)

    @property
    def second_moment(self) -> float:
        """Mean square of that inner product."""
        near, codes = self._near, self.randomizer.codes
        squares = self._law()[1]
        total, inside = 2 * squares[-1], squares[min(near, codes - near)]
        inside = inside if near <= codes - near else total - inside
        return float(
            self._chance * inside / near + (1 - self._chance) * (total - inside) / (codes - near)
        )

    @property
    def component_variance(self) -> float:
        """Second moment of a component's estimate over radius^2, averaged over the components.

        Of the longest vectors, whose own squares are in it; the greatest that the average can be.
        """
        book, beside = self.randomizer, self._beside
        return ((book.components - 1) * beside + self.second_moment) / (
            book.components * self.agreement**2
        )

    @property
    def greatest_variance(self) -> float:
        """The same for one component, all of whose users point along it."""
        return self.variance_along(1.0)

    def variance_along(self, share: float) -> float:
        """The greatest second moment in one direction over radius^2.

        Args:
            share: of a point's squared length, the part in that direction at most, in [0, 1].
        """
        along = share * self.second_moment + (1 - share) * self._beside
        return max(along, self._beside) / self.agreement**2

    @property
    def reach(self) -> float:
        """The most that the estimate of one report is in a component, over radius."""
        return 1 / abs(self.agreement)

    def alphabet(self) -> Iterator[bytes]:
        """Every seed with every code."""
        book = self.randomizer
        return (
            report.to_bytes(book.width, "big") for report in range(book.codes << book.seed_bits)
        )

    def tally(self, reports: Reports) -> Counts:
        """Add the codes up, each a vector of integers of length `LENGTH`: a sum per component."""
        self.check_reports(reports)
        sums = np.zeros(self.randomizer.components, dtype=np.int64)
        for start in range(0, len(reports), _TALLY_ROWS):
            sums += self.vectors(reports[start : start + _TALLY_ROWS]).sum(axis=0)
        return sums

    def vectors(self, reports: Reports) -> Counts:
        """Expand each report to its code, shape (n, components).

        Raises:
            InvalidParameter: a report is outside the alphabet.
        """
        book = self.randomizer
        numbers = np.zeros(len(reports), dtype=np.int64)
        for column in reports.T:
            numbers = numbers << 8 | column
        seeds, codes = np.divmod(numbers, book.codes)
        if len(seeds) and int(seeds.max()) >> book.seed_bits:
            raise InvalidParameter(f"reports are codes of {book.codes}, found others")
        bases, rows = np.divmod(codes >> 1, book.order)
        turning = np.zeros((book.order, len(reports)), dtype=np.int64)
        turning[rows, np.arange(len(reports))] = 1 - 2 * (codes & 1)
        half = book.order // 2
        for step in reversed(_signs(seeds, bases, book.order)):
            halves = (turning[:half], turning[half:])
            turning = np.empty_like(turning)
            np.add(*halves, out=turning[::2])
            np.subtract(*halves, out=turning[1::2])
            turning *= step
        return turning[: book.components].T

    def means(self, sums: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Estimate each component's mean in grid units from a tally of n reports.

        Raises:
            InvalidParameter: the tally is not one of n > 0 reports.
        """
        plain = [int(each) for each in sums]
        if n <= 0 or len(plain) != self.randomizer.components:
            raise InvalidParameter(
                f"sums: expected {self.randomizer.components} of n > 0 reports, got {len(plain)}"
                f" of {n}"
            )
        if max(map(abs, plain)) > n * LENGTH:
            raise InvalidParameter(f"sums: expected at most {n} x {LENGTH} each, got more")
        scale = Fraction(self.randomizer.radius) / (LENGTH * n * Fraction(self.agreement))
        return tuple(each * scale for each in plain)

    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Refuse: levels are vectors, whose means are estimated and not their shares.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter("a codebook estimates means of vectors, not shares of levels")

    def frequency_variance(self) -> Fraction:
        """Return n times the second moment of a component's estimate, in squares of the radius."""
        return Fraction(self.component_variance)

    @property
    def _near(self) -> int:
        return self.randomizer.near

    @property
    def _chance(self) -> float:
        return self.randomizer.threshold / COIN_SPACE

    @property
    def _beside(self) -> float:
        """Mean square of a code's inner product with a direction across the own point."""
        return (1 - self.second_moment) / (self.randomizer.order - 1)

    def _law(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return greatest_sums(self.randomizer.order, self.randomizer.bases)


@lru_cache(maxsize=1024)
def random_codebook(components: int, radius: int, nano: int) -> RandomCodebook:
    """The codebook that spends a budget with about the least variance.

    Of one basis and then of twice as many as long as that saves 1/100 of the variance, each with
    the number of near codes that agrees best with the own vector.

    Args:
        components: 1..1024.
        radius: 1..2^40, in grid units.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: a parameter is out of range, or 64-bit coins cannot express nano.

    Example:
        >>> ask.random_codebook(4, 1, 10**9).vector_components
        4
    """
    check_positive(nano)
    bases, near = _shape(RandomCodebook(components, radius, 1, 1, 1).order, nano)
    return fitted(RandomCodebook(components, radius, bases, near, 1), nano)


def fitted(book: RandomCodebook, nano: int) -> RandomCodebook:
    """The codebook with the greatest threshold that the budget allows.

    Raises:
        InvalidParameter: 64-bit coins cannot express nano.
    """
    even = -(-COIN_SPACE * book.near // book.codes)

    def at(threshold: int) -> RandomCodebook:
        return replace(book, threshold=threshold)

    # Below the even threshold near codes are the rarer ones.
    threshold = greatest(even, COIN_SPACE - 1, lambda each: at(each).loss.fits(nano))
    if threshold is None:
        raise InvalidParameter(f"no codebook of {book.codes} is as even as {nano} nano-nats ask")
    found = at(threshold)
    check_expressible(found.loss, nano, threshold == COIN_SPACE - 1)
    return found


@lru_cache(maxsize=256)
def _shape(order: int, nano: int) -> tuple[int, int]:
    """Choose the bases and the number of near codes."""
    bases, (agreement, near) = 1, _best_near(order, 1, nano)
    while 4 * bases * order <= _MOST_CODES:
        better, more = _best_near(order, 2 * bases, nano)
        if better**-2 - 1 > (1 - WORTH) * (agreement**-2 - 1):
            break
        bases, agreement, near = 2 * bases, better, more
    return bases, near


def _best_near(order: int, bases: int, nano: int) -> tuple[float, int]:
    """Compute the greatest agreement over the numbers of near codes, and where it is."""
    codes, sums = 2 * order * bases, greatest_sums(order, bases)[0]
    odds = exp(min(nano / NANO_NATS_PER_NAT, _LARGE_NATS))
    near = np.arange(1, order * bases + 1)
    chance = near * odds / (near * odds + codes - near)
    agreements = sums[1:] / near * (chance - (1 - chance) * near / (codes - near))
    best = int(np.argmax(agreements))
    return float(agreements[best]), best + 1


def _agreement(sums: NDArray[np.float64], near: int, codes: int, chance: float) -> float:
    """The sum of all inner products is 0: what the near codes have, the others lack."""
    inside = float(sums[min(near, codes - near)])
    return inside * (chance / near - (1 - chance) / (codes - near))


def _signs(seeds: Counts, bases: Counts, order: int) -> NDArray[np.int8]:
    """Expand each seed up to its report's basis, and return that one's signs by step."""
    size = order * STEPS // 8
    octets = b"".join(
        public_octets(seed, basis + 1, order)[-size:]
        for seed, basis in zip(seeds.tolist(), bases.tolist(), strict=True)
    )
    return signs_of(octets, 1, order)[:, :, 0]
