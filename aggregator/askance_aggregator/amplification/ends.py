"""Values of the accountant: certified ends of a figure, and a curve for composition."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from math import tanh

from askance_client.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Ends:
    """Certified ends of a figure: it lies within [lower, upper]; both are rounded outward.

    Args:
        lower: attained by a population.
        upper: holds for every population.
        population: names the one that attains the lower end; empty if none is known.
    """

    lower: float
    upper: float
    population: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.upper:
            raise InvalidParameter(f"ends: expected 0 <= lower <= upper, got {self}")


@dataclass(frozen=True, slots=True)
class Curve:
    """Upper ends of delta on a grid of epsilons, for one batch and both directions of every pair.

    delta at epsilon is what a batch of `answers` honest reports, the target's included, satisfies
    towards a reader of its tally. Between two points delta is at most that of the point before; as
    the true delta is convex in e^epsilon, the chord in e^epsilon is an upper end too.

    Args:
        epsilons: increasing, from 0 to the local epsilon (floats, exactly the ones that are meant).
        deltas: at each, rounded upward, not increasing; the last is 0.
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    def __post_init__(self) -> None:
        steps = list(zip(self.epsilons, self.epsilons[1:], strict=False))
        falls = list(zip(self.deltas, self.deltas[1:], strict=False))
        if (
            len(self.epsilons) != len(self.deltas)
            or not self.epsilons
            or self.epsilons[0] != 0
            or self.deltas[-1] != 0
            or any(a >= b for a, b in steps)
            or any(a < b for a, b in falls)
        ):
            raise InvalidParameter("a curve: expected epsilons that rise from 0 and deltas to 0")

    def delta(self, epsilon: float) -> float:
        """Return an upper end of delta at an epsilon >= 0: that of the grid's point before."""
        if not epsilon >= 0:
            raise InvalidParameter(f"epsilon: expected 0 or more, got {epsilon}")
        return self.deltas[bisect_right(self.epsilons, epsilon) - 1]


def local_curve(epsilon: float) -> Curve:
    """Return the curve of a report alone, by the local epsilon: that of randomized response."""
    return Curve((0.0, epsilon), (min(1.0, tanh(epsilon / 2) * (1 + 2.0**-50)), 0.0))
