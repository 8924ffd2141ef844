"""Estimates with their intervals: a line per row, from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

from markupsafe import Markup

from askance.console.charts.svg import chart, element, nice_step
from askance_aggregator.learners import EstimateRow
from askance_client.printable import printable

WIDTH = 400
LEFT, RIGHT = 150, 22
LINE = 20  # height of a row
_TOP, _BOTTOM = 22, 26
MAX_ROWS = 40  # that are drawn; the table has more
_LABEL = 20  # characters of a label


def short(text: str, most: int = _LABEL) -> str:
    """Return a text that has no control characters, cut to a number of characters."""
    shown = printable(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def ticks_between(low: float, high: float, count: int = 4) -> list[float]:
    """Return round numbers from one not above `low` to one not below `high`."""
    if not low < high:
        low, high = low - max(abs(low), 1.0) / 2, high + max(abs(high), 1.0) / 2
    step = nice_step((high - low) / count)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [step * place for place in range(first, last + 1)]


def number_label(value: float, *, shares: bool = False) -> str:
    """Format the number of a tick or a mark, a share in percent."""
    return f"{100 * value:.4g} %" if shares else f"{value:.4g}".replace("-", "−")


def interval_chart(
    title: str,
    rows: Sequence[EstimateRow],
    *,
    shares: bool,
    marks: Sequence[tuple[float, str]] = (),
    limits: tuple[float, float] | None = None,
) -> Markup:
    """Return a line from the low to the high end of each row's interval, with its estimate.

    Args:
      title: for readers who do not see it.
      rows: one or more; the first forty are drawn.
      shares: whether the values are shares, shown in percent.
      marks: values that stand for something, each with its name.
      limits: least and greatest value of the axis; None: those of the rows.
    """
    drawn = rows[:MAX_ROWS]
    ends = [end for row in drawn for end in (row.low, row.high)] + [value for value, _ in marks]
    ticks = ticks_between(*(limits or (min(ends), max(ends))))
    height = _TOP + LINE * len(drawn) + _BOTTOM
    floor_y = height - _BOTTOM

    def across(value: float) -> float:
        inside = min(max(value, ticks[0]), ticks[-1])
        return LEFT + (WIDTH - LEFT - RIGHT) * (inside - ticks[0]) / (ticks[-1] - ticks[0])

    parts: list[Markup] = []
    for tick in ticks:
        x = across(tick)
        parts.append(element("line", x1=x, x2=x, y1=_TOP, y2=floor_y, class_="grid"))
        label = number_label(tick, shares=shares)
        parts.append(element("text", label, x=x, y=floor_y + 16, text_anchor="middle"))
    for value, name in marks:
        x = across(value)
        parts.append(element("line", x1=x, x2=x, y1=_TOP - 4, y2=floor_y, class_="reference"))
        anchor = "end" if x > WIDTH / 2 else "start"
        parts.append(element("text", short(name, 40), x=x, y=_TOP - 9, text_anchor=anchor))
    for place, row in enumerate(drawn):
        y = _TOP + LINE * (place + 0.5)
        parts.append(element("text", short(row.label), x=LEFT - 10, y=y + 4, text_anchor="end"))
        low, high = across(row.low), across(row.high)
        parts.append(element("line", x1=low, x2=high, y1=y, y2=y, class_="interval"))
        for end in (low, high):
            parts.append(element("line", x1=end, x2=end, y1=y - 4, y2=y + 4, class_="interval"))
        parts.append(element("circle", cx=across(row.shown), cy=y, r=3.5, class_="mark"))
    return chart(title, WIDTH, height, *parts)
