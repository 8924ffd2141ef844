"""Output of commands: results and one-line failures.

Every command with a result prints one by `print_report`: a title, the estimates or another table,
one line that says what the result is worth, one line that says what it cost the users, and
warnings. Bounds, influences, randomizers and transcripts are details, which --verbose adds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance_aggregator.reports.report import CommandReport, Grid
from askance_client.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from askance_simulation.plots import Picture


_WIDTH = 140


class Failure(Exception):
    """End of a command: its exit code, a word for programs, a line for readers."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Return the failure that an exception means."""
        from askance_client.errors import (
            AskanceError,
            InvalidParameter,
            InvalidQuery,
            InvalidRecord,
            PlanExceeded,
            PlanRefused,
        )

        if isinstance(error, Failure):
            return error
        message = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
            message = f"{error.filename}: {error.strerror}"
        if isinstance(error, PlanRefused):
            return cls(3, "plan-refused", message)
        if isinstance(error, PlanExceeded):
            return cls(1, "plan-exceeded", message)
        if isinstance(error, InvalidParameter | InvalidQuery | InvalidRecord):
            return cls(2, "bad-input", message)
        if isinstance(error, AskanceError | OSError | MemoryError):
            return cls(1, "failed", message)
        named = f"{type(error).__name__}: {message} (a fault of askance; --debug shows where)"
        return cls(1, "internal", named)


def fail(failure: Failure, *, as_json: bool) -> int:
    """Print a failure and return its exit code."""
    if as_json:
        print_json({"failure": {"reason": failure.reason, "message": failure.message}})
    print(f"askance: {printable(failure.message)}", file=sys.stderr)
    return failure.code


def plotted(path: Path | None, draw: Callable[[], Picture]) -> Failure | None:
    """Write a picture; return the reason where it is not written, so that the result is printed.

    It is not where it would say nothing, or where its file cannot be written. Without a path no
    picture is wanted.
    """
    from askance_client.errors import InvalidParameter

    if path is None:
        return None
    try:
        draw().save(path)
    except (InvalidParameter, OSError) as error:
        return Failure.of(error)
    return None


def written(path: Path | None, write: Callable[[Path], object]) -> Failure | None:
    """Write the file of --out, if one is wanted, and say so; return why it cannot be written."""
    if path is None:
        return None
    try:
        write(path)
    except OSError as error:
        return Failure.of(error)
    print_written(path)
    return None


def print_written(path: Path) -> None:
    """Print the name and the size of the file of --out on stderr."""
    from askance_aggregator.reports.texts import counted

    size = counted(path.stat().st_size, "byte")
    print(printable(f"wrote {path}: {size}"), file=sys.stderr)


def print_json(result: dict[str, Any]) -> None:
    """Print the one JSON object of a command."""
    print(json.dumps(result, ensure_ascii=False, allow_nan=False))


def print_answer(arguments: argparse.Namespace, content: dict[str, Any], *lines: str) -> int:
    """Print a command's one JSON object, or its lines of text, as asked; return the exit code 0."""
    if arguments.json:
        print_json(content)
    else:
        print(*lines, sep="\n")
    return 0


def print_result(
    arguments: argparse.Namespace, content: dict[str, Any], report: Callable[[], CommandReport]
) -> int:
    """Print a command's one JSON object, or its report, as asked; return the exit code 0."""
    if arguments.json:
        print_json(content)
    else:
        print_report(report(), verbose=getattr(arguments, "verbose", False))
    return 0


def screen() -> Console:
    """Return the console for results, wide enough for the tables if the terminal has no width."""
    from rich.console import Console

    found = Console(highlight=False, emoji=False)
    return found if found.is_terminal else Console(highlight=False, emoji=False, width=_WIDTH)


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
