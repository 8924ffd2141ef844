"""Random codebook: tally of directions, estimates, and the codebook for a budget.

Law of the greatest inner products of a unit vector with the codes of even rotations.

The inner products with one basis are, in size, the coordinates of an even point of the sphere of
its order m. Let N(t) be how many of all sizes exceed t: the mean sum of the k greatest is the
integral of E[min(N(t), k)], that of their squares the integral of 2 t E[min(N(t), k)].

A Gaussian vector's direction and length are independent. So of one basis the sums are those of m
Gaussian sizes, whose N(t) is binomial, over the mean length, and over m.

Of several bases N(t) is a sum, and P[N(t) = j] of each is a share of the sphere. With A(z) and B(z)
the Laplace transforms of s^(-1/2) below and above t^2, it is C(m, j) times the inverse transform at
1 of A^(m-j) B^j, over that of (A + B)^m; A = sqrt(pi / z) erf(t sqrt(z)) and B = sqrt(pi / z)
erfc(t sqrt(z)). The inverse is an integral on the line Re z = m / 2, by the trapezoid rule after
w = sqrt(m/2) sinh(v).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from math import asinh, exp, lgamma, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families.comparisons import Comparisons
from askance_aggregator.families.family import Counts, Family, Reports, describes, makes
from askance_aggregator.families.fitting import check_expressible, check_positive, greatest
from askance_aggregator.families.near_sets import Near, NearSets, beside
from askance_aggregator.families.rates import VectorRates
from askance_aggregator.numbers import plain_arguments
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, RandomCodebook
from askance_client.randomizers.public_rotations import STEPS, public_octets
from askance_client.randomizers.random_codebook import LENGTH_BITS


def signs_of(octets: bytes, bases: int, order: int) -> NDArray[np.int8]:
    """Arrange the octets of n users as signs, 1 and -1, of shape (STEPS, order, bases, n)."""
    bits = np.unpackbits(np.frombuffer(octets, np.uint8)).reshape(-1, bases, STEPS, order)
    return 1 - 2 * np.ascontiguousarray(bits.T.swapaxes(0, 1)).view(np.int8)


def turned_rows(vectors: NDArray[np.int64], seeds: Sequence[int], bases: int) -> NDArray[np.int64]:
    """Rotate each vector by the rotations of its own seed (see `public_rotations.turned`).

    Vectors have shape (n, order) with an even order, and a length below 2^46; the result has shape
    (n, bases x order) and is 2^(STEPS / 2) times as long.
    """
    users, order = vectors.shape
    signs = signs_of(b"".join([public_octets(s, bases, order) for s in seeds]), bases, order)
    turning = np.repeat(vectors.T[:, np.newaxis], bases, axis=1)
    for step in signs:
        turning = turning * step
        turning = np.concatenate((turning[::2] + turning[1::2], turning[::2] - turning[1::2]))
    return turning.transpose(2, 1, 0).reshape(users, -1)


def ranked_rows(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order the codes of each of n users, shape (n, M), as `RandomCodebook.ranked` does."""
    falling = np.stack((-scores, scores), axis=-1).reshape(len(scores), -1)
    return falling.argsort(axis=1, kind="stable")


LENGTH = 1 << STEPS // 2  # of a code, as an integer vector
_UNIT = 1 << 16  # length 1 on the grid that real numbers of a schema have by default
WORTH = Fraction(1, 100)  # the part of the variance that twice the bases must save
_MOST_CODES = 1 << 12  # with which several bases are considered: devices score each of them
_TALLY_ROWS = 1 << 12  # reports at a time: bounds memory, changes no sum
_LARGE_NATS = 40.0  # past it the near codes are as good as certain


