"""Rounds of a study in order: users who were asked, and how many of them have answered."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from askance.console.charts.svg import chart, element, nice_ticks
from askance.console.formats import count_text
from askance.console.study_record import RoundRecord
from askance_aggregator.reports.texts import counted

_FEW = 6  # rounds that a telephone shows without scrolling
_NARROW, _WIDE = 400, 960  # width of a chart of few rounds, and of many, beside the menu
_HEIGHT = 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 12, 34
_GAP = 0.2  # of a round's width
_WIDEST = 64  # of a bar, so that a study of two rounds is no block of colour
_LABELS = 50  # rounds that are numbered


def rounds_chart(rounds: Sequence[RoundRecord]) -> Markup:
    """Return a bar per round: its outline are the users asked, its filling the answers.

    Args:
      rounds: one or more; a table is enough of one.
    """
    ticks = nice_ticks(max(one.asked for one in rounds), 3)
    high, floor = _HEIGHT - _TOP - _BOTTOM, _HEIGHT - _BOTTOM
    whole = _NARROW if len(rounds) <= _FEW else _WIDE
    each = (whole - _LEFT - _RIGHT) / len(rounds)
    wide = min(each * (1 - _GAP), _WIDEST)
    step = -(-len(rounds) // _LABELS)
    parts: list[Markup] = []
    for tick in (tick for tick in ticks if tick == int(tick)):
        y = floor - high * tick / ticks[-1]
        parts.append(element("line", x1=_LEFT, x2=whole - _RIGHT, y1=y, y2=y, class_="grid"))
        label = count_text(int(tick))
        parts.append(element("text", label, x=_LEFT - 6, y=y + 4, text_anchor="end"))
    for place, one in enumerate(rounds):
        x = _LEFT + each * (place + 0.5) - wide / 2
        for number, kind in ((one.asked, "asked"), (one.answered, "bar")):
            size = high * min(number, ticks[-1]) / ticks[-1]
            parts.append(element("rect", x=x, y=floor - size, width=wide, height=size, class_=kind))
        if place % step == 0:
            middle = x + wide / 2
            number_text = str(one.number)
            parts.append(element("text", number_text, x=middle, y=floor + 14, text_anchor="middle"))
    parts.append(element("line", x1=_LEFT, x2=whole - _RIGHT, y1=floor, y2=floor, class_="axis"))
    below = "round; outline: users asked, filled: answers"
    parts.append(element("text", below, x=_LEFT, y=_HEIGHT - 4))
    return chart(
        f"Users asked and answers of {counted(len(rounds), 'round')}", whole, _HEIGHT, *parts
    )
