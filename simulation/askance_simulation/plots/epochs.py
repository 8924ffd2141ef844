"""Estimates of a repeated study over time, with their joint intervals as bands."""

from __future__ import annotations

from askance_aggregator.reports.texts import counted
from askance_aggregator.studies.series import EpochResult, StudySeries, series_subject
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.picture import Picture, new_figure

_APART = 0.03  # of the distance of two epochs, between two estimates of an epoch
_MARGIN = 0.25  # of that distance, before the first epoch and after the last
_MANY = 6  # epochs, from which on their dates are written aslant


def series_picture(series: StudySeries) -> Picture:
    """Draw a line and a band per estimate, and an open marker where an epoch has reused answers.

    An epoch without a result interrupts the lines. Estimates are those of the first 8 names,
    side by side within an epoch, so that no interval hides another.
    """
    epochs = series.epochs
    named = list(dict.fromkeys(row.label for epoch in epochs for row in epoch.rows))
    names = named[: style.MOST_LINES]
    if not names:
        raise InvalidParameter("plot: expected epochs with estimates and intervals, got none")
    figure = new_figure()
    axes = figure.add_subplot()
    for place, (name, colour) in enumerate(zip(names, style.colours(names), strict=True)):
        low, shown, high = zip(*(_of(epoch, name) for epoch in epochs), strict=True)
        beside = _APART * (place - (len(names) - 1) / 2)
        across = [at + beside for at in range(len(epochs))]
        axes.fill_between(across, low, high, color=colour, alpha=0.2, linewidth=0)
        look = {"color": colour, "marker": style.MARKERS[place]}
        axes.errorbar(  # an epoch between two without a result has no band, and has its interval
            across,
            shown,
            yerr=(
                [max(at - end, 0.0) for at, end in zip(shown, low, strict=True)],
                [max(end - at, 0.0) for at, end in zip(shown, high, strict=True)],
            ),
            markersize=5,
            linewidth=1.4,
            elinewidth=0.8,
            label=name,
            **look,
        )
        stale = [at for at, epoch in enumerate(epochs) if epoch.reused]
        axes.plot(
            [across[at] for at in stale],
            [shown[at] for at in stale],
            linestyle="",
            markersize=9,
            markerfacecolor="none",
            **look,
        )
    axes.set_xticks(
        range(len(epochs)),
        [epoch.first_day for epoch in epochs],
        rotation=30 if len(epochs) > _MANY else 0,
    )
    axes.set_xlim(-_MARGIN, len(epochs) - 1 + _MARGIN)
    reused = " (open: with reused answers)" if any(epoch.reused for epoch in epochs) else ""
    across_text = (
        f"first day of the epoch; intervals: {series.confidence:.0%}, joint over all"
        f" {series.signed} epochs{reused}"
    )
    title = (
        f"{series_subject(series)}, {len(epochs)} of {counted(series.signed, 'epoch')},"
        f" ε = {series.epsilon_per_epoch:g} per epoch"
    )
    style.plain(axes, title=title, across=across_text, up="estimate")
    if len(names) > 1:
        style.legend_beside(axes)
    return Picture(figure)


def _of(epoch: EpochResult, name: str) -> tuple[float, float, float]:
    """Return an estimate's interval and its value in it; NaN where the epoch has none."""
    row = next((row for row in epoch.rows if row.label == name), None)
    nothing = float("nan")
    return (nothing,) * 3 if row is None else (row.low, row.shown, row.high)
