"""Estimates with their intervals, beside the truth where it is known."""

from __future__ import annotations

from collections.abc import Sequence

from askance_aggregator.learners.presentation import EstimateRow, Presentation
from askance_simulation.plots import style
from askance_simulation.plots.picture import Picture, new_figure

_MAX_ROWS = 200  # of the greatest estimates; more make no picture


def estimates_beside_truth(
    presentation: Presentation, truth: Sequence[float], confidence: float, title: str
) -> Picture:
    """Draw estimates, the greatest on top, or in their own order from the top.

    An estimate is drawn where a result shows it, within its interval.

    Args:
        presentation: of the hypothesis; it has rows.
        truth: of each row; none where it is not known.
        confidence: of the intervals.
        title: above the picture.
    """
    rows = presentation.rows
    order = list(range(len(rows)))
    if presentation.ranked:
        order.sort(key=lambda place: -rows[place].shown)
    drawn = order[:_MAX_ROWS][::-1]
    shown = [rows[place] for place in drawn]
    figure = new_figure(height=max(2.4, 0.3 * len(drawn) + 1.4))
    axes = figure.add_subplot()
    heights = range(len(drawn))
    axes.hlines(
        heights,
        [row.low for row in shown],
        [row.high for row in shown],
        color=style.ACCENT,
        alpha=0.35,
        linewidth=5,
        label=f"interval ({confidence:.0%}, joint)",
    )
    estimates = [row.shown for row in shown]
    axes.plot(estimates, heights, "o", color=style.ACCENT, markersize=5, label="estimate")
    if len(truth) == len(rows):
        true = [truth[place] for place in drawn]
        axes.plot(
            true, heights, "|", color=style.INK, markersize=13, markeredgewidth=2, label="truth"
        )
    across = "share of users" if presentation.shares else "estimate"
    style.plain(axes, title=title, across=across, up="")
    axes.set_yticks(heights, [_name(row) for row in shown])
    axes.set_ylim(-0.7, len(drawn) - 0.3)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=style.QUIET, alpha=0.25)
    style.legend_beside(axes)
    if len(drawn) < len(rows):
        style.caption(figure, f"the {len(drawn)} greatest of {len(rows):,}")
    return Picture(figure)


def _name(row: EstimateRow) -> str:
    """Return a row's name; a dollar sign would start a formula."""
    name = f"{row.group}: {row.name}" if row.group else row.name
    return name.replace("$", r"\$")
