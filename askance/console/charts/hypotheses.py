"""Picture of a hypothesis: a function per family, chosen by a table, with the table beside it.

The families are the shapes that hypotheses state (`askance_aggregator.learners.shapes`), which the
command line's `--plot` draws too. A masked parity has no shape; its bits are drawn by its JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from askance.console.charts.axes import chart, element, nice_step
from askance_aggregator.learners import EstimateRow, Presentation, shapes
from askance_aggregator.reports.report import Grid
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
    """Return a line from the low to the high end of each row's interval, with its estimate."""
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
        parts += _upright(across(tick), _TOP, floor_y, number_label(tick, shares=shares))
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


def _upright(x: float, top: float, floor_y: float, label: str, kind: str = "grid") -> list[Markup]:
    """Return a line of the grid from the top down, and its label below it."""
    return [
        element("line", x1=x, x2=x, y1=top, y2=floor_y, class_=kind),
        element("text", label, x=x, y=floor_y + 16, text_anchor="middle"),
    ]


MAX_LINES = 60  # nodes, rules or weights that are drawn
_WIDE = 520  # width of charts with long lines or many columns
_INDENT = 22
_TEXT = 60  # characters of a node
_CELL = 30  # height of a cell of a table
_MAX_CELLS = 12  # columns and rows of a table that are drawn
_PLOT = 240  # height of a plane of points
_LEAST, _GREATEST = 4.0, 16.0  # radius of the lightest and of the heaviest centre


def nodes(root: shapes.Branch) -> Iterator[tuple[int, str, shapes.Branch]]:
    """Yield the nodes of a tree with their depth and the branch that leads there, parents first."""
    waiting = [(0, "", root)]
    while waiting:
        depth, edge, node = waiting.pop()
        yield depth, edge, node
        sides = zip(("yes", "no"), node.children, strict=False)
        waiting += [(depth + 1, side, child) for side, child in sides][::-1]


def tree_chart(title: str, root: shapes.Branch) -> Markup:
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
    """Return rules from the top, each with its outcome; the first that holds decides."""
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
    """Return bars to the right for values above 0 and to the left for those below."""
    pairs = list(zip(names, values, strict=True))[:MAX_LINES]
    ticks = ticks_between(min(0.0, *values), max(0.0, *values))
    height = LINE * len(pairs) + 56
    floor_y = height - 44

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - ticks[0]) / (ticks[-1] - ticks[0])

    parts: list[Markup] = []
    for tick in ticks:
        kind = "axis" if abs(tick) < 1e-12 else "grid"
        parts += _upright(across(tick), 8, floor_y, number_label(tick), kind)
    for place, (name, value) in enumerate(pairs):
        y = 10.0 + LINE * place
        left, right = sorted((across(0.0), across(value)))
        kind = "bar" if value >= 0 else "bar second"
        parts.append(element("rect", x=left, y=y, width=right - left, height=LINE - 5, class_=kind))
        parts.append(element("text", short(name), x=LEFT - 10, y=y + 11, text_anchor="end"))
    centre = (LEFT + WIDTH - RIGHT) / 2
    parts.append(element("text", below, x=centre, y=height - 6, text_anchor="middle"))
    return chart(title, WIDTH, height, *parts)


