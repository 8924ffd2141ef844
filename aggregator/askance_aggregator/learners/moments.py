"""Correlation from the first and second moments of two numbers, as values and as intervals.

If each moment lies in an interval, the correlation lies between its least and its greatest value
over the box of all of them. Both are at one of finitely many points: for fixed E[xy] = h,
E[x^2] = L and E[y^2] = M the logarithm of

    (h - x y) / sqrt((L - x^2) (M - y^2)),    x = E[x], y = E[y],

has the derivative (x h - y L) / ((h - x y)(L - x^2)) by x, and the like by y. So an inner extreme
is at x = y = 0, one on an edge at x = y L / h or y = x M / h, and all others are corners. The
moments h, L and M enter monotonically.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple


class Interval(NamedTuple):
    """An interval, or a value with both ends equal."""

    low: float
    high: float

    def over(self, divisor: Interval) -> Interval:
        """Divide by a positive interval."""
        return Interval(
            min(self.low / divisor.low, self.low / divisor.high),
            max(self.high / divisor.low, self.high / divisor.high),
        )

    def within(self, low: float, high: float) -> Interval:
        """Return the part in a range; the nearest end of the range if there is none."""
        return Interval(min(max(self.low, low), high), min(max(self.high, low), high))

    @property
    def negated(self) -> Interval:
        """Return all values with the other sign."""
        return Interval(-self.high, -self.low)


class Moments(NamedTuple):
    """E[x], E[y], E[x^2], E[y^2] and E[xy] of numbers in [-1, 1]."""

    x: Interval
    y: Interval
    x_squared: Interval
    y_squared: Interval
    product: Interval

    @property
    def correlation(self) -> Interval:
        """The least and the greatest correlation that moments in these intervals allow."""
        mirrored = self._replace(y=self.y.negated, product=self.product.negated)
        return Interval(-_greatest(mirrored), _greatest(self))

    @property
    def covariance(self) -> Interval:
        """The least and the greatest covariance that moments in these intervals allow."""
        corners = [x * y for x in self.x for y in self.y]
        return Interval(self.product.low - max(corners), self.product.high - min(corners))


def _greatest(moments: Moments) -> float:
    """Return the greatest correlation in a box of moments."""
    positive = moments.covariance.high > 0
    # A covariance above zero is divided by the least variances, one below zero by the greatest.
    squares = moments.x_squared, moments.y_squared
    of_x, of_y = (square.low if positive else square.high for square in squares)
    product, found = moments.product.high, []
    for x, y in _extremes(moments, product, of_x, of_y):
        covariance, variances = product - x * y, (of_x - x * x, of_y - y * y)
        if (covariance > 0) is not positive and covariance != 0:
            continue
        if min(variances) <= 0:
            return 1.0 if positive else 0.0
        found.append(covariance / sqrt(variances[0] * variances[1]))
    return min(max(found), 1.0) if found else 1.0


def _extremes(
    moments: Moments, product: float, of_x: float, of_y: float
) -> list[tuple[float, float]]:
    """Return the points of a rectangle of means at which an extreme may be."""
    points = [(x, y) for x in moments.x for y in moments.y] + [(0.0, 0.0)]
    if product != 0:
        points += [(y * of_x / product, y) for y in moments.y]
        points += [(x, x * of_y / product) for x in moments.x]
    return [
        (x, y)
        for x, y in points
        if moments.x.low <= x <= moments.x.high and moments.y.low <= y <= moments.y.high
    ]
