"""Randomizers of vectors: hypercube response and the random codebook."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import comb, isqrt

from tests.conformance.verifier.families import M, Numbered, expect, floyd, round_to


class Hypercube(Numbered):
    """A sign pattern, near the own one below the threshold."""

    name = "hypercube"
    radius: int
    threshold: int

    def check(self) -> None:
        """Ranges."""
        s = self.components
        expect(1 <= s <= 1024 and self.radius < s and self.threshold >= 1, "a radius")
        self.words = (s + 63) // 64 + 1 if s > 1 else 0
        self.levels = self.reports = 1 << s
        self.coins = 1 + self.words + s // 2
        self.near = sum(comb(s, i) for i in range(self.radius + 1))

    def ratio(self) -> tuple[int, int]:
        """Ratio of the even laws, enlarged, and cut to 256 bits outward."""
        s, h, t, n = self.components, self.components // 2, self.threshold, self.near
        inside, outside = t * ((1 << s) - n), (M - t) * n
        bias = 2 + h * (2 * s - h + 1) if s > 1 else 0
        most, least = max(inside, outside) * M, min(inside, outside) * (M - bias)
        excess = max(least.bit_length() - 256, 0)
        return -(-most >> excess), least >> excess

    def rounding_coins(self) -> int:
        """A coin per component."""
        return self.components

    def vector_level(self, values: list[int], low: int, high: int, coins: list[int]) -> int:
        """Round each component to one of the two ends; the first is the leading bit."""
        level = 0
        for value, coin in zip(values, coins, strict=True):
            level = 2 * level + round_to(value, low, high, 2, coin)
        return level

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """Near or far, then the distance by a rank, then so many components or those kept."""
        s = self.components
        rank = 0
        for word in coins[1 : 1 + self.words]:
            rank = rank << 64 | word
        near = coins[0] < self.threshold
        count = self.near if near else (1 << s) - self.near
        rank = ((rank * count) >> (64 * self.words)) + (0 if near else self.near)
        distance = 0
        while rank >= comb(s, distance):
            rank -= comb(s, distance)
            distance += 1
        size = min(distance, s - distance)
        drawn = sum(1 << (s - 1 - j) for j in floyd(s, size, coins[len(coins) - size :]))
        flips = drawn if distance <= s - distance else (1 << s) - 1 - drawn
        return self.encode(level ^ flips)


class Codebook(Numbered):
    """A direction, out of those that a seed expands to, near the own vector by preference."""

    name = "codebook"
    radius: int
    bases: int
    near: int
    threshold: int
    seed_bits: int

    def check(self) -> None:
        """Ranges; at most 65,520 directions."""
        expect(1 <= self.components <= 1024 and 1 <= self.radius <= 1 << 40, "a radius")
        order = max(18, self.components + 2 - self.components % 2)
        self.order = order if order & (order - 1) else order + 2
        self.codes = 2 * self.bases * self.order
        expect(self.bases >= 1 and self.codes <= 65520, "bases of at most 65,520 codes")
        expect(1 <= self.near < self.codes and self.threshold >= 1, "some near codes")
        expect(self.seed_bits <= 40, "a seed of at most 40 bits")
        self.digits = self.radius.bit_length() // 4 + 1
        self.levels = 1 << (4 * self.components * self.digits)
        self.reports, self.coins = self.codes << self.seed_bits, 3

    def ratio(self) -> tuple[int, int]:
        """Exact."""
        far, t = self.codes - self.near, self.threshold
        most = max(t * -(-M // self.near), (M - t) * -(-M // far))
        return most, min(t * (M // self.near), (M - t) * (M // far))

    def vector_level(self, values: list[int], low: int, high: int, coins: list[int]) -> int:
        """Components clipped to the radius, each in its hexadecimal digits."""
        level, half = 0, 1 << (4 * self.digits - 1)
        for value in values:
            clipped = min(max(value, -self.radius), self.radius)
            level = (level << 4 * self.digits) + half + clipped
        return level

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """The seed, near or far, and the rank there."""
        seed = coins[0] >> (64 - self.seed_bits)
        far = self.codes - self.near
        if coins[1] < self.threshold:
            rank = (coins[2] * self.near) >> 64
        else:
            rank = self.near + ((coins[2] * far) >> 64)
        scores = [s for row in self._rows(self._point(level), seed) for s in (row, -row)]
        code = sorted(range(self.codes), key=lambda index: (-scores[index], index))[rank]
        return self.encode(seed * self.codes + code)

    def _point(self, level: int) -> list[int]:
        """The vector on a grid of 26 bits per radius, and the coordinate that lengthens it."""
        size = 4 * self.digits
        shift = 26 - self.radius.bit_length()
        parts = []
        for place in reversed(range(self.components)):
            part = (level >> (size * place) & (1 << size) - 1) - (1 << (size - 1))
            parts.append(part << shift if shift >= 0 else part >> -shift)
        radius = self.radius << shift if shift >= 0 else self.radius >> -shift
        rest = isqrt(max(radius**2 - sum(part**2 for part in parts), 0))
        return [*parts, rest] + [0] * (self.order - self.components - 1)

    def _rows(self, point: list[int], seed: int) -> list[int]:
        """Inner products of the point with the rows of all bases, basis by basis."""
        count = self.bases * self.order * 32
        octets = hashlib.shake_128(seed.to_bytes(8, "big")).digest(count // 8)
        rows: list[int] = []
        bit = 0
        for _ in range(self.bases):
            turning = point
            for _ in range(32):
                signed = []
                for value in turning:
                    signed.append(-value if octets[bit // 8] >> (7 - bit % 8) & 1 else value)
                    bit += 1
                pairs = list(zip(signed[::2], signed[1::2], strict=True))
                turning = [a + b for a, b in pairs] + [a - b for a, b in pairs]
            rows += turning
        return rows
