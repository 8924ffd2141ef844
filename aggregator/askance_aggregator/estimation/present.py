"""The mean of a number over those users who have it, from the two scores of every report.

With A and B the means of the scores (`table_design.presence`), A/B is the estimate. A mean m is in
its interval if A - m B, whose expectation is 0 for the true m, is not too far from 0 (Fieller 1954,
with tails that hold for every n in place of the normal law's). How far is too far depends on the
share of users who have the number, which is enclosed first, with a part of alpha of its own.

Users have a number with mean m, or are missing it; q is the share who have it. Of the reports'
scores a - m' b the tails are bounded by Chernoff's bound with the worst moment of all such users,
times the normal law's factor (`landing`). Any tilt gives a bound that holds, so that a search which
ends too early costs width and never coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from math import log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation.landing import BERRY_ESSEEN, BERRY_ESSEEN_UNLIKE
from askance_aggregator.families import TableFamily
from askance_aggregator.families.family import check_counts
from askance_aggregator.learners import Answer, Presence, Question, SampleMean
from askance_aggregator.queries import number_in
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, Channel

Reals = NDArray[np.float64]

_GENTLEST, _STEEPEST = 1e-4, 60.0  # tilts, the span being 1; gentler ones cancel in floats
_TILTS = 24  # that are looked at together
_PARTS = np.linspace(0.0, 1.0, _TILTS)
_PASSES = 3  # each between the neighbours of the one that was best before
_BESIDE = 1e-6
_FLOATS = 1e-15  # error of a difference of two means in floats, the span being 1


@dataclass(frozen=True, eq=False)
class Cases:
    """Laws of users, one a column of what is computed together.

    Args:
        means: shape (cases,): of the numbers of those who have one, scaled to [-1, 1]; None: any.
        least: shape (cases,): at least this share of users has a number.
        most: shape (cases,): at most this share.
    """

    means: Reals | None
    least: Reals
    most: Reals


@dataclass(frozen=True, eq=False)
class PresentLaw:
    """The rows of a table, and the two scores of its symbols.

    Args:
        rows: shape (levels, symbols); the last level is "missing".
        numbers: a, shape (symbols,): its mean is the number, scaled to [-1, 1], or 0.
        presences: b, shape (symbols,): its mean is 1 for a number, else 0.
        sample: whether the means are those of the users at hand, who were not drawn by chance.
    """

    rows: Reals
    numbers: Reals
    presences: Reals
    sample: bool

    @cached_property
    def grid(self) -> Reals:
        """The levels that are numbers, shape (levels - 1,)."""
        return np.linspace(-1.0, 1.0, len(self.rows) - 1)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        first, second = np.array(list(combinations(range(len(self.grid)), 2)), dtype=np.int64).T
        return first, second

    def bounds(self, scores: Reals, users: Cases, shifts: Reals) -> tuple[Reals, Reals]:
        """Bound the tails P[mean of scores - shift >= 0], of n reports.

        Args:
            scores: shape (symbols, cases).
            users: their laws.
            shifts: shape (cases,).

        Returns:
            I and A, shape (cases,): the chance is at most exp(-n I) min(1, A / sqrt(n)). A is
            infinite where I is Hoeffding's.
        """
        span = scores.max(axis=0) - scores.min(axis=0)
        unit = (scores - scores.min(axis=0)) / span
        shift = (shifts - scores.min(axis=0)) / span
        low = np.full(len(shift), _GENTLEST)
        high = np.full(len(shift), _STEEPEST)
        cases = np.arange(len(shift))
        best, tilt = np.zeros(len(shift)), np.zeros(len(shift))
        for _ in range(_PASSES):
            tilts = low[:, None] * (high / low)[:, None] ** _PARTS
            found = self._log_moments(unit, users, tilts) - tilts * shift[:, None]
            place = np.argmin(found, axis=1)
            better = found[cases, place] < best
            best = np.where(better, found[cases, place], best)
            tilt = np.where(better, tilts[cases, place], tilt)
            low = tilts[cases, np.maximum(place - 1, 0)]
            high = tilts[cases, np.minimum(place + 1, _TILTS - 1)]
        # At tiny budgets no tilt gives a rate above 0 in floats; Hoeffding's bound still does.
        gaps = self._gaps(unit, users, shift)
        rates = np.asarray(np.where(best < 0, -best, 2 * gaps**2))
        return rates, self._landing(unit, users, tilt)

    def _gaps(self, unit: Reals, users: Cases, shift: Reals) -> Reals:
        """Distance of the shifts from the greatest mean of the users' scores, 0 if below it."""
        means = (self.rows @ unit)[..., None]
        inside, outside = self._envelope(means[:-1], users.means), means[-1]
        least, most = users.least[:, None], users.most[:, None]
        worst = np.maximum(
            least * inside + (1 - least) * outside, most * inside + (1 - most) * outside
        )
        return np.asarray(np.maximum(shift - worst[:, 0] - _FLOATS, 0.0))

    def _log_moments(self, unit: Reals, users: Cases, tilts: Reals) -> Reals:
        """The worst mean of the users' ln E[e^(t W)], shape (cases, tilts)."""
        raised = np.exp(unit[:, :, None] * tilts)
        moments = (self.rows @ raised.reshape(len(unit), -1)).reshape(-1, *tilts.shape)
        numbers, missing = moments[:-1], moments[-1]
        if self.sample:
            inside, outside = self._log_envelope(numbers, users.means), np.log(missing)
        else:
            inside, outside = self._envelope(numbers, users.means), missing
        least, most = users.least[:, None], users.most[:, None]
        # Linear in the share, so greatest at one of its ends.
        worst = np.maximum(
            least * inside + (1 - least) * outside, most * inside + (1 - most) * outside
        )
        return np.asarray(worst if self.sample else np.log(worst))

    def _envelope(self, values: Reals, means: Reals | None) -> Reals:
        """The greatest mean of values of users whose numbers have a mean: on two levels."""
        if means is None:
            return np.asarray(values.max(axis=0))
        return np.asarray(self._on_pairs(values, means)[0].max(axis=0))

    def _log_envelope(self, moments: Reals, means: Reals | None) -> Reals:
        """The greatest mean of ln of moments, which are linear between two levels."""
        # For any slope u it is at most the greatest ln f(x) - u (x - m), x in [-1, 1]: on a piece
        # where f is f_0 + g x that is where f = g / u.
        if means is None:
            return np.asarray(np.log(moments.max(axis=0)))
        # At a level, or an end, the slope beside it is one that touches the envelope there.
        beside = np.where(means < 1 - _BESIDE, means + _BESIDE, means - _BESIDE)
        lines, slopes = self._on_pairs(np.log(moments), beside)
        slope = np.take_along_axis(slopes, np.argmax(lines, axis=0)[None], axis=0)[0]
        start, rise = moments[:-1], np.diff(moments, axis=0) / (self.grid[1] - self.grid[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.nan_to_num((rise / slope - start) / rise, nan=0.0)
        width = self.grid[1] - self.grid[0]
        found = np.full(slope.shape, -np.inf)
        for along in (
            np.zeros_like(start),
            np.clip(inside, 0.0, width),
            np.full_like(start, width),
        ):
            at = self.grid[:-1, None, None] + along - means[:, None]
            found = np.maximum(found, (np.log(start + rise * along) - slope * at).max(axis=0))
        return found

    def _on_pairs(self, values: Reals, means: Reals) -> tuple[Reals, Reals]:
        """The lines between two levels, shape (pairs, ...): their values at the means, slopes."""
        first, second = self._pairs
        low, high = self.grid[first][:, None], self.grid[second][:, None]
        part = (means - low) / (high - low)
        across = (part >= 0) & (means <= high)
        rise = values[second] - values[first]
        lines = np.where(across[..., None], values[first] + part[..., None] * rise, -np.inf)
        return lines, rise / (high - low)[..., None]

    def _landing(self, unit: Reals, users: Cases, tilts: Reals) -> Reals:
        """A of `relative_landing`, infinite where no tilt was found; the scores' span is 1."""
        # A mixture varies at least as much as one of its parts, and, of two parts, its variance is
        # concave in their shares: on two levels the law is known but for the share, and the
        # variance is least at one end of it.
        laws = self._laws(users)  # shape (laws, symbols, cases)
        tilted = laws * np.exp(unit * tilts)
        tilted = tilted / tilted.sum(axis=1, keepdims=True)
        centres = (tilted * unit).sum(axis=1)
        variances = (tilted * unit**2).sum(axis=1) - centres**2
        deviation = np.sqrt(np.maximum(variances.min(axis=0), 0.0))
        constant = BERRY_ESSEEN_UNLIKE if self.sample else BERRY_ESSEEN
        with np.errstate(divide="ignore"):
            return np.asarray((1 / (tilts * sqrt(2 * pi)) + 2 * constant) / deviation)

    def _laws(self, users: Cases) -> Reals:
        if users.means is None or self.sample or len(self.grid) > 2:
            return self.rows[:, :, None]
        part = (users.means + 1) / 2
        low, high, missing = (row[:, None] for row in self.rows)
        inside = (1 - part) * low + part * high
        ends = (users.least, users.most)
        return np.stack([share * inside + (1 - share) * missing for share in ends])


@lru_cache(maxsize=64)
def present_law(channel: Channel, decode: tuple[Fraction, ...], sample: bool) -> PresentLaw:
    """Return the law of a table with its scores (`statistics.known_scores`)."""
    rows = np.array([[entry / COIN_SPACE for entry in row] for row in channel.table])
    numbers, presences = np.array([float(score) for score in decode]).reshape(2, -1)
    return PresentLaw(rows, numbers, presences, sample)


MAX_SCORE_BIAS = Fraction(1, 10**6)  # of both scores

SHARE_PART = Fraction(1, 10)
"""Of alpha, what the interval of the share of users who have the number may spend."""

_POINTS = 17  # that are looked at together for an end of an interval
_ZOOMS = 5  # each between two neighbours: 16^-5 of the range in the end

PresentDecode = tuple[Fraction, ...]
"""Both scores of a table with a level for "missing": a of every symbol, then b of every symbol."""


def check_present(question: Question, table: TableFamily, decode: PresentDecode) -> None:
    """Refuse scores that are not unbiased for a table, or levels that a number can pass."""
    # Expected of a is the number's place on [-1, 1] and of b 1, and both are 0 for the last level:
    # exactly at the ends and there, within `MAX_SCORE_BIAS` elsewhere. A number can pass levels
    # that round it onto the last one.
    _check_levels(question, table.randomizer.levels)
    if len(decode) != 2 * table.randomizer.symbols:
        raise InvalidParameter(
            f"decode values expect two a symbol, {2 * table.randomizer.symbols},"
            f" found {len(decode)}"
        )
    score_bias(table, decode)


@lru_cache(maxsize=64)
def score_bias(table: TableFamily, decode: PresentDecode) -> Fraction:
    """The most that a - m b is off in expectation, for any m in [-1, 1]."""
    symbols, levels = table.randomizer.symbols, table.randomizer.levels
    points = [Fraction(2 * level, levels - 2) - 1 for level in range(levels - 1)]
    numbers = table.moved_grid(decode[:symbols])
    presences = table.moved_grid(decode[symbols:])
    wanted = zip([*points, Fraction(0)], [*[1] * (levels - 1), 0], strict=True)
    off = [
        abs(number - point) + abs(presence - one)
        for number, presence, (point, one) in zip(numbers, presences, wanted, strict=True)
    ]
    if off[0] or off[-2] or off[-1] or max(off) > MAX_SCORE_BIAS:
        raise InvalidParameter(
            "decode values expect to be unbiased for their table,"
            f" got a bias of {float(max(off)):g}"
        )
    return max(off)


def present_answer(
    question: Question,
    table: TableFamily,
    decode: PresentDecode,
    counts: Sequence[int] | NDArray[np.int64],
    n: int,
    alpha: float,
) -> Answer:
    """The mean over the users who have the number, and the share who have it.

    Utility: with probability 1 - alpha both intervals contain the truth, whatever the population
    (for `SampleMean`, whatever the users who answered). If the reports do not show that any user
    has the number, the interval is the whole range and the value its middle. The value lies in the
    range.
    """
    symbols = table.randomizer.symbols
    plain = check_counts(counts, n, symbols, n)
    number, presence = (
        sum((a * count for a, count in zip(part, plain, strict=True)), Fraction()) / n
        for part in (decode[:symbols], decode[symbols:])
    )
    law = present_law(table.randomizer, decode, isinstance(question.aim, SampleMean))
    bias = float(score_bias(table, decode))
    share = _share(law, float(presence), n, alpha * float(SHARE_PART), bias)
    chance = alpha * float(1 - SHARE_PART) / 2
    ratio = number / presence if presence > 0 else Fraction(0)
    low, high = (
        _end(law, (float(number), float(presence)), share, n, chance, bias, float(ratio), side)
        for side in (-1, 1)
    )
    start, half = scale_of(question, table.randomizer.levels)
    least, most = (float(bound) for bound in question.bounds)
    first, last = (
        min(max(float(start) + float(half) * (end + 1), least), most) for end in (low, high)
    )
    # A ratio is not unbiased, and far outside the range where few users seem to have the number.
    raw = float(start + half * (ratio + 1)) if presence > 0 else None
    value = (least + most) / 2 if raw is None else min(max(raw, least), most)
    seen = Presence(float(presence), *share)
    return Answer((value,), (first,), (last,), present=seen, unclamped=raw)


def share_seen(
    table: TableFamily, decode: PresentDecode, counts: Sequence[int] | NDArray[np.int64], n: int
) -> Fraction:
    """Estimate the share of users who have the number; unbiased."""
    symbols = table.randomizer.symbols
    plain = check_counts(counts, n, symbols, n)
    return sum((b * c for b, c in zip(decode[symbols:], plain, strict=True)), Fraction()) / n


def scale_of(question: Question, levels: int) -> tuple[Fraction, Fraction]:
    """The least number and half of the range of the levels that are numbers, in real units."""
    query = question.query
    step = Fraction(query.high - query.low, (levels - 1) << query.frac)
    return Fraction(query.low, 1 << query.frac), step * (levels - 2) / 2


def _check_levels(question: Question, levels: int) -> None:
    query = question.query
    last = query.low + Fraction(query.high - query.low, levels - 1) * (levels - 2)
    if levels < 3 or number_in(query).high > last:
        raise InvalidParameter(
            'a table with a level for "missing" expects every number on the levels before it,'
            f" found {levels} levels, of which the last but one is {float(last):g} and the greatest"
            f" number {number_in(query).high}"
        )


def _share(law: PresentLaw, seen: float, n: int, alpha: float, bias: float) -> tuple[float, float]:
    """The interval of the share of users who have the number."""

    def kept(side: int, shares: Reals) -> NDArray[np.bool_]:
        scores = np.repeat(side * law.presences[:, None], len(shares), axis=1)
        shift = side * np.full(len(shares), seen) - bias
        # Below the share the reports would show too much, above it too little.
        return _probable(law, scores, Cases(None, shares, shares), shift, n, alpha / 2)

    centre = min(max(seen, 0.0), 1.0)
    low = _outermost(lambda shares: kept(1, shares), centre, 0.0)
    high = _outermost(lambda shares: kept(-1, shares), centre, 1.0)
    return low, high


def _end(
    law: PresentLaw,
    seen: tuple[float, float],
    share: tuple[float, float],
    n: int,
    chance: float,
    bias: float,
    ratio: float,
    side: int,
) -> float:
    """The end of the mean's interval below (-1) or above (1) the estimate, on [-1, 1]."""

    def kept(means: Reals) -> NDArray[np.bool_]:
        # Above the estimate the true mean would make a - m b as low as seen only by chance.
        scores = -side * (law.numbers[:, None] - means * law.presences[:, None])
        shift = -side * (seen[0] - means * seen[1]) - bias
        users = Cases(means, np.full(len(means), share[0]), np.full(len(means), share[1]))
        return _probable(law, scores, users, shift, n, chance)

    return _outermost(kept, min(max(ratio, -1.0), 1.0), float(side))


def _probable(
    law: PresentLaw, scores: Reals, users: Cases, shifts: Reals, n: int, chance: float
) -> NDArray[np.bool_]:
    """Return for each law whether a mean of scores of `shifts` or more has this chance."""
    rate, landing = law.bounds(scores, users, shifts)
    return np.asarray(-n * rate + np.log(np.minimum(landing / sqrt(n), 1.0)) > log(chance))


def _outermost(kept: Callable[[Reals], NDArray[np.bool_]], centre: float, end: float) -> float:
    """The point between a centre and an end beyond which no point is kept, rounded outward."""
    inner, outer = centre, end
    for _ in range(_ZOOMS):
        if inner == outer:
            break
        points = np.linspace(inner, outer, _POINTS)
        good = np.flatnonzero(kept(points))
        place = int(good[-1]) if len(good) else 0
        if place == _POINTS - 1:
            return outer
        inner, outer = float(points[place]), float(points[place + 1])
    return outer
