"""Curves of a sweep: error, success or the users needed, against one axis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log
from typing import Any

from askance_aggregator.names import unknown_name
from askance_aggregator.planning import StudyPlan
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_simulation.levels import level_text
from askance_simulation.plots import style
from askance_simulation.plots.picture import Picture, new_figure
from askance_simulation.summaries import Band, CellSummary, Summary

MEASURES = ("error", "success")
NAMES = {"epsilon": "ε, nats a user", "users": "users"}
_FITS = 0.12  # how far a fitted slope may be from -1/2 for the reference line to be drawn
_LOWEST = 0.3  # of the least mean error: where a band that reaches 0 ends on a logarithmic axis


@dataclass(frozen=True, slots=True)
class Line:
    """Plotted values of one combination of the other axes."""

    label: str
    level: object
    points: tuple[tuple[float, Band], ...]


def curves(summary: Summary, x: str, y: str = "error") -> Picture:
    """Return a measure with its bands.

    Args:
      summary: summary of a sweep.
      x: an axis with numbers, as `users` or `epsilon`.
      y: "error" (the mean over a cell's trials) or "success" (the part that was right).

    Raises:
      InvalidParameter: no such axis or measure, nothing to draw, or too many lines.
    """
    lines = _lines(summary, x, y)
    figure = new_figure()
    axes = figure.add_subplot()
    for place, line in enumerate(lines):
        _draw(axes, line, style.MarkerStyle.of(place, [each.level for each in lines]), y)
    places = sorted({place for line in lines for place, _ in line.points})
    style.plain(axes, title=title(summary, x), across=NAMES.get(x, x), up=_UP[y])
    _scale(axes, lines, places, y)
    if axes.get_legend_handles_labels()[1]:
        style.legend_beside(axes, ", ".join(other_axes(summary, x)) or None)
    style.caption(figure, _caption(summary, y, logarithmic=axes.get_yscale() == "log"))
    return Picture(figure)


_UP = {"error": "mean error", "success": "part of the trials that is right"}


def other_axes(summary: Summary, x: str) -> tuple[str, ...]:
    """Return the names in which lines differ."""
    return tuple(name for name in summary.axes if name != x)


def numbers_on(summary: Summary, x: str) -> None:
    """Refuse an axis that has no numbers."""
    known = tuple(summary.cells[0].at)
    if x not in known:
        raise InvalidParameter(f"plot: expected an axis of {', '.join(known)}, got {x!r}")
    if not all(isinstance(cell.at[x], int | float) for cell in summary):
        raise InvalidParameter(f"plot: expected an axis of numbers, got {x!r}")


def grouped(
    summary: Summary, names: Sequence[str], cells: Sequence[CellSummary]
) -> dict[tuple[Any, ...], list[CellSummary]]:
    """Group cells by their values of these names, in order, up to the number of distinct marks."""
    groups: defaultdict[tuple[Any, ...], list[CellSummary]] = defaultdict(list)
    for cell in cells:
        groups[tuple(cell.at[name] for name in names)].append(cell)
    if len(groups) > style.MOST_LINES:
        raise InvalidParameter(
            f"plot: expected at most {style.MOST_LINES} lines, got {len(groups)} for"
            f" {', '.join(names)}; draw a part of the sweep"
        )
    return groups


def _lines(summary: Summary, x: str, y: str) -> list[Line]:
    numbers_on(summary, x)
    if y not in MEASURES:
        raise unknown_name("plot", y, MEASURES)
    cells = [cell for cell in summary if getattr(cell, y) is not None]
    if all(cell.refused == cell.trials for cell in summary):
        reason = summary.cells[0].reason
        raise InvalidParameter(f"plot: expected a trial, got every plan refused: {reason}")
    if not cells:
        raise InvalidParameter(f"plot: expected a trial with a measured {y}, got none")
    lines = []
    for levels, members in grouped(summary, other_axes(summary, x), cells).items():
        points = sorted((float(cell.at[x]), getattr(cell, y)) for cell in members)
        label = ", ".join(map(level_text, levels))
        level = levels[0] if len(levels) == 1 else label
        lines.append(Line(label, level, tuple(points)))
    return lines


def _draw(axes: Any, line: Line, mark: style.MarkerStyle, y: str) -> None:
    """Draw errors as areas; success rates, which are often equal, as bars beside each other."""
    shift = mark.shift if y == "success" else 1.0
    places = [place * shift for place, _ in line.points]
    bands = [band for _, band in line.points]
    style = {"color": mark.colour, "marker": mark.marker, "markersize": 5}
    axes.plot(places, [band.value for band in bands], label=line.label or None, **style)
    banded = [pair for pair in zip(places, bands, strict=True) if pair[1].low is not None]
    lows, highs = [band.low for _, band in banded], [band.high for _, band in banded]
    across = [place for place, _ in banded]
    if y == "error" and len(banded) > 1:
        axes.fill_between(across, lows, highs, color=mark.colour, alpha=0.15, linewidth=0)
    axes.vlines(across, lows, highs, color=mark.colour, alpha=0.5, linewidth=1.2)


def _scale(axes: Any, lines: Sequence[Line], places: Sequence[float], y: str) -> None:
    values = [band.value for line in lines for _, band in line.points]
    if len(places) > 1 and style.wide(places):
        axes.set_xscale("log")
    style.across(axes.xaxis, places)
    if y == "success":
        axes.set_ylim(-0.03, 1.03)
        return
    if not style.wide(values):
        highest = max(band.high or band.value for line in lines for _, band in line.points)
        top = 1.08 * highest or 0.1
        axes.set_ylim(-top / 40, top)  # space for the points on zero
        return
    axes.set_yscale("log")
    axes.set_ylim(bottom=_LOWEST * min(values))
    _reference(axes, lines)
    style.logarithmic(axes)


def _reference(axes: Any, lines: Sequence[Line]) -> None:
    """Draw n^(-1/2) below the lines, if they fall at that rate."""
    if axes.get_xscale() != "log" or axes.get_xlabel() != NAMES["users"]:
        return
    slopes = [slope(line.points) for line in lines if len(line.points) > 1]
    if not slopes or abs(sum(slopes) / len(slopes) + 0.5) > _FITS:
        return
    points = [(place, band.value) for line in lines for place, band in line.points]
    start, end = min(points)[0], max(points)[0]
    height = 0.7 * min(value * (place / start) ** 0.5 for place, value in points)
    axes.plot(
        [start, end],
        [height, height * (start / end) ** 0.5],
        color=style.QUIET,
        linestyle=":",
        label="$n^{-1/2}$",
    )


def slope(points: Sequence[tuple[float, Band]]) -> float:
    """Compute the slope of the nearest straight line on logarithmic axes, by least squares."""
    across = [log(place) for place, _ in points]
    up = [log(band.value) for _, band in points]
    middle, height = sum(across) / len(across), sum(up) / len(up)
    spread = sum((one - middle) ** 2 for one in across)
    both = sum((a - middle) * (b - height) for a, b in zip(across, up, strict=True))
    return both / spread


def title(summary: Summary, x: str) -> str:
    """Return a title from the settings that do not vary."""
    at = summary.cells[0].at
    fixed = [name for name in ("epsilon", "users") if name not in (x, *summary.axes)]
    told = [f"{'ε' if name == 'epsilon' else name} = {level_text(at[name])}" for name in fixed]
    own = [
        f"{name} = {level_text(value)}"
        for name, value in at.items()
        if name not in ("learner", "population", "randomizer", "beta", "epsilon", "users")
        and name not in summary.axes
        and value is not None
    ]
    name = "" if "learner" in summary.axes else f"{at['learner']}"
    return ", ".join(part for part in (name, *told, *own) if part)


def _caption(summary: Summary, y: str, *, logarithmic: bool) -> str:
    kind = "Student's t, approximate" if y == "error" else "Clopper-Pearson"
    counts = sorted({cell.trials - cell.refused for cell in summary if cell.trials > cell.refused})
    trials = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    refused = sum(cell.refused == cell.trials for cell in summary)
    told = f"{trials} trials a point; bands: {summary.confidence:.0%}, {kind}, each point's own"
    if refused:
        told += f"; of {len(summary)} cells {refused} are missing: their plan was refused"
    if logarithmic and any(cell.error is not None and cell.error.low == 0 for cell in summary):
        told += "\na band that reaches the bottom reaches 0"
    return told


def needs(summary: Summary, x: str) -> Picture:
    """Draw the users of plans, the lower bound, and the smallest n that was enough.

    An n of the sweep is enough where its plan was carried out and at least 1 - beta of its trials
    were right; where there is nothing to be right about, where its plan was carried out.
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
        _draw_cells(axes, cells, x, mark)
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


def _draw_cells(axes: Any, cells: Sequence[CellSummary], x: str, mark: style.MarkerStyle) -> None:
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
