"""Estimates over time, with their joint band."""

from __future__ import annotations

from askance_aggregator.learners.shapes import TimeSeries
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure

_MARKED = 40  # points; more are a line


def time_series(shape: TimeSeries, content: Content) -> Picture:
    """Draw the rows from left to right."""
    rows, places = content.rows, range(len(content.rows))
    names = [row.name for row in rows]
    figure = fitted_figure(3.9 + style.height_of_names(names))
    axes = figure.add_subplot()
    lows, highs = [row.low for row in rows], [row.high for row in rows]
    axes.fill_between(
        places, lows, highs, color=style.ACCENT, alpha=0.25, linewidth=0, label=content.interval
    )
    marker = "o-" if len(rows) <= _MARKED else "-"
    shown = [row.shown for row in rows]
    axes.plot(places, shown, marker, color=style.ACCENT, markersize=4, label="estimate")
    if content.true_by_row:
        axes.plot(places, content.true_by_row, "--", color=style.INK, linewidth=1.3, label="truth")
    up = "share of users" if content.shares else "estimate"
    subject = f" of {content.subject}" if content.subject else ""
    style.plain(axes, title="", across="epoch", up=up)
    style.head(figure, content.title(f"{up.capitalize()}{subject} over time"))
    style.names_across(axes, names)
    style.legend_above(axes)
    style.remark(figure, content.remark)
    return Picture(figure)
