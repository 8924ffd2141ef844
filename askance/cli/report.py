"""Report of a command for readers: title, body, verdict, cost, warnings; details on demand.

Every command with a result prints one by `print_report`: a title, the estimates or another table,
one line that says what the result is worth, one line that says what it cost the users, and
warnings. Bounds, influences, randomizers and transcripts are details, which --verbose adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from askance.cli.figures import estimate_texts
from askance.cli.output import screen
from askance_client.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from askance.cli.figures import EstimateText
    from askance_aggregator.learners import EstimateRow, Presentation

MAX_ROWS = 20
"""Rows of a table that are printed without --all: with title and verdict, about a screen."""


@dataclass(frozen=True, slots=True)
class CommandReport:
    """Result of a command in the order in which it is printed.

    Args:
        title: the subject in a line.
        body: tables and lines.
        verdict: worth of the result, in a line.
        cost: cost to the users, in a line.
        warnings: facts that a reader must know besides, a sentence each.
        details: lines that only --verbose prints.
    """

    title: str
    body: Sequence[str | Table] = ()
    verdict: str = ""
    cost: str = ""
    warnings: Sequence[str] = ()
    details: Sequence[str] = ()


def print_report(report: CommandReport, *, verbose: bool) -> None:
    """Print a report on stdout."""
    console = screen()
    _print_line(console, report.title, style="bold")
    if report.body:
        console.print()
    for part in report.body:
        if isinstance(part, str):
            _print_line(console, part)
        else:
            console.print(part)
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


def _print_line(console: Console, text: str, style: str | None = None) -> None:
    """Print a line; a terminal breaks it between words, a file has it whole."""
    console.print(printable(text), style=style, markup=False, soft_wrap=not console.is_terminal)


def shown_rows(number: int, *, every: bool, ranked: bool = True) -> list[int]:
    """Return the places of the rows to print: all, the first ones, or some at even distances."""
    if every or number <= MAX_ROWS:
        return list(range(number))
    if ranked:
        return list(range(MAX_ROWS))
    return [place * (number - 1) // (MAX_ROWS - 1) for place in range(MAX_ROWS)]


def more_rows(number: int, shown: int) -> list[str]:
    """Return the line on the rows that are left out; none if all are shown."""
    return [] if shown >= number else [f"  and {number - shown:,} more: --all"]


def presentation_body(
    presentation: Presentation, truth: Sequence[float], *, every: bool, verbose: bool
) -> list[str | Table]:
    """Return the lines and the table of a hypothesis.

    Args:
        presentation: of the hypothesis.
        truth: of its rows, in their order; none where it is not known.
        every: print all rows.
        verbose: add raw estimates and the ends of the intervals.
    """
    rows = presentation.rows
    texts = estimate_texts(rows, truth, shares=presentation.shares)
    order = list(range(len(rows)))
    if presentation.ranked:
        groups = {name: place for place, name in enumerate(dict.fromkeys(r.group for r in rows))}
        order.sort(key=lambda place: (groups[rows[place].group], -rows[place].shown))
    places = shown_rows(len(rows), every=every, ranked=presentation.ranked)
    body: list[str | Table] = [f"  {line}" for line in presentation.lines]
    for name, members in groupby((order[place] for place in places), lambda i: rows[i].group):
        body += [f"  {name}"] if name else []
        body.append(_grid([_cells(rows[i], texts[i], verbose=verbose) for i in members]))
    return [*body, *more_rows(len(rows), len(places))]


def _cells(row: EstimateRow, text: EstimateText, *, verbose: bool) -> list[str]:
    cells = [f"  {row.name}", text.estimate, f"+- {text.half_width}"]
    cells += [f"true {text.truth}"] if text.truth else []
    if verbose:
        cells.append(f"raw {row.estimate:.5g}, interval {row.low:.5g} .. {row.high:.5g}")
    return cells


def _grid(rows: Sequence[Sequence[str]]) -> Table:
    """Build a table without heads: names on the left, numbers on the right of their columns."""
    from rich.table import Table

    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for place in range(len(rows[0])):
        grid.add_column(justify="right" if place else "left", no_wrap=place > 0, overflow="fold")
    for row in rows:
        grid.add_row(*map(_cell, row))
    return grid


def _cell(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))
