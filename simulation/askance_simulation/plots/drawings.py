"""Drawing of each shape: the table from a shape to its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from types import MappingProxyType
from typing import Any

import numpy as np

from askance_aggregator.learners import shapes
from askance_aggregator.learners.presentation import EstimateRow
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.picture import Content, Picture, fitted_figure

_LINE, _INDENT = 0.3, 0.035  # inches per line; part of the width per level
_MAX_LINES = 80
_TEXT = 62  # characters of a condition
_CHARACTER = 0.0145  # part of the width


def tree(shape: shapes.Tree, content: Content) -> Picture:
    """Draw a tree from the left: a line per node, its children below it and further right."""
    lines: list[tuple[int, str, shapes.Branch]] = []
    _collect(shape.root, 0, "", lines)
    drawn = lines[:_MAX_LINES]
    figure = fitted_figure(_LINE * len(drawn) + 1.6)
    axes = _blank(figure, len(drawn))
    parents: dict[int, int] = {}
    for up, (level, edge, branch) in enumerate(drawn):
        left = level * _INDENT
        if level:
            _connect(axes, (level - 1) * _INDENT, parents[level - 1], left, up)
        parents[level] = up
        _node(axes, left, up, edge, branch)
    leaves = sum(branch.outcome is not None for _, _, branch in lines)
    told = [f"{leaves} leaves, each with its class, its share of users and the class's share of it"]
    if len(drawn) < len(lines):
        told.append(f"the first {len(drawn)} of {len(lines):,} nodes")
    return _finished(figure, content, f"Decision tree for {shape.label}", *told, content.remark)


def rule_list(shape: shapes.RuleList, content: Content) -> Picture:
    """Draw a list of rules from the top: a condition that holds leads to the right."""
    rules = shape.rules[: _MAX_LINES - 1]
    figure = fitted_figure(0.42 * (len(rules) + 1) + 1.5)
    axes = _blank(figure, len(rules) + 1)
    right = 0.08 + _CHARACTER * max(len("otherwise"), *(8 + len(rule[0]) for rule in rules), 0)
    for up, (condition, outcome, index) in enumerate(rules):
        word = "if" if up == 0 else "else if"
        _box(axes, 0.02, up, f"{word} {condition}", "#ffffff")
        _arrow(axes, (right, up), (right + 0.12, up))
        _box(axes, right + 0.14, up, f"{shape.label} = {outcome}", _colour(index))
        _arrow(axes, (0.1, up + 0.32), (0.1, up + 0.68))
    _box(axes, 0.02, len(rules), "otherwise" if rules else "always", "#ffffff")
    _arrow(axes, (right, len(rules)), (right + 0.12, len(rules)))
    _box(
        axes,
        right + 0.14,
        len(rules),
        f"{shape.label} = {shape.default}",
        _colour(shape.default_index),
    )
    of_all = len(shape.rules)
    told = f"the first {len(rules)} of {of_all:,}" if len(rules) < of_all else ""
    heading = f"Rules for {shape.label}, read from the top"
    return _finished(figure, content, heading, told, content.remark)


def _collect(
    branch: shapes.Branch, level: int, edge: str, lines: list[tuple[int, str, shapes.Branch]]
) -> None:
    """List nodes in the order of the drawing, with the answer that leads to each."""
    lines.append((level, edge, branch))
    for answer, child in zip(("then", "else"), branch.children, strict=False):
        _collect(child, level + 1, answer, lines)


def _node(axes: Any, left: float, up: int, edge: str, branch: shapes.Branch) -> None:
    answer = f"{edge} " if edge else ""
    if branch.outcome is None:
        text = style.name(f"if {branch.text} is {branch.detail}:", _TEXT - 3 * int(left / _INDENT))
        axes.text(left + 0.012, up, f"{answer}{text}", va="center", fontsize=9.5, color=style.INK)
        return
    axes.text(
        left + 0.012, up, f"{answer}{style.name(branch.text)}  ({branch.detail})", va="center",
        fontsize=9.5, color=style.INK,
        bbox={"facecolor": _colour(branch.outcome), "edgecolor": "none", "pad": 2},
    )  # fmt: skip


def _connect(axes: Any, parent_left: float, parent_up: int, left: float, up: int) -> None:
    across = parent_left + 0.018
    axes.plot([across, across, left + 0.008], [parent_up + 0.35, up, up], color=style.QUIET, lw=1)


def _box(axes: Any, left: float, up: int, text: str, colour: str) -> None:
    axes.text(
        left, up, style.name(text), va="center", fontsize=10, color=style.INK,
        bbox={"facecolor": colour, "edgecolor": style.QUIET, "boxstyle": "round,pad=0.35"},
    )  # fmt: skip


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": style.QUIET})


def _colour(index: int) -> str:
    return style.PALE[index % len(style.PALE)]


def _blank(figure: Any, lines: int) -> Any:
    axes = figure.add_subplot()
    axes.set_xlim(0, 1)
    axes.set_ylim(lines - 0.4, -0.6)
    axes.set_axis_off()
    return axes


def _finished(figure: Any, content: Content, heading: str, *told: str) -> Picture:
    """Put the title above a figure, and below it what is told; empty texts are left out."""
    style.head(figure, content.title(heading))
    style.remark(figure, *told)
    return Picture(figure)


_BINS = 40


def centres(shape: shapes.Centres, content: Content) -> Picture:
    """Draw centres in the two numbers in which they differ most."""
    if len(shape.centres) < 2 and not shape.points:
        raise InvalidParameter("plot: expected two centres or more, got one, which is a point")
    figure = fitted_figure(4.6)
    axes = figure.add_subplot()
    first, second = _most_apart(shape)
    if second is None:
        _on_a_line(axes, shape, first)
    else:
        _in_a_plane(axes, shape, first, second)
    axes.grid(axis="x", color=style.QUIET, alpha=0.25)
    style.legend_above(axes)
    told = ["a label is the share of users at the centre"]
    if second is not None and len(shape.names) > 2:
        told.append(f"of {len(shape.names)} numbers the two in which centres differ most")
    return _finished(figure, content, "Centres of clusters", *told, content.remark)


def _most_apart(shape: shapes.Centres) -> tuple[int, int | None]:
    """Return the numbers with the widest centres, in units of the points' (or own) spread."""
    middles = np.array(shape.centres)
    spread = np.array(shape.points).std(axis=0) if shape.points else np.ptp(middles, axis=0)
    weights = np.clip(shape.weights, 1e-3, None)
    mean = np.average(middles, axis=0, weights=weights)
    apart = np.sqrt(np.average((middles - mean) ** 2, axis=0, weights=weights))
    order = np.argsort(-apart / np.where(spread > 0, spread, 1), kind="stable")
    chosen = sorted(int(place) for place in order[:2])
    return (chosen[0], chosen[1]) if len(chosen) == 2 else (chosen[0], None)


