"""Signed estimates: what points to + less what points to -."""

from __future__ import annotations

from dataclasses import dataclass
from math import cosh, exp, log, log1p, sinh, sqrt

import numpy as np

from askance_aggregator.estimation import relative_landing
from askance_aggregator.planning.tails import Failure, Reals, Tail, exceeds, least_of_convex

_ENUMERATED = 500.0  # reports that point somewhere: beyond, exact tails save less than 6 %
_SLACK = 1e-9  # a threshold that rounding may have moved beyond a whole number counts as on it
_UPWARD = 1 + 1e-8  # more than the relative error of sums of incomplete beta functions
_MASSES, _TILTS = 16, 32  # cells over the populations that keep a promise
# Of users elsewhere, who are not all alike, ends of cells as parts of the most that they stray:
# fine near the most, which is as a rule the worst, and halves below.
_STRAYS = (*(2.0**-half for half in range(16, 1, -1)), *(1 - 2.0**-half for half in range(1, 7)))


@dataclass(frozen=True, slots=True)
class Ternary(Tail):
    """A term is +1, -1 or 0: the difference of two cells' inclusion in one report.

    With masses f+ and f-, t = f+ + f- and g = f+ - f-, W is not 0 with probability q, and

        q = 2 stray + t (hit + miss - 2 stray),    P[W = +-1] = (q +- gap g) / 2,
        E[W] = gap g,    gap = hit - miss.

    Args:
        hit: P[only the + cell is in the report | the user is at the + cell]; for - the same.
        miss: P[only the - cell is in it | the user is at the + cell]; for - the same.
        stray: P[only the + cell is in it | the user is at neither], and the same for -; at most,
            where it is not the same for all.
        mass: at most this share of users is at one of the two.
        least_stray: lower bound of it, > 0; None: `stray`.
    """

    hit: float
    miss: float
    stray: float
    mass: float
    least_stray: float | None = None

    @property
    def gap(self) -> float:
        """E[W] for a user at the + cell."""
        return self.hit - self.miss

    def exponent(self, tau: float) -> float:
        """Return max over s of s x - K(s), K the worst ln E[e^(s (W - E[W]))]."""
        # E[e^(sW)] = 1 + (cosh s - 1) q + sinh(s) gap g grows with t (a negative coefficient of t
        # is replaced by 0, upward), so t = mass is the worst; in g, ln(...) - s gap g is concave
        # with a maximum that solves a linear equation. As the masses are symmetric, both sides have
        # the same exponent. At least Hoeffding's x^2/2.
        shift = tau * self.gap
        return max(self._best_tilt(shift)[0], shift * shift / 2)

    def log_moment(self, s: float) -> float:
        """K(s): the greatest ln E[e^(s (W - E[W]))] of a population that keeps the promise."""
        even = (cosh(s) - 1) * (2 * self.stray + self.mass * max(self._rest, 0.0))
        slope, tilt = sinh(s) * self.gap, s * self.gap
        # d/dg: slope / (1 + even + slope g) = tilt.
        g = min(max(1 / tilt - (1 + even) / slope, -self.mass), self.mass) if tilt else 0.0
        return log1p(even + slope * g) - tilt * g

    def failure(self, tau: float) -> Failure:
        """Chernoff's bound times `relative_landing`, in each cell of populations."""
        # The populations (t, g), and what users elsewhere stray in the mean, are divided into
        # cells. In each, K is bounded from above (at the greatest q, and the best g it has), and
        # the tilted law's variance from below, by interval arithmetic. As the other side sees -g,
        # the two sides' worst cases need not meet.
        shift = tau * self.gap
        rate, s = self._best_tilt(shift)
        if rate == 0:
            return lambda users: 1.0
        exponents, deviations, reaches = self._cells(s, shift)
        factors = relative_landing(s, deviations, reaches)

        def both(users: float) -> float:
            side = np.exp(-users * exponents) * np.minimum(1.0, factors / sqrt(users))
            return float((side + side[..., ::-1]).max())

        return both

    def least_variance(self) -> float:
        """Variance for users who are all at other values, or at + as far as possible."""
        stray = self._strays[0]
        rest = self.hit + self.miss - 2 * stray
        at_plus = 2 * stray + self.mass * rest - (self.gap * self.mass) ** 2
        return min(2 * stray, at_plus) / self.gap**2

    def fails(self, users: int, tau: float, beta: float) -> bool:
        """The tails by conditioning on how many terms are not 0, for all g allowed at t = mass."""
        # If q <= 1/2, P[W = 0]^2 >= 4 P[W = 1] P[W = -1], so that W + 1 is a sum of two independent
        # coins and the sum of all W + 1 a sum of coins, whose law falls from one beyond its mean on
        # (Darroch 1964). More mass moves W from 0 to +1 and -1 alike, which changes P[S >= k] in
        # proportion to P[S' = k - 1] - P[S' = k] >= 0, S' being without one term, where k is 3 or
        # more beyond the mean: so t = mass is the worst. Elsewhere nothing is claimed.
        shift = tau * self.gap
        q = 2 * self.stray + self.mass * self._rest
        if self._rest < 0 or q > 0.5 or users * shift < 3 or users * q > _ENUMERATED:
            return True
        window = _Window(users, q, beta)

        def both(left: Reals, right: Reals) -> Reals:
            up = window.tail((q + self.gap * right) / 2 / q, users * (self.gap * left + shift))
            down = window.tail((q - self.gap * left) / 2 / q, users * (shift - self.gap * right))
            return up + down

        return exceeds(both, -self.mass, self.mass, beta)

    @property
    def _rest(self) -> float:
        return self.hit + self.miss - 2 * self.stray

    def _best_tilt(self, shift: float) -> tuple[float, float]:
        """Return max over s of s x - K(s), and the s where it is reached."""
        # K(s) >= s - ln(1/stray) - s gap, so the rate is negative past this point.
        limit = log(1 / self.stray) / max(1 - self.gap - shift, 1e-3)
        least, s = least_of_convex(lambda s: self.log_moment(s) - s * shift, 0.0, min(limit, 50.0))
        return max(-least, 0.0), s

    def _cells(self, s: float, shift: float) -> tuple[Reals, Reals, Reals]:
        """For each cell s x - K, the tilted deviation from below, the greatest |W - E[W]|."""
        # Shape (strays, masses, tilts). A cell is t_low <= t <= t_high, g between two ends, and the
        # stray between two; column j has the cell that column -1-j has with -g.
        ends = np.linspace(0, self.mass, _MASSES + 1)[:, None]
        t_low, t_high = ends[:-1], ends[1:]
        edges = np.linspace(-1, 1, _TILTS + 1)
        g_low, g_high = t_high * edges[:-1], t_high * edges[1:]
        q_low, q_high = self._somewhere(t_low, t_high)
        arch, slope, tilt = cosh(s) - 1, sinh(s) * self.gap, s * self.gap
        g = np.clip(1 / tilt - (1 + arch * q_high) / slope, g_low, g_high)
        moments = np.log1p(arch * q_high + slope * g) - tilt * g
        least = np.maximum(1 + arch * q_low + slope * g_low, exp(-s))  # of E[e^(sW)]
        most = 1 + arch * q_high + slope * g_high
        moved = np.maximum(cosh(s) * q_low + slope * g_low, 0.0)  # (P[W = 1] + P[W = -1]) most
        far = np.maximum(np.abs(g_low), np.abs(g_high)) * self.gap
        pairs = np.maximum(q_low**2 - far**2, 0.0)  # 4 P[W = 1] P[W = -1], whatever the tilt
        variances = (moved * np.maximum(1 - q_high, 0.0) + pairs) / most**2
        mean = (sinh(s) * q_high + cosh(s) * far) / least
        floor = 1e-300  # a cell that has no population may have no variance
        return s * shift - moments, np.sqrt(np.maximum(variances, floor)), 1 + np.minimum(mean, 1)

    def _somewhere(self, t_low: Reals, t_high: Reals) -> tuple[Reals, Reals]:
        """Bound q in each cell from below and above, shape (strays, masses, 1): linear in t."""
        least, most = self._strays
        between = [part * most for part in _STRAYS if part * most > least]
        ends = np.array([least, *between, most])[:, None, None]
        low, high = ends[:-1], ends[1:]
        apart = self.hit + self.miss
        q_low = 2 * low + np.minimum(t_low * (apart - 2 * low), t_high * (apart - 2 * low))
        q_high = 2 * high + np.maximum(t_low * (apart - 2 * high), t_high * (apart - 2 * high))
        return q_low, q_high

    @property
    def _strays(self) -> tuple[float, float]:
        """The least that users elsewhere stray, and the most."""
        return self.stray if self.least_stray is None else self.least_stray, self.stray


