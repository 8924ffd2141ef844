"""Tails of decisions: how often a value may miss its tolerance where only a conclusion counts.

A decision (`learners.decisions`) fails with a chance beta in all. Here that is turned into a chance
for each value to be off by its tolerance or more, which the value's own tail then gets its number
of users from, exactly as it does for a tolerance. The step is that of normal estimates that are
independent, each with the mean that the decision promises:

- **Signs on a list** (`SignsListed`): the mean is theta deviations from zero, with the theta for
  which the true pattern is not among the `length` most likely ones with a chance of at most beta.
  It was simulated (the table below, 99.9 % confidence). A value misses with the chance
  2 Q(theta); its sign is wrong with half of that.
- **One stands out** (`OneStandsOut`): the one value's mean is s deviations from zero, with the s
  for which another value has the greater magnitude, or the one value the wrong sign, with a chance
  of at most beta. It is integrated numerically. The tolerance is half of that mean, so a value
  misses with the chance 2 Q(s / 2).

- **An association is found** (`AssociationFound`): with n users the statistic's noncentrality is
  n length^2 over the variance of a cell. The noncentrality that the test misses with a chance of
  beta is solved for, and a value that is `part` of the length away misses as often as a normal one
  with that noncentrality. Joint cells have about equally many users.

Two approximations remain: values of one answer are not quite independent (the covariance of two of
them is minus the product of their means, for MASKED-PARITY 1 / (2d)^2 beside a variance of 1 or
more), and estimates of few users are not quite normal. `benchmarks/masked_parity_lists.py` compares
the sizes with the laws of tallies.

Law of a list of sign patterns: 200,000 draws per d by `benchmarks/sign_list_law.py`.

THETAS[d][L]: standard deviations between zero and the means of d independent normal estimates for
which the list of the L most likely patterns of signs lacks the true one with a chance of at most
each of BETAS. Limits of 99.9 % confidence, by order statistics; 6.0 stands for "not known".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from math import erfc, log, sqrt

import numpy as np

from askance_aggregator.bisection import halved
from askance_aggregator.learners import (
    AssociationFound,
    Decision,
    OneStandsOut,
    Question,
    SignsListed,
)
from askance_aggregator.learners.asymptotic import noncentrality
from askance_aggregator.planning.tails import Failure, Tail
from askance_client.errors import InvalidParameter

_BEYOND = 9.0  # deviations above a mean: the normal tail beyond is 1e-19
_POINTS = 4001  # of an integral
_BISECTIONS = 40
_MOST = 32.0  # deviations: its normal tail is below every beta
_TINY = 1e-12  # deviations: the integral starts here, since ln P[|other| < 0] is not finite


@dataclass(frozen=True, slots=True)
class Decided(Tail):
    """The tail of a value of an answer that only has to lead to the right decision.

    Its `beta` is that of a value among `decision.values`: the decision fails with a chance of at
    most as many times beta.
    """

    of_value: Tail
    decision: Decision

    def exponent(self, tau: float) -> float:
        """Return the exponent of the value's tail."""
        return self.of_value.exponent(tau)

    def failure(self, tau: float) -> Failure:
        return self.of_value.failure(tau)

    def least_variance(self) -> float:
        """Return the least variance of the value's tail."""
        return self.of_value.least_variance()

    def fails(self, users: int, tau: float, beta: float) -> bool:
        """Return whether exact tails do not show that the decision is right."""
        return self.of_value.fails(users, tau, miss_chance(self.decision, beta))

    def users(self, tau: float, beta: float) -> int:
        return self.of_value.users(tau, miss_chance(self.decision, beta))

    def tolerance(self, users: int, beta: float) -> float:
        """Return the least tau for which `users` are enough for the decision."""
        return self.of_value.tolerance(users, miss_chance(self.decision, beta))

    def enough(self, users: int, tau: float, beta: float) -> bool:
        """Return whether so many users are enough for the decision."""
        return self.of_value.enough(users, tau, miss_chance(self.decision, beta))


def miss_of(question: Question, beta: float) -> float:
    """Return the chance with which each value of an answer may miss; `beta` without a decision."""
    return beta if question.decision is None else miss_chance(question.decision, beta)


def miss_chance(decision: Decision, beta: float) -> float:
    """Return the chance with which a value may miss its tolerance; never less than beta."""
    return max(beta, chance_per_value(decision, beta * decision.values))