def _in_a_plane(axes: Any, shape: shapes.Centres, first: int, second: int) -> None:
    if shape.points:
        points = np.array(shape.points)
        axes.plot(
            points[:, first], points[:, second], ".", color=style.QUIET, markersize=3, alpha=0.35,
            label="rows of users who were not asked", zorder=1,
        )  # fmt: skip
    middles = np.array(shape.centres)
    if shape.deviations:
        from matplotlib.patches import Ellipse

        for place, (middle, spread) in enumerate(
            zip(middles, np.array(shape.deviations), strict=True)
        ):
            axes.add_patch(
                Ellipse(
                    (middle[first], middle[second]), 2 * spread[first], 2 * spread[second],
                    fill=False, edgecolor=style.BAD, linewidth=1.5,
                    label="one standard deviation" if place == 0 else None,
                )
            )  # fmt: skip
    axes.plot(
        middles[:, first], middles[:, second], "X", color=style.BAD, markersize=10,
        markeredgecolor="white", label="centre", zorder=3,
    )  # fmt: skip
    for middle, weight in zip(middles, shape.weights, strict=True):
        axes.annotate(
            f"{min(max(weight, 0.0), 1.0):.0%}", (middle[first], middle[second]), xytext=(7, 5),
            textcoords="offset points", fontsize=10, fontweight="bold", color=style.INK,
            bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1}, zorder=4,
        )  # fmt: skip
    style.plain(axes, "", style.name(shape.names[first]), style.name(shape.names[second]))


