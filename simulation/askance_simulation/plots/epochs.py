"""Estimates of a repeated study over time, with their joint intervals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from askance_aggregator.learners.presentation import EstimateRow
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.picture import Picture, new_figure

_SECONDS_PER_DAY = 86_400
_APART = 0.06  # of the lines at one epoch, in epochs


def epochs_picture(
    days: Sequence[int],
    rows: Sequence[Sequence[EstimateRow]],
    reused: Sequence[int],
    confidence: float,
    title: str,
) -> Picture:
    """Draw a line per estimate, and an open marker where an epoch has reused answers.

    Args:
      days: first day of each epoch, since 1970.
      rows: estimates of each epoch; those of the first 8 names of the first epoch are drawn.
      reused: reused answers of each epoch.
      confidence: of all intervals jointly.
      title: above the picture.

    Raises:
      InvalidParameter: the epochs have no estimates with intervals.
    """
    names = [row.name for row in rows[0]][: style.MOST_LINES] if rows else []
    if not names:
        raise InvalidParameter("plot: expected epochs with estimates and intervals, got none")
    figure = new_figure()
    axes = figure.add_subplot()
    for place, (name, colour) in enumerate(zip(names, style.colours(names), strict=True)):
        line = [next((row for row in epoch if row.name == name), None) for epoch in rows]
        shift = _APART * (place - (len(names) - 1) / 2)
        points = [(at + shift, row) for at, row in enumerate(line) if row is not None]
        look = {"color": colour, "marker": style.MARKERS[place]}
        axes.errorbar(
            [at for at, _ in points],
            [row.shown for _, row in points],
            yerr=[
                [max(row.shown - row.low, 0.0) for _, row in points],
                [max(row.high - row.shown, 0.0) for _, row in points],
            ],
            markersize=5,
            capsize=3,
            linewidth=1.2,
            label=name,
            **look,
        )
        stale = [(at, row.shown) for at, row in points if reused[round(at - shift)]]
        axes.plot(
            [at for at, _ in stale],
            [shown for _, shown in stale],
            linestyle="",
            markersize=9,
            markerfacecolor="none",
            **look,
        )
    dates = [datetime.fromtimestamp(day * _SECONDS_PER_DAY, UTC).date().isoformat() for day in days]
    axes.set_xticks(range(len(days)), dates, rotation=30 if len(days) > 6 else 0)
    told = " (open: with reused answers)" if any(reused) else ""
    across = f"first day of the epoch; intervals: {confidence:.0%}, joint over all epochs{told}"
    style.plain(axes, title=title, across=across, up="estimate")
    if len(names) > 1:
        style.legend_beside(axes)
    return Picture(figure)
