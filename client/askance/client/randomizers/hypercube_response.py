"""Hypercube response: a random sign pattern that favours those near the own one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb
from typing import ClassVar

import numpy as np

from askance.client.accounting import NANO_NATS_PER_NAT, exp_bounds, ratio_within
from askance.client.errors import InvalidParameter
from askance.client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance.client.randomizers.fitting import check_expressible, check_positive, greatest
from askance.client.randomizers.hypercube_draws import (
    certified_ratio,
    draw_flips,
    patterns_within,
    rank_words,
)
from askance.client.randomizers.inclusion import InclusionRates
from askance.client.randomizers.loss import PrivacyLoss
from askance.client.randomizers.randomizer import (
    Counts,
    Randomizer,
    Reports,
    check_counts,
    check_integer,
)

MAX_COMPONENTS = 1024

_TALLY_ROWS = 1 << 14  # reports unpacked at a time: bounds memory, changes no count
_RADII_ASIDE = 1  # radii tried exactly on either side of the best one by bounds of e^eps


@dataclass(frozen=True, slots=True)
class HypercubeResponse(Randomizer):
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
        check_components(self.components)
        check_integer("radius", self.radius)
        check_integer("threshold", self.threshold)
        if not 0 <= self.radius < self.components:
            raise InvalidParameter(
                f"a radius among {self.components} components lies in 0..{self.components - 1}, "
                f"found {self.radius}"
            )
        if not 1 <= self.threshold < COIN_SPACE:
            raise InvalidParameter("a threshold lies in 1..2^64-1, found one outside")
        loss = PrivacyLoss(*certified_ratio(self.components, self.radius, self.threshold))
        object.__setattr__(self, "_loss", loss)

    @property
    def levels(self) -> int:
        """The number of patterns, 2^s."""
        return 1 << self.components

    @property
    def near(self) -> int:
        """N: how many patterns are near one."""
        return patterns_within(self.components)[self.radius]

    @property
    def coins(self) -> int:
        """One for near or far, then the rank's, then one a component of half of them."""
        return 1 + rank_words(self.components) + self.components // 2

    @property
    def width(self) -> int:
        """The pattern's bytes, with at least one bit to spare."""
        return self.components // 8 + 1

    @property
    def loss(self) -> PrivacyLoss:
        """Certified from above; exact for one component."""
        return self._loss

    @property
    def parameters(self) -> tuple[int, ...]:
        """Components, radius and threshold."""
        return (self.components, self.radius, self.threshold)

    @property
    def agreement(self) -> Fraction:
        """m: the mean of a reported sign times the own one, with uniform draws.

        sum over i <= r of C(s, i) (1 - 2i/s) telescopes to C(s-1, r), and over i > r to its
        negative, so m = C(s-1, r) (t/N - (2^64-t)/F) / 2^64.
        """
        tilt = Fraction(self.threshold, self.near) - Fraction(
            COIN_SPACE - self.threshold, self.levels - self.near
        )
        return Fraction(comb(self.components - 1, self.radius), COIN_SPACE) * tilt

    @property
    def rates(self) -> InclusionRates:
        """How often a component is reported as + by those for whom it is, and by the others."""
        half = Fraction(1, 2)
        return InclusionRates(half * (1 + self.agreement), half * (1 - self.agreement))

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Draws which components differ from the own pattern's (see `draw_flips`)."""
        level, words = self.check_draw(level, coins)
        flips = draw_flips(self.components, self.radius, self.threshold, words)
        return (level ^ flips).to_bytes(self.width, "big")

    def valid(self, report: bytes) -> bool:
        """`width` bytes that hold a pattern."""
        return (
            isinstance(report, bytes)
            and len(report) == self.width
            and int.from_bytes(report, "big") < self.levels
        )

    def alphabet(self) -> Iterator[bytes]:
        """All 2^s patterns."""
        return (pattern.to_bytes(self.width, "big") for pattern in range(self.levels))

    def probability(self, level: int, report: bytes) -> Fraction:
        """The probability with uniform draws; the device's differs by a factor within the bias."""
        self.check_level(level)
        if not self.valid(report):
            return Fraction()
        distance = (level ^ int.from_bytes(report, "big")).bit_count()
        if distance <= self.radius:
            return Fraction(self.threshold, COIN_SPACE * self.near)
        return Fraction(COIN_SPACE - self.threshold, COIN_SPACE * (self.levels - self.near))

    def tally(self, reports: Reports) -> Counts:
        """How many reports have each component at +."""
        self.check_reports(reports)
        spare = 8 * self.width - self.components
        counts = np.zeros(self.components, dtype=np.int64)
        for start in range(0, len(reports), _TALLY_ROWS):
            bits = np.unpackbits(reports[start : start + _TALLY_ROWS], axis=1)
            if bits[:, :spare].any():
                raise InvalidParameter(f"reports are patterns of {self.components}, found others")
            counts += bits[:, spare:].sum(axis=0, dtype=np.int64)
        return counts

    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """For each component the share of users at +: not of patterns, of which there are 2^s."""
        plain = [int(count) for count in counts]
        return self.rates.frequencies(check_counts(plain, n, self.components, sum(plain)), n)

    def frequency_variance(self) -> Fraction:
        """n x conditional variance of a component's share; the same for every truth."""
        own = self.rates.own
        return Fraction(own * (1 - own), self.agreement**2)


