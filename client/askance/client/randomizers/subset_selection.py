"""Subset selection: a random set of cells that favours the own one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np

from askance.client.accounting import NANO_NATS_PER_NAT, exp_bounds, ratio_within
from askance.client.errors import InvalidParameter
from askance.client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance.client.randomizers.fitting import check_expressible, check_positive, greatest
from askance.client.randomizers.floyd import certified_ratio, draw_members
from askance.client.randomizers.inclusion import InclusionRates
from askance.client.randomizers.k_ary import check_cells
from askance.client.randomizers.loss import PrivacyLoss
from askance.client.randomizers.randomizer import (
    Counts,
    Randomizer,
    Reports,
    check_counts,
    check_integer,
)

_TALLY_ROWS = 1 << 14  # reports unpacked at a time: bounds memory, changes no count
MAX_MEMBERS = 1 << 13  # of a set: a draw takes as long as it has members
_SIZES_ASIDE = 2  # the best size is next to cells / (e^eps + 1); more are tried, to be sure


@dataclass(frozen=True, slots=True)
class SubsetSelection(Randomizer):
    """Reports a set of `size` cells: the own one with probability threshold / 2^64, others evenly.

    A report is a bitmap of ceil(cells / 8) bytes, canonical because a set has no order in it:
    cell v is bit 7 - v % 8 of byte v // 8 (the order of numpy.unpackbits), trailing bits are 0,
    exactly `size` bits are 1. As size < cells, it is never all ones.

    Privacy: pure eps-LDP, replace-one; the loss is ln of threshold (cells - size) over
    (2^64 - threshold) size, or of its inverse, enlarged by what the draws are short of uniform
    (derived at `certified_ratio`; at most cells^2 / 2^64 in all).
    Utility: unbiased up to that bias; least variance in its class for size near cells/(e^eps+1).

    Args:
        cells: 2..65535.
        size: 1..cells-1, at most 8192.
        threshold: 1..2^64-1.

    Raises:
        InvalidParameter: they are not.

    Source: Ye and Barg 2018; Wang et al. 2016; optimality: Pan, arXiv:2603.11523.
    """

    name: ClassVar[str] = "subset-selection"

    cells: int
    size: int
    threshold: int
    _loss: PrivacyLoss = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_cells(self.cells)
        check_integer("size", self.size)
        check_integer("threshold", self.threshold)
        if not 1 <= self.size < self.cells:
            raise InvalidParameter(
                f"a subset of {self.cells} cells has a size in 1..{self.cells - 1}, "
                f"found {self.size}"
            )
        if self.size > MAX_MEMBERS:
            raise InvalidParameter(f"a subset has at most {MAX_MEMBERS} members, found {self.size}")
        if not 1 <= self.threshold < COIN_SPACE:
            raise InvalidParameter("a threshold lies in 1..2^64-1, found one outside")
        loss = PrivacyLoss(*certified_ratio(self.cells, self.size, self.threshold))
        object.__setattr__(self, "_loss", loss)

    @property
    def levels(self) -> int:
        """The number of cells."""
        return self.cells

    @property
    def coins(self) -> int:
        """One for the own cell and one a member, used or not."""
        return 1 + self.size

    @property
    def width(self) -> int:
        """The bitmap's bytes."""
        return -(-self.cells // 8)

    @property
    def loss(self) -> PrivacyLoss:
        """Certified from above."""
        return self._loss

    @property
    def parameters(self) -> tuple[int, ...]:
        """Cells, size and threshold."""
        return (self.cells, self.size, self.threshold)

    @property
    def rates(self) -> InclusionRates:
        """How often the own cell and any other cell are in the report, with uniform draws."""
        own = Fraction(self.threshold, COIN_SPACE)
        return InclusionRates(own, Fraction(self.size - own, self.cells - 1))

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Draws the set and serialises it as its bitmap."""
        level, words = self.check_draw(level, coins)
        members = draw_members(self.cells, self.size, self.threshold, level, words)
        return self._bitmap(members)

    def valid(self, report: bytes) -> bool:
        """`width` bytes with exactly `size` bits set, none of them trailing."""
        if not isinstance(report, bytes) or len(report) != self.width:
            return False
        bits = int.from_bytes(report, "big")
        trailing = (1 << (8 * self.width - self.cells)) - 1
        return not bits & trailing and bits.bit_count() == self.size

    def alphabet(self) -> Iterator[bytes]:
        """All C(cells, size) sets."""
        for chosen in combinations(range(self.cells), self.size):
            yield self._bitmap(sum(1 << (self.cells - 1 - cell) for cell in chosen))

    def probability(self, level: int, report: bytes) -> Fraction:
        """The probability with uniform draws; the device's differs by a factor within the bias."""
        self.check_level(level)
        if not self.valid(report):
            return Fraction()
        if report[level // 8] >> (7 - level % 8) & 1:
            return Fraction(self.threshold, COIN_SPACE * comb(self.cells - 1, self.size - 1))
        return Fraction(COIN_SPACE - self.threshold, COIN_SPACE * comb(self.cells - 1, self.size))

    def tally(self, reports: Reports) -> Counts:
        """How many reports contain each cell."""
        self.check_reports(reports)
        counts = np.zeros(self.cells, dtype=np.int64)
        for start in range(0, len(reports), _TALLY_ROWS):
            bits = np.unpackbits(reports[start : start + _TALLY_ROWS], axis=1)
            wrong = bits.sum(axis=1, dtype=np.int64) != self.size
            wrong |= bits[:, self.cells :].any(axis=1)
            if wrong.any():
                raise InvalidParameter(
                    f"reports are bitmaps of {self.size} of {self.cells} cells, "
                    f"found {np.count_nonzero(wrong)} others from row {start} on"
                )
            counts += bits[:, : self.cells].sum(axis=0, dtype=np.int64)
        return counts

    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """(c_v / n - q) / (p - q), with p and q the rates of own and other cells."""
        return self.rates.frequencies(check_counts(counts, n, self.cells, n * self.size), n)

    def frequency_variance(self) -> Fraction:
        """n x conditional variance averaged over cells; the same for every truth."""
        return self.rates.variance(self.cells)

    def _bitmap(self, members: int) -> bytes:
        return (members << (8 * self.width - self.cells)).to_bytes(self.width, "big")


def subset_selection(cells: int, nano: int) -> SubsetSelection:
    """The subset selection that spends a budget with the least variance.

    The greatest threshold that fits, bias included, is found for the sizes around
    cells / (e^eps + 1), as far as a set may be that large; of those the least conditional variance
    wins, and the smaller size a tie.

    Args:
        cells: 2..65535.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: cells or nano is out of range, or 64-bit coins cannot express nano.
    """
    check_cells(cells)
    check_positive(nano)
    middle = _size_of_least_variance(cells, nano)
    most = min(cells - 1, MAX_MEMBERS)
    first = min(max(1, middle - _SIZES_ASIDE), most)
    sizes = range(first, min(most, middle + 1 + _SIZES_ASIDE) + 1)
    best = min(
        (_fitting(cells, size, nano) for size in sizes),
        key=lambda candidate: (candidate.frequency_variance(), candidate.size),
    )
    check_expressible(best.loss, nano, best.threshold == COIN_SPACE - 1)
    return best


def _size_of_least_variance(cells: int, nano: int) -> int:
    """About floor(cells / (e^eps + 1)), which lies in 0..cells // 2 and is 0 from 64 nats on."""
    exponential, _ = exp_bounds(min(nano, 64 * NANO_NATS_PER_NAT), COIN_BITS)
    return (cells << COIN_BITS) // (exponential + COIN_SPACE)


def _fitting(cells: int, size: int, nano: int) -> SubsetSelection:
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