@describes(RandomCodebook)
@dataclass(frozen=True, slots=True)
class CodebookFamily(Family[RandomCodebook]):
    """Aggregator's side of a random codebook: sums of directions and estimates of means."""

    @property
    def text(self) -> str:
        book = self.randomizer
        return f"codebook({book.components}, {book.near} of {book.codes})"

    @property
    def agreement(self) -> float:
        """m: the mean inner product of a reported code, as a unit vector, with the own point.

        Relative error below 10^-6 (`greatest_sums`); rotations are taken as even.
        """
        return _agreement(self._law()[0], self._near, self.randomizer.codes, self._chance)

    @property
    def second_moment(self) -> float:
        """Mean square of that inner product."""
        near, codes = self._near, self.randomizer.codes
        squares = self._law()[1]
        total, inside = 2 * squares[-1], squares[min(near, codes - near)]
        inside = inside if near <= codes - near else total - inside
        return float(
            self._chance * inside / near + (1 - self._chance) * (total - inside) / (codes - near)
        )

    @property
    def component_variance(self) -> float:
        """Second moment of a component's estimate over radius^2, averaged over the components.

        Of the longest vectors, whose own squares are in it; the greatest that the average can be.
        """
        book, beside = self.randomizer, self._beside
        return ((book.components - 1) * beside + self.second_moment) / (
            book.components * self.agreement**2
        )

    @property
    def greatest_variance(self) -> float:
        """The greatest second moment of one component, all of whose users point along it."""
        return self.variance_along(1.0)

    def variance_along(self, share: float) -> float:
        """The greatest second moment in one direction over radius^2.

        Args:
            share: of a point's squared length, the part in that direction at most, in [0, 1].
        """
        along = share * self.second_moment + (1 - share) * self._beside
        return max(along, self._beside) / self.agreement**2

    @property
    def reach(self) -> float:
        """The most that the estimate of one report is in a component, over radius."""
        return 1 / abs(self.agreement)

    def vector_rates(self, half: float) -> VectorRates:
        """Return the second moments: a code is even around the own direction."""
        along = (self.second_moment - self._beside) / self.agreement**2
        radius = float(self.randomizer.radius)
        own = self._beside * (radius / self.agreement) ** 2
        return VectorRates(own, along, along, radius * self.reach)

    def comparisons(self) -> Comparisons:
        """Compare a vector with one that shares few of its near codes."""
        # From above two vectors that share as few as any two, with every seed; from below some
        # vector and its opposite, which share at most `shared_at_most` codes in the mean of the
        # seeds. The bias is that of an even draw of a rank.
        book = self.randomizer
        law = NearSets(book.threshold, book.near, book.codes)
        least = Fraction(max(2 * book.near - book.codes, 0))
        upper = law.blanket(
            self._pair(least), "two vectors with the fewest shared codes, any others"
        )
        shared = shared_at_most(
            book.near, book.codes, book.bases * (book.order - book.components), self._steps
        )
        opposite, names = self._pair(shared), ("the vector", "the opposite")
        lower = [
            law.attained(beside(opposite, at), f"a vector against its opposite, others at {name}")
            for at, name in enumerate(names)
        ]
        bias = Fraction(max(book.near, book.codes - book.near), COIN_SPACE)
        return Comparisons([upper], lower, bias)

    def _pair(self, shared: Fraction) -> dict[Near, int]:
        """Count the codes near one, both or none of two vectors, in units of 1 / denominator."""
        book, unit = self.randomizer, shared.denominator
        own = (book.near - shared) * unit
        neither = (book.codes - 2 * book.near + shared) * unit
        return {
            (True, True): int(shared * unit),
            (True, False): int(own),
            (False, True): int(own),
            (False, False): int(neither),
        }

    @property
    def _steps(self) -> int:
        """Return the greatest size of a record's component on the working grid: the radius."""
        radius = self.randomizer.radius
        return radius >> max(radius.bit_length() - LENGTH_BITS, 0)

    def alphabet(self) -> Iterator[bytes]:
        """Every seed with every code."""
        book = self.randomizer
        return (
            report.to_bytes(book.width, "big") for report in range(book.codes << book.seed_bits)
        )

    def tally(self, reports: Reports) -> Counts:
        """Add the codes up, each a vector of integers of length `LENGTH`: a sum per component."""
        self.check_reports(reports)
        sums = np.zeros(self.randomizer.components, dtype=np.int64)
        for start in range(0, len(reports), _TALLY_ROWS):
            sums += self.vectors(reports[start : start + _TALLY_ROWS]).sum(axis=0)
        return sums

    def vectors(self, reports: Reports) -> Counts:
        """Expand each report to its code, shape (n, components)."""
        book = self.randomizer
        numbers = np.zeros(len(reports), dtype=np.int64)
        for column in reports.T:
            numbers = numbers << 8 | column
        seeds, codes = np.divmod(numbers, book.codes)
        if len(seeds) and int(seeds.max()) >> book.seed_bits:
            raise InvalidParameter(f"reports are codes of {book.codes}, found others")
        bases, rows = np.divmod(codes >> 1, book.order)
        turning = np.zeros((book.order, len(reports)), dtype=np.int64)
        turning[rows, np.arange(len(reports))] = 1 - 2 * (codes & 1)
        half = book.order // 2
        for step in reversed(_signs(seeds, bases, book.order)):
            halves = (turning[:half], turning[half:])
            turning = np.empty_like(turning)
            np.add(*halves, out=turning[::2])
            np.subtract(*halves, out=turning[1::2])
            turning *= step
        return turning[: book.components].T

    def means(self, sums: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Estimate each component's mean in grid units from a tally of n reports."""
        plain = [int(each) for each in sums]
        if n <= 0 or len(plain) != self.randomizer.components:
            raise InvalidParameter(
                f"sums: expected {self.randomizer.components} of n > 0 reports, got {len(plain)}"
                f" of {n}"
            )
        if max(map(abs, plain)) > n * LENGTH:
            raise InvalidParameter(f"sums: expected at most {n} x {LENGTH} each, got more")
        scale = Fraction(self.randomizer.radius) / (LENGTH * n * Fraction(self.agreement))
        return tuple(each * scale for each in plain)

    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Refuse: levels are vectors, whose means are estimated and not their shares."""
        raise InvalidParameter("a codebook estimates means of vectors, not shares of levels")

    def frequency_variance(self) -> Fraction:
        """Return n times the second moment of a component's estimate, in squares of the radius."""
        return Fraction(self.component_variance)

    @property
    def _near(self) -> int:
        return self.randomizer.near

    @property
    def _chance(self) -> float:
        return self.randomizer.threshold / COIN_SPACE

    @property
    def _beside(self) -> float:
        """Mean square of a code's inner product with a direction across the own point."""
        return (1 - self.second_moment) / (self.randomizer.order - 1)

    def _law(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return greatest_sums(self.randomizer.order, self.randomizer.bases)


def shared_at_most(near: int, codes: int, hidden: int, steps: int) -> Fraction:
    """Bound the near codes that some vector shares with its opposite, in the mean of all seeds.

    With Z codes of inner product 0 for one sign, N near codes of M are shared in
    max(0, 2 N - M, N - M / 2 + Z). That is convex in Z, so that for Z above `hidden` it is below a
    chord. A row that meets the components is across from at most 1 of 2 `steps` + 1 vectors of a
    grid, whatever the seed: the mean over these vectors is bounded, and one of them is no greater.

    Args:
        near: N.
        codes: M, two per row.
        hidden: rows that may be 0 in all components, at most M / 2.
        steps: the components are integers from -steps to steps, the first of them is `steps`.

    Source: docs/math/shuffled_families.md section 3.
    """
    first = max(0, 2 * near - codes, near - codes // 2 + hidden)
    return first + Fraction(near - first, 2 * steps + 1)


@plain_arguments
@lru_cache(maxsize=1024)
def random_codebook(components: int, radius: int, nano: int) -> RandomCodebook:
    """The codebook that spends a budget with about the least variance.

    Of one basis and then of twice as many as long as that saves 1/100 of the variance, each with
    the number of near codes that agrees best with the own vector.

    Args:
        components: 1..1024.
        radius: 1..2^40, in grid units.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: a parameter is out of range, or 64-bit coins cannot express nano.

    Example:
        >>> ask.random_codebook(4, 1, 10**9).vector_components
        4
    """
    check_positive(nano)
    bases, near = _shape(RandomCodebook(components, radius, 1, 1, 1).order, nano)
    return fitted(RandomCodebook(components, radius, bases, near, 1), nano)


@makes("codebook")
def _of_unit_vectors(components: int, nano: int) -> RandomCodebook:
    """Make the codebook of vectors of length 1 at most; no chance depends on the grid."""
    return random_codebook(components, _UNIT, nano)


def fitted(book: RandomCodebook, nano: int) -> RandomCodebook:
    """The codebook with the greatest threshold that the budget allows."""
    even = -(-COIN_SPACE * book.near // book.codes)

    def at(threshold: int) -> RandomCodebook:
        return replace(book, threshold=threshold)

    # Below the even threshold near codes are the rarer ones.
    threshold = greatest(even, COIN_SPACE - 1, lambda each: at(each).loss.fits(nano))
    if threshold is None:
        raise InvalidParameter(f"no codebook of {book.codes} is as even as {nano} nano-nats ask")
    found = at(threshold)
    check_expressible(found.loss, nano, threshold == COIN_SPACE - 1)
    return found


@lru_cache(maxsize=256)
def _shape(order: int, nano: int) -> tuple[int, int]:
    """Choose the bases and the number of near codes."""
    bases, (agreement, near) = 1, _best_near(order, 1, nano)
    while 4 * bases * order <= _MOST_CODES:
        better, more = _best_near(order, 2 * bases, nano)
        if better**-2 - 1 > (1 - WORTH) * (agreement**-2 - 1):
            break
        bases, agreement, near = 2 * bases, better, more
    return bases, near


def _best_near(order: int, bases: int, nano: int) -> tuple[float, int]:
    """Compute the greatest agreement over the numbers of near codes, and where it is."""
    codes, sums = 2 * order * bases, greatest_sums(order, bases)[0]
    odds = exp(min(nano / NANO_NATS_PER_NAT, _LARGE_NATS))
    near = np.arange(1, order * bases + 1)
    chance = near * odds / (near * odds + codes - near)
    agreements = sums[1:] / near * (chance - (1 - chance) * near / (codes - near))
    best = int(np.argmax(agreements))
    return float(agreements[best]), best + 1


def _agreement(sums: NDArray[np.float64], near: int, codes: int, chance: float) -> float:
    """The sum of all inner products is 0: what the near codes have, the others lack."""
    inside = float(sums[min(near, codes - near)])
    return inside * (chance / near - (1 - chance) / (codes - near))


def _signs(seeds: Counts, bases: Counts, order: int) -> NDArray[np.int8]:
    """Expand each seed up to its report's basis, and return that one's signs by step."""
    size = order * STEPS // 8
    octets = b"".join(
        public_octets(seed, basis + 1, order)[-size:]
        for seed, basis in zip(seeds.tolist(), bases.tolist(), strict=True)
    )
    return signs_of(octets, 1, order)[:, :, 0]


Reals = NDArray[np.float64]

_HEIGHTS = 256  # values of t
_WIDEST = 8.0  # t past which no coordinate is, in standard deviations
_SMALL = 1e-13  # of the integrand, where the line ends
_TINY = 1e-300  # so that a logarithm is finite


@lru_cache(maxsize=64)
def greatest_sums(order: int, bases: int) -> tuple[Reals, Reals]:
    """Compute the mean sums of the k greatest inner products, and of their squares, by k.

    Args:
        order: m, 8 or more.
        bases: 1 or more.

    Returns:
        Two arrays of shape (order x bases + 1,), k = 0 first; off by less than 10^-6 of themselves.
    """
    nodes, weights = _nodes()
    if bases == 1:
        heights, weights = (nodes + 1) * _WIDEST / 2, weights * _WIDEST / 2
        length = sqrt(2) * exp(lgamma((order + 1) / 2) - lgamma(order / 2))
        sums, squares = _integrals(_gaussian(order, heights), heights, weights)
        return sums / length, squares / order
    reach = min(1.0, _WIDEST / sqrt(order))
    heights, weights = (nodes + 1) * reach / 2, weights * reach / 2
    size = order * bases
    spectrum = np.fft.rfft(_spherical(order, reach), size + 1, axis=1)
    return _integrals(np.fft.irfft(spectrum**bases, size + 1, axis=1), heights, weights)


@cache
def _nodes() -> tuple[Reals, Reals]:
    """Return the nodes and weights of Gauss and Legendre on (-1, 1)."""
    return np.polynomial.legendre.leggauss(_HEIGHTS)


def _integrals(counts: Reals, heights: Reals, weights: Reals) -> tuple[Reals, Reals]:
    """Integrate E[min(N(t), k)] and 2 t E[min(N(t), k)], given P[N(t) = j]."""
    above = 1 - np.cumsum(counts, axis=1)[:, :-1]  # P[N > j], whose sums below k are E[min(N, k)]
    parts = (weights @ above, (2 * weights * heights) @ above)
    sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in parts)
    return sums, squares


def _gaussian(order: int, heights: Reals) -> Reals:
    """Compute P[N(t) = j] of Gaussian sizes, shape (heights, order + 1)."""
    from askance_aggregator.special_functions import erf, erfc

    j = np.arange(order + 1)
    binomials = np.array([_log_binomial(order, each) for each in range(order + 1)])
    below, above = (np.log(part(heights[:, np.newaxis] / sqrt(2))) for part in (erf, erfc))
    return np.asarray(np.exp(binomials + (order - j) * below + j * above))


def _log_binomial(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


@lru_cache(maxsize=16)
def _spherical(order: int, reach: float) -> Reals:
    """Compute P[N(t) = j] of one basis, shape (heights, order + 1), on nodes of (0, reach)."""
    from askance_aggregator.special_functions import erf, erfc

    heights = (_nodes()[0] + 1) * reach / 2
    line, weights = _line(order)
    roots = heights[:, np.newaxis] * np.sqrt(line)
    below, over = erf(roots), erfc(roots)
    found = np.empty((len(heights), order + 1))
    logs_below, logs_over = np.log(below), np.log(over + _TINY)
    for j in range(order + 1):
        terms = np.exp(_log_binomial(order, j) + (order - j) * logs_below + j * logs_over)
        found[:, j] = (terms @ weights).real
    return np.clip(found, 0.0, 1.0)


def _line(order: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return points on the line, and their weights: of the whole they sum to 1."""
    half = order / 2
    top = half * sqrt(_SMALL ** (-2 / half) - 1)
    points = 64 + 4096 // order
    steps = np.linspace(0, asinh(top / sqrt(half)), points)
    line = half + 1j * sqrt(half) * np.sinh(steps)
    logs = line - half * np.log(line) + lgamma(half) - log(pi)
    weights = np.exp(logs) * np.cosh(steps) * sqrt(half) * (steps[1] - steps[0])
    weights[0] /= 2
    return line, weights