def hypercube_response(components: int, nano: int) -> HypercubeResponse:
    """The hypercube response that spends a budget with the greatest agreement m.

    With e = e^eps a radius r attains m = C(s-1, r) (e - 1) / (e N + F). All radii up to the middle
    (past it N only grows, for the same binomial) are compared so, e replaced by a bound; those
    next to the best then exactly, with the greatest threshold that fits, bias included. The
    smaller radius wins a tie.

    Args:
        components: 1..1024.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: components or nano is out of range, or 64-bit coins cannot express nano.
    """
    check_components(components)
    check_positive(nano)
    middle = _radius_of_greatest_agreement(components, nano)
    last = (components - 1) // 2
    radii = range(max(0, middle - _RADII_ASIDE), min(last, middle + _RADII_ASIDE) + 1)
    best = max(
        (_fitting(components, radius, nano) for radius in radii),
        key=lambda candidate: (candidate.agreement, -candidate.radius),
    )
    check_expressible(best.loss, nano, best.threshold == COIN_SPACE - 1)
    return best


def check_components(components: int) -> None:
    """Refuses a number of components outside 1..1024."""
    check_integer("components", components)
    if not 1 <= components <= MAX_COMPONENTS:
        raise InvalidParameter(f"there are 1..{MAX_COMPONENTS} components, found {components}")


def _radius_of_greatest_agreement(components: int, nano: int) -> int:
    exponential, _ = exp_bounds(min(nano, 64 * NANO_NATS_PER_NAT), COIN_BITS)
    within, total = patterns_within(components), 1 << components
    best, best_top, best_bottom = 0, 0, 1
    binomial = 1
    for radius in range((components - 1) // 2 + 1):
        bottom = exponential * within[radius] + ((total - within[radius]) << COIN_BITS)
        if binomial * best_bottom > best_top * bottom:
            best, best_top, best_bottom = radius, binomial, bottom
        binomial = binomial * (components - 1 - radius) // (radius + 1)
    return best


def _fitting(components: int, radius: int, nano: int) -> HypercubeResponse:
    near, total = patterns_within(components)[radius], 1 << components

    def fits(threshold: int) -> bool:
        # As long as a far pattern is the likelier one, a greater threshold only evens them out.
        if threshold * (total - near) <= (COIN_SPACE - threshold) * near:
            return True
        return ratio_within(*certified_ratio(components, radius, threshold), nano)

    threshold = greatest(1, COIN_SPACE - 1, fits)
    if threshold is not None:
        candidate = HypercubeResponse(components, radius, threshold)
        if candidate.loss.fits(nano):
            return candidate
    raise InvalidParameter(
        f"no pattern of {components} within {radius} is as even as {nano} nano-nats ask"
    )
