"""Charts with axes: bars per category or round, lines over minutes, users needed by epsilon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup, escape

from askance.console.formats import count_text, rate_text
from askance.console.study_record import RoundRecord
from askance_aggregator.reports.texts import counted

_SMALL = 400  # width of a chart that can be read on a telephone without scrolling


def element(name: str, *children: Markup | str, **attributes: str | float) -> Markup:
    """Return an element; text among its children is escaped, and `class_` stands for class."""
    # Joined as text, each part escaped: `Markup.format` takes five times as long.
    texts = [
        f' {escape(key.strip("_").replace("_", "-"))}="{escape(_text(value))}"'
        for key, value in attributes.items()
    ]
    inner, tag = "".join(map(escape, children)), escape(name)
    return Markup(f"<{tag}{''.join(texts)}>{inner}</{tag}>")


def chart(title: str, width: int, height: int, *children: Markup) -> Markup:
    """Return a whole chart, which a screen reader calls by its title; a table has its numbers."""
    return element(
        "svg",
        element("title", title),
        *children,
        class_="chart small" if width <= _SMALL else "chart",
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
    )


def nice_ticks(top: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 to the first that is not below `top`, about `count` steps."""
    step = nice_step(max(top, 1e-9) / count)
    return [step * n for n in range(ceil(top / step - 1e-9) + 1)] if top > 0 else [0.0, 1.0]


def nice_step(least: float) -> float:
    """Return the least of 1, 2, 2.5 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** floor(log10(least))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= least * (1 - 1e-9))


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


_MINUTE_S = 60
_BAR_GAP = 0.22  # of a bar's width, between two
_FEW = 6  # rounds that a telephone shows without scrolling
_WIDE = 960  # width of a chart of many rounds, beside the menu
_ROUND_GAP = 0.2  # of a round's width
_WIDEST = 64  # of a round's bar, so that a study of two rounds is no block of colour
_LABELS = 50  # rounds that are numbered


@dataclass(frozen=True, slots=True)
class _Frame:
    """Space of a chart, and its margins: labels of the axes stand in them."""

    left: int
    right: int
    top: int
    bottom: int
    width: int = 400
    height: int = 190

    @property
    def wide(self) -> int:
        return self.width - self.left - self.right

    @property
    def high(self) -> int:
        return self.height - self.top - self.bottom

    @property
    def base(self) -> int:
        return self.height - self.bottom

    def across(self, y: float, kind: str) -> Markup:
        """Return a line from side to side."""
        return element("line", x1=self.left, x2=self.width - self.right, y1=y, y2=y, class_=kind)

    def grid(self, marks: Iterable[tuple[float, str]]) -> Iterator[Markup]:
        """Return a line and its label for each height."""
        for y, label in marks:
            yield self.across(y, "grid")
            yield element("text", label, x=self.left - 6, y=y + 4, text_anchor="end")

    def up(self, value: float, top: float) -> float:
        """Return the height of a value on an axis from 0 to `top`."""
        return self.base - self.high * value / top

    def whole_grid(self, ticks: Sequence[float]) -> Iterator[Markup]:
        """Return the grid of whole numbers among ticks from 0."""
        whole = (tick for tick in ticks if tick == int(tick))
        return self.grid((self.up(tick, ticks[-1]), count_text(int(tick))) for tick in whole)


@dataclass(frozen=True, slots=True)
class ChartBar:
    """A category's label, its whole number, and a shorter label for the axis if there is one."""

    label: str
    value: int
    short: str = ""


