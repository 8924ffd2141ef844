"""Predictions beside the truth, on rows of users who were not asked."""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_aggregator.learners.shapes import ConfusionTable, Predictions
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure

_MAX_NUMBERS = 12  # classes; cells of more have no number
_GROUPS = 10  # of equally many rows, by prediction
_DRAWN = 1500  # rows; more hide each other


def confusion(shape: ConfusionTable, content: Content) -> Picture:
    """Draw the share of each true class by predicted class, and the accuracy beside a guess."""
    counts = np.array(shape.counts, dtype=np.float64)
    of_class = counts.sum(axis=1, keepdims=True)
    parts = counts / np.where(of_class > 0, of_class, 1)
    size = len(shape.classes)
    figure = fitted_figure(min(2.7 + 0.3 * size, 9.0) + style.height_of_names(shape.classes))
    cells, bars = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 1.25]})
    cells.imshow(parts, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    names = [style.name(text) for text in shape.classes]
    told = [f"{name}\n{int(n):,} rows" for name, n in zip(names, of_class[:, 0], strict=True)]
    cells.set_yticks(range(size), told if size <= _MAX_NUMBERS else names)
    style.names_across(cells, shape.classes)
    cells.set_xlabel("predicted class")
    cells.set_ylabel("true class")
    cells.tick_params(length=0)
    if size <= _MAX_NUMBERS:
        for up in range(size):
            for across in range(size):
                value = parts[up, across]
                colour = "white" if value > 0.6 else style.INK
                cells.text(across, up, f"{value:.0%}", ha="center", va="center", color=colour)
    _accuracy(bars, counts)
    style.head(figure, content.title(f"True and predicted class of {shape.label}"))
    style.remark(
        figure,
        f"on {int(counts.sum()):,} rows of users who were not asked; a row of cells sums to 100%",
    )
    return Picture(figure)


def _accuracy(axes: Any, counts: np.ndarray[Any, Any]) -> None:
    right = float(np.trace(counts) / counts.sum())
    guess = float(counts.sum(axis=1).max() / counts.sum())
    axes.bar([0], [right], color=style.ACCENT, width=0.55)
    axes.axhline(guess, color=style.BAD, linestyle="--", linewidth=1.5)
    axes.annotate(
        f"{right:.1%}", (0, right / 2), ha="center", va="center", color="white", fontweight="bold"
    )
    axes.annotate(
        f"guess {guess:.1%}", (0, guess), xytext=(0, 3 if guess >= right else -4),
        textcoords="offset points", ha="center", va="bottom" if guess >= right else "top",
        fontsize=9, color=style.INK,
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1},
    )  # fmt: skip
    style.plain(axes, title="", across="", up="share of rows that are right")
    axes.set_xticks([0], ["this result"])
    axes.set_xlabel("dashed: the most\nfrequent class for all", fontsize=9)
    axes.set_xlim(-0.5, 0.5)
    axes.set_ylim(0, 1.02)


def predictions(shape: Predictions, content: Content) -> Picture:
    """Draw predicted against true numbers, and the mean truth by groups of predictions."""
    true, predicted = np.array(shape.truth), np.array(shape.predicted)
    figure = fitted_figure(4.6)
    axes = figure.add_subplot()
    axes.plot(
        predicted[:_DRAWN], true[:_DRAWN], ".", color=style.QUIET, markersize=3, alpha=0.4,
        label="row of a user who was not asked", zorder=1,
    )  # fmt: skip
    order = np.argsort(predicted, kind="stable")
    groups = [part for part in np.array_split(order, _GROUPS) if len(part)]
    axes.plot(
        [predicted[part].mean() for part in groups],
        [true[part].mean() for part in groups],
        "o",
        color=style.ACCENT,
        markersize=6,
        label="mean of a tenth of the rows",
        zorder=3,
    )
    ends = np.array([predicted.min(), predicted.max()])
    axes.plot(ends, ends, color=style.INK, linewidth=1.2, label="exact prediction", zorder=2)
    axes.axhline(
        true.mean(), color=style.BAD, linestyle="--", linewidth=1.5, label="the mean for all rows"
    )
    style.plain(
        axes,
        title="",
        across=f"predicted {shape.target}",
        up=f"true {shape.target}",
    )
    style.head(figure, content.title(f"True and predicted {shape.target}"))
    style.legend_above(axes)
    style.remark(figure, content.remark)
    return Picture(figure)
