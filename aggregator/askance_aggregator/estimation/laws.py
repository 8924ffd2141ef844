"""Laws of answers that are made of reports: intervals at any level, and covariances of shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator import families
from askance_aggregator.estimation.answers import alpha_of, estimate, half_width, joined
from askance_aggregator.estimation.deviations import Deviation
from askance_aggregator.estimation.landing import BERRY_ESSEEN
from askance_aggregator.estimation.present import scale_of
from askance_aggregator.estimation.sign_pairs import SignPair, ratio_intervals
from askance_aggregator.estimation.statistics import Decode, known_scores, share_scores
from askance_aggregator.learners import Answer, PopulationMean, Question
from askance_aggregator.learners.learning import Ends, RatioInterval, ScoredReports, SumLaw
from askance_client.errors import InvalidParameter
from askance_client.queries import QueryKind
from askance_client.randomizers import COIN_SPACE, KaryResponse, Randomizer

Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class TalliedReports:
    """Reports to one request, as a tally."""

    question: Question  # of a vector perhaps a block of its components
    randomizer: Randomizer
    counts: NDArray[np.int64]  # `Family.tally` of the reports
    answered: int
    decode: Decode | None = None  # what was designed with the randomizer

    def answer(self, alpha: float) -> Answer:
        """Estimate the answer, with intervals that miss with a chance of at most alpha."""
        return estimate(
            self.question, self.randomizer, self.counts, self.answered, alpha, self.decode
        )


@dataclass(frozen=True, eq=False, slots=True)
class ReportsLaw:
    """Law of the answer to one question, by the laws of its randomizers.

    Args:
        reports: one tally, or one per block of a vector.
        alpha: chance that an interval of the answer misses.
        look_share: part of every chance that this look may spend (`SamplingLaw.look_share`).
    """

    question: Question
    reports: tuple[TalliedReports, ...]
    alpha: float
    look_share: float = 1.0

    def at(self, alpha: float) -> Answer:
        """Return the same values, with intervals that miss with a chance of at most alpha."""
        each = [
            part.answer(alpha_of(part.question, self.question, alpha * self.look_share))
            for part in self.reports
        ]
        return joined(each, self.question)

    def covariance(self, shares: Sequence[float]) -> Reals | None:
        """Compute the covariance of the estimated shares (`share_covariance`), shape (k, k)."""
        if self.question.query.kind is not QueryKind.CATEGORY or not self.reports[0].answered:
            return None
        scaled = share_covariance(families.family_of(self.reports[0].randomizer), shares)
        return None if scaled is None else scaled / self.reports[0].answered

    def sums(self, weights: Reals, most: float) -> tuple[Reals, Reals] | None:
        """Bound weighted sums of what one codebook or one k-ary response tells; else None."""
        # A codebook has no preferred direction (ADR 33): the sum with weights w has the law of |w|
        # times one component's. Of a user's squared length at most (most / |w|)^2 lies along w.
        #
        # By k-ary response a sum of shares is the mean of the reported cells' weights, but for a
        # constant and a factor (`_sums_of_cells`).
        part = self.reports[0]
        of_cells = self.question.query.kind is QueryKind.CATEGORY
        if of_cells and isinstance(part.randomizer, KaryResponse) and part.answered:
            return _sums_of_cells(part, weights, self.alpha * self.look_share / len(weights))
        directions = families.family_of(part.randomizer)
        if (
            len(self.reports) > 1
            or not isinstance(directions, families.CodebookFamily)
            or not part.answered
        ):
            return None
        sums, unit = directions.means(part.counts, part.answered), 1 << part.question.query.frac
        values = np.asarray([float(mean / unit) for mean in sums])
        each = self.alpha * self.look_share / len(weights)
        norms = np.linalg.norm(weights, axis=1)
        halves = norms * [
            half_width(part.question, directions, part.answered, each, most / norm)
            for norm in norms.tolist()
        ]
        middles = weights @ values
        return middles - halves, middles + halves

    def scored(self) -> ScoredReports | None:
        """Return both scores of the reports to a mean over the users who have a number."""
        part = self.reports[0]
        if not self.question.over_present or not part.answered:
            return None
        if not isinstance(self.question.aim, PopulationMean):
            return None
        table, known = known_scores(part.question, part.randomizer, part.decode)
        start, half = (float(end) for end in scale_of(part.question, table.randomizer.levels))
        places, presences = np.array([float(score) for score in known]).reshape(2, -1)
        shares = np.asarray(part.counts, dtype=np.float64) / part.answered
        numbers = (start + half) * presences + half * places
        return ScoredReports(numbers, presences, shares, part.answered)

    def ratios(self, pairs: int) -> tuple[RatioInterval, ...] | None:
        """Enclose each mean and share by the two counts, which are independent (`sign_pairs`)."""
        if self.question.query.kind is not QueryKind.VECTOR:
            return None
        known = []
        for block, part in enumerate(self.reports):
            family = families.family_of(part.randomizer)
            if not isinstance(family, families.HypercubeFamily) or not part.answered:
                return None
            gap = float(family.agreement)
            for place in range(part.question.values):
                share = family.containing(part.counts, place) / part.answered
                known.append((block, part.answered, gap, (2 * share - 1) / gap))
        columns = np.array(known).T
        one, two = columns[:, :pairs], columns[:, pairs : 2 * pairs]
        if (one[0] == two[0]).any():
            return None
        _, numbers, gaps, seen = np.stack((one, two), axis=1)
        each = self.alpha * self.look_share / self.question.values
        return ratio_intervals(SignPair(numbers, gaps), seen, each)

    def sum_law(self, weights: Reals, means: Reals, products: Ends) -> SumLaw | None:
        """Bound the moments of a weighted sum of a vector's components."""
        # Blocks have users of their own, so that their variances add up.
        query = self.question.query
        if query.kind is not QueryKind.VECTOR or query.low != -query.high:
            return None
        variance = third = 0.0
        start, unit = 0, float(1 << query.frac)
        for part in self.reports:
            block = slice(start, start + part.question.values)
            rates = families.family_of(part.randomizer).vector_rates(float(query.high))
            if rates is None or not part.answered:
                return None
            own = weights[block]
            factors = np.outer(own, own) * rates.pair
            np.fill_diagonal(factors, own**2 * rates.square)
            parts = np.maximum(*(factors * ends[block, block] for ends in products))
            mean = float(own @ means[block])
            square = rates.own / unit**2 * float(own @ own) + float(parts.sum()) - mean**2
            most = rates.reach / unit * float(np.abs(own).sum()) + abs(mean)
            each = max(square, 0.0) / part.answered
            variance, third = variance + each, third + most * each / part.answered
            start = block.stop
        return SumLaw(variance, third / variance**1.5) if variance > 0 else None


