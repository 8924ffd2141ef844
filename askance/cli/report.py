"""Report of a command on a terminal.

Every command with a result prints one by `print_report`: a title, the estimates or another table,
one line that says what the result is worth, one line that says what it cost the users, and
warnings. Bounds, influences, randomizers and transcripts are details, which --verbose adds.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from askance.cli.output import screen
from askance.cli.tables import rich_table
from askance_aggregator.reports.report import CommandReport, Grid, MoreRows
from askance_client.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


def print_report(report: CommandReport, *, verbose: bool) -> None:
    """Print a report on stdout."""
    console = screen()
    _print_line(console, report.title, style="bold")
    if report.body:
        console.print()
    for part in report.body:
        _print_part(part, console)
    if report.verdict or report.cost:
        console.print()
    for line in (report.verdict, report.cost):
        if line:
            _print_line(console, line)
    for line in report.warnings:
        _print_line(console, f"note: {line}", style="yellow")
    if verbose and report.details:
        console.print()
        for line in report.details:
            _print_line(console, line)


@singledispatch
def _print_part(part: object, console: Console) -> None:
    """Print a line, a table, or the number of rows that are left out."""
    _print_line(console, str(part))


@_print_part.register(Grid)
def _(part: Grid, console: Console) -> None:
    console.print(rich_table(part))


@_print_part.register(MoreRows)
def _(part: MoreRows, console: Console) -> None:
    _print_line(console, f"  and {part.number:,} more: --all")


def _print_line(console: Console, text: str, style: str | None = None) -> None:
    """Print a line; a terminal breaks it between words, a file has it whole."""
    console.print(printable(text), style=style, markup=False, soft_wrap=not console.is_terminal)