def bar_chart(title: str, bars: Sequence[ChartBar], below: str) -> Markup:
    """Return bars from left to right, each with its number above it unless it is 0."""
    frame = _Frame(40, 6, 16, 40)
    ticks = nice_ticks(max(bar.value for bar in bars), 3)
    each, base = frame.wide / len(bars), frame.base
    drawn = [*frame.whole_grid(ticks)]
    for place, bar in enumerate(bars):
        size = frame.high * bar.value / ticks[-1]
        x, width = frame.left + each * (place + _BAR_GAP / 2), each * (1 - _BAR_GAP)
        middle = x + width / 2
        if bar.value:
            drawn += [
                element("rect", x=x, y=base - size, width=width, height=size, rx=2, class_="bar"),
                element(
                    "text",
                    count_text(bar.value),
                    x=middle,
                    y=base - size - 4,
                    text_anchor="middle",
                ),
            ]
        drawn.append(
            element("text", bar.short or bar.label, x=middle, y=base + 15, text_anchor="middle")
        )
    drawn.append(frame.across(base, "axis"))
    centre = frame.left + frame.wide / 2
    drawn.append(element("text", below, x=centre, y=frame.height - 6, text_anchor="middle"))
    return chart(title, frame.width, frame.height, *drawn)


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
    """Return lines, one or two, over a span of whole minutes that ends now."""
    frame = _Frame(46, 8, 12, 24)
    ticks = nice_ticks(max((value for one in series for _, value in one.points), default=0.0), 3)

    def back(age_s: float) -> float:
        return frame.width - frame.right - frame.wide * age_s / span_s

    drawn = [*frame.grid((frame.up(tick, ticks[-1]), rate_text(tick)) for tick in ticks)]
    for minutes in range(span_s // _MINUTE_S + 1):
        label, anchor = ("now", "end") if minutes == 0 else (f"−{minutes} min", "middle")
        x = back(minutes * _MINUTE_S)
        drawn.append(element("text", label, x=x, y=frame.height - 6, text_anchor=anchor))
    for kind, one in zip(("line", "line second"), series, strict=False):
        points = " ".join(
            f"{back(age):.1f},{frame.up(value, ticks[-1]):.1f}"
            for age, value in one.points
            if age <= span_s
        )
        drawn.append(element("polyline", points=points, class_=kind))
    drawn.append(frame.across(frame.base, "axis"))
    return chart(title, frame.width, frame.height, *drawn)


def rounds_chart(rounds: Sequence[RoundRecord]) -> Markup:
    """Return a bar per round: its outline are the users asked, its filling the answers."""
    frame = _Frame(52, 8, 12, 34, *(() if len(rounds) <= _FEW else (_WIDE,)))
    ticks = nice_ticks(max(one.asked for one in rounds), 3)
    each, base = frame.wide / len(rounds), frame.base
    wide = min(each * (1 - _ROUND_GAP), _WIDEST)
    step = -(-len(rounds) // _LABELS)
    drawn = [*frame.whole_grid(ticks)]
    for place, one in enumerate(rounds):
        x = frame.left + each * (place + 0.5) - wide / 2
        for number, kind in ((one.asked, "asked"), (one.answered, "bar")):
            size = frame.high * min(number, ticks[-1]) / ticks[-1]
            drawn.append(element("rect", x=x, y=base - size, width=wide, height=size, class_=kind))
        if place % step == 0:
            middle, label = x + wide / 2, str(one.number)
            drawn.append(element("text", label, x=middle, y=base + 14, text_anchor="middle"))
    drawn.append(frame.across(base, "axis"))
    below = "round; outline: users asked, filled: answers"
    drawn.append(element("text", below, x=frame.left, y=frame.height - 4))
    title = f"Users asked and answers of {counted(len(rounds), 'round')}"
    return chart(title, frame.width, frame.height, *drawn)


def epsilon_chart(points: Sequence[tuple[float, int]], users: int) -> Markup:
    """Return a line of users needed by epsilon, and one at the users there are, logarithmic."""
    frame = _Frame(58, 12, 12, 24)
    left, right = log10(points[0][0]), log10(points[-1][0])
    needs = [max(needed, 1) for _, needed in points]
    low, high = floor(log10(min(*needs, users))), ceil(log10(max(*needs, users) + 1))

    def across(epsilon: float) -> float:
        return frame.left + frame.wide * (log10(epsilon) - left) / max(right - left, 1e-9)

    def up(number: float) -> float:
        return frame.top + frame.high * (high - log10(number)) / (high - low)

    powers = range(low, high + 1)
    drawn = [*frame.grid((up(10.0**power), f"{10**power:,}") for power in powers)]
    for epsilon in (points[0][0], points[-1][0]):
        x = across(epsilon)
        drawn.append(element("text", f"{epsilon:g}", x=x, y=frame.height - 6, text_anchor="middle"))
    line = " ".join(
        f"{across(epsilon):.1f},{up(needed):.1f}"
        for (epsilon, _), needed in zip(points, needs, strict=True)
    )
    drawn.append(element("polyline", points=line, class_="line"))
    drawn.append(frame.across(up(users), "reference"))
    return chart("Users needed by epsilon", frame.width, frame.height, *drawn)
