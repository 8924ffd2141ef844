"""Report for readers: title, body, verdict, cost, warnings; details on demand.

A report is a value without a medium. The command line prints it on a terminal
(`askance.cli.output`), and a notebook shows it as a table (`html`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING

from askance_aggregator.reports.figures import estimate_texts

if TYPE_CHECKING:
    from askance_aggregator.learners import EstimateRow, Presentation
    from askance_aggregator.reports.figures import EstimateText

MAX_ROWS = 20
"""Rows of a table that are shown by default: with title and verdict, about a screen."""


@dataclass(slots=True)
class Grid:
    """Table of plain texts, which its medium escapes.

    Args:
        heads: of the columns; none: names on the left, numbers on the right, and no heads.
        left: heads of the columns that are aligned on the left.
        long: heads of those whose values may take several lines.
        rows: one text per column each.
        alarms: places of the rows that report a failure.
    """

    heads: Sequence[str] = ()
    left: Collection[str] = ()
    long: Collection[str] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    alarms: set[int] = field(default_factory=set)

    def add_row(self, *cells: str, alarm: bool = False) -> None:
        """Add a row of one text per column."""
        if alarm:
            self.alarms.add(len(self.rows))
        self.rows.append(cells)


@dataclass(frozen=True, slots=True)
class MoreRows:
    """Number of rows that a report leaves out."""

    number: int

    def __str__(self) -> str:
        """Return the line of text; a notebook, which has no options, words its own."""
        return f"  and {self.number:,} more: --all"


Part = str | Grid | MoreRows


class LineStyle(Enum):
    """Style of a line of a report on a terminal."""

    TITLE = "bold"
    TEXT = "none"
    NOTE = "yellow"


@dataclass(frozen=True, slots=True)
class CommandReport:
    """Result of a command in the order in which it is shown."""

    title: str
    body: Sequence[Part] = ()
    verdict: str = ""
    cost: str = ""
    warnings: Sequence[str] = ()
    details: Sequence[str] = ()
    guarantees: str = ""

    @property
    def conclusion(self) -> tuple[str, ...]:
        """Lines below the table: verdict, cost and guarantees, as far as there are any."""
        return tuple(line for line in (self.verdict, self.cost, self.guarantees) if line)

    def blocks(self, *, verbose: bool = False) -> Iterator[tuple[LineStyle, Part]]:
        """Generate lines and tables in order, an empty line between groups; `verbose`: details."""
        yield LineStyle.TITLE, self.title
        if self.body:
            yield LineStyle.TEXT, ""
        for part in self.body:
            yield LineStyle.TEXT, part
        for line in ["", *self.conclusion] if self.conclusion else []:
            yield LineStyle.TEXT, line
        for line in self.warnings:
            yield LineStyle.NOTE, f"note: {line}"
        for line in ["", *self.details] if verbose and self.details else []:
            yield LineStyle.TEXT, line


def shown_rows(number: int, *, every: bool, ranked: bool = True) -> list[int]:
    """Return the places of the rows to show: all, the first ones, or some at even distances."""
    if every or number <= MAX_ROWS:
        return list(range(number))
    if ranked:
        return list(range(MAX_ROWS))
    return [place * (number - 1) // (MAX_ROWS - 1) for place in range(MAX_ROWS)]


def more_rows(number: int, shown: int) -> list[Part]:
    """Return the part on the rows that are left out; none if all are shown."""
    return [] if shown >= number else [MoreRows(number - shown)]


def presentation_body(
    presentation: Presentation, truth: Sequence[float], *, every: bool, verbose: bool
) -> list[Part]:
    """Return the lines and the table of a hypothesis; `truth` is none where it is not known.

    `every` shows all rows; else those are left out that the intervals do not tell apart from
    others. `verbose` adds raw estimates and the ends of the intervals.
    """
    rows = presentation.rows
    texts = estimate_texts(rows, truth, shares=presentation.shares)
    order = list(range(len(rows)))
    if presentation.ranked:
        groups = {name: place for place, name in enumerate(dict.fromkeys(r.group for r in rows))}
        order.sort(key=lambda place: (groups[rows[place].group], -rows[place].shown))
    found = range(len(rows)) if every or presentation.apart is None else presentation.apart
    shown = shown_rows(len(found), every=every, ranked=presentation.ranked)
    places = [found[place] for place in shown]
    body: list[Part] = [f"  {line}" for line in presentation.lines]
    for name, members in groupby((order[place] for place in places), lambda i: rows[i].group):
        body += [f"  {name}"] if name else []
        body.append(Grid(rows=[_cells(rows[i], texts[i], verbose=verbose) for i in members]))
    return [*body, *more_rows(len(rows), len(places))]


def _cells(row: EstimateRow, text: EstimateText, *, verbose: bool) -> tuple[str, ...]:
    wide = f"{text.low} .. {text.high}" if text.is_asymmetric else f"+- {text.half_width}"
    cells = [f"  {row.name}", text.estimate, wide]
    cells += [f"true {text.truth}"] if text.truth else []
    if verbose:
        cells.append(f"raw {row.estimate:.5g}, interval {row.low:.5g} .. {row.high:.5g}")
    return tuple(cells)
