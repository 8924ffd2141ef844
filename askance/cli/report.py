"""Report of a command on a terminal.

Every command with a result prints one by `print_report`: a title, the estimates or another table,
one line that says what the result is worth, one line that says what it cost the users, and
warnings. Bounds, influences, randomizers and transcripts are details, which --verbose adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from askance.cli.output import screen
from askance_aggregator.reports.report import CommandReport, Grid
from askance_client.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ROOMY = 120
"""Least width, in characters, for columns four apart and heads in one line."""


def rich_table(grid: Grid) -> Table:
    """Make a table for the terminal; texts are escaped.

    Values are never broken nor cut off while there is space at all: on a narrow screen the heads
    take two lines, and the long columns as many as they need.
    """
    from rich.markup import escape

    found = _with_heads(grid) if grid.heads else _without_heads(grid)
    for place, row in enumerate(grid.rows):
        style = "red" if place in grid.alarms else None
        found.add_row(*(escape(printable(cell)) for cell in row), style=style)
    return found


def _with_heads(grid: Grid) -> Table:
    from rich.markup import escape
    from rich.table import Table

    roomy = screen().width >= _ROOMY
    found = Table(
        box=None,
        padding=(0, 2) if roomy else (0, 1),
        collapse_padding=not roomy,
        pad_edge=roomy,
    )
    for head in grid.heads:
        found.add_column(
            escape(head if roomy else "\n".join(head.rsplit(" ", 1))),
            justify="left" if head in grid.left else "right",
            no_wrap=head not in grid.long,
            overflow="fold",
        )
    return found


def _without_heads(grid: Grid) -> Table:
    """Build a table without heads: names on the left, numbers on the right of their columns."""
    from rich.table import Table

    found = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for place in range(max(map(len, grid.rows), default=0)):
        found.add_column(justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    return found


def print_report(report: CommandReport, *, verbose: bool) -> None:
    """Print a report on stdout."""
    console = screen()
    for style, part in report.blocks(verbose=verbose):
        if isinstance(part, Grid):
            console.print(rich_table(part))
        else:
            _print_line(console, str(part), style=style.value)


def _print_line(console: Console, text: str, style: str) -> None:
    """Print a line; a terminal breaks it between words, a file has it whole."""
    console.print(printable(text), style=style, markup=False, soft_wrap=not console.is_terminal)