@singledispatch
def chance_per_value(decision: Decision, beta: float) -> float:
    """Return the chance with which a value may miss if the decision may fail with chance beta.

    A decision without a registered method is planned like a tolerance.
    """
    return beta / decision.values


@chance_per_value.register
def _(decision: SignsListed, beta: float) -> float:
    theta = list_theta(decision.values, decision.length, beta)
    return beta / decision.values if theta is None else erfc(theta / sqrt(2))


@chance_per_value.register
def _(decision: OneStandsOut, beta: float) -> float:
    return erfc(standing_out(decision.values, beta) / 2 / sqrt(2))


@chance_per_value.register
def _(decision: AssociationFound, beta: float) -> float:
    found = noncentrality(decision.degrees, float(decision.level), beta)
    return erfc(sqrt(found / 2) * float(decision.part))


def list_theta(values: int, length: int, beta: float) -> float | None:
    """Return how many deviations from zero put the true signs on a list, except with chance beta.

    Returns:
        None where the table has no entry: more than 1,024 values, a list of length 1, or a beta
        below 1/2000.
    """
    # More values or a shorter list never take less, so the table is read at the next greater number
    # of values and at the next smaller length. Between two betas theta^2 is interpolated linearly
    # in ln beta; it is convex in ln beta, as for every normal tail, so the result is not too small.
    sizes = [size for size in THETAS if size >= values]
    lengths = [one for one in THETAS[sizes[0]] if one <= length] if sizes else []
    if not lengths or beta < BETAS[-1]:
        return None
    thetas = THETAS[sizes[0]][max(lengths)]
    if beta >= BETAS[0]:
        return thetas[0]
    after = next(place for place, known in enumerate(BETAS) if known <= beta)
    part = log(beta / BETAS[after]) / log(BETAS[after - 1] / BETAS[after])
    return sqrt((1 - part) * thetas[after] ** 2 + part * thetas[after - 1] ** 2)


@lru_cache(maxsize=4096)
def standing_out(values: int, beta: float) -> float:
    """Return how many deviations from zero make one value stand out, except with chance beta."""
    low, high = 0.0, 2.0
    while stands_back(values, high) > beta:
        high *= 2
        if high > _MOST:
            raise InvalidParameter(f"beta: expected 1e-15 or more for a decision, got {beta}")
    return halved(lambda mean: stands_back(values, mean) <= beta, low, high, _BISECTIONS)[1]


def stands_back(values: int, mean: float) -> float:
    """Compute the chance that one value does not stand out with its own sign.

    Its mean is given, that of the others 0; all are independent and normal, of deviation 1.
    """
    from askance_aggregator.special_functions import ndtr

    one = np.linspace(_TINY, mean + _BEYOND, _POINTS)
    density = np.exp(-((one - mean) ** 2) / 2) / sqrt(2 * np.pi)
    inside = np.log1p(-2 * ndtr(-one))  # ln P[|other| < one]
    beaten = -np.expm1((values - 1) * inside)
    return float(ndtr(-mean) + np.trapezoid(density * beaten, one))


