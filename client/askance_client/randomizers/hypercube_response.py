"""Hypercube response: a random sign pattern that favours those near the own one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from askance_client.randomizers.hypercube_draws import (
    certified_ratio,
    draw_flips,
    patterns_within,
    rank_words,
)
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import (
    DRAW_COST,
    NumberedRandomizer,
    check_integer,
    check_threshold,
)
from askance_client.randomizers.rounding import sign_pattern

MAX_COMPONENTS = 1024


@dataclass(frozen=True, slots=True)
class HypercubeResponse(NumberedRandomizer):
    """Reports one of 2^s sign patterns: near the own one with probability threshold / 2^64.

    A level is a pattern of s = components signs, the integer whose bit s-1-j says that component j
    is +. Near is a Hamming distance of at most `radius`; the pattern is uniform among the near
    ones, else among the far ones. So one component is randomized response; the radius
    (s-1)/2 is Duchi's mechanism on the cube, and the greater eps, the smaller the best radius.

    A report is the reported integer in s // 8 + 1 bytes, big-endian: the first bit is always 0, so
    that it is never all ones.

    Privacy: pure eps-LDP, replace-one; the loss is ln of [t / N] / [(2^64 - t) / F], or of its
    inverse, with N near and F far patterns, enlarged by what the draws are short of uniform
    (`certified_ratio`). Duchi's one bit and anything else of one component is exact.
    Utility: each component of the report has the own sign with probability (1 + m) / 2, so that
    m times it is expected; the + counts of components are binomial. Unbiased, up to the bias.

    Args:
        components: 1..1024.
        radius: 0..components-1.
        threshold: 1..2^64-1.

    Raises:
        InvalidParameter: they are not.

    Source: Duchi, Jordan and Wainwright 2018 (radius (s-1)/2); Bhowmick et al. 2018 and Asi,
        Feldman and Talwar, arXiv:2205.02466 (PrivUnit: a cap of the sphere, here of the cube).
    """

    name: ClassVar[str] = "hypercube"

    components: int
    radius: int
    threshold: int
    _loss: PrivacyLoss = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_integer("components", self.components, 1, MAX_COMPONENTS)
        check_integer("radius", self.radius, 0, self.components - 1)
        check_threshold(self.threshold)
        loss = PrivacyLoss(*certified_ratio(self.components, self.radius, self.threshold))
        object.__setattr__(self, "_loss", loss)

    @property
    def levels(self) -> int:
        """The number of patterns, 2^s."""
        return 1 << self.components

    @property
    def vector_components(self) -> int:
        """The number of components."""
        return self.components

    @property
    def vector_coins(self) -> int:
        """Number of coins: one per component, which rounds it."""
        return self.components

    @property
    def near(self) -> int:
        """N: how many patterns are near one."""
        return patterns_within(self.components)[self.radius]

    @property
    def coins(self) -> int:
        """Number of coins: near or far, then the rank's, then one per component of half of them."""
        return 1 + rank_words(self.components) + self.components // 2

    @property
    def reports(self) -> int:
        """The number of patterns."""
        return self.levels

    @property
    def loss(self) -> PrivacyLoss:
        """Certified from above; exact for one component."""
        return self._loss

    @property
    def draw_cost(self) -> int:
        """Six units per component: it is rounded, then drawn."""
        return DRAW_COST + 6 * self.components

    @property
    def parameters(self) -> tuple[int, ...]:
        """Components, radius and threshold."""
        return (self.components, self.radius, self.threshold)

    def vector_level(self, values: Sequence[int], low: int, high: int, coins: Sequence[int]) -> int:
        """The signs, each rounded at random (see `sign_pattern`)."""
        return sign_pattern(values, low, high, coins)

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Draw which components differ from the own pattern's (see `draw_flips`)."""
        level, words = self.check_draw(level, coins)
        flips = draw_flips(self.components, self.radius, self.threshold, words)
        return (level ^ flips).to_bytes(self.width, "big")
