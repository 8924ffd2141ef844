"""Output and objective perturbation, corrected."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Pure
from askance_aggregator.numbers import Rational, rational, read_epsilon
from askance_aggregator.sampling import FloatDraws, Words
from askance_client.errors import InvalidParameter
from askance_papers.curator.logistic.calibration import Calibrated, LogisticCalibration, calibrate
from askance_papers.curator.logistic.examples import Examples
from askance_papers.curator.logistic.losses import LOGISTIC, MarginLoss
from askance_papers.curator.logistic.minimiser import GRADIENT, minimise

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
        """Make a mechanism from numbers in any exact notation ("0.5", 1, a Fraction).

        Raises:
          InvalidParameter: a number outside its range.
        """
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

    Privacy: epsilon-DP, replace-one, by the argument in `calibration`. It is the exact minimiser
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
    """Check the length that a tilt adds to the gradient.

    Gamma(d), below this bound except with e^-30.
    """
    if scale * (dimension + 10 * sqrt(dimension) + 40) > _LONGEST_TILT:
        raise InvalidParameter(
            "epsilon: expected more for so few rows and so many columns, found so little that the"
            " noise passes what floats resolve"
        )


def _noise(words: Words, dimension: int, scale: float) -> NDArray[np.float64]:
    """Draw a vector with density proportional to exp(-||v|| / scale), shape (dimension,)."""
    draws = FloatDraws(words)
    return draws.gammavariate(dimension, scale) * draws.direction(dimension)
