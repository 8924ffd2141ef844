"""Reports as plain text: the text that the command line writes to a file.

`str` of a result is this text. A terminal's lines, which are broken at its width, are made by
`askance.cli.output`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from askance_aggregator.reports.report import CommandReport, Grid, Part
from askance_client.printable import printable

_GAP = "  "


def text_of(report: CommandReport) -> str:
    """Format title, body, verdict, cost and warnings of a report, without its details."""
    lines = (line for _, part in report.blocks() for line in _part(part))
    return "\n".join(printable(line).rstrip() for line in lines)


def _part(part: Part) -> Iterator[str]:
    """Yield the lines of a line, of a table, or the number of rows that are left out."""
    if isinstance(part, Grid):
        yield from _table(part)
    else:
        yield str(part)


def _table(grid: Grid) -> Iterator[str]:
    """Yield the rows of a table, with heads four characters apart and without them two."""
    rows = [tuple(grid.heads), *grid.rows] if grid.heads else grid.rows
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    edge = _GAP if grid.heads else ""
    for row in rows:
        cells = [
            cell.ljust(width) if _is_left(grid, place) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip_longest(row, widths[: len(row)]))
        ]
        yield edge + f"{edge}{_GAP}".join(cells)


def _is_left(grid: Grid, place: int) -> bool:
    return grid.heads[place] in grid.left if grid.heads else place == 0
