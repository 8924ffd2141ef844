"""Tables with a level for "missing", and how exact a mean over those who have the number is.

An estimate A/B is off by tau or more, upward, only if the mean of a - (m + tau) b is 0 or more,
and downward only if that of a - (m - tau) b is 0 or less (also where B is not positive, for one of
both then holds). The two expectations are -q tau and q tau, with q the share of users who have the
number, so both chances are tails of a mean: bounded (`estimation.present`), and for a table of
two numbers and "missing", whose populations are a mean and a share each, exact (`inversion`), over
all means and all shares from the promised one on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import least_whole
from askance_aggregator.estimation import (
    Cases,
    Decode,
    PresentLaw,
    present_law,
    prior_weights,
    scale_of,
    score_bias,
)
from askance_aggregator.families import TableFamily
from askance_aggregator.learners import PopulationMean, Question, SampleMean
from askance_aggregator.planning.inversion import MOST_USERS, CellLaws, tails
from askance_aggregator.planning.tails import Failure, Reals, Tail, least_tau
from askance_aggregator.table_design import (
    NUMBERS,
    PresenceObjective,
    PresenceTable,
    PresentPopulation,
    PresentPrior,
    PresentSample,
    design_presence,
)
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Channel

_MEANS = np.linspace(-1.0, 1.0, 33)
"""Means that are looked at for the worst one. Rates are smooth in the mean: between two of these
they are lower by less than a thousandth, which `_MARGIN` covers."""

_MARGIN = 1e-3
_FIRST_MEANS = 12  # cells of means to begin with
_NEAREST = 1 / 32  # of the promised share, the first cell of shares; each next one is 3 times that
_DIVISIONS = 5
_MOST_CELLS = 64  # that are divided at once: beyond it the answer is the careful one
_SMOOTHED = 0.02  # of q tau n, what a sum is smoothed by: half of that is lost. Of few users more,
# up to four times that: 1.2 times the scores' span, so that their lattice is smoothed too
_FINE = 1 << 7  # relative precision of a size found by exact tails
_TRIED = (1.006, 1.02, 1.05, 1.1, 1.2)  # times the size that the centres need
_FINE_TAU = 1e-3  # of a tolerance


def present_objective(question: Question) -> PresenceObjective:
    """Return the objective of a table for the question."""
    if isinstance(question.aim, PopulationMean):
        return PresentPopulation()
    if isinstance(question.aim, SampleMean):
        return PresentSample()
    return PresentPrior(prior_weights(question, NUMBERS))


def present_table(question: Question, nano_nats: int) -> PresenceTable:
    """The table for a number that may be missing."""
    return design_presence(nano_nats, present_objective(question))


@dataclass(frozen=True, eq=False)
class PresenceCells:
    """Cells of populations: means within `across` of `means`, shares within `along` of `shares`.

    All have the shape (cells,). A law is (1 - q) "missing" + q ((1 - m) "-1" + (1 + m) "1") / 2.
    """

    means: Reals
    across: Reals
    shares: Reals
    along: Reals

    @classmethod
    def all_from(cls, share: float) -> PresenceCells:
        """Divide all means, and all shares from this one on: finely near it, where failure is."""
        means = np.linspace(-1.0, 1.0, _FIRST_MEANS + 1)
        ends = [share]
        while ends[-1] < 1:
            ends.append(min(1.0, ends[-1] + share * _NEAREST * 3 ** (len(ends) - 1)))
        shares = np.array(ends if len(ends) > 1 else [share, share])
        grids = np.meshgrid((means[1:] + means[:-1]) / 2, (shares[1:] + shares[:-1]) / 2)
        widths = np.meshgrid(np.diff(means) / 2, np.diff(shares) / 2)
        (across, along), (mean, part) = widths, grids
        return cls(mean.ravel(), across.ravel(), part.ravel(), along.ravel())

    @property
    def centres(self) -> PresenceCells:
        """Return the centres of the cells, at their least share."""
        none = np.zeros_like(self.means)
        return PresenceCells(self.means, none, self.shares - self.along, none)

    def part(self, number: int) -> PresenceCells:
        """Return the part of each cell that is above its middle mean and at its least share."""
        # Both widths are divided by `number`.
        across, along = self.across / number, self.along / number
        return PresenceCells(self.means + across, across, self.shares - self.along + along, along)

    def chosen(self, kept: NDArray[np.bool_]) -> PresenceCells:
        """Return some of the cells."""
        return PresenceCells(
            self.means[kept], self.across[kept], self.shares[kept], self.along[kept]
        )

    @property
    def divided(self) -> PresenceCells:
        """Halve each cell in its means, and in its shares if they vary."""
        across, along = self.across / 2, self.along / 2
        sides = [(-1, -1), (-1, 1), (1, -1), (1, 1)] if along.any() else [(-1, 0), (1, 0)]
        return PresenceCells(
            np.concatenate([self.means + side * across for side, _ in sides]),
            np.tile(across, len(sides)),
            np.concatenate([self.shares + side * along for _, side in sides]),
            np.tile(along, len(sides)),
        )

    def failure(self, law: PresentLaw, shift: float, users: int, beta: float) -> Reals:
        """Bound the chance of both sides together that a mean is off by `shift`, in each cell."""
        return self.failures(law, shift)(users, beta)

    def failures(self, law: PresentLaw, shift: float) -> Callable[[int, float], Reals]:
        """Return `failure` by the number of users and beta; the laws are made once."""
        both = [self._laws(law, shift, side) for side in (-1, 1)]
        least, span = shift * float((self.shares - self.along).min()), float(np.ptp(law.numbers))

        def bounds(users: int, beta: float) -> Reals:
            apart = users * least
            width = min(max(_SMOOTHED * apart, 1.2 * span), 4 * _SMOOTHED * apart)
            return np.asarray(sum(tails(laws, users, width, beta) for laws in both))

        return bounds

    def _laws(self, law: PresentLaw, shift: float, side: int) -> CellLaws:
        """The laws of side (a - (m + side shift) b), and how they move with mean and share."""
        low, high, missing = law.rows
        means, across, shares, along = (
            part[:, None] for part in (self.means, self.across, self.shares, self.along)
        )

        def inside(mean: Reals) -> Reals:
            return np.asarray(((1 - mean) * low + (1 + mean) * high) / 2)

        def scores(mean: Reals) -> Reals:
            return np.asarray(side * (law.numbers - (mean + side * shift) * law.presences))

        ends = (means - across, means + across)
        chances = shares * inside(means) + (1 - shares) * missing
        corners = [
            share * inside(mean) + (1 - share) * missing
            for share in (shares - along, shares + along)
            for mean in ends
        ]
        rise, slope = (high - low) / 2, -side * law.presences
        by_share = inside(means) - missing
        most_by_share = np.maximum(*(np.abs(inside(mean) - missing) for mean in ends))
        size, steep, most = np.abs(rise), np.abs(slope), np.max(corners, axis=0)
        moves: list[tuple[Reals, ...]] = []
        curves: list[tuple[Reals, ...]] = []
        if across.any():
            moves.append((across * shares * rise, across * chances * slope))
            curves.append(
                (
                    np.zeros_like(chances),
                    across**2 * shares * rise * slope,
                    across**2 / 2 * chances * slope**2,
                )
            )
        if along.any():
            moves.append((along * by_share,))
            both = across * along
            curves.append((both * rise, both * by_share * slope))
        bends = (
            across**2 * along * steep * size,
            across**2 / 2 * steep**2 * (across * (shares + along) * size + along * most_by_share),
            across**3 / 6 * steep**3 * most,
        )
        highest = np.maximum(*(scores(mean) for mean in ends))
        return CellLaws(
            scores(means), chances, tuple(moves), tuple(curves), highest, np.stack(bends)
        )


@dataclass(frozen=True, slots=True)
class Present(Tail):
    """The mean over users who have the number, as the ratio of two scores' means.

    Args:
        share: the promised share of users who have the number, at least.
        half: half the range of the number, in real units.
        bias: what an expectation may be off, in half ranges.
        exact: whether sizes come from exact tails: of a table with two levels of numbers, for a
            tolerance that is stated. (They take a tenth of a second; an open one is a stand-in.)
    """

    law: PresentLaw
    share: float
    half: float
    bias: float
    exact: bool = False

    def exponent(self, tau: float) -> float:
        """The least rate of both sides, for the worst mean."""
        rate = float(min(rates.min() for rates, _ in self._sides(tau)))
        if rate <= 0:
            raise InvalidParameter(
                "a mean over the users who have a number: expected a larger epsilon or tolerance,"
                f" got a tolerance of {tau:g} for which no number of users can be computed"
            )
        return rate

    def fails(self, users: int, tau: float, beta: float) -> bool:
        """Bound both sides' tails in cells over all means, and shares from the promised one on."""
        # A cell whose bound is above beta is divided, until none is left, or there are too many. If
        # a part of the last division is above already, none is: bounds fall as cells are divided.
        # Where tails are not exact, nothing is claimed.
        if not self.exact or users > MOST_USERS:
            return True
        shift = tau / self.half
        cells = PresenceCells.all_from(self.share)
        for division in range(_DIVISIONS):
            above = cells.failure(self.law, shift, users, beta) > beta
            if not above.any():
                return False
            cells = cells.chosen(above)
            if len(cells.means) > _MOST_CELLS:
                return True
            if not division:
                last = cells.part(2 ** (_DIVISIONS - 1))
                if (last.failure(self.law, shift, users, beta) > beta).any():
                    return True
            cells = cells.divided
        return True

    def exact_users(self, tau: float, beta: float, sure: int) -> int:
        """Search by the centres of cells, which are quick, and try a few numbers from there on."""
        if not self.exact or sure > MOST_USERS:
            return sure
        centres = PresenceCells.all_from(self.share).centres
        failures = centres.failures(self.law, tau / self.half)

        def near(users: int) -> bool:
            return not (failures(users, beta) > beta).any()

        high = least_whole(near, sure // 2, sure, part=_FINE)
        for more in _TRIED:
            users = ceil(high * more)
            if users >= sure:
                break
            if not self.fails(users, tau, beta):
                return users
        return sure

    def least_variance(self) -> float:
        """Variance for users who all have one number, the one for which it is least."""
        points = self.law.grid
        scores = self.law.numbers[:, None] - points * self.law.presences[:, None]
        moments = np.sum(self.law.rows[:-1].T * scores**2, axis=0)
        return float(moments.min()) * self.half**2

    def failure(self, tau: float) -> Failure:
        """Chernoff's bound times the normal law's factor, on both sides, for the worst mean."""
        sides = self._sides(tau)

        def both(users: float) -> float:
            root = sqrt(users)
            bound = sum(
                np.exp(-users * rates) * np.minimum(landings / root, 1.0)
                for rates, landings in sides
            )
            return float(np.max(bound))

        return both

    def tolerance(self, users: int, beta: float) -> float:
        """Compute `Tail.tolerance`; where the users are enough for none, it is the range."""
        if users < 1:
            raise InvalidParameter(f"a tolerance needs at least one user, found {users}")
        return _tolerance(self, users, beta)

    def _sides(self, tau: float) -> list[tuple[Reals, Reals]]:
        """Rates and landings of both sides for the means that are looked at."""
        shift = tau / self.half
        cases = len(_MEANS)
        users = Cases(_MEANS, np.full(cases, self.share), np.ones(cases))
        sides = []
        for side in (-1, 1):
            slopes = _MEANS + side * shift
            scores = side * (self.law.numbers[:, None] - slopes * self.law.presences[:, None])
            rates, landings = self.law.bounds(scores, users, np.full(cases, -self.bias))
            sides.append((rates * (1 - _MARGIN), landings))
        return sides


def present_tail(question: Question, table: TableFamily, decode: Decode) -> Present:
    """The tail of a table with its scores, for the worst population or sample."""
    law = present_law(table.randomizer, decode, isinstance(question.aim, SampleMean))
    _, half = scale_of(question, table.randomizer.levels)
    bias = float(score_bias(table, decode))
    exact = question.tau is not None and not law.sample and len(law.grid) == 2
    return Present(law, float(question.present), float(half), bias, exact)


def present_variance(question: Question, table: TableFamily, decode: Decode) -> Fraction:
    """Return n times the variance of A/B by the question's aim, scaled to [-1, 1].

    Of the worst population with the promised share of users who have the number; of a sample, the
    worst conditional variance at a level for users who all have that number; of a prior, that of a
    population equal to it.
    """
    objective = present_objective(question)
    return _variance(objective, table.randomizer, decode, question.present)


@lru_cache(maxsize=64)
def _variance(
    objective: PresenceObjective, channel: Channel, decode: Decode, share: Fraction
) -> Fraction:
    table = PresenceTable(channel, decode[: channel.symbols], decode[channel.symbols :])
    points = TableFamily(channel).moved_grid(table.numbers)[:-1]
    if isinstance(objective, PresentPrior) and len(points) == len(objective.weights):
        mean = sum((w * x for w, x in zip(objective.weights, points, strict=True)), Fraction())
        figures = table.figure(mean)
        inside = sum((w * f for w, f in zip(objective.weights, figures, strict=False)), Fraction())
        return (share * inside + (1 - share) * figures[-1]) / share**2
    worst, moments = Fraction(), table.moments()
    for place in range(33):
        mean = Fraction(place, 16) - 1
        figures = tuple(square - mean * (2 * mixed - mean * own) for square, mixed, own in moments)
        inside = ((1 - mean) * figures[0] + (1 + mean) * figures[-2]) / 2
        if isinstance(objective, PresentSample):
            inside -= 1 - mean * mean
        worst = max(worst, share * inside + (1 - share) * figures[-1])
    return worst / share**2


@lru_cache(maxsize=4096)
def _tolerance(tail: Present, users: int, beta: float) -> float:
    high = 2 * tail.half  # no mean is off by more

    def enough(tau: float) -> bool:
        return tail.failure(tau)(users) <= beta

    return least_tau(enough, 0.0, high, _FINE_TAU) if enough(high) else high
