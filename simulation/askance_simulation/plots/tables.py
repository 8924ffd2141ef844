"""Two-way tables as heat maps."""

from __future__ import annotations

from math import ceil
from typing import Any

from askance_aggregator.learners.shapes import Tables, TwoWayTable
from askance_simulation.plots import style
from askance_simulation.plots.content import Content
from askance_simulation.plots.picture import Picture, fitted_figure

_MAX_TABLES = 6
_MAX_NUMBERS = 100  # cells of a table with their number in them
_WIDE = 6  # columns from which on a table has a line of its own


def tables(shape: Tables, content: Content) -> Picture:
    """Draw every table as cells, darker for greater shares, with its numbers."""
    drawn = shape.tables[:_MAX_TABLES]
    columns = 1 if any(len(table.column_labels) > _WIDE for table in drawn) else min(2, len(drawn))
    lines = [drawn[start : start + columns] for start in range(0, len(drawn), columns)]
    ratios = [max(len(table.row_labels) for table in line) + 1 for line in lines]
    names = [max(style.height_of_names(table.column_labels) for table in line) for line in lines]
    figure = fitted_figure(min(0.34 * sum(ratios) + sum(names) + 1.2, 16.0))
    grid = figure.subplots(
        ceil(len(drawn) / columns), columns, squeeze=False, gridspec_kw={"height_ratios": ratios}
    )
    highest = max(value for table in drawn for row in table.values for value in row)
    spots = [axes for line in grid for axes in line]
    for axes, table in zip(spots, drawn, strict=False):
        _draw(axes, table, highest)
    for axes in spots[len(drawn) :]:
        axes.remove()
    style.head(figure, content.title(shape.heading))
    told = [f"numbers: {shape.unit}, in percent"]
    if content.rows:
        widest = max((row.high - row.low) / 2 for row in content.rows)
        told.append(f"half an interval: {widest:.1%} or less ({content.confidence:.0%}, joint)")
        if content.true_by_row:
            pairs = zip(content.rows, content.true_by_row, strict=True)
            held = sum(row.low - 1e-9 <= true <= row.high + 1e-9 for row, true in pairs)
            told.append(f"{held:,} of {len(content.rows):,} intervals contain the truth")
    if len(drawn) < len(shape.tables):
        told.append(f"the first {len(drawn)} of {len(shape.tables):,} tables")
    style.remark(figure, "; ".join([*told, *([content.remark] if content.remark else [])]))
    return Picture(figure)


def _draw(axes: Any, table: TwoWayTable, highest: float) -> None:
    axes.imshow(table.values, cmap="Blues", vmin=0, vmax=highest or 1, aspect="auto")
    axes.set_yticks(range(len(table.row_labels)), [style.name(text) for text in table.row_labels])
    style.names_across(axes, table.column_labels)
    axes.set_xlabel(style.name(table.across))
    axes.set_ylabel(style.name(table.up))
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    if len(table.row_labels) * len(table.column_labels) > _MAX_NUMBERS:
        return
    for up, row in enumerate(table.values):
        for across, value in enumerate(row):
            colour = "white" if value > 0.6 * highest else style.INK
            text = f"{100 * value:.0f}" if value >= 0.0995 else f"{100 * value:.1f}"
            axes.text(across, up, text, ha="center", va="center", color=colour, fontsize=9)
