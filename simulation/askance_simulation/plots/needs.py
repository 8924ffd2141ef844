"""Users needed against a parameter, planned, bounded and measured; and by epsilon, planned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from askance_aggregator.planning import StudyPlan
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_simulation.levels import level_text
from askance_simulation.plots import style
from askance_simulation.plots.curves import NAMES, grouped, numbers_on, other_axes, title
from askance_simulation.plots.picture import Picture, new_figure
from askance_simulation.summaries import CellSummary, Summary


def needs(summary: Summary, x: str) -> Picture:
    """Draw the users of plans, the lower bound, and the smallest n that was enough.

    An n of the sweep is enough where its plan was carried out and at least 1 - beta of its trials
    were right; where there is nothing to be right about, where its plan was carried out.

    Raises:
      InvalidParameter: no such axis, or too many lines.
    """
    numbers_on(summary, x)
    figure = new_figure()
    axes = figure.add_subplot()
    names = tuple(name for name in other_axes(summary, x) if name != "users")
    groups = grouped(summary, names, summary.cells)
    levels = [key[0] if len(key) == 1 else ", ".join(map(level_text, key)) for key in groups]
    entries = []
    for place, (key, cells) in enumerate(groups.items()):
        mark = style.MarkerStyle.of(place, levels)
        _draw(axes, cells, x, mark)
        entries.append((mark, ", ".join(map(level_text, key))))
    places = sorted({float(cell.at[x]) for cell in summary})
    style.plain(axes, title=title(summary, x), across=NAMES.get(x, x), up="users needed")
    axes.set_yscale("log")
    if len(places) > 1 and style.wide(places):
        axes.set_xscale("log")
    style.across(axes.xaxis, places)
    style.logarithmic(axes)
    _legend(axes, ", ".join(names), entries)
    style.caption(
        figure,
        "enough: the least n of the sweep that was planned for and right in at least 1 - β of its"
        " trials;\nits line goes down to the greatest n of the sweep that was not",
    )
    return Picture(figure)


def _draw(axes: Any, cells: Sequence[CellSummary], x: str, mark: style.MarkerStyle) -> None:
    by_place: dict[float, list[CellSummary]] = {}
    for cell in cells:
        by_place.setdefault(float(cell.at[x]), []).append(cell)
    places = sorted(by_place)
    # Plans of one place agree but where a learner takes as many users as there are.
    planned = [min(cell.users_needed for cell in by_place[place]) for place in places]
    bounds = [min(cell.lower_bound for cell in by_place[place]) for place in places]
    axes.plot(places, planned, color=mark.colour)
    axes.plot(places, bounds, color=mark.colour, linestyle="--", linewidth=1)
    for place in places:
        sizes = {float(cell.at["users"]): _enough(cell) for cell in by_place[place]}
        enough = min((size for size, held in sizes.items() if held), default=None)
        if enough is None:
            continue
        below = max((size for size in sizes if size < enough), default=enough)
        axes.vlines(place, below, enough, color=mark.colour, linewidth=1, alpha=0.6)
        axes.plot(place, enough, mark.marker, color=mark.colour, markersize=6)


def _enough(cell: CellSummary) -> bool:
    if cell.refused == cell.trials:
        return False
    return cell.success is None or cell.success.value >= 1 - float(cell.at["beta"])


def _legend(axes: Any, heading: str, entries: Sequence[tuple[style.MarkerStyle, str]]) -> None:
    """Add a legend: the kinds of lines, and the values of the other axes below."""
    from matplotlib.lines import Line2D

    kinds: dict[str, dict[str, Any]] = {
        "planned": {},
        "no randomizer takes less": {"linestyle": "--", "linewidth": 1},
        "enough": {"linestyle": "", "marker": "o"},
    }
    handles = [Line2D([], [], color=style.INK, label=name, **how) for name, how in kinds.items()]
    if len(entries) > 1:
        handles.append(Line2D([], [], linestyle="", label=f"\n{heading}"))
        handles += [
            Line2D([], [], color=mark.colour, marker=mark.marker, label=label)
            for mark, label in entries
        ]
    style.legend_beside(axes, handles=handles)


def epsilon_curve(plan: StudyPlan, learner: str = "") -> Picture:
    """Draw the users that plans need by epsilon, of a plan whose epsilon follows from its users.

    Args:
      plan: with a curve (`ask.plan` without an epsilon, and with `curve=True` of the whole grid).
      learner: its name, for the title.

    Raises:
      InvalidParameter: the plan's epsilon was given, or every plan of the curve is refused.

    Example:
      >>> settings = {"tau": "0.05", "missing": "default"}
      >>> plan = ask.plan("mean", users=5_000, settings=settings, curve=True)
      >>> type(ask.epsilon_curve(plan, "mean")).__name__
      'Picture'
    """
    found = plan.curve
    if found is None:
        raise InvalidParameter("plot: expected a plan without a given epsilon, got one with it")
    planned = [
        (nano / NANO_NATS_PER_NAT, needed) for nano, needed in found.points if needed is not None
    ]
    if not planned:
        raise InvalidParameter("plot: expected an epsilon at which there is a plan, got none")
    epsilons, needs = zip(*planned, strict=True)
    figure = new_figure()
    axes = figure.add_subplot()
    axes.step(
        epsilons,
        _enough_from(needs),
        where="post",
        color=style.ACCENT,
        label="enough from there on",
    )
    axes.plot(epsilons, needs, ".", color=style.INK, markersize=4, label="planned")
    axes.axhline(found.users, color=style.QUIET, linestyle="--", label=f"{found.users:,} users")
    heading = f"users that {learner or 'the study'} needs by epsilon"
    if plan.feasible:
        axes.axvline(plan.epsilon, color=style.BAD, label=f"epsilon {plan.epsilon:.9g}")
    style.plain(axes, title=heading, across="ε, nats a user", up="users needed")
    if style.wide(epsilons):
        axes.set_xscale("log")
    if style.wide([*needs, found.users]):
        axes.set_yscale("log")
    style.logarithmic(axes)
    style.legend_beside(axes)
    style.caption(figure, f"grid of epsilons: {found.grid}")
    return Picture(figure)


def _enough_from(needs: tuple[int, ...]) -> list[int]:
    """Return for each epsilon the users that are enough for it and for every greater one."""
    return list(accumulate(reversed(needs), max))[::-1]
