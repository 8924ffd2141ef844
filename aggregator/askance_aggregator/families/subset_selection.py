"""Subset selection: tally, estimates, and the set size for a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import perm

from askance_aggregator.families import family
from askance_aggregator.families.comparisons import Comparisons, TwoSymbols
from askance_aggregator.families.fitting import check_expressible, check_positive, greatest
from askance_aggregator.families.near_sets import Near, NearSets, beside
from askance_aggregator.families.rates import InclusionRates, JointRates, SignRates
from askance_aggregator.families.sets import set_report, tally_sets
from askance_aggregator.numbers import plain_arguments
from askance_client.accounting import NANO_NATS_PER_NAT, exp_bounds, ratio_within
from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.k_ary import MAX_CELLS, MIN_CELLS
from askance_client.randomizers.randomizer import check_integer
from askance_client.randomizers.subset_selection import MAX_MEMBERS, MAX_WIDTH, SubsetSelection

_SIZES_ASIDE = 2  # the best size is next to cells / (e^eps + 1); more are tried, to be sure


@family.describes(SubsetSelection)
@dataclass(frozen=True, slots=True)
class SubsetFamily(family.Family[SubsetSelection]):
    """Aggregator's side of subset selection: tally and estimates."""

    @property
    def text(self) -> str:
        return f"subset-selection({self.randomizer.cells}, {self.randomizer.size})"

    def inclusion(self, level: int) -> InclusionRates:
        """Rates of every cell."""
        return self.rates

    def pair_rates(self) -> SignRates:
        """Rates of a pair of cells."""
        own, size, rest = self.rates.own, self.randomizer.size, self.randomizer.cells - 1
        with_own = Fraction(size - 1, rest)  # another given cell is in, if the own one is
        without = Fraction(size, rest)  # the same, if it is not
        stray = own * with_own * (1 - Fraction(size - 2, rest - 1)) + (1 - own) * without * (
            1 - Fraction(size - 1, rest - 1)
        )
        return SignRates(own * (1 - with_own), (1 - own) * without, stray)

    def joint_rates(self) -> JointRates:
        """Rates of two cells: given whether the own cell is in, the others are a uniform set."""
        own, size, rest = self.rates.own, self.randomizer.size, self.randomizer.cells - 1
        pairs = max(rest * (rest - 1), 1)  # with two cells there are no two others
        with_own = Fraction((size - 1) * (size - 2), pairs)
        without = Fraction(size * (size - 1), pairs)
        return JointRates(own * Fraction(size - 1, rest), own * with_own + (1 - own) * without)

    @property
    def rates(self) -> InclusionRates:
        """Rates at which the own cell and any other cell are in the report, for uniform draws."""
        own = Fraction(self.randomizer.threshold, COIN_SPACE)
        return InclusionRates(own, Fraction(self.randomizer.size - own, self.randomizer.cells - 1))

    def comparisons(self) -> Comparisons | TwoSymbols:
        """Compare two cells, all pairs alike, by which of two or three cells are in a set."""
        # A draw's bias S / 2^64 is derived at `floyd.certified_ratio`.
        cells, size = self.randomizer.cells, self.randomizer.size
        law = NearSets(self.randomizer.threshold, size, cells)
        if cells == 2:
            return law.bit()
        pair = self._types(2)
        lower = [
            law.attained(self._types(3), "cell 0 against 1, others at 2"),
            law.attained(beside(pair, 0), "cell 0 against 1, others at 0"),
            law.attained(beside(pair, 1), "cell 0 against 1, others at 1"),
        ]
        bias = Fraction(size * (2 * cells - size - 1), 2 * COIN_SPACE)
        return Comparisons([law.blanket(pair, "cell 0 against 1, any others")], lower, bias)

    def _types(self, chosen: int) -> dict[Near, int]:
        """Count the sets by which of so many given cells are in."""
        # j given cells are in and the other g - j out of (size)_j (cells - size)_(g - j) of
        # (cells)_g of all sets, with falling factorials; (cells)_g of them are counted.
        size, free = self.randomizer.size, self.randomizer.cells - self.randomizer.size
        return {
            near: perm(size, sum(near)) * perm(free, chosen - sum(near))
            for near in product((False, True), repeat=chosen)
        }

    def alphabet(self) -> Iterator[bytes]:
        """All C(cells, size) sets."""
        for chosen in combinations(range(self.randomizer.cells), self.randomizer.size):
            yield set_report(self.randomizer, chosen)

    def tally(self, reports: family.Reports) -> family.Counts:
        """Count the reports that contain each cell."""
        self.check_reports(reports)
        what = f"{self.randomizer.size} of {self.randomizer.cells} cells"
        return tally_sets(self.randomizer, reports, what)

    def frequencies(self, counts: Sequence[int] | family.Counts, n: int) -> tuple[Fraction, ...]:
        """(c_v / n - q) / (p - q), with p and q the rates of own and other cells."""
        return self.rates.frequencies(
            family.check_counts(counts, n, self.randomizer.cells, n * self.randomizer.size), n
        )

    def frequency_variance(self) -> Fraction:
        """Return n times the conditional variance averaged over cells; the same for every truth."""
        return self.rates.variance(self.randomizer.cells)


