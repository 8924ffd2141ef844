"""A study round by round: users, answers, and how exactly they were asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from askance_simulation.plots import style
from askance_simulation.plots.picture import Picture, new_figure

if TYPE_CHECKING:
    from askance_simulation.experiments.records import RoundTaken

_LABELLED = 12  # rounds; bars of more are too narrow for numbers


def rounds(taken: Sequence[RoundTaken], title: str) -> Picture:
    """Return users and answers of every round, and the tolerance of its answers below."""
    figure = new_figure(height=5.0)
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [3, 2]})
    places = [number + 1 for number in range(len(taken))]
    width = 0.38
    for shift, name, colour in (
        (-width / 2, "users", style.QUIET),
        (width / 2, "answers", style.ACCENT),
    ):
        heights = [getattr(one, name) for one in taken]
        bars = above.bar([at + shift for at in places], heights, width, color=colour, label=name)
        if len(taken) <= _LABELLED:
            above.bar_label(
                bars, [style.short(height, 3) for height in heights], fontsize=8, padding=2
            )
    style.plain(above, title=title, across="", up="users, answers")
    above.margins(y=0.15)
    above.yaxis.set_major_formatter(lambda value, _: style.short(value))
    style.legend_beside(above)
    below.plot(places, [one.tau for one in taken], "o-", color=style.BAD, markersize=5)
    style.plain(below, title="", across="round", up="tolerance τ")
    if style.wide([one.tau for one in taken]):
        below.set_yscale("log")
        below.margins(y=0.3)
        style.logarithmic(below)
    else:
        below.set_ylim(0, 1.3 * max(one.tau for one in taken))
    if len(taken) <= _LABELLED:
        for at, one in zip(places, taken, strict=True):
            _over(below, at, one.tau)
    if len(taken) <= _LABELLED:
        counts = [f"{at}\n{one.queries:,} q." for at, one in zip(places, taken, strict=True)]
        below.set_xticks(places, counts)
        below.set_xlabel("round, and how many queries it had")
    else:
        below.xaxis.get_major_locator().set_params(integer=True)
    below.set_xlim(0.4, len(taken) + 0.6)
    return Picture(figure)


def _over(axes: Any, at: int, tau: float) -> None:
    axes.annotate(
        f"{tau:.3g}", (at, tau), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=8
    )