def _on_a_line(axes: Any, shape: shapes.Centres, number: int) -> None:
    """Draw centres of one number as lines over the number's histogram."""
    top = 1.0
    if shape.points:
        values = np.array(shape.points)[:, number]
        heights, _, _ = axes.hist(
            values, _BINS, weights=np.full(len(values), 1 / len(values)), color=style.QUIET,
            alpha=0.5, label="rows of users who were not asked",
        )  # fmt: skip
        top = float(max(heights))
    for place, (middle, weight) in enumerate(zip(shape.centres, shape.weights, strict=True)):
        label = "centre" if place == 0 else None
        axes.axvline(middle[number], color=style.BAD, linewidth=2, label=label)
        axes.annotate(
            f"{min(max(weight, 0.0), 1.0):.0%}", (middle[number], top), xytext=(4, 3),
            textcoords="offset points", fontsize=10, fontweight="bold",
        )  # fmt: skip
    axes.set_ylim(0, 1.15 * top)
    style.plain(axes, "", style.name(shape.names[number]), "share of the rows")
    if not shape.points:
        axes.set_yticks([])
        axes.set_ylabel("centres")


_MAX_ROWS = 60  # of the greatest estimates; a picture with more is longer than any screen


def intervals(shape: shapes.Intervals, content: Content) -> Picture:
    """Draw the rows, the greatest on top, or in their own order from the top."""
    axes, drawn = _rows(content)
    across = "share of users" if content.shares else "estimate"
    heading = "Estimated shares of users" if content.shares else "Estimates with their intervals"
    subject = f" by {content.subject}" if content.subject and content.shares else ""
    _across(axes, across)
    return _captioned(axes, content, f"{heading}{subject}", drawn)


def effect(shape: shapes.Effect, content: Content) -> Picture:
    """Draw the rows beside a line at the value of no effect."""
    axes, drawn = _rows(content)
    axes.axvline(shape.null, **style.REFERENCE, label=shape.null_name)
    _across(axes, shape.unit)
    ends = [end for row in content.rows for end in (row.low, row.high)]
    if shape.limits is None:
        most = max(*(abs(end - shape.null) for end in ends), 1e-9)
        axes.set_xlim(shape.null - 1.15 * most, shape.null + 1.15 * most)
    else:
        low, high = _window(shape.limits, [*ends, *content.true_by_row, shape.null])
        axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    outside = all(not row.low <= shape.null <= row.high for row in content.rows)
    contains, is_ = ("does not contain", "is excluded") if outside else ("contains", "is possible")
    told = [f"the interval {contains} {shape.null:g}: {shape.null_name} {is_}"]
    if shape.limits is not None:
        told.append(f"possible values: {shape.limits[0]:g} to {shape.limits[1]:g}")
    return _captioned(axes, content, shape.heading, drawn, *told)


def _window(limits: tuple[float, float], values: Sequence[float]) -> tuple[float, float]:
    """Return the part of the possible values that is drawn: twice as far as any value."""
    low, high = limits
    most = 2 * max(*map(abs, values), 1e-9)
    return max(low, -most), min(high, most)


def frequent_values(shape: shapes.FrequentValues, content: Content) -> Picture:
    """Draw the values' shares as bars, beside a line at the threshold."""
    axes, drawn = _rows(content, bars=True)
    axes.axvline(shape.threshold, **style.REFERENCE, label=f"threshold {shape.threshold:.3g}")
    subject = f" of {content.subject}" if content.subject else ""
    _across(axes, "share of users")
    axes.set_xlim(left=0)
    return _captioned(axes, content, f"Frequent values{subject}", drawn)