BETAS = (0.04, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
THETAS: Mapping[int, Mapping[int, tuple[float, ...]]] = {
    2: {
        2: (1.251, 1.468, 1.666, 1.85, 2.069, 2.218, 2.383),
    },
    3: {
        2: (1.538, 1.734, 1.905, 2.074, 2.299, 2.46, 2.606),
        4: (1.02, 1.202, 1.358, 1.504, 1.69, 1.826, 1.971),
    },
    4: {
        2: (1.698, 1.886, 2.061, 2.225, 2.43, 2.58, 2.711),
        4: (1.283, 1.448, 1.597, 1.732, 1.907, 2.049, 2.173),
        8: (0.878, 1.034, 1.174, 1.299, 1.46, 1.598, 1.719),
    },
    6: {
        2: (1.911, 2.091, 2.252, 2.399, 2.586, 2.717, 2.854),
        4: (1.571, 1.725, 1.86, 1.992, 2.141, 2.252, 2.371),
        8: (1.294, 1.434, 1.555, 1.67, 1.816, 1.921, 2.019),
        16: (1.026, 1.157, 1.274, 1.381, 1.506, 1.606, 1.722),
        32: (0.722, 0.852, 0.963, 1.063, 1.185, 1.283, 1.378),
    },
    8: {
        2: (2.04, 2.211, 2.365, 2.516, 2.696, 2.842, 2.982),
        4: (1.733, 1.882, 2.01, 2.135, 2.29, 2.404, 2.489),
        8: (1.496, 1.626, 1.748, 1.853, 2.0, 2.086, 2.184),
        16: (1.287, 1.409, 1.518, 1.615, 1.748, 1.839, 1.915),
        32: (1.089, 1.203, 1.305, 1.402, 1.52, 1.603, 1.68),
        64: (0.88, 0.99, 1.092, 1.178, 1.291, 1.381, 1.455),
        128: (0.624, 0.734, 0.83, 0.922, 1.028, 1.115, 1.188),
    },
    12: {
        2: (2.217, 2.377, 2.526, 2.659, 2.819, 2.955, 3.074),
        4: (1.941, 2.077, 2.203, 2.314, 2.46, 2.557, 2.656),
        8: (1.737, 1.859, 1.973, 2.071, 2.201, 2.296, 2.391),
        16: (1.567, 1.682, 1.786, 1.885, 1.994, 2.093, 2.174),
        32: (1.418, 1.524, 1.626, 1.715, 1.82, 1.908, 1.986),
        64: (1.278, 1.381, 1.477, 1.564, 1.665, 1.736, 1.81),
        128: (1.144, 1.244, 1.335, 1.416, 1.516, 1.584, 1.651),
        256: (1.01, 1.106, 1.195, 1.274, 1.368, 1.435, 1.503),
        512: (0.87, 0.964, 1.049, 1.127, 1.217, 1.283, 1.35),
    },
    16: {
        2: (2.327, 2.478, 2.623, 2.759, 2.928, 3.052, 3.189),
        4: (2.069, 2.199, 2.315, 2.427, 2.573, 2.671, 2.783),
        8: (1.884, 1.999, 2.106, 2.206, 2.33, 2.423, 2.52),
        16: (1.732, 1.839, 1.935, 2.026, 2.148, 2.238, 2.324),
        32: (1.601, 1.7, 1.792, 1.875, 1.993, 2.077, 2.153),
        64: (1.483, 1.576, 1.663, 1.744, 1.851, 1.932, 2.003),
        128: (1.373, 1.463, 1.547, 1.622, 1.727, 1.802, 1.869),
        256: (1.268, 1.355, 1.435, 1.511, 1.608, 1.677, 1.745),
        512: (1.167, 1.251, 1.328, 1.404, 1.493, 1.557, 1.63),
    },
    24: {
        2: (2.489, 2.636, 2.773, 2.901, 3.071, 3.197, 3.305),
        4: (2.25, 2.376, 2.489, 2.596, 2.738, 2.841, 2.932),
        8: (2.082, 2.193, 2.298, 2.393, 2.514, 2.614, 2.707),
        16: (1.945, 2.049, 2.145, 2.232, 2.341, 2.43, 2.496),
        32: (1.831, 1.928, 2.017, 2.1, 2.203, 2.283, 2.358),
        64: (1.728, 1.821, 1.908, 1.984, 2.087, 2.154, 2.227),
        128: (1.636, 1.724, 1.806, 1.881, 1.979, 2.04, 2.112),
        256: (1.551, 1.636, 1.715, 1.79, 1.884, 1.94, 2.008),
        512: (1.471, 1.553, 1.629, 1.702, 1.794, 1.85, 1.906),
    },
    32: {
        2: (2.593, 2.736, 2.87, 3.002, 3.163, 3.278, 3.394),
        4: (2.364, 2.487, 2.601, 2.703, 2.841, 2.942, 3.051),
        8: (2.204, 2.312, 2.414, 2.503, 2.624, 2.726, 2.823),
        16: (2.078, 2.178, 2.27, 2.359, 2.46, 2.548, 2.628),
        32: (1.972, 2.064, 2.152, 2.232, 2.33, 2.408, 2.487),
        64: (1.877, 1.967, 2.049, 2.125, 2.218, 2.293, 2.365),
        128: (1.794, 1.878, 1.958, 2.029, 2.118, 2.19, 2.253),
        256: (1.719, 1.799, 1.874, 1.944, 2.025, 2.093, 2.155),
        512: (1.648, 1.725, 1.797, 1.863, 1.942, 2.008, 2.059),
    },
    48: {
        2: (2.731, 2.869, 3.0, 3.122, 3.271, 3.39, 3.539),
        4: (2.516, 2.634, 2.743, 2.849, 2.981, 3.077, 3.166),
        8: (2.368, 2.474, 2.569, 2.659, 2.781, 2.858, 2.945),
        16: (2.252, 2.349, 2.435, 2.52, 2.631, 2.704, 2.786),
        32: (2.154, 2.245, 2.326, 2.407, 2.508, 2.583, 2.65),
        64: (2.069, 2.157, 2.234, 2.309, 2.402, 2.475, 2.544),
        128: (1.994, 2.078, 2.149, 2.223, 2.31, 2.381, 2.442),
        256: (1.926, 2.007, 2.075, 2.145, 2.232, 2.296, 2.355),
        512: (1.864, 1.941, 2.007, 2.075, 2.158, 2.217, 2.273),
    },
    64: {
        2: (2.823, 2.957, 3.086, 3.211, 3.369, 3.493, 3.622),
        4: (2.618, 2.732, 2.838, 2.936, 3.069, 3.168, 3.266),
        8: (2.475, 2.578, 2.673, 2.765, 2.879, 2.963, 3.044),
        16: (2.365, 2.458, 2.548, 2.632, 2.734, 2.809, 2.895),
        32: (2.273, 2.36, 2.443, 2.521, 2.616, 2.693, 2.765),
        64: (2.193, 2.276, 2.354, 2.428, 2.514, 2.586, 2.653),
        128: (2.122, 2.201, 2.275, 2.346, 2.43, 2.499, 2.557),
        256: (2.058, 2.134, 2.204, 2.272, 2.355, 2.412, 2.476),
        512: (2.0, 2.073, 2.14, 2.206, 2.285, 2.339, 2.402),
    },
    96: {
        2: (2.95, 3.081, 3.204, 3.318, 3.471, 3.584, 3.695),
        4: (2.755, 2.864, 2.969, 3.065, 3.18, 3.264, 3.379),
        8: (2.62, 2.718, 2.81, 2.897, 3.002, 3.077, 3.181),
        16: (2.517, 2.607, 2.691, 2.769, 2.868, 2.942, 3.026),
        32: (2.43, 2.514, 2.595, 2.667, 2.76, 2.821, 2.9),
        64: (2.356, 2.436, 2.511, 2.579, 2.665, 2.726, 2.8),
        128: (2.292, 2.367, 2.438, 2.501, 2.586, 2.644, 2.708),
        256: (2.232, 2.306, 2.372, 2.432, 2.512, 2.569, 2.63),
        512: (2.179, 2.249, 2.313, 2.37, 2.448, 2.504, 2.556),
    },
    128: {
        2: (3.048, 3.174, 3.294, 3.405, 3.544, 3.665, 3.772),
        4: (2.858, 2.963, 3.061, 3.153, 3.278, 3.364, 3.455),
        8: (2.727, 2.822, 2.908, 2.992, 3.103, 3.17, 3.255),
        16: (2.626, 2.714, 2.794, 2.871, 2.969, 3.038, 3.11),
        32: (2.544, 2.625, 2.7, 2.772, 2.861, 2.926, 2.996),
        64: (2.473, 2.55, 2.62, 2.687, 2.772, 2.832, 2.898),
        128: (2.409, 2.484, 2.55, 2.614, 2.695, 2.753, 2.815),
        256: (2.353, 2.424, 2.486, 2.549, 2.628, 2.681, 2.737),
        512: (2.302, 2.369, 2.429, 2.488, 2.564, 2.619, 2.668),
    },
    192: {
        2: (3.165, 3.288, 3.404, 3.512, 3.663, 3.757, 3.857),
        4: (2.983, 3.086, 3.181, 3.278, 3.398, 3.472, 3.556),
        8: (2.86, 2.953, 3.039, 3.122, 3.231, 3.301, 3.372),
        16: (2.765, 2.85, 2.931, 3.008, 3.1, 3.173, 3.233),
        32: (2.687, 2.768, 2.843, 2.914, 2.999, 3.061, 3.127),
        64: (2.62, 2.696, 2.766, 2.835, 2.915, 2.971, 3.032),
        128: (2.562, 2.634, 2.701, 2.763, 2.838, 2.895, 2.952),
        256: (2.508, 2.576, 2.641, 2.702, 2.772, 2.829, 2.878),
        512: (2.46, 2.526, 2.588, 2.646, 2.714, 2.768, 2.818),
    },
    256: {
        2: (3.248, 3.37, 3.481, 3.591, 3.735, 3.84, 3.951),
        4: (3.071, 3.173, 3.269, 3.357, 3.468, 3.546, 3.64),
        8: (2.952, 3.047, 3.13, 3.206, 3.304, 3.376, 3.458),
        16: (2.862, 2.946, 3.022, 3.096, 3.186, 3.25, 3.324),
        32: (2.785, 2.864, 2.936, 3.004, 3.085, 3.155, 3.218),
        64: (2.721, 2.795, 2.862, 2.926, 3.006, 3.071, 3.125),
        128: (2.664, 2.734, 2.798, 2.859, 2.934, 2.995, 3.05),
        256: (2.613, 2.68, 2.739, 2.8, 2.871, 2.931, 2.982),
        512: (2.567, 2.631, 2.689, 2.745, 2.813, 2.867, 2.921),
    },
    384: {
        2: (3.365, 3.482, 3.597, 3.698, 3.836, 3.944, 4.049),
        4: (3.195, 3.293, 3.384, 3.474, 3.583, 3.655, 3.742),
        8: (3.08, 3.169, 3.249, 3.325, 3.425, 3.499, 3.569),
        16: (2.992, 3.073, 3.147, 3.217, 3.303, 3.38, 3.444),
        32: (2.92, 2.996, 3.065, 3.128, 3.212, 3.278, 3.343),
        64: (2.859, 2.93, 2.996, 3.056, 3.135, 3.197, 3.252),
        128: (2.804, 2.872, 2.935, 2.99, 3.067, 3.122, 3.178),
        256: (2.755, 2.82, 2.881, 2.934, 3.007, 3.059, 3.107),
        512: (2.712, 2.774, 2.832, 2.882, 2.951, 3.003, 3.049),
    },
    512: {
        2: (3.445, 3.56, 3.667, 3.774, 3.901, 3.999, 4.073),
        4: (3.277, 3.372, 3.461, 3.548, 3.655, 3.741, 3.828),
        8: (3.167, 3.25, 3.332, 3.408, 3.509, 3.58, 3.647),
        16: (3.081, 3.158, 3.233, 3.301, 3.395, 3.458, 3.523),
        32: (3.011, 3.082, 3.152, 3.217, 3.303, 3.364, 3.424),
        64: (2.95, 3.018, 3.084, 3.146, 3.225, 3.283, 3.345),
        128: (2.898, 2.963, 3.024, 3.083, 3.16, 3.212, 3.272),
        256: (2.85, 2.913, 2.97, 3.028, 3.101, 3.154, 3.203),
        512: (2.808, 2.868, 2.923, 2.977, 3.047, 3.099, 3.144),
    },
    768: {
        2: (3.55, 3.66, 3.762, 3.866, 3.987, 4.08, 4.178),
        4: (3.39, 3.483, 3.569, 3.648, 3.752, 3.83, 3.904),
        8: (3.282, 3.365, 3.442, 3.513, 3.61, 3.676, 3.74),
        16: (3.2, 3.277, 3.347, 3.414, 3.501, 3.565, 3.61),
        32: (3.133, 3.204, 3.27, 3.331, 3.41, 3.471, 3.52),
        64: (3.075, 3.143, 3.205, 3.262, 3.338, 3.395, 3.44),
        128: (3.025, 3.089, 3.147, 3.203, 3.276, 3.329, 3.37),
        256: (2.98, 3.041, 3.096, 3.15, 3.219, 3.27, 3.312),
        512: (2.94, 2.998, 3.051, 3.102, 3.168, 3.218, 3.259),
    },
    1024: {
        2: (3.626, 3.741, 3.844, 3.946, 4.077, 4.167, 4.272),
        4: (3.471, 3.564, 3.649, 3.733, 3.843, 3.921, 3.999),
        8: (3.367, 3.449, 3.524, 3.602, 3.695, 3.768, 3.841),
        16: (3.285, 3.361, 3.432, 3.502, 3.593, 3.656, 3.722),
        32: (3.22, 3.291, 3.356, 3.421, 3.505, 3.562, 3.622),
        64: (3.163, 3.23, 3.292, 3.353, 3.433, 3.484, 3.546),
        128: (3.115, 3.178, 3.237, 3.293, 3.367, 3.419, 3.478),
        256: (3.071, 3.132, 3.187, 3.241, 3.311, 3.36, 3.418),
        512: (3.031, 3.089, 3.143, 3.194, 3.26, 3.305, 3.366),
    },
}
