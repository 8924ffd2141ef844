"""Random codebook: of many public directions, one that favours those near the own vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.hypercube_response import MAX_COMPONENTS
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.public_rotations import STEPS, turned
from askance_client.randomizers.randomizer import (
    DRAW_COST,
    NumberedRandomizer,
    check_integer,
    check_threshold,
)

MAX_CODES = 65520  # 1,820 bases of the least order: below 2^16
MAX_RADIUS = 1 << 40
SEED_BITS = 40
_LEAST_ORDER = 18  # steps mix lower orders too slowly, and powers of two
LENGTH_BITS = 26  # of the radius on the working grid: 2^10 squares add up in int64


@dataclass(frozen=True, slots=True)
class RandomCodebook(NumberedRandomizer):
    """Reports a public seed and one of the M directions that the seed expands to.

    A level is a vector of integers. Its point on the sphere is the vector and one coordinate that
    lengthens it to the radius, of what is longer the vector itself; an order is even, at least 18
    and no power of two, so zeros may follow. The seed gives `bases` rotations; code 2 i + b is the
    i-th row of them, negative if b is 1. The codes are ranked by their inner product with the
    point, ties by index. One coin draws the seed. Another one says with probability
    threshold / 2^64 that the report is among the first `near` codes of the ranking, and a third one
    which of them, else which other.

    A report is seed M + code in the fewest bytes that hold 2^seed_bits M, big-endian, so that it is
    never all ones.

    Privacy: pure eps-LDP, replace-one. The seed does not depend on the vector, and for every seed a
    ranking is an order of all M codes: a code's chance is that of its rank, an integer over 2^128.
    The loss is the greatest of these integers over the least, exactly, whatever the vectors and
    however the ranking comes about.
    Utility: unbiased in the directions and by `CodebookFamily.agreement` in length, for rotations
    that are even; see docs/adr/0033 for what theirs lack. Variance within 5 % of PrivUnit's.

    Args:
        components: 1..1024.
        radius: 1..2^40, in grid units: the greatest length of a vector.
        bases: 1 or more; the M codes are at most 65520.
        near: 1..M-1.
        threshold: 1..2^64-1.
        seed_bits: 0..40; fewer than 40 only in tests.

    Raises:
        InvalidParameter: they are not.

    Source: Bhowmick et al. 2018 and Asi, Feldman and Talwar, arXiv:2205.02466 (PrivUnit);
        deviations: a codebook in place of the sphere, so that the law is exact.
    """

    name: ClassVar[str] = "codebook"

    components: int
    radius: int
    bases: int
    near: int
    threshold: int
    seed_bits: int = SEED_BITS

    def __post_init__(self) -> None:
        check_integer("components", self.components, 1, MAX_COMPONENTS)
        check_integer("radius", self.radius, 1, MAX_RADIUS)
        check_integer("bases", self.bases, 1, MAX_CODES // (2 * self.order))
        check_integer("near", self.near, 1, self.codes - 1)
        check_threshold(self.threshold)
        check_integer("seed_bits", self.seed_bits, 0, SEED_BITS)

    @property
    def order(self) -> int:
        """Number of coordinates of a code."""
        order = max(_LEAST_ORDER, self.components + 2 - self.components % 2)
        return order + 2 * (order & (order - 1) == 0)

    @property
    def codes(self) -> int:
        """M: two for each row of each basis."""
        return 2 * self.bases * self.order

    @property
    def digits(self) -> int:
        """Hexadecimal digits of a component in a level, which hold -radius..radius."""
        return self.radius.bit_length() // 4 + 1

    @property
    def levels(self) -> int:
        """Number of vectors with components of so many digits."""
        return 1 << 4 * self.components * self.digits

    @property
    def vector_components(self) -> int:
        """The number of components."""
        return self.components

    @property
    def coins(self) -> int:
        """Three coins: for the seed, for near or far, for the rank there."""
        return 3

    @property
    def reports(self) -> int:
        """2^seed_bits M."""
        return self.codes << self.seed_bits

    @property
    def loss(self) -> PrivacyLoss:
        """Exact: an even draw of a rank among k has floor or ceil of 2^64 / k coins for it."""
        far, rest = self.codes - self.near, COIN_SPACE - self.threshold
        most = max(self.threshold * -(-COIN_SPACE // self.near), rest * -(-COIN_SPACE // far))
        least = min(self.threshold * (COIN_SPACE // self.near), rest * (COIN_SPACE // far))
        return PrivacyLoss(most, least)

    @property
    def draw_cost(self) -> int:
        """A unit per coordinate and step; the ranking takes less than what that leaves."""
        return DRAW_COST + self.codes // 2 * STEPS

    @property
    def parameters(self) -> tuple[int, ...]:
        """Components, radius, bases, near, threshold and bits of the seed."""
        counts = (self.components, self.radius, self.bases, self.near)
        return (*counts, self.threshold, self.seed_bits)

    def vector_level(self, values: Sequence[int], low: int, high: int, coins: Sequence[int]) -> int:
        """Write the components, clipped to the radius, one after another; no coin rounds them."""
        most, size = self.radius, self.digits
        half = 1 << 4 * size - 1
        return int("".join([f"{half + min(max(v, -most), most):0{size}x}" for v in values]), 16)

    def point(self, level: int) -> list[int]:
        """The level's point on the sphere, on the working grid of 2^25 to 2^26 per radius."""
        size, shift = self.digits, LENGTH_BITS - self.radius.bit_length()
        half, text = 1 << 4 * size - 1, f"{level:0{self.components * size}x}"
        parts = [int(text[i : i + size], 16) - half for i in range(0, len(text), size)]
        values = [part << shift if shift >= 0 else part >> -shift for part in parts]
        radius = self.radius << shift if shift >= 0 else self.radius >> -shift
        short = radius * radius - sum([value * value for value in values])
        rest = self.order - self.components - 1
        return [*values, isqrt(max(short, 0)), *[0] * rest]

    def ranked(self, level: int, seed: int) -> list[int]:
        """The codes of a seed, the nearest to the level's point first."""
        return ranking(turned(self.point(level), seed, self.bases))

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """The seed by the first coin, near or far by the second, the rank by the third."""
        level, (first, second, third) = self.check_draw(level, coins)
        seed = first >> (COIN_BITS - self.seed_bits)
        near, far = self.near, self.codes - self.near
        chosen = (third * near if second < self.threshold else (third * far)) >> COIN_BITS
        rank = chosen if second < self.threshold else near + chosen
        code = self.ranked(level, seed)[rank]
        return (seed * self.codes + code).to_bytes(self.width, "big")


def ranking(scores: Sequence[int]) -> list[int]:
    """Order the M codes of M / 2 inner products: the greatest first, of equal ones the first."""
    falling = [signed for score in scores for signed in (-score, score)]
    return sorted(range(len(falling)), key=falling.__getitem__)
