"""k-ary response: tally, estimates, and the response for a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from askance_aggregator.families import family
from askance_aggregator.families.comparisons import Comparisons, EvenCells, TwoSymbols
from askance_aggregator.families.fitting import check_expressible, check_positive, least
from askance_aggregator.families.near_sets import Near, NearSets, beside
from askance_aggregator.families.rates import InclusionRates, JointRates, SignRates
from askance_aggregator.numbers import plain_arguments
from askance_client.accounting import ratio_within
from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_SPACE
from askance_client.randomizers.k_ary import MAX_CELLS, MIN_CELLS, KaryResponse
from askance_client.randomizers.randomizer import check_integer


@family.describes(KaryResponse)
@dataclass(frozen=True, slots=True)
class KaryFamily(family.Family[KaryResponse]):
    """Aggregator's side of k-ary response: tally and estimates."""

    @property
    def text(self) -> str:
        return f"k-ary-response({self.randomizer.cells})"

    def inclusion(self, level: int) -> InclusionRates:
        """Rates of every cell."""
        return self.rates

    def pair_rates(self) -> SignRates:
        """Rates of a pair of cells."""
        return SignRates(self.rates.own, self.rates.other, self.rates.other)

    def joint_rates(self) -> JointRates:
        """A report has one cell."""
        return JointRates(Fraction(0), Fraction(0))

    @property
    def rates(self) -> InclusionRates:
        """The two probabilities."""
        return InclusionRates(
            Fraction(self.randomizer.own, COIN_SPACE), Fraction(self.randomizer.other, COIN_SPACE)
        )

    def comparisons(self) -> Comparisons | TwoSymbols:
        """Compare two cells; all pairs are alike. Exact: the near set of a cell is the cell."""
        cells, own = self.randomizer.cells, self.randomizer.own
        law = NearSets(own, 1, cells)
        if cells == 2:
            return law.bit()
        pair: dict[Near, int] = {(True, False): 1, (False, True): 1, (False, False): cells - 2}
        third: dict[Near, int] = {
            (True, False, False): 1,
            (False, True, False): 1,
            (False, False, True): 1,
            (False, False, False): cells - 3,
        }
        return Comparisons(
            [law.blanket(pair, "cell 0 against 1, any others")],
            [
                law.attained(third, "cell 0 against 1, others at 2"),
                law.attained(beside(pair, 0), "cell 0 against 1, others at 0"),
                law.attained(beside(pair, 1), "cell 0 against 1, others at 1"),
            ],
            cells=EvenCells(own, cells, COIN_SPACE) if own * cells >= COIN_SPACE else None,
        )

    @property
    def has_one_count(self) -> bool:
        """Return whether there are two cells."""
        return self.randomizer.cells == 2

    def alphabet(self) -> Iterator[bytes]:
        """The cells in order."""
        return (
            cell.to_bytes(self.randomizer.width, "big") for cell in range(self.randomizer.cells)
        )

    def tally(self, reports: family.Reports) -> family.Counts:
        """Count the reports of each cell."""
        self.check_reports(reports)
        cells = reports[:, 0].astype(np.int64)
        for byte in range(1, self.randomizer.width):
            cells = (cells << 8) | reports[:, byte]
        counts = np.bincount(cells, minlength=self.randomizer.cells).astype(np.int64)
        if len(counts) > self.randomizer.cells:
            raise InvalidParameter(
                f"reports are cells in 0..{self.randomizer.cells - 1}, "
                f"found {counts[self.randomizer.cells :].sum()} others"
            )
        return counts

    def frequencies(self, counts: Sequence[int] | family.Counts, n: int) -> tuple[Fraction, ...]:
        """(c_v / n - q) / (p - q), with p and q the two probabilities."""
        return self.rates.frequencies(family.check_counts(counts, n, self.randomizer.cells, n), n)

    def frequency_variance(self) -> Fraction:
        """Return n times the conditional variance averaged over cells; the same for every truth."""
        return self.rates.variance(self.randomizer.cells)


@family.makes("k-ary-response")
@plain_arguments
def k_ary_response(cells: int, nano: int) -> KaryResponse:
    """The k-ary response that spends a budget: the least `other` whose loss fits.

    Args:
        cells: 2..2^20.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: cells or nano is out of range, or 64-bit coins cannot express nano.

    Example:
        >>> response = ask.k_ary_response(4, 10**9)
        >>> response.levels
        4
    """
    check_integer("cells", cells, MIN_CELLS, MAX_CELLS)
    check_positive(nano)
    other = least(
        1,
        COIN_SPACE // cells,
        lambda other: ratio_within(COIN_SPACE - (cells - 1) * other, other, nano),
    )
    if other is None:
        raise InvalidParameter(f"no response over {cells} cells is as even as {nano} nano-nats ask")
    response = KaryResponse(cells, other)
    check_expressible(response.loss, nano, other == 1)
    return response
