"""`askance sweep`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import add_people, add_workers, count, required, seed, setting, source
from askance.cli.output import Failure, print_result, print_written
from askance.cli.parameters import add_learner_parameters
from askance.cli.progress import sweep_progress
from askance_aggregator.reports.report import CommandReport, Grid
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_aggregator.learners import ParameterEntry
    from askance_simulation.experiments.sweeps import Summary, Sweep

NAME = "sweep"
SUMMARY = "run a learner on a grid of settings, with many trials of each"
DESCRIPTION = (
    "Runs a learner on every combination of the given values, several trials of each. With --out "
    "it can be stopped at any moment: the same command goes on where it was. A combination that "
    "cannot work, because of too few users for example, is reported and does not end the sweep."
)


_GRID = (
    ("--epsilon", "E,E,...", "each user's whole budget, in nats"),
    ("--users", "N,N,...", "numbers of users; with --data, so many rows are drawn at random"),
    (
        "--beta",
        "B,B,...",
        "chance that an answer is off by more than its tolerance; default 0.01",
    ),
    (
        "--randomizer",
        "R,R,...",
        "best (default), k-ary-response, subset-selection or linear-hashing",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the grid, its users, its trials and its output."""
    parser.add_argument(
        "learner", type=values, metavar="LEARNER", help="a learner's name, or several: A,B"
    )
    for option, names, what in _GRID:
        parser.add_argument(option, type=values, metavar=names, help=what)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=V,V,...",
        help="values of a parameter of the learner or the population; may be repeated",
    )
    parser.add_argument(
        "--fix",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="a parameter with one value, commas and all; may be repeated",
    )
    add_people(parser)
    parser.add_argument(
        "--trials", type=count, default=10, metavar="T", help="trials per combination; default 10"
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="S", help="seed of all randomness; default 0"
    )
    parser.add_argument(
        "--fleet",
        default="columns",
        metavar="NAME",
        help="how devices are reached; results are the same, but for `tally`: in law (default:"
        " columns)",
    )
    add_workers(
        parser,
        "trials at a time (default: 1, and one per core as soon as the trials that are left are"
        " worth the start of processes); of --fleet ray, trials at a time (default: one per"
        " core), or parts of one where trials are few and large",
    )
    _add_output(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options of the file of rows, and of the picture and its axes."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="one row per trial: .jsonl; or .parquet, made at the end from the .jsonl beside it",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture: .png or .svg")
    parser.add_argument(
        "--x",
        metavar="AXIS",
        help="horizontal axis of the plot: users, epsilon or a parameter's name",
    )
    parser.add_argument(
        "--y",
        choices=("error", "success", "users"),
        default="error",
        help="measure that the plot shows (users: the number needed); default error",
    )


def add_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learners that the command line names, with values to be swept.

    A parameter whose one value may hold commas has that one value.
    """
    add_learner_parameters(
        parser,
        words,
        names_in=values,
        into=lambda entry: "fix" if entry.kind.has_commas else "set",
        read=_swept,
    )


def _swept(entry: ParameterEntry, text: str) -> tuple[str, str]:
    """Check each of the values of a parameter."""
    for value in [text] if entry.kind.has_commas else values(text):
        entry.check(value)
    return entry.name, text


def run(arguments: argparse.Namespace) -> int:
    """Run the missing trials and print one line per cell."""
    import askance as ask
    from askance.operations import check_output
    from askance_simulation.cores import cores

    required(arguments, "epsilon")
    check_output(arguments.plot, (".png", ".svg"))
    check_output(arguments.out, (".jsonl", ".parquet"))
    grid = _grid(arguments)
    if arguments.plot is not None:
        _check_picture(grid, arguments.x)
    with sweep_progress(arguments.data) as progress:
        found = ask.sweep(
            arguments.learner,
            grid,
            trials=arguments.trials,
            out=arguments.out,
            fleet=arguments.fleet,
            seed=arguments.seed,
            workers=arguments.workers,
            spread=cores(),
            cluster=arguments.cluster,
            population=arguments.population,
            data=source(arguments),
            schema=arguments.schema,
            label=arguments.label,
            progress=progress,
        )
    if arguments.out is not None:
        print_written(arguments.out)
    summary = found.summary()
    if arguments.plot is not None:
        found.plot(arguments.plot, arguments.x, arguments.y)
    return print_result(arguments, _result_json(found, summary), lambda: _report(found, summary))


def values(text: str) -> list[str]:
    """Parse V,V,..."""
    found = [part.strip() for part in text.split(",")]
    if "" in found:
        raise argparse.ArgumentTypeError(f"expected values with commas between, got {text!r}")
    return found


def _grid(arguments: argparse.Namespace) -> dict[str, Any]:
    own = ("epsilon", "users", "beta", "randomizer")
    grid: dict[str, Any] = {
        name: getattr(arguments, name) for name in own if getattr(arguments, name) is not None
    }
    for option, given in (("--set", arguments.set), ("--fix", arguments.fix)):
        for name, text in given:
            if name in grid:
                raise Failure(2, "usage", f"{option}: expected {name} once, got {text!r:.80} again")
            try:
                grid[name] = values(text) if option == "--set" else text
            except argparse.ArgumentTypeError as error:
                raise Failure(2, "usage", f"{option} {name}: {error}") from None
    return grid


def _check_picture(grid: dict[str, Any], x: str | None) -> None:
    """Check the picture's axes before the work for it starts."""
    axes = [name for name, given in grid.items() if isinstance(given, list) and len(given) > 1]
    if not axes or (x is not None and x not in axes):
        raise Failure(
            2,
            "usage",
            f"--plot: expected {x or 'an axis'} with several values, got"
            f" {' and '.join(axes) or 'none'}",
        )


def _result_json(found: Sweep, summary: Summary) -> dict[str, Any]:
    refused = sum(row["refused"] is not None for row in found.rows)
    return {
        "trials": len(found.rows),
        "refused": refused,
        "axes": list(summary.axes),
        "confidence": summary.confidence,
        "cells": summary.to_json(),
        "answers": sum(row["answers"] or 0 for row in found.rows),
        "seconds": sum(row["seconds"] for row in found.rows),
    }


def _report(found: Sweep, summary: Summary) -> CommandReport:
    told = _result_json(found, summary)
    heads, *lines = summary.table()
    cells = Grid(heads)
    for line in lines:
        cells.add_row(*line)
    first = found.rows[0]
    constant = [] if "learner" in summary.axes else [first["learner"]]
    constant += [
        f"{name} {first[name]:,g}" for name in ("epsilon", "users") if name not in summary.axes
    ]
    return CommandReport(
        title=", ".join(["sweep", *constant]),
        body=[cells],
        verdict=f"{counted(told['trials'], 'trial')} of {counted(len(summary), 'cell')},"
        f" {counted(told['refused'], 'plan')} refused.",
        cost=f"{counted(told['answers'], 'answer')} in {told['seconds']:,.1f} s",
        warnings=[
            f"bands are {summary.confidence:.0%}, each cell's own: Student's t of an error"
            " (approximate), Clopper-Pearson of a success rate"
        ],
    )
