"""Picture of a hypothesis: a function per family, chosen by a table, with the table beside it.

The families are the shapes that hypotheses state (`askance_aggregator.learners.shapes`), which the
command line's `--plot` draws too. A masked parity has no shape; its bits are drawn by its JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from askance.console.charts.diagrams import (
    bits_chart,
    cells_chart,
    nodes,
    plane_chart,
    rules_chart,
    signed_bars,
    tree_chart,
)
from askance.console.charts.estimates import MAX_ROWS, interval_chart, number_label
from askance_aggregator.learners import EstimateRow, Presentation
from askance_aggregator.learners.shapes import (
    Centres,
    Coefficients,
    Components,
    DistributionFunction,
    Effect,
    FrequentValues,
    Intervals,
    NoShape,
    ResultShape,
    RuleList,
    Tables,
    TimeSeries,
    Tree,
)
from askance_aggregator.reports.report import Grid

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


def picture_of(shape: ResultShape | None, presentation: Presentation) -> HypothesisPicture | None:
    """Return the picture of a shape; None: it has none, and its lines of text stand alone.

    A hypothesis without a shape of its own is drawn by its estimates, if it has any. A model that
    is a constant is one line of text.
    """
    if presentation.constant:
        return None
    draw = PICTURES.get(type(shape or Intervals()))
    return None if draw is None else draw(shape, presentation)


def picture_of_json(learner: str, data: Any) -> HypothesisPicture | None:
    """Return the picture of a hypothesis that has no shape, by its learner's name."""
    draw = PICTURES_OF_JSON.get(learner)
    return None if draw is None else draw(data)


def _intervals(_: ResultShape, presentation: Presentation) -> HypothesisPicture | None:
    rows = list(presentation.rows)
    if presentation.ranked:
        rows.sort(key=lambda row: (row.group, -row.shown))
    if not rows:
        return None
    limits = presentation.whole if len(rows) == 1 else None
    if limits is not None:
        within = f"{number_label(limits[0])} to {number_label(limits[1])}"
        title = f"Estimate with its interval, within {within}"
    else:
        title = f"Estimates with their intervals{_of(len(rows))}"
    drawn = interval_chart(title, rows, shares=presentation.shares, limits=limits)
    return HypothesisPicture((drawn,), _ROWS, title)


def _effect(shape: Effect, presentation: Presentation) -> HypothesisPicture | None:
    if not presentation.rows:
        return None
    title = f"{shape.heading}: {shape.unit}"
    drawn = interval_chart(
        title,
        presentation.rows,
        shares=presentation.shares,
        marks=[(shape.null, shape.null_name)],
        limits=shape.limits,
    )
    return HypothesisPicture((drawn,), _ROWS, title)


def _frequent(shape: FrequentValues, presentation: Presentation) -> HypothesisPicture | None:
    if not presentation.rows:
        return None
    rows = sorted(presentation.rows, key=lambda row: -row.shown)
    title = f"Frequent values with their intervals{_of(len(rows))}"
    drawn = interval_chart(
        title,
        rows,
        shares=presentation.shares,
        marks=[(shape.threshold, "frequent from here")],
    )
    return HypothesisPicture((drawn,), _ROWS, title)


def _tables(shape: Tables, _: Presentation) -> HypothesisPicture:
    shown = shape.tables[:_MAX_TABLES]
    highest = max((value for table in shown for row in table.values for value in row), default=1.0)
    charts = [
        cells_chart(f"{shape.heading}: {table.up} by {table.across}, percent", table, highest)
        for table in shown
    ]
    return HypothesisPicture(tuple(charts), _ROWS)


def _distribution(
    shape: DistributionFunction, presentation: Presentation
) -> HypothesisPicture | None:
    if any(point.value_low < point.value_high for point in shape.points):
        return _quantiles(shape)
    if not presentation.rows:
        return None
    drawn, part = _spread(presentation.rows)
    title = f"{shape.column}: share of users up to each value{part}"
    return HypothesisPicture((interval_chart(title, drawn, shares=True),), _ROWS, title)


def _quantiles(shape: DistributionFunction) -> HypothesisPicture:
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
    step = ceil(len(rows) / _POINTS)
    drawn = rows[(len(rows) - 1) % step :: step]
    return drawn, "" if step == 1 else f"; {len(drawn)} of {len(rows):,} are drawn"


def _centres(shape: Centres, _: Presentation) -> HypothesisPicture:
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


def _tree(shape: Tree, _: Presentation) -> HypothesisPicture:
    grid = Grid(["Depth", "Branch", "Node", "Detail"], left=("Branch", "Node", "Detail"))
    for depth, edge, node in nodes(shape.root):
        grid.add_row(str(depth), edge or "–", node.text, node.detail or "–")
    return HypothesisPicture((tree_chart(f"Decision tree for {shape.label}", shape.root),), grid)


def _rules(shape: RuleList, _: Presentation) -> HypothesisPicture:
    grid = Grid(["Condition", shape.label], left=("Condition", shape.label))
    for condition, outcome, _index in shape.rules:
        grid.add_row(condition, outcome)
    grid.add_row("otherwise", shape.default)
    default = (shape.default, shape.default_index)
    drawn = rules_chart(f"Rules for {shape.label}", shape.label, shape.rules, default)
    return HypothesisPicture((drawn,), grid)


def _coefficients(shape: Coefficients, _: Presentation) -> HypothesisPicture:
    order = sorted(range(len(shape.values)), key=lambda place: -abs(shape.values[place]))
    names = [shape.names[place] for place in order]
    values = [shape.values[place] for place in order]
    grid = Grid(["Feature", "Weight"], left=("Feature",))
    for name, value in zip(names, values, strict=True):
        grid.add_row(name, f"{value:.5g}")
    title = f"Weights in the prediction of {shape.outcome}{_of(len(values))}"
    drawn = signed_bars(title, names, values, "weight of the scaled feature")
    return HypothesisPicture((drawn,), grid)


def _components(shape: Components, _: Presentation) -> HypothesisPicture:
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


PICTURES: Mapping[type[ResultShape], Callable[[Any, Presentation], HypothesisPicture | None]] = (
    MappingProxyType(
        {
            Centres: _centres,
            Coefficients: _coefficients,
            Components: _components,
            DistributionFunction: _distribution,
            Effect: _effect,
            FrequentValues: _frequent,
            Intervals: _intervals,
            NoShape: _intervals,
            RuleList: _rules,
            Tables: _tables,
            TimeSeries: lambda shape, presentation: _time_series(presentation),
            Tree: _tree,
        }
    )
)
"""Drawing of each shape that a study's result can have; a test on rows of users is none."""

PICTURES_OF_JSON: Mapping[str, Callable[[Any], HypothesisPicture]] = MappingProxyType(
    {"masked-parity": _parity}
)


def _time_series(presentation: Presentation) -> HypothesisPicture | None:
    if not presentation.rows:
        return None
    title = f"Estimates in order of time{_of(len(presentation.rows))}"
    drawn = interval_chart(title, presentation.rows, shares=presentation.shares)
    return HypothesisPicture((drawn,), _ROWS, title)
