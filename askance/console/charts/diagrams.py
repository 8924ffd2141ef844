"""Trees, lists of rules, weights, cells and points of a hypothesis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from askance.console.charts.estimates import (
    LEFT,
    LINE,
    RIGHT,
    WIDTH,
    number_label,
    short,
    ticks_between,
)
from askance.console.charts.svg import chart, element
from askance_aggregator.learners.shapes import Branch, TwoWayTable

MAX_LINES = 60  # nodes, rules or weights that are drawn
_WIDE = 520  # width of charts with long lines or many columns
_INDENT = 22
_TEXT = 60  # characters of a node
_CELL = 30  # height of a cell of a table
_MAX_CELLS = 12  # columns and rows of a table that are drawn
_PLOT = 240  # height of a plane of points
_LEAST, _GREATEST = 4.0, 16.0  # radius of the lightest and of the heaviest centre


def nodes(root: Branch) -> Iterator[tuple[int, str, Branch]]:
    """Yield the nodes of a tree with their depth and the branch that leads there, parents first."""
    waiting = [(0, "", root)]
    while waiting:
        depth, edge, node = waiting.pop()
        yield depth, edge, node
        sides = zip(("yes", "no"), node.children, strict=False)
        waiting += [(depth + 1, side, child) for side, child in sides][::-1]


def tree_chart(title: str, root: Branch) -> Markup:
    """Return a tree from the left: a line per node, its children below it and further right."""
    parts: list[Markup] = []
    parents: dict[int, float] = {}
    drawn = list(nodes(root))[:MAX_LINES]
    for place, (depth, edge, node) in enumerate(drawn):
        x, y = 12.0 + _INDENT * depth, LINE * (place + 1.0)
        if depth:
            up, left = parents[depth - 1], x - _INDENT
            parts.append(element("path", d=f"M{left} {up + 5}V{y}H{x - 6}", class_="edge"))
        parents[depth] = y
        kind = "node" if node.outcome is None else f"node outcome-{node.outcome % 4}"
        parts.append(element("circle", cx=x, cy=y, r=4.5, class_=kind))
        text = f"{edge}: {node.text}" if edge else node.text
        text = f"{text} – {node.detail}" if node.detail else text
        parts.append(element("text", short(text, _TEXT), x=x + 10, y=y + 4, class_="strong"))
    return chart(title, _WIDE, LINE * (len(drawn) + 1), *parts)


def rules_chart(
    title: str, label: str, rules: Sequence[tuple[str, str, int]], default: tuple[str, int]
) -> Markup:
    """Return rules from the top, each with its outcome; the first that holds decides.

    Args:
      title: for readers who do not see it.
      label: name of the predicted field.
      rules: condition, outcome and the outcome's index.
      default: outcome where no condition holds, and its index.
    """
    drawn = [("if " if not n else "else if ") + rule[0] for n, rule in enumerate(rules)]
    lines = [(text, *rule[1:]) for text, rule in zip(drawn, rules, strict=True)][:MAX_LINES]
    lines.append(("otherwise" if rules else "always", *default))
    parts: list[Markup] = []
    for place, (text, outcome, index) in enumerate(lines):
        y = LINE * (place + 1.0)
        parts.append(element("circle", cx=12, cy=y, r=4.5, class_=f"node outcome-{index % 4}"))
        told = f"{short(text, _TEXT // 2 + 8)} → {short(f'{label} = {outcome}', 30)}"
        parts.append(element("text", told, x=24, y=y + 4, class_="strong"))
    return chart(title, _WIDE, LINE * (len(lines) + 1), *parts)


def signed_bars(title: str, names: Sequence[str], values: Sequence[float], below: str) -> Markup:
    """Return bars to the right for values above 0 and to the left for those below.

    Args:
      title: for readers who do not see it.
      names: one per bar, from the top.
      values: one per bar.
      below: what the axis is, with its unit.
    """
    pairs = list(zip(names, values, strict=True))[:MAX_LINES]
    ticks = ticks_between(min(0.0, *values), max(0.0, *values))
    height = LINE * len(pairs) + 56
    floor_y = height - 44

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - ticks[0]) / (ticks[-1] - ticks[0])

    parts: list[Markup] = []
    for tick in ticks:
        x = across(tick)
        kind = "axis" if abs(tick) < 1e-12 else "grid"
        parts.append(element("line", x1=x, x2=x, y1=8, y2=floor_y, class_=kind))
        parts.append(element("text", number_label(tick), x=x, y=floor_y + 16, text_anchor="middle"))
    for place, (name, value) in enumerate(pairs):
        y = 10.0 + LINE * place
        left, right = sorted((across(0.0), across(value)))
        kind = "bar" if value >= 0 else "bar second"
        parts.append(element("rect", x=left, y=y, width=right - left, height=LINE - 5, class_=kind))
        parts.append(element("text", short(name), x=LEFT - 10, y=y + 11, text_anchor="end"))
    centre = (LEFT + WIDTH - RIGHT) / 2
    parts.append(element("text", below, x=centre, y=height - 6, text_anchor="middle"))
    return chart(title, WIDTH, height, *parts)


def cells_chart(title: str, table: TwoWayTable, highest: float) -> Markup:
    """Return a two-way table as cells, the fuller the greater, each with its share in percent."""
    across, up = table.column_labels[:_MAX_CELLS], table.row_labels[:_MAX_CELLS]
    wide = (_WIDE - LEFT - RIGHT) / max(len(across), 1)
    parts = [element("text", short(table.across, 40), x=LEFT, y=12)]
    for column, name in enumerate(across):
        x = LEFT + wide * (column + 0.5)
        text = short(name, max(int(wide / 7), 2))
        parts.append(element("text", text, x=x, y=30, text_anchor="middle"))
    for row, name in enumerate(up):
        y = 38.0 + _CELL * row
        parts.append(element("text", short(name), x=LEFT - 10, y=y + 19, text_anchor="end"))
        for column, value in enumerate(table.values[row][: len(across)]):
            x = LEFT + wide * column
            share = max(value, 0.0) / (highest or 1.0)
            size, inner = _CELL - 4, (wide - 4) * share
            parts.append(element("rect", x=x, y=y, width=wide - 4, height=size, class_="cell"))
            parts.append(element("rect", x=x, y=y, width=inner, height=3, class_="bar"))
            text = f"{100 * value:.1f}"
            middle = x + (wide - 4) / 2
            parts.append(element("text", text, x=middle, y=y + 19, text_anchor="middle"))
    return chart(title, _WIDE, 44 + _CELL * len(up), *parts)


def plane_chart(
    title: str, names: tuple[str, str], points: Sequence[tuple[float, float, float]]
) -> Markup:
    """Return points in a plane, each as large as its weight.

    Args:
      title: for readers who do not see it.
      names: of the axes, across and up.
      points: across, up and weight in [0, 1].
    """
    ends = [
        ticks_between(min(values), max(values)) for values in list(zip(*points, strict=True))[:2]
    ]
    wide, high = WIDTH - 60 - RIGHT, _PLOT - 56.0
    floor_y = 12 + high
    parts: list[Markup] = []
    for tick in ends[0]:
        x = 60 + wide * (tick - ends[0][0]) / (ends[0][-1] - ends[0][0])
        parts.append(element("line", x1=x, x2=x, y1=12, y2=floor_y, class_="grid"))
        label = number_label(tick)
        parts.append(element("text", label, x=x, y=floor_y + 15, text_anchor="middle"))
    for tick in ends[1]:
        y = floor_y - high * (tick - ends[1][0]) / (ends[1][-1] - ends[1][0])
        parts.append(element("line", x1=60, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(element("text", number_label(tick), x=52, y=y + 4, text_anchor="end"))
    for place, (across, up, weight) in enumerate(points, start=1):
        x = 60 + wide * (across - ends[0][0]) / (ends[0][-1] - ends[0][0])
        y = floor_y - high * (up - ends[1][0]) / (ends[1][-1] - ends[1][0])
        radius = _LEAST + (_GREATEST - _LEAST) * min(max(weight, 0.0), 1.0)
        parts.append(element("circle", cx=x, cy=y, r=radius, class_="mark"))
        parts.append(element("text", str(place), x=x + radius + 3, y=y + 4, class_="strong"))
    parts.append(
        element("text", short(names[0], 50), x=60 + wide / 2, y=_PLOT - 6, text_anchor="middle")
    )
    parts.append(element("text", short(names[1], 50), x=4, y=9))
    return chart(title, WIDTH, _PLOT, *parts)


def bits_chart(title: str, bits: Sequence[int]) -> Markup:
    """Return bits from left to right in lines of sixteen: a 1 is filled, a 0 is empty."""
    parts: list[Markup] = []
    for place, bit in enumerate(bits):
        x, y = 4 + 31 * (place % 16), 4.0 + 31 * (place // 16)
        kind = "bar" if bit else "cell"
        parts.append(element("rect", x=x, y=y, width=27, height=27, rx=4, class_=kind))
        colour = "on-bar" if bit else "strong"
        parts.append(
            element("text", str(bit), x=x + 13.5, y=y + 18, text_anchor="middle", class_=colour)
        )
    return chart(title, _WIDE, 8 + 31 * -(-len(bits) // 16), *parts)