def _rows(content: Content, *, bars: bool = False) -> tuple[Any, int]:
    """Draw rows on new axes; return the axes and the number of rows drawn."""
    rows, true = content.rows, content.true_by_row
    order = list(range(len(rows)))
    if content.ranked:
        order.sort(key=lambda place: -rows[place].shown)
    drawn = order[:_MAX_ROWS][::-1]
    shown = [rows[place] for place in drawn]
    figure = fitted_figure(max(2.6, 0.27 * len(drawn) + 1.9))
    axes = figure.add_subplot()
    heights = range(len(drawn))
    if bars:
        estimates = [row.shown for row in shown]
        axes.barh(heights, estimates, color=style.ACCENT, alpha=0.35, label="estimate")
    lows, highs = [row.low for row in shown], [row.high for row in shown]
    axes.hlines(
        heights,
        lows,
        highs,
        color=style.ACCENT,
        alpha=1.0 if bars else 0.35,
        linewidth=1.5 if bars else 5,
        label=content.interval,
    )
    if not bars:
        estimates = [row.shown for row in shown]
        axes.plot(estimates, heights, "o", color=style.ACCENT, markersize=5, label="estimate")
    if true:
        axes.plot(
            [true[place] for place in drawn],
            heights,
            "|",
            color=style.INK,
            markersize=13,
            markeredgewidth=2,
            label="truth",
        )
    axes.set_yticks(heights, [style.name(_row_text(row)) for row in shown])
    axes.set_ylim(-0.7, len(drawn) - 0.3)
    return axes, len(drawn)


def _across(axes: Any, across: str) -> None:
    style.plain(axes, "", across, "")
    style.grid_across(axes)
    style.legend_above(axes)


def _captioned(axes: Any, content: Content, heading: str, drawn: int, *told: str) -> Picture:
    of_all = len(content.rows)
    cut = f"the {drawn} greatest of {of_all:,}" if drawn < of_all else ""
    return _finished(axes.figure, content, heading, *told, cut, content.remark)


def _row_text(row: EstimateRow) -> str:
    return f"{row.group}: {row.name}" if row.group else row.name


_MARKED = 20  # points; more are a line


def distribution(shape: shapes.DistributionFunction, content: Content) -> Picture:
    """Draw the share of users up to each value.

    A share with an interval has a band up and down; a quantile has a bar from the least to the
    greatest value of its cell.
    """
    points = shape.points
    if len(points) < 2:
        raise InvalidParameter(
            f"plot: expected two quantiles or more of {shape.column}, got one, which is a number:"
            " set more levels, as in --levels 1/4,1/2,3/4"
        )
    figure = fitted_figure(3.9)
    axes = figure.add_subplot()
    middles = [(point.value_low + point.value_high) / 2 for point in points]
    if any(point.low < point.high for point in points):
        lows, highs = [point.low for point in points], [point.high for point in points]
        _band(axes, middles, lows, highs, content)
    wide = [point for point in points if point.value_low < point.value_high]
    if wide:
        axes.hlines(
            [point.share for point in wide],
            [point.value_low for point in wide],
            [point.value_high for point in wide],
            color=style.ACCENT,
            alpha=0.35,
            linewidth=5,
            label="cell that holds the quantile",
        )
    # The function between two quantiles is not known.
    marker = "o:" if wide else "o-" if len(points) <= _MARKED else "-"
    _line(axes, middles, [point.share for point in points], marker, content)
    style.plain(axes, "", shape.column, "share of users up to the value")
    axes.set_ylim(-0.02, 1.02)
    style.legend_above(axes)
    heading = f"Share of users up to each value of {shape.column}"
    return _finished(figure, content, heading, content.remark)


def _line(
    axes: Any, across: Sequence[float], shown: Sequence[float], marker: str, content: Content
) -> None:
    """Draw estimates from left to right, and the truth of each where it is known."""
    axes.plot(across, shown, marker, color=style.ACCENT, markersize=4, label="estimate")
    if content.true_by_row:
        axes.plot(across, content.true_by_row, "--", color=style.INK, linewidth=1.3, label="truth")


