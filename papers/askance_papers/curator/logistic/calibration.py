"""Calibration of objective perturbation: noise, and additional regularisation.

Theory of operation. Let w be the minimiser of

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

from askance_client.errors import InvalidParameter
from askance_papers.curator.logistic.losses import LOGISTIC, MarginLoss

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

    Raises:
      InvalidParameter: something is not above 0, or the calibration is `JOINT` and the loss's
        curvature does not fade.

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
