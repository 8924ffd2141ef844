"""`askance curate`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.arguments import (
    add_delimiter,
    add_learner_name,
    add_out,
    add_text,
    check_new,
    required,
    seed,
    setting,
)
from askance.cli.output import print_json, print_report, print_written
from askance.cli.parameters import add_options, first_positional
from askance.cli.progress import reading_and, working
from askance_aggregator.reports.report import CommandReport, presentation_body

if TYPE_CHECKING:
    from askance_papers.curate import CuratorRelease

NAME = "curate"
SUMMARY = "learn from data that a trusted curator holds, with central privacy"
DESCRIPTION = (
    "Runs a learner on data that a curator holds, and releases its result privately. "
    "--schema, --bounds or --labels state bounds and labels. Random numbers are the operating "
    "system's, unless --seed makes the run an experiment."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the learner, its data and its budget."""
    add_learner_name(parser, _learners, nargs="?", help="a learner's name (see --list)")
    parser.add_argument("--list", action="store_true", help="list learners, with parameters")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FILE.csv|.parquet|NAME",
        help="records, one per row, in CSV (header line first) or Parquet; or the name of a data"
        " set that ships with askance (census)",
    )
    add_delimiter(parser)
    parser.add_argument("--epsilon", metavar="E", help="the budget of the release, in nats")
    parser.add_argument("--label", metavar="COLUMN", help="the column that is to be predicted")
    parser.add_argument(
        "--schema", type=Path, metavar="FILE.toml", help="bounds and labels of the columns"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="bounds, labels, or a parameter of the learner; may be repeated, the last one holds",
    )
    add_out(parser, "FILE.json", "write the result there too")
    parser.add_argument(
        "--seed", type=seed, metavar="S", help="seed of an experiment; a release has none"
    )
    add_text(parser)


def add_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learner that the command line names."""
    named = first_positional(parser, words)
    if named is not None:
        from askance_papers.curate import COMMON, find

        add_options(parser, f"parameters of {named}", (*find(named).parameters, *COMMON))


def _learners() -> list[str]:
    from askance_papers.curate import LEARNERS

    return list(LEARNERS)


def run(arguments: argparse.Namespace) -> int:
    """Learn and print."""
    if arguments.list:
        return _list(as_json=arguments.json)
    import askance as ask
    from askance.operations import check_output
    from askance_papers.curate.registry import find
    from askance_simulation.output_files import write_whole
    from askance_simulation.populations import DataSource

    required(arguments, "learner")
    find(arguments.learner)
    required(arguments, "data", "epsilon")

    check_output(arguments.out, (".json",))
    check_new(arguments)
    with working(reading_and("learning", arguments.data)):
        told = ask.curate(
            arguments.learner,
            DataSource(arguments.data, arguments.delimiter),
            arguments.epsilon,
            label=arguments.label,
            schema=arguments.schema,
            settings=dict(arguments.set),
            seed=arguments.seed,
        )
    if arguments.out is not None:
        write_whole(arguments.out, (json.dumps(told.to_json(), indent=2) + "\n").encode())
        print_written(arguments.out)
    if arguments.json:
        print_json(told.to_json())
    else:
        chosen = dict(arguments.set)
        subject = chosen.get("columns") or chosen.get("column") or arguments.label or ""
        every, verbose = arguments.all, arguments.verbose
        print_report(_report(told, subject, every=every, verbose=verbose), verbose=verbose)
    return 0


def _list(*, as_json: bool) -> int:
    from askance_papers.curate import COMMON, LEARNERS

    entries = [
        {
            "name": entry.name,
            "summary": entry.summary,
            "parameters": [
                {"name": one.name, "summary": one.summary, "default": one.default}
                for one in (*entry.parameters, *COMMON)
            ],
        }
        for entry in LEARNERS.values()
    ]
    if as_json:
        print_json({"learners": entries})
        return 0
    for entry in LEARNERS.values():
        print(f"{entry.name}: {entry.summary}")
        for one in entry.parameters:
            print(f"    {_shown(one.name, one.summary, one.default)}")
    print("all of them:")
    for one in COMMON:
        print(f"    {_shown(one.name, one.summary, one.default)}")
    return 0


def _shown(name: str, summary: str, default: str | None) -> str:
    end = "" if default is None else f" (default {default})"
    return f"--{name}: {summary}{end}"


def _report(told: CuratorRelease, subject: str, *, every: bool, verbose: bool) -> CommandReport:
    from askance_aggregator.learners import Presentation

    shown = Presentation(told.curated.rows, ranked=False, lines=told.curated.summary)
    of = f" of {subject}" if subject else ""
    return CommandReport(
        title=f"{told.learner}{of}, {told.n:,} rows, epsilon {told.epsilon:.9g}, trusted curator",
        body=presentation_body(shown, (), every=every, verbose=verbose),
        verdict=f"Guarantee: {told.guarantee}.",
        warnings=told.notes,
    )