def _band(
    axes: Any,
    across: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    content: Content,
) -> None:
    """Draw the intervals of estimates from left to right."""
    axes.fill_between(
        across, lows, highs, color=style.ACCENT, alpha=0.25, linewidth=0, label=content.interval
    )


_MAX_NUMBERS = 12  # classes; cells of more have no number
_GROUPS = 10  # of equally many rows, by prediction
_DRAWN = 1500  # rows; more hide each other


def confusion(shape: shapes.ConfusionTable, content: Content) -> Picture:
    """Draw the share of each true class by predicted class, and the accuracy beside a guess."""
    counts = np.array(shape.counts, dtype=np.float64)
    of_class = counts.sum(axis=1, keepdims=True)
    parts = counts / np.where(of_class > 0, of_class, 1)
    size = len(shape.classes)
    figure = fitted_figure(min(2.7 + 0.3 * size, 9.0) + style.height_of_names(shape.classes))
    cells, bars = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 1.25]})
    names, few = [style.name(text) for text in shape.classes], size <= _MAX_NUMBERS
    if few:
        pairs = zip(names, of_class[:, 0], strict=True)
        names = [f"{name}\n{int(n):,} rows" for name, n in pairs]
    _cells(cells, parts, ("Blues", 0, 1), names, ("predicted class", "true class"))
    style.names_across(cells, shape.classes)
    if few:
        _numbers(cells, parts, "{:.0%}".format, 0.6)
    _accuracy(bars, counts)
    told = f"on {int(counts.sum()):,} rows of users who were not asked; a row of cells sums to 100%"
    return _finished(figure, content, f"True and predicted class of {shape.label}", told)


def _cells(
    axes: Any,
    values: Any,
    colours: tuple[str, float, float],
    names: Sequence[str],
    labels: tuple[str, str],
) -> None:
    """Draw a table as cells: a map of colours with its limits, rows' names, labels of both axes."""
    axes.imshow(values, cmap=colours[0], vmin=colours[1], vmax=colours[2], aspect="auto")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.tick_params(length=0)


def _numbers(
    axes: Any, values: Any, text: Callable[[float], str], dark: float, **look: float
) -> None:
    """Write each cell's number into it, white on cells beyond `dark`."""
    for (up, across), value in np.ndenumerate(values):
        colour = "white" if abs(value) > dark else style.INK
        axes.text(across, up, text(value), ha="center", va="center", color=colour, **look)


def _accuracy(axes: Any, counts: np.ndarray[Any, Any]) -> None:
    right = float(np.trace(counts) / counts.sum())
    guess = float(counts.sum(axis=1).max() / counts.sum())
    axes.bar([0], [right], color=style.ACCENT, width=0.55)
    axes.axhline(guess, **style.REFERENCE)
    axes.annotate(
        f"{right:.1%}", (0, right / 2), ha="center", va="center", color="white", fontweight="bold"
    )
    axes.annotate(
        f"guess {guess:.1%}", (0, guess), xytext=(0, 3 if guess >= right else -4),
        textcoords="offset points", ha="center", va="bottom" if guess >= right else "top",
        fontsize=9, color=style.INK,
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
    )  # fmt: skip
    style.plain(axes, "", "", "share of rows that are right")
    axes.set_xticks([0], ["this result"])
    axes.set_xlabel("dashed: the most\nfrequent class for all", fontsize=9)
    axes.set_xlim(-0.5, 0.5)
    axes.set_ylim(0, 1.02)


def predictions(shape: shapes.Predictions, content: Content) -> Picture:
    """Draw predicted against true numbers, and the mean truth by groups of predictions."""
    true, predicted = np.array(shape.truth), np.array(shape.predicted)
    figure = fitted_figure(4.6)
    axes = figure.add_subplot()
    axes.plot(
        predicted[:_DRAWN], true[:_DRAWN], ".", color=style.QUIET, markersize=3, alpha=0.4,
        label="row of a user who was not asked", zorder=1,
    )  # fmt: skip
    order = np.argsort(predicted, kind="stable")
    groups = [part for part in np.array_split(order, _GROUPS) if len(part)]
    axes.plot(
        [predicted[part].mean() for part in groups],
        [true[part].mean() for part in groups],
        "o",
        color=style.ACCENT,
        markersize=6,
        label="mean of a tenth of the rows",
        zorder=3,
    )
    ends = np.array([predicted.min(), predicted.max()])
    axes.plot(ends, ends, color=style.INK, linewidth=1.2, label="exact prediction", zorder=2)
    axes.axhline(true.mean(), **style.REFERENCE, label="the mean for all rows")
    style.plain(axes, "", f"predicted {shape.target}", f"true {shape.target}")
    style.legend_above(axes)
    return _finished(figure, content, f"True and predicted {shape.target}", content.remark)