@family.makes("subset-selection")
@plain_arguments
def subset_selection(cells: int, nano: int) -> SubsetSelection:
    """The subset selection that spends a budget with the least variance.

    The greatest threshold that fits, bias included, is found for the sizes around
    cells / (e^eps + 1), as far as a set may be that large; of those the least conditional variance
    wins, and the smaller size a tie.

    Args:
        cells: 2..2^20.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: cells or nano is out of range, or 64-bit coins cannot express nano.

    Example:
        >>> ask.subset_selection(16, 10**9).size
        4
    """
    check_integer("cells", cells, MIN_CELLS, MAX_CELLS)
    check_positive(nano)
    middle = _size_of_least_variance(cells, nano)
    most = min(cells - 1, _most_members(cells))
    first = min(max(1, middle - _SIZES_ASIDE), most)
    sizes = range(first, min(most, middle + 1 + _SIZES_ASIDE) + 1)
    best = min(
        (fitting_set(cells, size, nano) for size in sizes),
        key=lambda candidate: (SubsetFamily(candidate).frequency_variance(), candidate.size),
    )
    check_expressible(best.loss, nano, best.threshold == COIN_SPACE - 1)
    return best


def _most_members(cells: int) -> int:
    """Return the greatest size whose report, a bitmap or indices, has at most 8192 bytes."""
    each = -(-cells.bit_length() // 8)
    return MAX_MEMBERS if cells <= 8 * MAX_WIDTH else MAX_WIDTH // each


def _size_of_least_variance(cells: int, nano: int) -> int:
    """About floor(cells / (e^eps + 1)), which lies in 0..cells // 2 and is 0 from 64 nats on."""
    exponential, _ = exp_bounds(min(nano, 64 * NANO_NATS_PER_NAT), COIN_BITS)
    return (cells << COIN_BITS) // (exponential + COIN_SPACE)


def fitting_set(cells: int, size: int, nano: int) -> SubsetSelection:
    """Return the subset selection of this size with the greatest threshold that fits a budget."""

    def fits(threshold: int) -> bool:
        inside = threshold * (cells - size) * COIN_SPACE
        bias = size * (2 * cells - size - 1)
        return ratio_within(inside, (COIN_SPACE - threshold) * size * (COIN_SPACE - bias), nano)

    threshold = greatest(1, COIN_SPACE - 1, fits)
    if threshold is not None:
        candidate = SubsetSelection(cells, size, threshold)
        if candidate.loss.fits(nano):
            return candidate
    raise InvalidParameter(
        f"no subset selection of {size} in {cells} cells is as even as {nano} nano-nats ask"
    )
