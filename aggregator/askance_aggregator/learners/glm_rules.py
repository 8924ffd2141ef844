"""Settings of a descent by arithmetic: rounds, clip, rate, fields, and whether to learn at all.

All follow from one figure that is known before any user is asked:

    relative noise r = sqrt(d v / n),

d the number of weights, n the users, v n times the variance of a component of the mean gradient
when every record's gradient is clipped to length 1. It is the length of the error that the mean
over all users would have, beside gradients of length at most 1. The figures below were chosen once
on Adult (7 fields, 26,049 and 10^6 users, epsilon 0.5 to 8), whose error is flat about them.

- Rounds: (e / r)^2, at least 8 and at most 64 or 128: each round's gradient then has an error of
  length e, 1/3 for classes and 2/5 for outcomes, whose features decide by small differences. More
  rounds cost nothing but requests where the noise is small; fewer do not arrive.
- Rate: a multiple of 1 / (curvature x mean |x|^2), greater where there are few rounds.
- Fields: as many as keep r below 0.17, those of fewest features first, in the schema's order.
- Decision: up to r = 0.3 the model is concluded; from 0.7 on not even its direction is known, and
  the constant is; between, a fifth of the users tell which is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import sqrt

from askance_aggregator.learners.field_limits import narrowest


class Decision(StrEnum):
    """Decision about the model before any user is asked."""

    MODEL = "model"  # concluded unseen
    CHECK = "check"  # concluded if a fifth of the users show that it is better than the constant
    CONSTANT = "constant"  # not learned


MOST_NOISE = 0.17
CLEAR = 0.3
HOPELESS = 0.7
FEWEST_ROUNDS = 8
PENALTY_PART = Fraction(1, 8)  # of the relative noise: the penalty of a ridge
_STEPS = 64  # the grid of a rate


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of a loss's residuals.

    Args:
        clip: bound of a gradient's length where noise is small.
        noisy_clip: the same where it is not.
        rate: where noise is small, times curvature and mean |x|^2.
        noisy_rate: the same where it is not.
        error: length of the error of a round's gradient.
        most_rounds: the greatest number of rounds.
        fine: relative noise below which it is small.
        planned: relative noise that a plan without a population asks users for.
    """

    clip: Fraction
    noisy_clip: Fraction
    rate: float
    noisy_rate: float
    error: float
    most_rounds: int
    fine: float
    planned: float


CLASSES = Scale(
    Fraction(1),
    Fraction(1),
    rate=2.4,
    noisy_rate=5.0,
    error=1 / 3,
    most_rounds=64,
    fine=0.05,
    planned=1 / 12,
)
MARGINS = Scale(
    Fraction(1),
    Fraction(1),
    rate=8.0,
    noisy_rate=6.0,
    error=1 / 3,
    most_rounds=64,
    fine=0.05,
    planned=1 / 12,
)
OUTCOMES = Scale(
    Fraction(1, 2),
    Fraction(1, 4),
    rate=1.5,
    noisy_rate=0.8,
    error=2 / 5,
    most_rounds=128,
    fine=0.02,
    planned=1 / 24,
)


@dataclass(frozen=True, slots=True)
class Noise:
    """Relative noise of a study.

    Args:
        variance: v, n times the variance of a component for gradients of length at most 1.
        weights: d.
        users: n.
    """

    variance: float
    weights: int
    users: int

    @property
    def relative(self) -> float:
        """Compute r; infinite without users."""
        if self.users < 1:
            return float("inf")
        return sqrt(self.weights * self.variance / self.users)

    @property
    def decision(self) -> Decision:
        """The decision about the model."""
        if self.relative <= CLEAR:
            return Decision.MODEL
        return Decision.CHECK if self.relative < HOPELESS else Decision.CONSTANT

    def rounds(self, scale: Scale) -> int:
        """Return the number of rounds."""
        wanted = (scale.error / self.relative) ** 2
        return round(min(max(wanted, FEWEST_ROUNDS), scale.most_rounds))

    def clip(self, scale: Scale) -> Fraction:
        """Return the bound of a gradient's length."""
        return scale.clip if self.relative < scale.fine else scale.noisy_clip

    def rate(self, scale: Scale, curvature: float, typical: float) -> Fraction:
        """Return the step per unit of gradient.

        Args:
            scale: of the loss.
            curvature: of the loss.
            typical: the mean of |x|^2, about.
        """
        chosen = scale.rate if self.relative < scale.fine else scale.noisy_rate
        return rate_of(chosen, curvature, typical)

    @property
    def penalty(self) -> Fraction:
        """The penalty of a ridge, on multiples of 1/65536."""
        part = min(self.relative, 8.0) * PENALTY_PART
        return Fraction(round(part * 65_536), 65_536)


def rate_of(multiple: float, curvature: float, typical: float) -> Fraction:
    """Return a multiple of 1 / (curvature x mean |x|^2), on multiples of 1/64, at least one."""
    return Fraction(max(round(multiple / (curvature * typical) * _STEPS), 1), _STEPS)


def users_for(weights: int, variance: float, relative: float) -> int:
    """Compute the users at which the relative noise has a given size."""
    return max(round(weights * variance / relative**2), 1)


def affordable(widths: Sequence[int], variance: float, users: int, most: int) -> tuple[int, ...]:
    """Choose the fields that keep the relative noise below `MOST_NOISE`, the narrowest first.

    Args:
        widths: number of features of each field.
        variance: v; 0: any number of weights is allowed, up to `most`.
        users: n.
        most: the greatest number of weights.

    Returns:
        Their places, increasing; at least one, and all if they fit.
    """
    allowed = min(MOST_NOISE**2 * users / variance, most) if variance else most
    return narrowest(widths, lambda places: 1 + sum(widths[place] for place in places) <= allowed)