_MAX_TABLES = 6
_NUMBERED_CELLS = 100  # cells of a table with their number in them
_WIDE = 6  # columns from which on a table has a line of its own


def tables(shape: shapes.Tables, content: Content) -> Picture:
    """Draw every table as cells, darker for greater shares, with its numbers."""
    drawn = shape.tables[:_MAX_TABLES]
    columns = 1 if any(len(table.column_labels) > _WIDE for table in drawn) else min(2, len(drawn))
    lines = [drawn[start : start + columns] for start in range(0, len(drawn), columns)]
    ratios = [max(len(table.row_labels) for table in line) + 1 for line in lines]
    names = [max(style.height_of_names(table.column_labels) for table in line) for line in lines]
    figure = fitted_figure(min(0.34 * sum(ratios) + sum(names) + 1.2, 16.0))
    grid = figure.subplots(
        ceil(len(drawn) / columns), columns, squeeze=False, gridspec_kw={"height_ratios": ratios}
    )
    highest = max(value for table in drawn for row in table.values for value in row)
    spots = [axes for line in grid for axes in line]
    for axes, table in zip(spots, drawn, strict=False):
        _draw_table(axes, table, highest)
    for axes in spots[len(drawn) :]:
        axes.remove()
    told = [f"numbers: {shape.unit}, in percent"]
    if content.rows:
        widest = max((row.high - row.low) / 2 for row in content.rows)
        told.append(f"half an interval: {widest:.1%} or less ({content.confidence:.0%}, joint)")
        if content.true_by_row:
            pairs = zip(content.rows, content.true_by_row, strict=True)
            held = sum(row.low - 1e-9 <= true <= row.high + 1e-9 for row, true in pairs)
            told.append(f"{held:,} of {len(content.rows):,} intervals contain the truth")
    if len(drawn) < len(shape.tables):
        told.append(f"the first {len(drawn)} of {len(shape.tables):,} tables")
    return _finished(figure, content, shape.heading, *told, content.remark)


def _draw_table(axes: Any, table: shapes.TwoWayTable, highest: float) -> None:
    names, values = list(map(style.name, table.row_labels)), np.array(table.values)
    labels = (style.name(table.across), style.name(table.up))
    _cells(axes, values, ("Blues", 0, highest or 1), names, labels)
    style.names_across(axes, table.column_labels)
    for side in axes.spines.values():
        side.set_visible(False)
    if len(table.row_labels) * len(table.column_labels) <= _NUMBERED_CELLS:
        _numbers(axes, values, _percent, 0.6 * highest, fontsize=9)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"


_MAX_BARS = 25
_NUMBERED_COMPONENTS = 12


def coefficients(shape: shapes.Coefficients, content: Content) -> Picture:
    """Draw the weights as bars, the greatest magnitude on top."""
    if len(shape.values) < 2 or not any(shape.values):
        only = f"{shape.values[0]:.4g}" if len(shape.values) == 1 else "0 of every feature"
        raise InvalidParameter(
            f"plot: expected two weights or more, of which one is not 0, got {only}"
        )
    order = sorted(range(len(shape.values)), key=lambda place: -abs(shape.values[place]))
    drawn = order[:_MAX_BARS][::-1]
    figure = fitted_figure(max(2.6, 0.27 * len(drawn) + 1.7))
    axes = figure.add_subplot()
    values = [shape.values[place] for place in drawn]
    colours = [style.ACCENT if value >= 0 else style.BAD for value in values]
    axes.barh(range(len(drawn)), values, color=colours)
    axes.axvline(0, color=style.INK, linewidth=1)
    style.plain(axes, "", "weight of the scaled feature", "")
    axes.set_yticks(range(len(drawn)), [style.name(shape.names[place]) for place in drawn])
    style.grid_across(axes)
    heading = f"Weights in the prediction of {style.name(shape.outcome)}"
    told = "features are scaled by the schema's bounds; weights have no intervals"
    cut = f"the {len(drawn)} greatest of {len(order):,}" if len(drawn) < len(order) else ""
    return _finished(figure, content, heading, told, cut)