def _sums_of_cells(part: TalliedReports, weights: Reals, alpha: float) -> tuple[Reals, Reals]:
    """Bound each weighted sum of shares, each missing with a chance of at most alpha."""
    # A report has the weight of its cell. Cells of one weight are alike: a user in one of m such
    # cells reports that weight with the chance own + (m - 1) other, and others with m other.
    family = families.family_of(part.randomizer)
    rates = family.inclusion(0)
    assert rates is not None, "a k-ary response has rates"
    gap, shares = float(rates.own - rates.other), family.frequencies(part.counts, part.answered)
    halves = []
    for row in weights:
        values, sizes = np.unique(row, return_counts=True)
        halves.append(_half_widths(tuple(values), tuple(sizes), rates, part.answered, alpha))
    below, above = np.array(halves).T / gap
    middles = weights @ np.array([float(share) for share in shares])
    return middles - below, middles + above


@lru_cache(maxsize=1024)
def _half_widths(
    values: tuple[float, ...],
    sizes: tuple[int, ...],
    rates: families.InclusionRates,
    n: int,
    alpha: float,
) -> tuple[float, float]:
    """Return how far the mean weight of n reports is above, and below, what is expected."""
    span = values[-1] - values[0]
    if span == 0:
        return 0.0, 0.0
    gap = float(rates.own - rates.other)
    rows = float(rates.other) * np.tile(sizes, (len(sizes), 1)) + gap * np.eye(len(sizes))
    unit = (np.array(values) - values[0]) / span
    ends = np.array(list(combinations(range(len(sizes)), 2))).T
    sides = (Deviation(rows, each, ends, BERRY_ESSEEN) for each in (unit, 1 - unit))
    above, below = (side.half_width(n, alpha / 2) * span for side in sides)
    return above, below


def share_covariance(family: families.Family[Any], shares: Sequence[float]) -> Reals | None:
    """Compute n times the covariance of `Family.frequencies`, for the population's share per level.

    Exact for users who are drawn independently from a population: the part of the sample and that
    of the randomizer are both in it.

    Returns:
        Shape (levels, levels); None where no formula is known for the family.
    """
    truth = np.asarray(shares, dtype=np.float64)
    if len(truth) != family.randomizer.levels:
        raise InvalidParameter(
            f"shares: expected {family.randomizer.levels}, one per level, got {len(truth)}"
        )
    if isinstance(family, families.TableFamily):
        return _of_table(family, truth)
    rates, joint = family.inclusion(0), family.joint_rates()
    if rates is None or joint is None:
        return None
    gap = float(rates.own - rates.other)
    means = float(rates.other) + gap * truth
    pair = truth[:, None] + truth[None, :]
    both = pair * float(joint.own) + (1 - pair) * float(joint.others)
    covariance = both - np.outer(means, means)
    np.fill_diagonal(covariance, means * (1 - means))
    return np.asarray(covariance / gap**2)


def _of_table(table: families.TableFamily, truth: Reals) -> Reals:
    """E[s s^T] - E[s] E[s]^T, s the scores of a symbol, over the law of the symbols."""
    rows = np.array([[entry / COIN_SPACE for entry in row] for row in table.randomizer.table])
    symbols = truth @ rows
    scores = np.array([[float(score) for score in level] for level in share_scores(table)])
    mean = scores @ symbols
    return np.asarray((scores * symbols) @ scores.T - np.outer(mean, mean))
