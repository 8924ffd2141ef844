"""Estimates with their intervals beside the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from askance_simulation.plots import style
from askance_simulation.plots.picture import Picture, new_figure

_MAX_ROWS = 200  # of the cells with the greatest shares; more make no picture


def estimates_beside_truth(
    cells: Mapping[str, Mapping[str, float]], truth: Sequence[float], confidence: float, title: str
) -> Picture:
    """Draw the estimates with the greatest truth on top.

    Raw estimates may lie outside their interval's possible range.
    """
    order = sorted(range(len(truth)), key=lambda place: truth[place])[-_MAX_ROWS:]
    names = list(cells)
    shown = [cells[names[place]] for place in order]
    figure = new_figure(height=max(2.4, 0.3 * len(order) + 1.4))
    axes = figure.add_subplot()
    rows = range(len(order))
    axes.hlines(
        rows,
        [cell["low"] for cell in shown],
        [cell["high"] for cell in shown],
        color=style.ACCENT,
        alpha=0.35,
        linewidth=5,
        label=f"interval ({confidence:.0%}, joint)",
    )
    estimates = [cell["estimate"] for cell in shown]
    axes.plot(estimates, rows, "o", color=style.ACCENT, markersize=5, label="estimate")
    true = [truth[place] for place in order]
    axes.plot(true, rows, "|", color=style.INK, markersize=13, markeredgewidth=2, label="truth")
    style.plain(axes, title=title, across="estimate", up="")
    axes.set_yticks(rows, [names[place].replace("$", r"\$") for place in order])
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=style.QUIET, alpha=0.25)
    style.legend_beside(axes)
    if len(order) < len(truth):
        style.caption(figure, f"the {len(order)} greatest of {len(truth):,}")
    return Picture(figure)