def components(shape: shapes.Components, content: Content) -> Picture:
    """Draw the explained parts of the variance, and the loadings as cells."""
    count, width = len(shape.explained), len(shape.names)
    figure = fitted_figure(max(3.0, 0.3 * width + 2.0))
    bars, cells = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1, 1.6]})
    places = range(count)
    names = [str(place + 1) for place in places]
    drawn = bars.bar(places, shape.explained, color=style.ACCENT)
    bars.bar_label(drawn, [f"{part:.0%}" for part in shape.explained], fontsize=9, padding=2)
    style.plain(bars, "", "component", "part of the variance")
    bars.axhline(1 / width, **style.REFERENCE)
    bars.set_xticks(places, names)
    bars.set_ylim(0, 1.08)
    loadings = np.array(shape.loadings).T
    labels = ("component", "weight of each number")
    _cells(cells, loadings, ("PuOr", -1, 1), list(map(style.name, shape.names)), labels)
    cells.set_xticks(places, names)
    if count <= _NUMBERED_COMPONENTS:
        _numbers(cells, loadings, "{:+.2f}".format, 0.7)
    told = "dashed: the part of a direction at random"
    return _finished(figure, content, "Principal components", told, content.remark)


_MARKED_TIMES = 40  # points; more are a line


def time_series(shape: shapes.TimeSeries, content: Content) -> Picture:
    """Draw the rows from left to right."""
    rows, places = content.rows, range(len(content.rows))
    names = [row.name for row in rows]
    figure = fitted_figure(3.9 + style.height_of_names(names))
    axes = figure.add_subplot()
    lows, highs = [row.low for row in rows], [row.high for row in rows]
    _band(axes, places, lows, highs, content)
    marker = "o-" if len(rows) <= _MARKED_TIMES else "-"
    _line(axes, places, [row.shown for row in rows], marker, content)
    up = "share of users" if content.shares else "estimate"
    subject = f" of {content.subject}" if content.subject else ""
    style.plain(axes, "", "epoch", up)
    style.names_across(axes, names)
    style.legend_above(axes)
    heading = f"{up.capitalize()}{subject} over time"
    return _finished(figure, content, heading, content.remark)


def draw(shape: shapes.ResultShape | None, content: Content) -> Picture:
    """Draw a shape.

    Raises:
        InvalidParameter: there is no shape, or its picture would say nothing; the reason is named.
    """
    if shape is None:
        raise InvalidParameter("plot: expected a hypothesis with a picture, got lines of text")
    return DRAWINGS[type(shape)](shape, content)


def _refuse(shape: shapes.NoShape, content: Content) -> Picture:
    raise InvalidParameter(f"plot: expected a result with a picture, got none: {shape.reason}")


DRAWINGS: Mapping[type[shapes.ResultShape], Callable[[Any, Content], Picture]] = MappingProxyType(
    {
        shapes.Centres: centres,
        shapes.Coefficients: coefficients,
        shapes.Components: components,
        shapes.ConfusionTable: confusion,
        shapes.DistributionFunction: distribution,
        shapes.Effect: effect,
        shapes.FrequentValues: frequent_values,
        shapes.Intervals: intervals,
        shapes.NoShape: _refuse,
        shapes.Predictions: predictions,
        shapes.RuleList: rule_list,
        shapes.Tables: tables,
        shapes.TimeSeries: time_series,
        shapes.Tree: tree,
    }
)
