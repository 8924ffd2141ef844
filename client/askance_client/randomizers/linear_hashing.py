"""Linear hashing: k-ary response about a random linear hash of the cell, for large alphabets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.digits import digits_of, power
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import DRAW_COST, NumberedRandomizer, check_integer

MIN_HASHED = 3  # with two cells there is nothing to hash
MAX_HASHED = 1 << 20
MAX_MODULUS = 65521  # the greatest prime below 2^16: q^t stays below 2^32


@dataclass(frozen=True, slots=True)
class LinearHashing(NumberedRandomizer):
    """Reports (a, c): a random linear hash, and k-ary response about the own cell's hash value.

    With q = modulus, a cell is written to base q as a vector x of t digits, the least t with
    q^t >= cells. One coin U makes a = floor(U (q^t - 1) / 2^64) + 1, whose digits are a non-zero
    vector; another one makes c as `KaryResponse` of q cells does, about the hash value a.x mod q.
    The report supports the cells x with a.x = c. It is the number a q + c in the fewest bytes that
    hold q^(t + 1), big-endian, so that no report is all ones.

    Privacy: pure eps-LDP, replace-one; a does not depend on the cell, however even its coin is, so
    the loss is exactly that of k-ary response over q cells, attained by every report.
    Utility: two cells x, x' collide where a.(x - x') = 0, which (q^(t-1) - 1) of the q^t - 1 hashes
    have, whatever the two: so the support counts of cells are binomial, and unbiased but for the
    unevenness of a, below q^t / 2^64. Variance within 3 % of subset selection's for q near
    e^eps + 1, but near eps = 1.04, where 3.1 % is between the primes 3 and 5. Two coins, at
    most six bytes.

    Args:
        cells: 3..2^20.
        modulus: a prime in 2..65521, less than cells.
        other: >= 1, and (modulus - 1) other < 2^64; the chance of each other value, over 2^64.

    Raises:
        InvalidParameter: they are not.

    Source: Bassily and Smith 2015; Wang, Blocki, Li and Jha 2017 (optimal local hashing);
        deviations: the hash is linear over a prime field, so that collisions are known exactly.
        Projective geometry response (Feldman, Nelson, Nguyen and Talwar, arXiv:2203.00194) reaches
        the same error by sets of a geometry; its draws are of unequal sets and must be certified,
        where here the loss is a ratio of two integers.
    """

    name: ClassVar[str] = "linear-hashing"

    cells: int
    modulus: int
    other: int

    def __post_init__(self) -> None:
        check_integer("cells", self.cells, MIN_HASHED, MAX_HASHED)
        check_integer("modulus", self.modulus, 2, min(MAX_MODULUS, self.cells - 1))
        if not is_prime(self.modulus):
            raise InvalidParameter(f"modulus: expected a prime, got {self.modulus}")
        check_integer("other", self.other, 1, (COIN_SPACE - 1) // (self.modulus - 1))

    @property
    def own(self) -> int:
        """P: how many of the 2^64 coins report the own cell's hash value."""
        return COIN_SPACE - (self.modulus - 1) * self.other

    @property
    def vectors(self) -> int:
        """q^t: one more than there are hashes."""
        return power(self.modulus, digits_of(self.cells, self.modulus))

    @property
    def levels(self) -> int:
        """The number of cells."""
        return self.cells

    @property
    def coins(self) -> int:
        """Two coins: for the hash and for the value."""
        return 2

    @property
    def reports(self) -> int:
        """q^(t + 1); none is below q."""
        return self.vectors * self.modulus

    @property
    def loss(self) -> PrivacyLoss:
        """Exact."""
        return PrivacyLoss(max(self.own, self.other), min(self.own, self.other))

    @property
    def draw_cost(self) -> int:
        """Four units per digit of a cell."""
        return DRAW_COST + 4 * digits_of(self.cells, self.modulus)

    @property
    def parameters(self) -> tuple[int, ...]:
        """Cells, modulus and other."""
        return (self.cells, self.modulus, self.other)

    def hash_value(self, hashing: int, cell: int) -> int:
        """a.x mod q."""
        total = 0
        while hashing and cell:
            hashing, first = divmod(hashing, self.modulus)
            cell, second = divmod(cell, self.modulus)
            total += first * second
        return total % self.modulus

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """The hash by the one coin, its value by the other."""
        level, (first, coin) = self.check_draw(level, coins)
        hashing = ((first * (self.vectors - 1)) >> COIN_BITS) + 1
        value = self.hash_value(hashing, level)
        if coin >= self.own:
            rank = (coin - self.own) // self.other
            value = rank + (rank >= value)
        return (hashing * self.modulus + value).to_bytes(self.width, "big")


def is_prime(number: int) -> bool:
    """Return whether a number from 2 on is prime."""
    return number == 2 or (
        number % 2 == 1 and all(number % d for d in range(3, isqrt(number) + 1, 2))
    )
