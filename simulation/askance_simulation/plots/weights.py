"""Weights of features and principal components."""

from __future__ import annotations

import numpy as np

from askance_aggregator.learners.shapes import Coefficients, Components
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure

_MAX_BARS = 25
_MAX_NUMBERS = 12


def coefficients(shape: Coefficients, content: Content) -> Picture:
    """Draw the weights as bars, the greatest magnitude on top.

    Raises:
        InvalidParameter: there is one weight, or all are zero.
    """
    if len(shape.values) < 2 or not any(shape.values):
        only = f"{shape.values[0]:.4g}" if len(shape.values) == 1 else "0 of every feature"
        raise InvalidParameter(
            f"plot: expected two weights or more, of which one is not 0, got {only}"
        )
    order = sorted(range(len(shape.values)), key=lambda place: -abs(shape.values[place]))
    drawn = order[:_MAX_BARS][::-1]
    figure = fitted_figure(max(2.6, 0.27 * len(drawn) + 1.7))
    axes = figure.add_subplot()
    values = [shape.values[place] for place in drawn]
    colours = [style.ACCENT if value >= 0 else style.BAD for value in values]
    axes.barh(range(len(drawn)), values, color=colours)
    axes.axvline(0, color=style.INK, linewidth=1)
    style.plain(
        axes,
        title="",
        across="weight of the scaled feature",
        up="",
    )
    axes.set_yticks(range(len(drawn)), [style.name(shape.names[place]) for place in drawn])
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=style.QUIET, alpha=0.25)
    heading = f"Weights in the prediction of {style.name(shape.outcome)}"
    style.head(figure, content.title(heading))
    told = ["features are scaled by the schema's bounds; weights have no intervals"]
    if len(drawn) < len(order):
        told.append(f"the {len(drawn)} greatest of {len(order):,}")
    style.remark(figure, "; ".join(told))
    return Picture(figure)


def components(shape: Components, content: Content) -> Picture:
    """Draw the explained parts of the variance, and the loadings as cells."""
    count, width = len(shape.explained), len(shape.names)
    figure = fitted_figure(max(3.0, 0.3 * width + 2.0))
    bars, cells = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1, 1.6]})
    places = range(count)
    names = [str(place + 1) for place in places]
    drawn = bars.bar(places, shape.explained, color=style.ACCENT)
    bars.bar_label(drawn, [f"{part:.0%}" for part in shape.explained], fontsize=9, padding=2)
    style.plain(bars, title="", across="component", up="part of the variance")
    bars.axhline(1 / width, color=style.BAD, linestyle="--", linewidth=1.5)
    bars.set_xticks(places, names)
    bars.set_ylim(0, 1.08)
    loadings = np.array(shape.loadings).T
    cells.imshow(loadings, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    cells.set_xticks(places, names)
    cells.set_yticks(range(width), [style.name(name) for name in shape.names])
    cells.set_xlabel("component")
    cells.set_ylabel("weight of each number")
    cells.tick_params(length=0)
    if count <= _MAX_NUMBERS:
        for up, across in np.ndindex(width, count):
            value = loadings[up, across]
            colour = "white" if abs(value) > 0.7 else style.INK
            cells.text(across, up, f"{value:+.2f}", ha="center", va="center", color=colour)
    style.head(figure, content.title("Principal components"))
    told = ["dashed: the part of a direction at random", content.remark]
    style.remark(figure, "; ".join(part for part in told if part))
    return Picture(figure)
