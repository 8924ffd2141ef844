"""Users needed against a parameter: planned, bounded from below, and measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from askance.simulation.experiments.plots import ink
from askance.simulation.experiments.plots.curves import (
    NAMES,
    grouped,
    numbers_on,
    other_axes,
)
from askance.simulation.experiments.plots.picture import Picture, new_figure
from askance.simulation.experiments.sweeps.bands import CellSummary
from askance.simulation.experiments.sweeps.results import Summary, shown


def needs(summary: Summary, x: str) -> Picture:
    """What plans take, the least that any randomizers take, and the smallest n that was enough.

    An n of the sweep is enough where its plan was carried out and at least 1 - beta of its trials
    were right; where there is nothing to be right about, where its plan was carried out.

    Args:
      x: an axis with numbers, as `d` or `epsilon`.

    Raises:
      InvalidParameter: no such axis, or too many lines.
    """
    numbers_on(summary, x)
    figure = new_figure()
    axes = figure.add_subplot()
    names = tuple(name for name in other_axes(summary, x) if name != "users")
    groups = grouped(summary, names, summary.cells)
    levels = [key[0] if len(key) == 1 else ", ".join(map(shown, key)) for key in groups]
    marks = zip(groups.items(), ink.colours(levels), ink.MARKERS, strict=False)
    for (key, cells), colour, marker in marks:
        _draw(axes, cells, x, colour, marker, ", ".join(map(shown, key)))
    places = sorted({float(cell.at[x]) for cell in summary})
    name = "" if "learner" in summary.axes else f"{summary.cells[0].at['learner']}: "
    ink.plain(axes, title=f"{name}users needed", across=NAMES.get(x, x), up="users")
    axes.set_yscale("log")
    if len(places) > 1 and ink.wide(places):
        axes.set_xscale("log")
    ink.across(axes.xaxis, places)
    ink.logarithmic(axes.yaxis)
    _legends(axes, ", ".join(names), coloured=len(groups) > 1)
    ink.caption(
        figure,
        "enough: the least n of the sweep that was planned for and right in at least 1 - β of its"
        " trials; the next n below it in the sweep was not",
    )
    return Picture(figure)


def _draw(
    axes: Any, cells: Sequence[CellSummary], x: str, colour: Any, marker: str, label: str
) -> None:
    by_place: dict[float, list[CellSummary]] = {}
    for cell in cells:
        by_place.setdefault(float(cell.at[x]), []).append(cell)
    places = sorted(by_place)
    # Plans of one place agree but where a learner takes as many users as there are.
    planned = [min(cell.users_needed for cell in by_place[place]) for place in places]
    bounds = [min(cell.lower_bound for cell in by_place[place]) for place in places]
    axes.plot(places, planned, color=colour, label=label or "planned")
    axes.plot(places, bounds, color=colour, linestyle="--", linewidth=1)
    for place in places:
        enough = [cell for cell in by_place[place] if _enough(cell)]
        if enough:
            least = min(float(cell.at["users"]) for cell in enough)
            axes.plot(place, least, marker, color=colour, markersize=7, markerfacecolor="none")


def _enough(cell: CellSummary) -> bool:
    if cell.refused == cell.trials:
        return False
    return cell.success is None or cell.success.value >= 1 - float(cell.at["beta"])


def _legends(axes: Any, title: str, *, coloured: bool) -> None:
    """What kinds of lines there are, and whose they are."""
    from matplotlib.lines import Line2D

    kinds_of: dict[str, dict[str, Any]] = {
        "planned": {},
        "no randomizer takes less": {"linestyle": "--", "linewidth": 1},
        "enough": {"linestyle": "", "marker": "o", "markerfacecolor": "none"},
    }
    styles = [Line2D([], [], color=ink.INK, label=name, **how) for name, how in kinds_of.items()]
    kinds = ink.legend_beside(axes, handles=styles)
    if coloured:
        axes.add_artist(kinds)
        found = ink.legend_beside(axes, title)
        found.set_bbox_to_anchor((1.01, 0.72), transform=axes.transAxes)
