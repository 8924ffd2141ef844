"""Centres of clusters, over a sample of rows where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_aggregator.learners.shapes import Centres
from askance_client.errors import InvalidParameter
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure

_BINS = 40


def centres(shape: Centres, content: Content) -> Picture:
    """Draw centres in the two numbers in which they differ most.

    Raises:
        InvalidParameter: there is one centre and no rows to draw it over.
    """
    if len(shape.centres) < 2 and not shape.points:
        raise InvalidParameter("plot: expected two centres or more, got one, which is a point")
    figure = fitted_figure(4.6)
    axes = figure.add_subplot()
    first, second = _most_apart(shape)
    if second is None:
        _on_a_line(axes, shape, first)
    else:
        _in_a_plane(axes, shape, first, second)
    axes.grid(axis="x", color=style.QUIET, alpha=0.25)
    style.head(figure, content.title("Centres of clusters"))
    style.legend_above(axes)
    told = ["a label is the share of users at the centre"]
    if second is not None and len(shape.names) > 2:
        told.append(f"of {len(shape.names)} numbers the two in which centres differ most")
    style.remark(figure, "; ".join([*told, *([content.remark] if content.remark else [])]))
    return Picture(figure)


def _most_apart(shape: Centres) -> tuple[int, int | None]:
    """Return the numbers with the widest centres, in units of the points' (or own) spread."""
    middles = np.array(shape.centres)
    spread = np.array(shape.points).std(axis=0) if shape.points else np.ptp(middles, axis=0)
    weights = np.clip(shape.weights, 1e-3, None)
    mean = np.average(middles, axis=0, weights=weights)
    apart = np.sqrt(np.average((middles - mean) ** 2, axis=0, weights=weights))
    order = np.argsort(-apart / np.where(spread > 0, spread, 1), kind="stable")
    chosen = sorted(int(place) for place in order[:2])
    return (chosen[0], chosen[1]) if len(chosen) == 2 else (chosen[0], None)


def _in_a_plane(axes: Any, shape: Centres, first: int, second: int) -> None:
    if shape.points:
        points = np.array(shape.points)
        axes.plot(
            points[:, first], points[:, second], ".", color=style.QUIET, markersize=3, alpha=0.35,
            label="rows of users who were not asked", zorder=1,
        )  # fmt: skip
    middles = np.array(shape.centres)
    if shape.deviations:
        from matplotlib.patches import Ellipse

        for place, (middle, spread) in enumerate(
            zip(middles, np.array(shape.deviations), strict=True)
        ):
            axes.add_patch(
                Ellipse(
                    (middle[first], middle[second]), 2 * spread[first], 2 * spread[second],
                    fill=False, edgecolor=style.BAD, linewidth=1.5,
                    label="one standard deviation" if place == 0 else None,
                )
            )  # fmt: skip
    axes.plot(
        middles[:, first], middles[:, second], "X", color=style.BAD, markersize=10,
        markeredgecolor="white", label="centre", zorder=3,
    )  # fmt: skip
    for middle, weight in zip(middles, shape.weights, strict=True):
        axes.annotate(
            f"{min(max(weight, 0.0), 1.0):.0%}", (middle[first], middle[second]), xytext=(7, 5),
            textcoords="offset points", fontsize=10, fontweight="bold", color=style.INK,
            bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1}, zorder=4,
        )  # fmt: skip
    style.plain(axes, "", style.name(shape.names[first]), style.name(shape.names[second]))


def _on_a_line(axes: Any, shape: Centres, number: int) -> None:
    """Draw centres of one number as lines over the number's histogram."""
    top = 1.0
    if shape.points:
        values = np.array(shape.points)[:, number]
        heights, _, _ = axes.hist(
            values, _BINS, weights=np.full(len(values), 1 / len(values)), color=style.QUIET,
            alpha=0.5, label="rows of users who were not asked",
        )  # fmt: skip
        top = float(max(heights))
    for place, (middle, weight) in enumerate(zip(shape.centres, shape.weights, strict=True)):
        label = "centre" if place == 0 else None
        axes.axvline(middle[number], color=style.BAD, linewidth=2, label=label)
        axes.annotate(
            f"{min(max(weight, 0.0), 1.0):.0%}", (middle[number], top), xytext=(4, 3),
            textcoords="offset points", fontsize=10, fontweight="bold",
        )  # fmt: skip
    axes.set_ylim(0, 1.15 * top)
    style.plain(axes, "", style.name(shape.names[number]), "share of the rows")
    if not shape.points:
        axes.set_yticks([])
        axes.set_ylabel("centres")
