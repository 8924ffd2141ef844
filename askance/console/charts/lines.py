"""Lines: numbers over the last minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from askance.console.charts.svg import chart, element, nice_ticks
from askance.console.formats import rate_text

_WIDTH, _HEIGHT = 400, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 12, 24
_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one line.

    Args:
      name: for the legend, which stands beside the chart.
      points: pairs of age in seconds and value, the oldest first.
    """

    name: str
    points: Sequence[tuple[float, float]]


def line_chart(title: str, series: Sequence[Series], span_s: int) -> Markup:
    """Return lines over a span of time that ends now.

    Args:
      title: for readers who do not see it.
      series: one or two.
      span_s: seconds from the left edge to now, whole minutes.
    """
    top = max((value for one in series for _, value in one.points), default=0.0)
    ticks = nice_ticks(top, 3)
    high, wide = _HEIGHT - _TOP - _BOTTOM, _WIDTH - _LEFT - _RIGHT
    floor = _TOP + high
    drawn: list[Markup] = []
    for tick in ticks:
        y = floor - high * tick / ticks[-1]
        drawn.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(element("text", rate_text(tick), x=_LEFT - 6, y=y + 4, text_anchor="end"))
    for minutes in range(span_s // _MINUTE_S + 1):
        x = _WIDTH - _RIGHT - wide * minutes * _MINUTE_S / span_s
        label = "now" if minutes == 0 else f"−{minutes} min"
        anchor = "end" if minutes == 0 else "middle"
        drawn.append(element("text", label, x=x, y=_HEIGHT - 6, text_anchor=anchor))
    for kind, one in zip(("line", "line second"), series, strict=False):
        points = " ".join(
            f"{_WIDTH - _RIGHT - wide * age / span_s:.1f},{floor - high * value / ticks[-1]:.1f}"
            for age, value in one.points
            if age <= span_s
        )
        drawn.append(element("polyline", points=points, class_=kind))
    drawn.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=floor, y2=floor, class_="axis"))
    return chart(title, _WIDTH, _HEIGHT, *drawn)
