"""Bars: a number per category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from askance.console.charts.svg import chart, element, nice_ticks
from askance.console.formats import count_text

_WIDTH, _HEIGHT = 400, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 6, 16, 40
_GAP = 0.22  # of a bar's width, between two


@dataclass(frozen=True, slots=True)
class ChartBar:
    """A category's label, its whole number, and a shorter label for the axis if there is one."""

    label: str
    value: int
    short: str = ""


def bar_chart(title: str, bars: Sequence[ChartBar], below: str) -> Markup:
    """Return bars from left to right, each with its number above it unless it is 0.

    Args:
      title: for readers who do not see it.
      bars: one or more.
      below: what the categories are, with their unit.
    """
    ticks = nice_ticks(max(bar.value for bar in bars), 3)
    high, wide = _HEIGHT - _TOP - _BOTTOM, _WIDTH - _LEFT - _RIGHT
    each = wide / len(bars)
    floor = _TOP + high
    drawn: list[Markup] = []
    for tick in (tick for tick in ticks if tick == int(tick)):
        y = floor - high * tick / ticks[-1]
        drawn.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        label = count_text(int(tick))
        drawn.append(element("text", label, x=_LEFT - 6, y=y + 4, text_anchor="end"))
    for place, bar in enumerate(bars):
        size = high * bar.value / ticks[-1]
        x = _LEFT + each * (place + _GAP / 2)
        middle = x + each * (1 - _GAP) / 2
        if bar.value:
            drawn.append(
                element(
                    "rect",
                    x=x,
                    y=floor - size,
                    width=each * (1 - _GAP),
                    height=size,
                    rx=2,
                    class_="bar",
                )
            )
            number = count_text(bar.value)
            drawn.append(
                element("text", number, x=middle, y=floor - size - 4, text_anchor="middle")
            )
        drawn.append(
            element("text", bar.short or bar.label, x=middle, y=floor + 15, text_anchor="middle")
        )
    drawn.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=floor, y2=floor, class_="axis"))
    centre = _LEFT + wide / 2
    drawn.append(element("text", below, x=centre, y=_HEIGHT - 6, text_anchor="middle"))
    return chart(title, _WIDTH, _HEIGHT, *drawn)
