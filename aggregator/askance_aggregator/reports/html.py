"""Reports as HTML, which notebooks show, and objects in one line of text.

`html_of` is the only place that makes HTML. All texts of a report are escaped in it, as names of
fields, labels and purposes are whatever their authors wrote. Classes call it in `_repr_html_` with
a report of their own.
"""

from __future__ import annotations

from functools import singledispatch
from html import escape

from askance_aggregator.reports.report import CommandReport, Grid, MoreRows
from askance_client.printable import printable

LINE = 120
"""Most characters of an object in one line: they fit a terminal and a notebook's cell."""

_CELL = "text-align: {}; white-space: pre-wrap"


def line_of(kind: str, text: str) -> str:
    """Format an object as one line of at most `LINE` characters: "<Study: mean of age>"."""
    whole = printable(text)
    room = LINE - len(f"<{kind}: >")
    return f"<{kind}: {whole if len(whole) <= room else f'{whole[: room - 3]}...'}>"


def html_of(report: CommandReport) -> str:
    """Format title, body, verdict, cost and warnings of a report as HTML, without its details."""
    lines = [f"<p><strong>{_text(report.title)}</strong></p>"]
    lines += [_part(part) for part in report.body]
    lines += [f"<p>{_text(line)}</p>" for line in report.conclusion]
    lines += [f"<p><em>note: {_text(line)}</em></p>" for line in report.warnings]
    return f'<div class="askance">{"".join(lines)}</div>'


@singledispatch
def _part(part: object) -> str:
    """Format a line, a table, or the number of rows that are left out."""
    return f"<p>{_text(str(part))}</p>"


@_part.register(Grid)
def _(part: Grid) -> str:
    heads = "".join(
        f'<th style="{_CELL.format(_side(part, place))}">{_text(head)}</th>'
        for place, head in enumerate(part.heads)
    )
    rows = "".join(f"<tr>{_cells(part, row)}</tr>" for row in part.rows)
    return (
        f"<table>{f'<thead><tr>{heads}</tr></thead>' if heads else ''}<tbody>{rows}</tbody></table>"
    )


@_part.register(MoreRows)
def _(part: MoreRows) -> str:
    return f"<p>and {part.number:,} more</p>"


def _cells(grid: Grid, row: tuple[str, ...]) -> str:
    return "".join(
        f'<td style="{_CELL.format(_side(grid, place))}">{_text(cell)}</td>'
        for place, cell in enumerate(row)
    )


def _side(grid: Grid, place: int) -> str:
    """Return the side of a column; without heads the first is on the left."""
    left = grid.heads[place] in grid.left if grid.heads else place == 0
    return "left" if left else "right"


def _text(text: str) -> str:
    return escape(printable(text.strip()))