def cells_chart(title: str, table: shapes.TwoWayTable, highest: float) -> Markup:
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
    """Return points in a plane, each as large as its weight."""
    across_ticks, up_ticks = (
        ticks_between(min(values), max(values)) for values in list(zip(*points, strict=True))[:2]
    )
    wide, high = WIDTH - 60 - RIGHT, _PLOT - 56.0
    floor_y = 12 + high

    def at(across: float, up: float) -> tuple[float, float]:
        right = (across - across_ticks[0]) / (across_ticks[-1] - across_ticks[0])
        above = (up - up_ticks[0]) / (up_ticks[-1] - up_ticks[0])
        return 60 + wide * right, floor_y - high * above

    parts: list[Markup] = []
    for tick in across_ticks:
        parts += _upright(at(tick, 0)[0], 12, floor_y, number_label(tick))
    for tick in up_ticks:
        y = at(0, tick)[1]
        parts.append(element("line", x1=60, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(element("text", number_label(tick), x=52, y=y + 4, text_anchor="end"))
    for place, (across, up, weight) in enumerate(points, start=1):
        x, y = at(across, up)
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


_MAX_TABLES = 4
_POINTS = 20  # of a distribution that are drawn


@dataclass(frozen=True, slots=True)
class HypothesisPicture:
    """Charts of a hypothesis, and the table of the same numbers.

    Args:
      charts: one or more.
      grid: the table; one without heads: the rows of the presentation are the table.
      caption: line above the charts; empty: they need none.
    """

    charts: tuple[Markup, ...]
    grid: Grid
    caption: str = ""


_ROWS = Grid()  # the presentation's own rows


def picture_of(
    shape: shapes.ResultShape | None, presentation: Presentation
) -> HypothesisPicture | None:
    """Return the picture of a shape; None: it has none, and its lines of text stand alone.

    A hypothesis without a shape of its own is drawn by its estimates, if it has any. A model that
    is a constant is one line of text.
    """
    if presentation.constant:
        return None
    draw = PICTURES.get(type(shape or shapes.Intervals()))
    return None if draw is None else draw(shape, presentation)


def picture_of_json(learner: str, data: Any) -> HypothesisPicture | None:
    """Return the picture of a hypothesis that has no shape, by its learner's name."""
    draw = PICTURES_OF_JSON.get(learner)
    return None if draw is None else draw(data)


def _intervals(_: shapes.ResultShape, presentation: Presentation) -> HypothesisPicture | None:
    rows = list(presentation.rows)
    if presentation.ranked:
        rows.sort(key=lambda row: (row.group, -row.shown))
    limits = presentation.whole if len(rows) == 1 else None
    if limits is not None:
        within = f"{number_label(limits[0])} to {number_label(limits[1])}"
        title = f"Estimate with its interval, within {within}"
    else:
        title = f"Estimates with their intervals{_of(len(rows))}"
    return _of_rows(title, rows, shares=presentation.shares, limits=limits)


def _of_rows(
    title: str,
    rows: Sequence[EstimateRow],
    *,
    shares: bool,
    marks: Sequence[tuple[float, str]] = (),
    limits: tuple[float, float] | None = None,
) -> HypothesisPicture | None:
    """Return the intervals of some rows; None: there is no row."""
    if not rows:
        return None
    drawn = interval_chart(title, rows, shares=shares, marks=marks, limits=limits)
    return HypothesisPicture((drawn,), _ROWS, title)


def _effect(shape: shapes.Effect, presentation: Presentation) -> HypothesisPicture | None:
    marks = [(shape.null, shape.null_name)]
    title, shares = f"{shape.heading}: {shape.unit}", presentation.shares
    return _of_rows(title, presentation.rows, shares=shares, marks=marks, limits=shape.limits)


def _frequent(shape: shapes.FrequentValues, presentation: Presentation) -> HypothesisPicture | None:
    rows = sorted(presentation.rows, key=lambda row: -row.shown)
    title = f"Frequent values with their intervals{_of(len(rows))}"
    marks = [(shape.threshold, "frequent from here")]
    return _of_rows(title, rows, shares=presentation.shares, marks=marks)


def _tables(shape: shapes.Tables, _: Presentation) -> HypothesisPicture:
    shown = shape.tables[:_MAX_TABLES]
    highest = max((value for table in shown for row in table.values for value in row), default=1.0)
    charts = [
        cells_chart(f"{shape.heading}: {table.up} by {table.across}, percent", table, highest)
        for table in shown
    ]
    return HypothesisPicture(tuple(charts), _ROWS)


def _distribution(
    shape: shapes.DistributionFunction, presentation: Presentation
) -> HypothesisPicture | None:
    if any(point.value_low < point.value_high for point in shape.points):
        return _quantiles(shape)
    drawn, part = _spread(presentation.rows)
    title = f"{shape.column}: share of users up to each value{part}"
    return _of_rows(title, drawn, shares=True)


def _quantiles(shape: shapes.DistributionFunction) -> HypothesisPicture:
    """Return the values between which each quantile lies; the shares are known."""
    grid = Grid(["Share of users", "Value from", "Value to"])
    rows = []
    for point in shape.points:
        share, low, high = f"{100 * point.share:.4g} %", point.value_low, point.value_high
        grid.add_row(share, f"{low:.6g}", f"{high:.6g}")
        rows.append(EstimateRow(f"{share} of users", (low + high) / 2, low, high))
    drawn, part = _spread(rows)
    title = f"{shape.column}: value up to which each share of users lies{part}"
    return HypothesisPicture((interval_chart(title, drawn, shares=False),), grid, title)


def _spread(rows: Sequence[EstimateRow]) -> tuple[Sequence[EstimateRow], str]:
    """Return the last row and those at equal steps before it, as many as are drawn, and say so."""
    step = max(ceil(len(rows) / _POINTS), 1)
    drawn = rows[(len(rows) - 1) % step :: step]
    return drawn, "" if step == 1 else f"; {len(drawn)} of {len(rows):,} are drawn"


def _centres(shape: shapes.Centres, _: Presentation) -> HypothesisPicture:
    flat = len(shape.names) < 2
    points = [
        (centre[0], weight if flat else centre[1], weight)
        for centre, weight in zip(shape.centres, shape.weights, strict=True)
    ]
    names = (shape.names[0], "share of users" if flat else shape.names[1])
    grid = Grid(["Centre", "Share of users", *shape.names])
    for place, (centre, weight) in enumerate(zip(shape.centres, shape.weights, strict=True), 1):
        grid.add_row(str(place), f"{100 * weight:.3g} %", *(f"{value:.5g}" for value in centre))
    title = f"Centres of clusters by {names[0]} and {names[1]}"
    return HypothesisPicture((plane_chart(title, names, points),), grid)


def _tree(shape: shapes.Tree, _: Presentation) -> HypothesisPicture:
    grid = Grid(["Depth", "Branch", "Node", "Detail"], left=("Branch", "Node", "Detail"))
    for depth, edge, node in nodes(shape.root):
        grid.add_row(str(depth), edge or "–", node.text, node.detail or "–")
    return HypothesisPicture((tree_chart(f"Decision tree for {shape.label}", shape.root),), grid)


def _rules(shape: shapes.RuleList, _: Presentation) -> HypothesisPicture:
    grid = Grid(["Condition", shape.label], left=("Condition", shape.label))
    for condition, outcome, _index in shape.rules:
        grid.add_row(condition, outcome)
    grid.add_row("otherwise", shape.default)
    default = (shape.default, shape.default_index)
    drawn = rules_chart(f"Rules for {shape.label}", shape.label, shape.rules, default)
    return HypothesisPicture((drawn,), grid)


def _coefficients(shape: shapes.Coefficients, _: Presentation) -> HypothesisPicture:
    order = sorted(range(len(shape.values)), key=lambda place: -abs(shape.values[place]))
    names = [shape.names[place] for place in order]
    values = [shape.values[place] for place in order]
    grid = Grid(["Feature", "Weight"], left=("Feature",))
    for name, value in zip(names, values, strict=True):
        grid.add_row(name, f"{value:.5g}")
    title = f"Weights in the prediction of {shape.outcome}{_of(len(values))}"
    drawn = signed_bars(title, names, values, "weight of the scaled feature")
    return HypothesisPicture((drawn,), grid)


def _components(shape: shapes.Components, _: Presentation) -> HypothesisPicture:
    names = [f"component {place + 1}" for place in range(len(shape.explained))]
    grid = Grid(["Component", "Part of the variance", *shape.names], left=("Component",))
    for name, part, loadings in zip(names, shape.explained, shape.loadings, strict=True):
        grid.add_row(name, f"{part:.3g}", *(f"{value:+.3f}" for value in loadings))
    title = "Principal components: part of the variance of each"
    drawn = signed_bars(title, names, shape.explained, "part of the variance")
    return HypothesisPicture((drawn,), grid)


def _parity(data: Any) -> HypothesisPicture:
    mask = [int(bit) for bit in data["r"]]
    grid = Grid(["Bit", "Value"], left=("Bit",))
    for place, bit in enumerate(mask):
        grid.add_row(f"r[{place}]", str(bit))
    grid.add_row("a", str(int(data["a"])))
    title = f"Mask r of the parity, {len(mask)} bits; a = {int(data['a'])}"
    return HypothesisPicture((bits_chart(title, mask),), grid)


def _of(number: int) -> str:
    """Say how many rows a chart leaves out."""
    return f", the first {MAX_ROWS} of {number:,}" if number > MAX_ROWS else ""


PICTURES: Mapping[
    type[shapes.ResultShape], Callable[[Any, Presentation], HypothesisPicture | None]
] = MappingProxyType(
    {
        shapes.Centres: _centres,
        shapes.Coefficients: _coefficients,
        shapes.Components: _components,
        shapes.DistributionFunction: _distribution,
        shapes.Effect: _effect,
        shapes.FrequentValues: _frequent,
        shapes.Intervals: _intervals,
        shapes.NoShape: _intervals,
        shapes.RuleList: _rules,
        shapes.Tables: _tables,
        shapes.TimeSeries: lambda shape, presentation: _time_series(presentation),
        shapes.Tree: _tree,
    }
)
"""Drawing of each shape that a study's result can have; a test on rows of users is none."""

PICTURES_OF_JSON: Mapping[str, Callable[[Any], HypothesisPicture]] = MappingProxyType(
    {"masked-parity": _parity}
)


def _time_series(presentation: Presentation) -> HypothesisPicture | None:
    title = f"Estimates in order of time{_of(len(presentation.rows))}"
    return _of_rows(title, presentation.rows, shares=presentation.shares)
