"""Distribution function of a number, with its band."""

from __future__ import annotations

from askance_aggregator.learners.shapes import DistributionFunction
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure

_MARKED = 20  # points; more are a line


def distribution(shape: DistributionFunction, content: Content) -> Picture:
    """Draw the share of users up to each value.

    A share with an interval has a band up and down; a quantile has a bar from the least to the
    greatest value of its cell.

    Raises:
        InvalidParameter: there is one point only.
    """
    points = shape.points
    if len(points) < 2:
        raise InvalidParameter(
            f"plot: expected two quantiles or more of {shape.column}, got one, which is a number:"
            " set more levels, as in --levels 1/4,1/2,3/4"
        )
    figure = fitted_figure(3.9)
    axes = figure.add_subplot()
    middles = [(point.value_low + point.value_high) / 2 for point in points]
    if any(point.low < point.high for point in points):
        lows, highs = [point.low for point in points], [point.high for point in points]
        axes.fill_between(
            middles, lows, highs, color=style.ACCENT, alpha=0.25, linewidth=0,
            label=content.interval,
        )  # fmt: skip
    wide = [point for point in points if point.value_low < point.value_high]
    if wide:
        axes.hlines(
            [point.share for point in wide],
            [point.value_low for point in wide],
            [point.value_high for point in wide],
            color=style.ACCENT,
            alpha=0.35,
            linewidth=5,
            label="cell that holds the quantile",
        )
    # The function between two quantiles is not known.
    marker = "o:" if wide else "o-" if len(points) <= _MARKED else "-"
    shares = [point.share for point in points]
    axes.plot(middles, shares, marker, color=style.ACCENT, markersize=4, label="estimate")
    if content.true_by_row:
        axes.plot(middles, content.true_by_row, "--", color=style.INK, linewidth=1.3, label="truth")
    style.plain(
        axes,
        title="",
        across=shape.column,
        up="share of users up to the value",
    )
    style.head(figure, content.title(f"Share of users up to each value of {shape.column}"))
    axes.set_ylim(-0.02, 1.02)
    style.legend_above(axes)
    style.remark(figure, content.remark)
    return Picture(figure)
