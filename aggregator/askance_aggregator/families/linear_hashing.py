"""Linear hashing: tally, estimates, and the modulus for a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import family
from askance_aggregator.families.comparisons import Comparisons
from askance_aggregator.families.fitting import check_positive
from askance_aggregator.families.k_ary import k_ary_response
from askance_aggregator.families.near_sets import Near, NearSets, beside
from askance_aggregator.families.rates import InclusionRates, SignRates
from askance_aggregator.numbers import plain_arguments
from askance_client.accounting import NANO_NATS_PER_NAT, exp_bounds
from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.digits import digits_of, power
from askance_client.randomizers.linear_hashing import (
    MAX_HASHED,
    MAX_MODULUS,
    MIN_HASHED,
    LinearHashing,
    is_prime,
)
from askance_client.randomizers.randomizer import check_integer

Numbers = NDArray[np.int64]

_DENSE = 8  # entries a report up to which a table of all reports there can be is kept in memory
_EACH_SUM = 10  # additions of whole tables that take as long as an entry counted by its own index
_CELLS_AT_ONCE = 1 << 22  # supported cells of a block of reports: bounds memory, changes no count


def table_sums(cells: int, modulus: int) -> int:
    """Return the number of additions that a table takes beside those for each report."""
    digits = digits_of(cells, modulus)
    each = ((digits - 2) * modulus + 1) * power(modulus, digits)
    return _leading(cells, modulus, digits) * each


def each_sums(cells: int, modulus: int) -> int:
    """Return the number of cells that one report supports, at most except for rare hashes."""
    return -(-cells // modulus)


def supports(codes: Numbers, cells: int, modulus: int) -> Numbers:
    """For each cell x, how many reports (a, c) have a.x = c modulo q."""
    # A report is one number to base q: the digits of a, the most significant first, then c. There
    # are three ways to count, and the one that takes the fewest sums is taken: report by report
    # (`_counted`); by a table per value of the leading digit (`_by_leading`); by one table of all
    # reports there can be (`_dense`). All sums are of integers, so neither the way nor shards of
    # reports change them.
    #
    # Codes have shape (n,), are below q^(t + 1) and have a > 0. The modulus q is a prime; there are
    # more cells than that.
    n, digits = len(codes), digits_of(cells, modulus)
    leading, size = _leading(cells, modulus, digits), power(modulus, digits + 1)
    ways = [
        (_EACH_SUM * n * each_sums(cells, modulus), _counted),
        (_EACH_SUM * n * leading + table_sums(cells, modulus), _by_leading),
    ]
    if size <= _DENSE * n:
        ways.append((_EACH_SUM * n + (digits - 1) * leading * size, _dense))
    _, count = min(ways, key=lambda way: way[0])
    return count(codes, cells, modulus, digits)


def table_supports(
    table: NDArray[np.signedinteger[Any]], cells: int, modulus: int
) -> NDArray[np.signedinteger[Any]]:
    """For each cell x, how many reports (a, c) have a.x = c, from how many there are of each.

    The table has, for each number a q + c (see `supports`), how many reports there are of it: shape
    (q^(t + 1),).
    """
    digits = digits_of(cells, modulus)
    return _summed(table, modulus, digits, _leading(cells, modulus, digits))[:cells]


def _counted(codes: Numbers, cells: int, q: int, digits: int) -> Numbers:
    """Count report by report: every leading part of a cell has one last digit that agrees."""
    # If the last digit a_t of a is not 0, a cell with the leading digits x' is supported exactly if
    # its last digit is (c - a'.x') / a_t. If it is 0, that digit plays no part: the report is one
    # about the leading digits.
    heads = -(-cells // q)  # how many leading parts of cells there are
    a, c = np.divmod(codes, np.int64(q))
    rest, last = np.divmod(a, np.int64(q))
    even = last == 0
    counts = np.zeros(heads * q, dtype=np.int64)
    if even.any():  # then rest > 0, so that there is a leading digit
        counts += np.repeat(_counted(rest[even] * q + c[even], heads, q, digits - 1), q)
    inverse = _inverses(q)[last[~even]]
    rest, value = rest[~even], c[~even] * inverse % q
    parts, columns = [], []
    numbers = np.arange(heads, dtype=np.int64)
    starts = numbers * q
    for _ in range(digits - 1):
        rest, digit = np.divmod(rest, np.int64(q))
        numbers, column = np.divmod(numbers, np.int64(q))
        parts.append(digit * inverse % q)
        columns.append(column)
    step = max(1, _CELLS_AT_ONCE // heads)
    for start in range(0, len(value), step):
        block = slice(start, start + step)
        found = np.repeat(value[block, np.newaxis], heads, axis=1)
        for part, column in zip(parts, columns, strict=True):
            found -= part[block, np.newaxis] * column
        found %= q
        found += starts
        counts += np.bincount(found.ravel(), minlength=heads * q)
    return counts[:cells]


def _inverses(q: int) -> Numbers:
    """Return the inverse of each number modulo a prime q, shape (q,); 0 for 0."""
    found = [0, 1]
    for number in range(2, q):
        found.append(-(q // number) * found[q % number] % q)
    return np.array(found, dtype=np.int64)


def _by_leading(codes: Numbers, cells: int, q: int, digits: int) -> Numbers:
    """Count by tables without the leading digit of a, which is taken from the reports."""
    # For each value v of a cell's leading digit reports are counted by what is left of a, and by
    # c - a_1 v in place of c.
    lead, rest = np.divmod(codes, np.int64(power(q, digits)))
    value = rest % q
    left = rest - value
    blocks = []
    for _ in range(_leading(cells, q, digits)):
        table = np.bincount(left + value, minlength=power(q, digits)).astype(_small(codes))
        blocks.append(_summed(table, q, digits - 1, q))
        value -= lead
        value += q * (value < 0)
    return np.concatenate(blocks)[:cells].astype(np.int64)


def _dense(codes: Numbers, cells: int, q: int, digits: int) -> Numbers:
    """Count by a table of how many reports there are of each."""
    table = np.bincount(codes, minlength=power(q, digits + 1)).astype(_small(codes))
    return table_supports(table, cells, q).astype(np.int64)


def _small(codes: Numbers) -> np.dtype[np.signedinteger[Any]]:
    return np.dtype(np.int32 if len(codes) < 1 << 31 else np.int64)


def _leading(cells: int, modulus: int, digits: int) -> int:
    """Return the number of values that the leading digit of a cell takes."""
    return -(-cells // power(modulus, digits - 1))


def _summed(
    table: NDArray[np.signedinteger[Any]], q: int, digits: int, leading: int
) -> NDArray[np.signedinteger[Any]]:
    """The sums over all digits of a, for c = 0; the leading digit of x takes this many values."""
    # The table N is summed a digit at a time, and of the last digit's sums only those with c = 0
    # are wanted:
    #
    #     N'[.., x_i, .., c] = sum over a_i of N[.., a_i, .., c + a_i x_i]
    #
    # Index c stands first, and the digit that is summed second; the digit of x that takes its place
    # goes to the end, so that each sum is of long runs of numbers.
    #
    # Shape (leading q^(digits - 1),).
    table = np.ascontiguousarray(table.reshape(-1, q).T)
    for _ in range(digits - 1):
        rest = table.size // (q * q)
        twice = np.concatenate((table, table)).reshape(2 * q, q, rest)  # c + a x needs no remainder
        summed = np.empty((q, rest, leading), dtype=table.dtype)
        for x in range(leading):
            total = twice[:q, 0].copy()
            for a in range(1, q):
                shift = a * x % q
                total += twice[shift : shift + q, a]
            summed[:, :, x] = total
        table, leading = summed, q
    table = table.reshape(q, q, -1)
    places = np.arange(q)
    last = [table[places * x % q, places].sum(axis=0) for x in range(leading)]
    return np.stack(last, axis=1).reshape(-1)


_MAX_TABLE_SUMS = 1 << 31  # of one tally by a table, when a modulus is chosen
_MAX_EACH_SUMS = 1 << 16  # of one report, if it is counted by itself: about a millisecond
_MODULI_ASIDE = 2  # primes that are tried on either side of e^eps + 1


@family.describes(LinearHashing)
@dataclass(frozen=True, slots=True)
class HashingFamily(family.Family[LinearHashing]):
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
        """P[+ is supported and - is not | the user is at a third cell], of both kinds."""
        # With p the own value's chance, r each other's: the user at u reports value a.u + d, d = 0
        # with chance p. It supports + if a.(x - u) = d, and - if a.(y - u) = d. If x - u and y - u
        # are independent vectors, both hold for q^(t-2) - 1 hashes at d = 0 and q^(t-2) at each
        # other d; if they are proportional, for q^(t-1) - 1 at d = 0 only.
        own, other = self._chances
        q, vectors, one = self.randomizer.modulus, self.randomizer.vectors, self.rates.other
        both = own * (vectors // (q * q) - 1) + (q - 1) * other * (vectors // (q * q))
        return one - both / (vectors - 1), one - own * self.collisions

    def comparisons(self) -> Comparisons:
        """Compare two cells, all pairs alike, by a law that is free of the hash."""
        # A report (a, c) is near a cell if c is its hash value; of the q^t - 1 hashes, q^(t-1) - 1
        # have one value for both cells. Other users are taken at a cell on the line through the two
        # (there is one from q = 3 on), where hashes have one value for all three or three values;
        # and at a cell off that line. The bias is that of the hash's draw.
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
        """Count the reports by nearness to cells 1, q and 0, whose differences are independent."""
        # The values of the first two less that of the third, (v, w), are each pair for q^(t-2) of
        # the vectors a, one of which is 0 and no hash.
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

    def tally(self, reports: family.Reports) -> family.Counts:
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

    def frequencies(self, counts: Sequence[int] | family.Counts, n: int) -> tuple[Fraction, ...]:
        """(c_v / n - q) / (p - q), with p and q the rates of own and other cells."""
        return self.rates.frequencies(family.check_each_count(counts, n, self.randomizer.cells), n)

    def frequency_variance(self) -> Fraction:
        """Return n times the conditional variance averaged over cells; the same for every truth."""
        return self.rates.variance(self.randomizer.cells)


@lru_cache(maxsize=64)
def _rates(randomizer: LinearHashing) -> InclusionRates:
    own, other = HashingFamily(randomizer)._chances
    collisions = HashingFamily(randomizer).collisions
    return InclusionRates(own, collisions * own + (1 - collisions) * other)


@family.makes("linear-hashing")
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
