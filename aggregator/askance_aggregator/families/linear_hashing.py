"""Linear hashing: tally, estimates, and the modulus for a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice

import numpy as np

from askance_aggregator.families.comparisons import Comparisons
from askance_aggregator.families.family import (
    Counts,
    Family,
    Reports,
    check_each_count,
    describes,
    makes,
)
from askance_aggregator.families.fitting import check_positive
from askance_aggregator.families.hash_supports import each_sums, supports, table_sums
from askance_aggregator.families.k_ary import k_ary_response
from askance_aggregator.families.near_sets import Near, NearSets, beside
from askance_aggregator.families.rates import InclusionRates, SignRates
from askance_aggregator.numbers import plain_arguments
from askance_client.accounting import NANO_NATS_PER_NAT, exp_bounds
from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.linear_hashing import (
    MAX_HASHED,
    MAX_MODULUS,
    MIN_HASHED,
    LinearHashing,
    is_prime,
)
from askance_client.randomizers.randomizer import check_integer

_MAX_TABLE_SUMS = 1 << 31  # of one tally by a table, when a modulus is chosen
_MAX_EACH_SUMS = 1 << 16  # of one report, if it is counted by itself: about a millisecond
_MODULI_ASIDE = 2  # primes that are tried on either side of e^eps + 1


@describes(LinearHashing)
@dataclass(frozen=True, slots=True)
class HashingFamily(Family[LinearHashing]):
    """Aggregator's side of linear hashing: tally and estimates."""

    @property
    def text(self) -> str:
        return f"linear-hashing({self.randomizer.cells}, {self.randomizer.modulus})"

    def inclusion(self, level: int) -> InclusionRates:
        """Rates of every cell."""
        return self.rates

    def pair_rates(self) -> SignRates:
        """Rates of a pair of cells; `stray` is the greater of the two chances."""
        own, other = self._chances
        apart = 1 - self.collisions
        return SignRates(own * apart, other * apart, max(self._pair_strays))

    @property
    def least_stray(self) -> Fraction:
        """Least chance of `pair_rates().stray`."""
        return min(self._pair_strays)

    @property
    def _chances(self) -> tuple[Fraction, Fraction]:
        own, other = self.randomizer.own, self.randomizer.other
        return Fraction(own, COIN_SPACE), Fraction(other, COIN_SPACE)

    @property
    def _pair_strays(self) -> tuple[Fraction, Fraction]:
        """P[+ is supported and - is not | the user is at a third cell], of both kinds.

        With p the own value's chance, r each other's: the user at u reports value a.u + d, d = 0
        with chance p. It supports + if a.(x - u) = d, and - if a.(y - u) = d. If x - u and y - u
        are independent vectors, both hold for q^(t-2) - 1 hashes at d = 0 and q^(t-2) at each other
        d; if they are proportional, for q^(t-1) - 1 at d = 0 only.
        """
        own, other = self._chances
        q, vectors, one = self.randomizer.modulus, self.randomizer.vectors, self.rates.other
        both = own * (vectors // (q * q) - 1) + (q - 1) * other * (vectors // (q * q))
        return one - both / (vectors - 1), one - own * self.collisions

    def comparisons(self) -> Comparisons:
        """Compare two cells, all pairs alike, by a law that is free of the hash.

        A report (a, c) is near a cell if c is its hash value; of the q^t - 1 hashes,
        q^(t-1) - 1 have one value for both cells. Other users are taken at a cell on the line
        through the two (there is one from q = 3 on), where hashes have one value for all three or
        three values; and at a cell off that line. The bias is that of the hash's draw.
        """
        q, hashes = self.randomizer.modulus, self.randomizer.vectors - 1
        law = NearSets(self.randomizer.own, 1, q)
        alike = self.randomizer.vectors // q - 1
        apart = hashes - alike
        pair: dict[Near, int] = {
            (True, True): alike,
            (True, False): apart,
            (False, True): apart,
            (False, False): alike * (q - 1) + apart * (q - 2),
        }
        lower = [
            law.attained(self._off_line(), f"cell 1 against {q}, others at 0"),
            law.attained(beside(pair, 0), "cell 0 against 1, others at 0"),
            law.attained(beside(pair, 1), "cell 0 against 1, others at 1"),
        ]
        if q > 2:
            line: dict[Near, int] = {
                (True, True, True): alike,
                (True, False, False): apart,
                (False, True, False): apart,
                (False, False, True): apart,
                (False, False, False): alike * (q - 1) + apart * (q - 3),
            }
            lower.insert(0, law.attained(line, "cell 1 against 2, others at 0"))
        upper = law.blanket(pair, "cell 0 against 1, any others")
        return Comparisons([upper], lower, Fraction(hashes, COIN_SPACE))

    def _off_line(self) -> dict[Near, int]:
        """Count the reports by nearness to cells 1, q and 0, whose differences are independent.

        The values of the first two less that of the third, (v, w), are each pair for q^(t-2) of the
        vectors a, one of which is 0 and no hash.
        """
        q = self.randomizer.modulus
        share = self.randomizer.vectors // (q * q)
        counts: dict[Near, int] = {(False, False, False): 0}
        for first, second, hashes in (
            (0, 0, share - 1),
            (0, 1, (q - 1) * share),
            (1, 0, (q - 1) * share),
            (1, 1, (q - 1) * share),
            (1, 2, (q - 1) * (q - 2) * share),
        ):
            values = {0, first, second}
            for value in values:
                near = (value == first, value == second, value == 0)
                counts[near] = counts.get(near, 0) + hashes
            counts[False, False, False] += hashes * (q - len(values))
        return counts

    @property
    def collisions(self) -> Fraction:
        """P[two given cells have the same hash value], with an even draw of the hash."""
        return Fraction(
            self.randomizer.vectors // self.randomizer.modulus - 1, self.randomizer.vectors - 1
        )

    @property
    def rates(self) -> InclusionRates:
        """Rates at which a report supports the own cell and any other, for an even hash."""
        return _rates(self.randomizer)

    def alphabet(self) -> Iterator[bytes]:
        """The hashes in order, each with all values."""
        for code in range(
            self.randomizer.modulus, self.randomizer.vectors * self.randomizer.modulus
        ):
            yield code.to_bytes(self.randomizer.width, "big")

    def tally(self, reports: Reports) -> Counts:
        """Count the reports that support each cell."""
        self.check_reports(reports)
        codes = np.zeros(len(reports), dtype=np.int64)
        for byte in range(self.randomizer.width):
            codes = (codes << 8) | reports[:, byte]
        least = self.randomizer.modulus
        end = self.randomizer.vectors * least
        wrong = (codes < least) | (codes >= end)
        if wrong.any():
            raise InvalidParameter(
                f"reports are codes in {least}..{end - 1}, found {np.count_nonzero(wrong)} others"
            )
        return supports(codes, self.randomizer.cells, self.randomizer.modulus)

    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """(c_v / n - q) / (p - q), with p and q the rates of own and other cells."""
        return self.rates.frequencies(check_each_count(counts, n, self.randomizer.cells), n)

    def frequency_variance(self) -> Fraction:
        """Return n times the conditional variance averaged over cells; the same for every truth."""
        return self.rates.variance(self.randomizer.cells)


@lru_cache(maxsize=64)
def _rates(randomizer: LinearHashing) -> InclusionRates:
    own, other = HashingFamily(randomizer)._chances
    collisions = HashingFamily(randomizer).collisions
    return InclusionRates(own, collisions * own + (1 - collisions) * other)


@makes("linear-hashing")
@plain_arguments
def linear_hashing(cells: int, nano: int) -> LinearHashing:
    """The linear hashing that spends a budget with the least variance.

    Of the primes next to e^eps + 1, two on either side of those whose tally is not too long, the
    one with the least conditional variance wins, and the smaller a tie. A tally is not too long if
    a table of reports, or every report by itself, is counted in few enough sums (`supports`).

    Args:
        cells: 3..2^20.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: cells or nano is out of range, or 64-bit coins cannot express nano.

    Example:
        >>> ask.linear_hashing(1_000, 10**9).levels
        1000
    """
    check_integer("cells", cells, MIN_HASHED, MAX_HASHED)
    check_positive(nano)
    exponential, _ = exp_bounds(min(nano, 64 * NANO_NATS_PER_NAT), COIN_BITS)
    most = min(cells - 1, MAX_MODULUS)
    middle = min((exponential >> COIN_BITS) + 1, most)
    moduli = [*_moduli(cells, range(middle, 1, -1)), *_moduli(cells, range(middle + 1, most + 1))]
    candidates = [LinearHashing(cells, q, k_ary_response(q, nano).other) for q in moduli]
    return min(
        candidates,
        key=lambda candidate: (HashingFamily(candidate).frequency_variance(), candidate.modulus),
    )


def _moduli(cells: int, numbers: Iterable[int]) -> Iterator[int]:
    """Return the first primes of `numbers` for which a tally of this many cells is not too long."""
    return islice((q for q in numbers if not _is_long(cells, q) and is_prime(q)), _MODULI_ASIDE)


def _is_long(cells: int, modulus: int) -> bool:
    """Return whether both ways to count reports take too many sums."""
    by_table = table_sums(cells, modulus) <= _MAX_TABLE_SUMS
    return not by_table and each_sums(cells, modulus) > _MAX_EACH_SUMS
