"""Estimates with their intervals: by themselves, against no effect, and against a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from askance_aggregator.learners.presentation import EstimateRow
from askance_aggregator.learners.shapes import Effect, FrequentValues, Intervals
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure

_MAX_ROWS = 60  # of the greatest estimates; a picture with more is longer than any screen


def intervals(shape: Intervals, content: Content) -> Picture:
    """Draw the rows, the greatest on top, or in their own order from the top."""
    axes, drawn = _rows(content)
    across = "share of users" if content.shares else "estimate"
    heading = "Estimated shares of users" if content.shares else "Estimates with their intervals"
    subject = f" by {content.subject}" if content.subject and content.shares else ""
    _finish(axes, content, f"{heading}{subject}", across)
    return _captioned(axes, content, drawn)


def effect(shape: Effect, content: Content) -> Picture:
    """Draw the rows beside a line at the value of no effect."""
    axes, drawn = _rows(content)
    axes.axvline(shape.null, color=style.BAD, linestyle="--", linewidth=1.5, label=shape.null_name)
    _finish(axes, content, shape.heading, shape.unit)
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
    return _captioned(axes, content, drawn, "; ".join(told))


def _window(limits: tuple[float, float], values: Sequence[float]) -> tuple[float, float]:
    """Return the part of the possible values that is drawn: twice as far as any value."""
    low, high = limits
    most = 2 * max(*map(abs, values), 1e-9)
    return max(low, -most), min(high, most)


def frequent_values(shape: FrequentValues, content: Content) -> Picture:
    """Draw the values' shares as bars, beside a line at the threshold."""
    axes, drawn = _rows(content, bars=True)
    axes.axvline(
        shape.threshold,
        color=style.BAD,
        linestyle="--",
        linewidth=1.5,
        label=f"threshold {shape.threshold:.3g}",
    )
    subject = f" of {content.subject}" if content.subject else ""
    _finish(axes, content, f"Frequent values{subject}", "share of users")
    axes.set_xlim(left=0)
    return _captioned(axes, content, drawn)


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
    axes.set_yticks(heights, [style.name(_text(row)) for row in shown])
    axes.set_ylim(-0.7, len(drawn) - 0.3)
    return axes, len(drawn)


def _finish(axes: Any, content: Content, heading: str, across: str) -> None:
    style.plain(axes, title="", across=across, up="")
    style.head(axes.figure, content.title(heading))
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=style.QUIET, alpha=0.25)
    style.legend_above(axes)


def _captioned(axes: Any, content: Content, drawn: int, told: str = "") -> Picture:
    of_all = len(content.rows)
    parts = [told, f"the {drawn} greatest of {of_all:,}" if drawn < of_all else "", content.remark]
    style.remark(axes.figure, "; ".join(part for part in parts if part))
    return Picture(axes.figure)


def _text(row: EstimateRow) -> str:
    return f"{row.group}: {row.name}" if row.group else row.name
