"""Users that plans need by epsilon, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

from markupsafe import Markup

from askance.console.charts.svg import chart, element

_WIDTH, _HEIGHT = 400, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 12, 24


def epsilon_chart(points: Sequence[tuple[float, int]], users: int) -> Markup:
    """Return a line of users needed by epsilon, and one at the users that there are.

    Args:
      points: pairs of an epsilon in nats and the users that its plan needs, rising by epsilon.
      users: how many there are.
    """
    left, right = log10(points[0][0]), log10(points[-1][0])
    needs = [max(needed, 1) for _, needed in points]
    low, high = floor(log10(min(*needs, users))), ceil(log10(max(*needs, users) + 1))
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(epsilon: float) -> float:
        return _LEFT + wide * (log10(epsilon) - left) / max(right - left, 1e-9)

    def up(number: float) -> float:
        return _TOP + tall * (high - log10(number)) / (high - low)

    drawn = []
    for power in range(low, high + 1):
        y = up(10.0**power)
        drawn.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(element("text", f"{10**power:,}", x=_LEFT - 6, y=y + 4, text_anchor="end"))
    for epsilon in (points[0][0], points[-1][0]):
        drawn.append(
            element("text", f"{epsilon:g}", x=across(epsilon), y=_HEIGHT - 6, text_anchor="middle")
        )
    line = " ".join(
        f"{across(epsilon):.1f},{up(needed):.1f}"
        for (epsilon, _), needed in zip(points, needs, strict=True)
    )
    drawn.append(element("polyline", points=line, class_="line"))
    y = up(users)
    drawn.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="reference"))
    return chart("Users needed by epsilon", _WIDTH, _HEIGHT, *drawn)
