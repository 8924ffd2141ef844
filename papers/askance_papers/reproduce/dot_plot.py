"""Dot plot of rows: a line per row, a marker per column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from askance_papers.reproduce.reproduction import Row
from askance_simulation.plots.style import ACCENT, BAD, INK, QUIET, legend_beside, plain, wide

_STYLES = ((INK, "|"), (ACCENT, "o"), (BAD, "x"), (QUIET, "s"))


def dot_plot(
    figure: Any,
    rows: Sequence[Row],
    label: Callable[[Row], str],
    columns: Mapping[str, str],
    across: str,
) -> None:
    """Draw numbers of every row beside its label.

    `columns` has the names of columns in the legend, four at most; the first is the bound. Rows
    without any of the numbers are left out.
    """
    shown = [row for row in rows if any(row[column] is not None for column in columns)]
    figure.set_size_inches(8, 1.5 + 0.22 * len(shown))
    axes = figure.subplots()
    plain(axes, "", across, "")
    values: list[float] = []
    for (column, name), (color, marker) in zip(columns.items(), _STYLES, strict=False):
        places = [place for place, row in enumerate(shown) if row[column] is not None]
        numbers = [float(shown[place][column]) for place in places]
        values += numbers
        size = 12 if marker == "|" else 5
        axes.plot(numbers, places, marker, color=color, markersize=size, label=name)
    axes.set_yticks(range(len(shown)), [label(row) for row in shown], fontsize=7)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    if values and wide(values):
        axes.set_xscale("log")
    legend_beside(axes)
    figure.tight_layout()


def paired(rows: Sequence[Row], column: str) -> list[Row]:
    """Join every second row to the one before it: its number becomes the column "other"."""
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return [{**one, "other": other[column]} for one, other in pairs]
