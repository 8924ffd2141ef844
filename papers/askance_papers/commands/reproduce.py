"""`askance reproduce`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import required, seed
from askance.cli.output import print_json, print_report, screen
from askance.cli.progress import working
from askance_aggregator.reports.report import CommandReport, Grid

if TYPE_CHECKING:
    from askance_papers.reproduce import Reproduction

NAME = "reproduce"
SUMMARY = "measure a theorem, table or figure of the papers"
DESCRIPTION = (
    "Prints the paper's statement, a correction if it is wrong, and the measurements. "
    "Exits with 1 if the statement does not hold."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the reproduction, its effort and its picture."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="see --list")
    parser.add_argument("--list", action="store_true", help="list the reproductions")
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes: fewer trials, less data"
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="S", help="seed of all randomness; default 0"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder of adult.csv and pima_indians_diabetes.csv, for reproductions that need one",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture: .png or .svg")


def run(arguments: argparse.Namespace) -> int:
    """Measure and prints."""
    import askance as ask

    if arguments.list:
        return _list(as_json=arguments.json)
    required(arguments, "name")
    with working("measuring") as progress:
        found = ask.reproduce(
            arguments.name,
            quick=arguments.quick,
            seed=arguments.seed,
            data=arguments.data,
            plot=arguments.plot,
            progress=progress,
        )
    if arguments.json:
        print_json(found.to_json())
    else:
        print_report(_report(found), verbose=False)
    return 0 if found.holds else 1


def _list(*, as_json: bool) -> int:
    from rich.table import Table

    from askance_papers.reproduce import REPRODUCTIONS

    entries = [{"name": one.name, "summary": one.summary} for one in REPRODUCTIONS.values()]
    if as_json:
        print_json({"reproductions": entries})
        return 0
    table = Table(box=None, padding=(0, 2), show_header=False)
    for entry in entries:
        table.add_row(entry["name"], entry["summary"])
    screen().print(table)
    return 0


def _report(found: Reproduction) -> CommandReport:
    statement = [found.statement]
    if found.differs_from_print:
        statement.append(f"Not as printed: {found.differs_from_print}")
    return CommandReport(
        title=f"{found.name}: {found.source}",
        body=[*statement, "", _table(found.rows)],
        verdict="It holds." if found.holds else "It does NOT hold.",
        warnings=found.notes,
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> Grid:
    heads = tuple(rows[0]) if rows else ()
    left = {name for name in heads if any(isinstance(row[name], str | bool) for row in rows)}
    table = Grid(heads, left=left, long=heads)
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    return table


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