class _Window:
    """Range of the number of non-zero terms among n; the chance of all others is in every tail."""

    def __init__(self, users: int, q: float, beta: float) -> None:
        from askance_aggregator.special_functions import betainc, betaincc, gammaln

        reach = log(1e5 / beta)  # by Bernstein, less than 1e-5 beta is outside on a side
        spread = sqrt(2 * reach * users * q * (1 - q)) + reach
        first = max(0, int(users * q - spread))
        last = min(users, int(users * q + spread) + 1)
        m = np.arange(first, last + 1, dtype=np.float64)
        logs = gammaln(users + 1) - gammaln(m + 1) - gammaln(users - m + 1)
        self._weights = np.exp(logs + m * log(q) + (users - m) * log1p(-q))
        self._numbers = m
        before = betaincc(first, users - first + 1, q) if first else 0.0
        after = betainc(last + 1, users - last, q) if last < users else 0.0
        self._outside = float(before + after)

    def tail(self, plus: Reals, threshold: Reals) -> Reals:
        """P[S >= threshold], upward, where each term that is not 0 is +1 with chance `plus`."""
        from askance_aggregator.special_functions import betainc

        m = self._numbers
        whole = np.ceil(threshold - _SLACK)[:, None]
        least = np.ceil((m + whole) / 2)
        inside = np.clip(least, 1, np.maximum(m, 1))
        each = betainc(inside, np.maximum(m - inside + 1, 1), plus[:, None])
        each = np.where(least <= 0, 1.0, np.where(least > m, 0.0, each))
        total: Reals = (each @ self._weights + self._outside) * _UPWARD
        return total
