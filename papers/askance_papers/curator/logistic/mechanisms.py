"""Output and objective perturbation, corrected.

Calibration of objective perturbation, its noise and additional regularisation. Let w be the
minimiser of

    (lambda + Delta)/2 ||w||^2 + b.w/n + (1/n) sum_i log(1 + e^(-m_i)),   m_i = y_i w.x_i.

Its gradient vanishes, so every w comes from exactly one b,

    b(w) = -n (lambda + Delta) w + sum_i s_i y_i x_i,   s_i = 1 / (1 + e^(m_i)),

and w has the density f(b(w)) |det A(w)|, f that of b and A = n (lambda + Delta) I + sum_i
s_i (1 - s_i) x_i x_i^T. Two neighbours differ in one row, (x, y) and (x', y'). Therefore at any w

- their b(w) differ by s y x - s' y' x', which is shorter than 2: f differs by less than e^(eps'),
  f being proportional to exp(-eps' ||b|| / 2);
- their A are H + c x x^T and H + c' x' x'^T with the same H >= n (lambda + Delta) I and
  0 <= c, c' <= 1/4. As det(H + c x x^T) = det(H) (1 + c x^T H^-1 x), and det(H) is the least that
  the other's determinant can be, they differ by a factor of at most
  1 + 1 / (4 n (lambda + Delta)): one such factor, for the difference is of rank one on either side.

So the loss is below eps' + ln(1 + 1 / (4 n (lambda + Delta))), which `RANK_ONE` sets equal to eps.
The second factor of `JMLR` is not needed.

Both bounds are not reached at once. Where a row's s is known its tilt is s long and its curvature
s (1 - s), so that with N = n (lambda + Delta) the loss is below the greatest value over 0 <= s <= 1
of

    g(s) = eps' (1 + s)/2 + ln(1 + s (1 - s)/N),

a concave function with g(1) = eps' and g'(1) = eps'/2 - 1/N. If N >= 2/eps' it rises all the way,
and the loss is below eps': then the change of variables costs nothing. `JOINT` sees to that, with
eps' = eps. (In d >= 2 there are neighbours that come as near to g's maximum as one likes, so no
less strength would do with this noise.)

Another loss l of the margin has a slope of at most kappa and a curvature of at most c
(`losses.MarginLoss`). Then b(w) differ by less than 2 kappa, the noise is proportional to
exp(-eps' ||b|| / (2 kappa)), and the factor is 1 + c/N. Where l'' jumps, b(w) is still one-to-one,
and Lipschitz in both directions, so that the change of variables holds almost everywhere. `JOINT`
needs a curvature that fades as the slope nears kappa, l'' <= K (1 - s/kappa): then g(s) is below
eps' (1 + s/kappa)/2 + ln(1 + K (1 - s/kappa)/N), and N >= 2 K/eps' suffices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Pure
from askance_aggregator.numbers import Rational, rational, read_epsilon
from askance_aggregator.sampling import FloatDraws, Words
from askance_client.errors import InvalidParameter
from askance_papers.curator.logistic.examples import Examples
from askance_papers.curator.logistic.losses import LOGISTIC, MarginLoss

GRADIENT = 1e-10
"""The norm of the gradient at what is returned."""

_STEPS = 40  # of Newton's method; from a good start it takes ten
_SOFTENING = 8.0
_HARDEST = 1e12  # a strength at which Newton's method takes two steps
_ARMIJO = 1e-4
_ROUNDING = 1e-13  # of a loss: what it may seem to grow by although it shrinks
_STRENGTHS = (1e-12, 1e12)


def minimise(
    examples: Examples,
    strength: float,
    tilt: NDArray[np.float64] | None = None,
    loss: MarginLoss = LOGISTIC,
) -> NDArray[np.float64]:
    """The w that minimises strength/2 ||w||^2 + tilt.w / n + (1/n) sum_i l(y_i w.x_i).

    Newton's method with a line search. The sum is strongly convex, so the gradient's norm bounds
    the distance to the minimiser: ||w - w*|| <= GRADIENT / strength. Where coefficients are so
    large that the losses are all but piecewise linear, Newton's method finds its way from one piece
    to the next only slowly; there a sum of more strength is minimised first.

    `strength` is 1e-12 .. 1e12 and `tilt` of the shape (d,); None: no tilt.

    Raises:
      InvalidParameter: a strength outside its range.
      ArithmeticError: floats do not reach the tolerance. They do wherever coefficients stay below
        some 10^6, which those of private releases do.
    """
    if not _STRENGTHS[0] <= strength <= _STRENGTHS[1]:
        raise InvalidParameter(f"strength: expected 1e-12 .. 1e12, found {strength:g}")
    linear = np.zeros(examples.dimension) if tilt is None else tilt / examples.count
    found = _Objective(examples.signed, strength, linear, loss).followed()
    if found is None:
        raise ArithmeticError(f"the minimiser: expected a gradient of at most {GRADIENT:g}")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    signed: NDArray[np.float64]
    strength: float
    linear: NDArray[np.float64]
    loss: MarginLoss

    def followed(self) -> NDArray[np.float64] | None:
        """From 0, or from the minimiser of a softer objective."""
        # With w = T v the objective is T times that of v with T times the strength, of a loss that
        # is T times as soft: so the softer objective's v, T-fold, is where to start.
        found = self.minimiser(np.zeros(len(self.linear)))
        if found is not None or self.strength > _HARDEST:
            return found
        softer = _Objective(
            self.signed, self.strength * _SOFTENING, self.linear, self.loss
        ).followed()
        return None if softer is None else self.minimiser(softer * _SOFTENING)

    def minimiser(self, point: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """By Newton's method; None if it takes too many steps."""
        count, dimension = self.signed.shape
        margins = self.signed @ point
        value = self.value(point, margins)
        for _ in range(_STEPS):
            slopes = self.loss.slopes(margins)
            gradient = self.strength * point + self.linear - self.signed.T @ slopes / count
            if np.linalg.norm(gradient) <= GRADIENT:
                return point
            weights = self.loss.curvatures(margins) / count
            curvature = (self.signed * weights[:, None]).T @ self.signed
            curvature += self.strength * np.eye(dimension)
            step = -np.linalg.solve(curvature, gradient)
            point, margins, value = self.searched(point, margins, value, step, gradient @ step)
        return None

    def searched(
        self,
        point: NDArray[np.float64],
        margins: NDArray[np.float64],
        value: float,
        step: NDArray[np.float64],
        slope: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """The first of the step's halvings that lessens the objective enough."""
        along, length = self.signed @ step, 1.0
        while True:
            moved, moved_margins = point + length * step, margins + length * along
            reached = self.value(moved, moved_margins)
            allowed = value + _ARMIJO * length * slope + _ROUNDING * (1 + abs(value))
            if reached <= allowed or length < 2.0**-60:
                return moved, self.signed @ moved, reached
            length /= 2

    def value(self, point: NDArray[np.float64], margins: NDArray[np.float64]) -> float:
        """The objective."""
        ridge = self.strength / 2 * (point @ point)
        return float(ridge + self.linear @ point + self.loss.values(margins).mean())


_OUTWARD = 2.0**-40  # floats are rounded to the safe side by more than their errors


class LogisticCalibration(StrEnum):
    """Division of epsilon between the noise and the change of variables."""

    RANK_ONE = "rank-one"
    """Less noise, and continuous in every number: one factor 1 + 1/(4 n (lambda + Delta))."""

    JMLR = "jmlr"
    """Chaudhuri, Monteleoni, Sarwate (JMLR 2011), Algorithm 2: the factor squared. Where it leaves
    just above nothing for the noise, the noise is boundless."""

    JOINT = "joint"
    """All of epsilon for the noise, and a regularisation of 2/(n epsilon) or more: the two factors
    are never great at the same output. Ours."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Noise scale and additional regularisation of objective perturbation.

    Args:
      added: Delta, regularisation beyond lambda; 0 or more.
      noise_epsilon: eps' in nats: b has the density proportional to exp(-eps' ||b|| / (2 kappa)).
    """

    added: float
    noise_epsilon: float


def calibrate(
    calibration: LogisticCalibration,
    epsilon: Fraction,
    count: int,
    regularisation: Fraction,
    loss: MarginLoss = LOGISTIC,
) -> Calibrated:
    """Delta and eps' that make objective perturbation epsilon-differentially private.

    `count` is n and `regularisation` lambda; these two and `epsilon` (nats) are above 0.

    Source: CM08, Algorithm 2 and Theorem 3, whose proofs leave the change of variables out; see
      `LogisticCalibration`.
    """
    if epsilon <= 0 or count < 1 or regularisation <= 0:
        raise InvalidParameter(
            "calibration: expected an epsilon, a count and a regularisation above 0, "
            f"found {float(epsilon):g}, {count} and {float(regularisation):g}"
        )
    stated, strength = float(epsilon), float(regularisation)
    curvature = float(loss.curvature_bound)
    if calibration is LogisticCalibration.JMLR:
        return _jmlr(stated, count, strength, curvature)
    if calibration is LogisticCalibration.JOINT:
        enough = 2 * _fading(loss) / (count * stated) * (1 + 2 * _OUTWARD)
        return Calibrated(max(0.0, enough - strength), _rounded(stated, stated))
    # The factor takes at most half of epsilon.
    added = max(0.0, _strength_for(stated / 2, count, curvature) - strength)
    factor = _factor(count, strength + added, curvature)
    return Calibrated(added, _rounded(stated - factor, stated))


def _fading(loss: MarginLoss) -> float:
    if loss.fading_curvature is None:
        raise InvalidParameter(
            f"calibration: expected rank-one or jmlr for the loss {loss.name!r}, got joint; its"
            " curvature does not fade where its slope is greatest"
        )
    return float(loss.fading_curvature)


def _jmlr(epsilon: float, count: int, strength: float, curvature: float) -> Calibrated:
    left = _rounded(epsilon - 2 * _factor(count, strength, curvature), epsilon)
    if left > 0:
        return Calibrated(0.0, left)
    added = _strength_for(epsilon / 4, count, curvature) - strength
    return Calibrated(added, _rounded(epsilon / 2, epsilon))


def _factor(count: int, strength: float, curvature: float) -> float:
    """ln(1 + c / (n strength)), in nats."""
    return math.log1p(curvature / (count * strength))


def _strength_for(nats: float, count: int, curvature: float) -> float:
    """The strength whose factor is this; written so that large epsilons do not overflow."""
    return curvature * math.exp(-nats) / (count * -math.expm1(-nats)) * (1 + _OUTWARD)


def _rounded(noise_epsilon: float, epsilon: float) -> float:
    return noise_epsilon - _OUTWARD * epsilon


_REGULARISATIONS = (Fraction(1, 10**9), Fraction(10**6))
_LONGEST_TILT = 2e5  # beside it a gradient of 1e-10 is some ten times what floats round


@dataclass(frozen=True, slots=True)
class OutputPerturbation:
    """Releases the minimiser of the regularised loss plus noise, shape (d,).

    Privacy: epsilon-DP, replace-one. Replacing one row changes the gradient by at most 2 kappa/n
    (kappa bounds the loss's slope; 1 for the logistic one), and so the minimiser by at most
    2 kappa/(n lambda); noise of density proportional to exp(-||v||/scale) with scale = 2 kappa/(n
    lambda epsilon) hides that. What is perturbed has a gradient of up to 1e-10 instead of 0; that
    is part of the scale. The noise is continuous: not float-safe.
    Utility: the noise has a mean norm of 2 kappa d/(n lambda epsilon), whatever the data.

    Args:
      epsilon: nats.
      regularisation: lambda, 1e-9 .. 1e6, for the mean loss over rows of norm at most 1.
      loss: of a row's margin.

    Source: CM08, Algorithm 1. Deviation: the noise's length is Gamma(d) and not Laplace, which is
    private in one dimension only (Chaudhuri, Monteleoni, Sarwate, JMLR 2011, Algorithm 1).
    """

    epsilon: Fraction
    regularisation: Fraction
    loss: MarginLoss = LOGISTIC

    def __post_init__(self) -> None:
        _check(self.epsilon, self.regularisation)

    @classmethod
    def of(
        cls, epsilon: Rational, regularisation: Rational, loss: MarginLoss = LOGISTIC
    ) -> OutputPerturbation:
        """Make a mechanism from numbers in any exact notation ("0.5", 1, a Fraction)."""
        return cls(read_epsilon(epsilon), rational(regularisation, "regularisation"), loss)

    @property
    def event(self) -> Pure:
        """Cost of one release."""
        return Pure(self.epsilon)

    def scale(self, count: int) -> float:
        """The noise's, for n rows."""
        moved = 2 * (float(self.loss.slope_bound) / count + GRADIENT) / float(self.regularisation)
        return moved / float(self.epsilon) * (1 + 2.0**-40)

    def release(self, examples: Examples, words: Words) -> NDArray[np.float64]:
        """The private coefficients, shape (d,); one release, whose cost is `event`.

        Raises:
          ArithmeticError: floats do not reach the minimiser's tolerance (nothing is drawn).
        """
        point = minimise(examples, float(self.regularisation), loss=self.loss)
        return point + _noise(words, examples.dimension, self.scale(examples.count))


@dataclass(frozen=True, slots=True)
class ObjectivePerturbation:
    """Releases the minimiser of the regularised loss plus a random linear term, shape (d,).

    Privacy: epsilon-DP, replace-one, by the argument of this module. It is the exact minimiser
    that is private: what is released is within 1e-10 / (lambda + Delta) of it, which is not
    accounted for, and the noise is continuous: not float-safe.
    Utility: the tilt has a mean norm of 2 kappa d/eps' beside a gradient of up to kappa n; better
    than output perturbation wherever lambda is small.

    Args:
      epsilon: nats.
      regularisation: lambda, 1e-9 .. 1e6, for the mean loss over rows of norm at most 1.
      calibration: how epsilon is divided; `JOINT` needs the least noise.
      loss: of a row's margin; `JOINT` is for those whose curvature fades, as the logistic one's.

    Raises:
      InvalidParameter: a number outside its range, or a calibration that is not for the loss.

    Source: CM08, Algorithm 2, and Theorem 3 for other losses. Deviations: the noise's length is
    Gamma(d) and not Laplace; the change of variables is paid for.
    """

    epsilon: Fraction
    regularisation: Fraction
    calibration: LogisticCalibration = LogisticCalibration.JOINT
    loss: MarginLoss = LOGISTIC

    def __post_init__(self) -> None:
        _check(self.epsilon, self.regularisation)
        self.calibrated(1)

    @classmethod
    def of(
        cls,
        epsilon: Rational,
        regularisation: Rational,
        calibration: LogisticCalibration = LogisticCalibration.JOINT,
        loss: MarginLoss = LOGISTIC,
    ) -> ObjectivePerturbation:
        """Make a mechanism from numbers in any exact notation ("0.5", 1, a Fraction)."""
        strength = rational(regularisation, "regularisation")
        return cls(read_epsilon(epsilon), strength, calibration, loss)

    @property
    def event(self) -> Pure:
        """Cost of one release."""
        return Pure(self.epsilon)

    def calibrated(self, count: int) -> Calibrated:
        """Delta and eps' for n rows."""
        return calibrate(self.calibration, self.epsilon, count, self.regularisation, self.loss)

    def scale(self, count: int) -> float:
        """The tilt's, for n rows: its density is proportional to exp(-||b|| / scale)."""
        return 2 * float(self.loss.slope_bound) / self.calibrated(count).noise_epsilon

    def release(self, examples: Examples, words: Words) -> NDArray[np.float64]:
        """The private coefficients, shape (d,); one release, whose cost is `event`.

        Raises:
          InvalidParameter: so little epsilon for so few rows that floats could not reach the
            minimiser's tolerance beside so long a tilt (nothing is drawn).
          ArithmeticError: they did not reach it otherwise.
        """
        strength = float(self.regularisation) + self.calibrated(examples.count).added
        scale = self.scale(examples.count)
        _check_tilt(scale / examples.count, examples.dimension)
        tilt = _noise(words, examples.dimension, scale)
        return minimise(examples, strength, tilt, self.loss)


def _check(epsilon: Fraction, regularisation: Fraction) -> None:
    read_epsilon(epsilon)
    if not _REGULARISATIONS[0] <= regularisation <= _REGULARISATIONS[1]:
        raise InvalidParameter(
            f"regularisation: expected 1e-9 .. 1e6, found {float(regularisation):g}"
        )


def _check_tilt(scale: float, dimension: int) -> None:
    """Check the length that a tilt adds to the gradient."""
    # Gamma(d), below this bound except with e^-30.
    if scale * (dimension + 10 * sqrt(dimension) + 40) > _LONGEST_TILT:
        raise InvalidParameter(
            "epsilon: expected more for so few rows and so many columns, found so little that the"
            " noise passes what floats resolve"
        )


def _noise(words: Words, dimension: int, scale: float) -> NDArray[np.float64]:
    """Draw a vector with density proportional to exp(-||v|| / scale), shape (dimension,)."""
    draws = FloatDraws(words)
    return draws.gammavariate(dimension, scale) * draws.direction(dimension)
