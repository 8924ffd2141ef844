"""Hypercube response: tally, estimates, and the radius for a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import comb

import numpy as np

from askance_aggregator.families import family
from askance_aggregator.families.comparisons import Comparisons, TwoSymbols
from askance_aggregator.families.fitting import check_expressible, check_positive, greatest
from askance_aggregator.families.near_sets import Near, NearSets, beside
from askance_aggregator.families.rates import InclusionRates, VectorRates
from askance_aggregator.numbers import plain_arguments
from askance_client.accounting import NANO_NATS_PER_NAT, exp_bounds, ratio_within
from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.hypercube_draws import certified_ratio, patterns_within
from askance_client.randomizers.hypercube_response import MAX_COMPONENTS, HypercubeResponse
from askance_client.randomizers.randomizer import check_integer

_TALLY_ROWS = 1 << 14  # reports unpacked at a time: bounds memory, changes no count
_TRIED = 256  # components up to which patterns that are not opposite are compared: .3 s
_KEPT = 2  # of these, beside those with the others at one of two opposite patterns
_RADII_ASIDE = 1  # radii tried exactly on either side of the best one by bounds of e^eps


@family.describes(HypercubeResponse)
@dataclass(frozen=True, slots=True)
class HypercubeFamily(family.Family[HypercubeResponse]):
    """Aggregator's side of hypercube response: tally and estimates."""

    @property
    def text(self) -> str:
        return f"hypercube({self.randomizer.components}, {self.randomizer.radius})"

    def inclusion(self, level: int) -> InclusionRates:
        """Rates of every component at +."""
        return self.rates

    @property
    def agreement(self) -> Fraction:
        """m: the mean of a reported sign times the own one, with uniform draws."""
        # sum over i <= r of C(s, i) (1 - 2i/s) telescopes to C(s-1, r), and over i > r to its
        # negative, so m = C(s-1, r) (t/N - (2^64-t)/F) / 2^64.
        tilt = Fraction(self.randomizer.threshold, self.randomizer.near) - Fraction(
            COIN_SPACE - self.randomizer.threshold, self.randomizer.levels - self.randomizer.near
        )
        return (
            Fraction(comb(self.randomizer.components - 1, self.randomizer.radius), COIN_SPACE)
            * tilt
        )

    @property
    def rates(self) -> InclusionRates:
        """Rates at which a component is reported as +, by users that have it at + and by others."""
        half = Fraction(1, 2)
        return InclusionRates(half * (1 + self.agreement), half * (1 - self.agreement))

    @property
    def pair_agreement(self) -> Fraction:
        """Mean product of two components' agreements; 0 of one component."""
        # At a distance i from the own pattern, all such patterns being equally likely, it is
        # ((s - 2i)^2 - s) / (s (s - 1)): the square of the sum of all agreements less its diagonal.
        size, radius = self.randomizer.components, self.randomizer.radius
        if size == 1:
            return Fraction(0)
        products = [comb(size, i) * ((size - 2 * i) ** 2 - size) for i in range(size + 1)]
        near, far = sum(products[: radius + 1]), sum(products[radius + 1 :])
        within = Fraction(near * self.randomizer.threshold, self.randomizer.near)
        beyond = Fraction(
            far * (COIN_SPACE - self.randomizer.threshold),
            self.randomizer.levels - self.randomizer.near,
        )
        return (within + beyond) / (COIN_SPACE * size * (size - 1))

    def vector_rates(self, half: float) -> VectorRates:
        """Return the second moments: values are rounded to signs by coins of their own."""
        inverse = float(1 / self.agreement)
        pair = float(self.pair_agreement) * inverse**2
        return VectorRates((half * inverse) ** 2, 0.0, pair, half * abs(inverse))

    def comparisons(self) -> Comparisons | TwoSymbols:
        """Compare two opposite patterns, which share as few near patterns as any two."""
        # From below other users are taken halfway between the two, or at one of them; or two
        # patterns are compared that differ in fewer components, beside others at one that differs
        # from both in the rest (`_apart`): those with the greatest index. The bias is derived at
        # `hypercube_draws.certified_ratio`.
        size, half = self.randomizer.components, self.randomizer.components // 2
        law = NearSets(self.randomizer.threshold, self.randomizer.near, self.randomizer.levels)
        if size == 1:
            return law.bit()
        pair: dict[Near, int] = {}
        for (own, other, _), patterns in self._near(0).items():
            pair[own, other] = pair.get((own, other), 0) + patterns
        tried = [
            law.attained(self._near(half), f"opposite patterns, others {half} components apart")
        ]
        if size <= _TRIED:
            tried += [
                law.attained(
                    self._apart(apart, turned),
                    f"patterns {apart} components apart, others with {turned} of these turned "
                    f"and all {size - apart} others",
                )
                for apart in sorted({size, size - 2, 7 * size // 8, 3 * size // 4} - {0, 1})
                for turned in (apart // 2, apart // 2 + 1)
                if (apart, turned) != (size, half)
            ]
        tried.sort(key=lambda each: each.index, reverse=True)
        lower = [
            *tried[:_KEPT],
            law.attained(beside(pair, 0), "opposite patterns, others at the record"),
            law.attained(beside(pair, 1), "opposite patterns, others at the compared one"),
        ]
        bias = Fraction(2 + half * (2 * size - half + 1), 2 * COIN_SPACE)
        return Comparisons([law.blanket(pair, "opposite patterns, any others")], lower, bias)

    def _near(self, away: int) -> dict[Near, int]:
        """Count patterns by nearness to a pattern, its opposite, and one `away` from it."""
        # A pattern that differs from the first in i of those components and in j of the rest is at
        # i + j from the first, size - i - j from its opposite and away - i + j from the third.
        size, radius = self.randomizer.components, self.randomizer.radius
        rest = size - away
        within = [0, *accumulate(comb(rest, j) for j in range(rest + 1))]
        counts: dict[Near, int] = {}
        for i in range(away + 1):
            ways = comb(away, i)
            cuts = (radius - i + 1, size - radius - i, radius - away + i + 1)
            ends = sorted({0, rest + 1, *(min(max(cut, 0), rest + 1) for cut in cuts)})
            for start, stop in pairwise(ends):
                near = (start < cuts[0], start >= cuts[1], start < cuts[2])
                counts[near] = counts.get(near, 0) + ways * (within[stop] - within[start])
        return counts

    def _apart(self, apart: int, turned: int) -> dict[Near, int]:
        """Count the patterns by nearness to three."""
        # The second one differs from the first in `apart` components, the third one in `turned` of
        # these and in all of the rest.
        #
        # A pattern that differs from the first in i of the `turned`, j of the other `apart` and k
        # of the rest is at i + j + k, at apart - i - j + k and at turned - i + j + rest - k from
        # them.
        radius, rest = self.randomizer.radius, self.randomizer.components - apart
        within = [0, *accumulate(comb(rest, k) for k in range(rest + 1))]
        counts: dict[Near, int] = {}
        for i, j in product(range(turned + 1), range(apart - turned + 1)):
            ways = comb(turned, i) * comb(apart - turned, j)
            cuts = (
                radius - i - j + 1,
                radius - apart + i + j + 1,
                turned - i + j + rest - radius,
            )
            ends = sorted({0, rest + 1, *(min(max(cut, 0), rest + 1) for cut in cuts)})
            for start, stop in pairwise(ends):
                near = (start < cuts[0], start < cuts[1], start >= cuts[2])
                counts[near] = counts.get(near, 0) + ways * (within[stop] - within[start])
        return counts

    def alphabet(self) -> Iterator[bytes]:
        """All 2^s patterns."""
        return (
            pattern.to_bytes(self.randomizer.width, "big")
            for pattern in range(self.randomizer.levels)
        )

    def tally(self, reports: family.Reports) -> family.Counts:
        """Count the reports that have each component at +."""
        self.check_reports(reports)
        spare = 8 * self.randomizer.width - self.randomizer.components
        counts = np.zeros(self.randomizer.components, dtype=np.int64)
        for start in range(0, len(reports), _TALLY_ROWS):
            bits = np.unpackbits(reports[start : start + _TALLY_ROWS], axis=1)
            if bits[:, :spare].any():
                raise InvalidParameter(
                    f"reports are patterns of {self.randomizer.components}, found others"
                )
            counts += bits[:, spare:].sum(axis=0, dtype=np.int64)
        return counts

    def frequencies(self, counts: Sequence[int] | family.Counts, n: int) -> tuple[Fraction, ...]:
        """For each component the share of users at +: not of patterns, of which there are 2^s."""
        plain = [int(count) for count in counts]
        return self.rates.frequencies(
            family.check_counts(plain, n, self.randomizer.components, sum(plain)), n
        )

    def frequency_variance(self) -> Fraction:
        """Return n times the conditional variance of a component's share, for any truth."""
        own = self.rates.own
        return Fraction(own * (1 - own), self.agreement**2)


@family.makes("hypercube")
@plain_arguments
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

    Example:
        >>> ask.hypercube_response(4, 10**9).vector_components
        4
    """
    check_integer("components", components, 1, MAX_COMPONENTS)
    check_positive(nano)
    middle = _radius_of_greatest_agreement(components, nano)
    last = (components - 1) // 2
    radii = range(max(0, middle - _RADII_ASIDE), min(last, middle + _RADII_ASIDE) + 1)
    best = max(
        (_fitting(components, radius, nano) for radius in radii),
        key=lambda candidate: (HypercubeFamily(candidate).agreement, -candidate.radius),
    )
    check_expressible(best.loss, nano, best.threshold == COIN_SPACE - 1)
    return best


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
