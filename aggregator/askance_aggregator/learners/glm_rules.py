"""Settings of a descent by arithmetic: rounds, clip, rate, fields, and whether to learn at all.

All follow from one figure that is known before any user is asked:

    relative noise r = sqrt(d v / n),

d the number of weights, n the users, v n times the variance of a component of the mean gradient
when every record's gradient is clipped to length 1. It is the length of the error that the mean
over all users would have, beside gradients of length at most 1. The figures below were chosen once
on Adult (7 fields and all of them) and on Pima, 600 to 10^7 users, epsilon 0.5 to 8, whose error is
flat about them.

- Rounds: 3 / r, at least 8 and at most 128. The errors of T steps of a rate, each of a T-th of the
  users, add to a length of rate x T x r x clip, however the way is divided into steps: so rate x T
  may grow as 1 / r does. More and shorter steps cost nothing but requests.
- Rate: constant where residuals are clipped to probabilities, since clipping bounds the steps of
  long features already; of squared losses at most a multiple of 1 / (curvature x mean |x|^2).
- Clip: 1 for classes and outcomes of two values; 1/4 or 1/2 for other numbers, most of whose
  outcomes are nearer to a model than that. An outcome of two values is far from every model, and
  clipped closer the model would be of its median.
- Fields: as many as keep r below a limit, those of fewest features first, in the schema's order.
- Decision: up to a limit of r the model is concluded. Beyond, a fifth of the users tell whether it
  is better than the constant, if their answer is exact enough: a choice by an unbiased answer of
  standard deviation s costs at most max_x x Phi(-x) s = 0.17 s on the mean. If it is not, or from
  r = 0.7 on, where not even the direction of the model is known, the constant is concluded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

from askance_aggregator.learners.conditions import narrowest
from askance_aggregator.learners.constant_checks import Doubt, ModelChoice

HOPELESS = 0.7
FEWEST_ROUNDS = 8
MOST_ROUNDS = 128
WAY = 3.0  # rounds times relative noise
PENALTY_PART = Fraction(1, 8)  # of the relative noise: the penalty of a ridge
_STEPS = 64  # the grid of a rate


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of a loss's residuals.

    Args:
        clip: bound of a gradient's length where noise is small.
        noisy_clip: the same where it is not.
        rate: the greatest.
        multiple: of 1 / (curvature x mean |x|^2), the greatest rate where noise is small.
        noisy_multiple: the same where it is not.
        fine: relative noise below which it is small.
        clear: relative noise up to which a model is concluded unseen.
        most_noise: relative noise that limits the fields.
        planned: relative noise that a plan without a population asks users for.
        gain: bound of a record's gain in a check, in the unit of the loss that is compared.
        doubt: greatest standard deviation of a check, in the same unit.
    """

    clip: Fraction
    noisy_clip: Fraction
    rate: float
    multiple: float
    noisy_multiple: float
    fine: float
    clear: float
    most_noise: float
    planned: float
    gain: Fraction
    doubt: float


CLASSES = Scale(
    Fraction(1),
    Fraction(1),
    rate=1.75,
    multiple=16.0,
    noisy_multiple=16.0,
    fine=0.02,
    clear=0.25,
    most_noise=0.12,
    planned=1 / 12,
    gain=Fraction(1),
    doubt=0.05,
)
MARGINS = replace(CLASSES, rate=1.25)
OUTCOMES = Scale(
    Fraction(1, 2),
    Fraction(1, 4),
    rate=1.0,
    multiple=1.5,
    noisy_multiple=0.8,
    fine=0.02,
    clear=0.1,
    most_noise=0.08,
    planned=1 / 24,
    gain=Fraction(1, 4),
    doubt=0.01,
)
TWO_VALUES = replace(
    OUTCOMES, clip=Fraction(1), noisy_clip=Fraction(1), gain=Fraction(1), doubt=0.04
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

    def decision(self, scale: Scale, deviation: Callable[[], float]) -> ModelChoice:
        """Return the decision about the model; a check's deviation is computed in doubt alone."""
        choice = Doubt(scale.clear, HOPELESS).decision(self.relative)
        if choice is ModelChoice.CHECK and deviation() > scale.doubt:
            return ModelChoice.CONSTANT
        return choice

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        if not self.relative:
            return MOST_ROUNDS
        return round(min(max(WAY / self.relative, FEWEST_ROUNDS), MOST_ROUNDS))

    def clip(self, scale: Scale) -> Fraction:
        """Return the bound of a gradient's length."""
        return scale.clip if self.relative < scale.fine else scale.noisy_clip

    def rate(self, scale: Scale, curvature: float, typical: float) -> Fraction:
        """Return the step per unit of gradient; `typical` is about the mean of |x|^2."""
        fine = self.relative < scale.fine
        multiple = scale.multiple if fine else scale.noisy_multiple
        return rate_of(scale.rate, multiple, curvature, typical)

    @property
    def penalty(self) -> Fraction:
        """The penalty of a ridge, on multiples of 1/65536."""
        part = min(self.relative, 8.0) * PENALTY_PART
        return Fraction(round(part * 65_536), 65_536)


def rate_of(most: float, multiple: float, curvature: float, typical: float) -> Fraction:
    """Return a multiple of 1 / (curvature x mean |x|^2), or the most, on multiples of 1/64."""
    wanted = min(most, multiple / (curvature * typical))
    return Fraction(max(round(wanted * _STEPS), 1), _STEPS)


def users_for(weights: int, variance: float, relative: float) -> int:
    """Compute the users at which the relative noise has a given size."""
    return max(round(weights * variance / relative**2), 1)


def affordable(
    widths: Sequence[int], variance: float, users: int, most: int, noise: float
) -> tuple[int, ...]:
    """Choose the fields that keep the relative noise below a limit, the narrowest first.

    The widths are numbers of features. If the variance is 0, any number of weights is allowed, up
    to `most`. The places are increasing: at least one, and all if they fit.
    """
    allowed = min(noise**2 * users / variance, most) if variance else most
    return narrowest(widths, lambda places: 1 + sum(widths[place] for place in places) <= allowed)
