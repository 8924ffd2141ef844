"""Series of a repeated study on a terminal: of `study result --epochs` and `simulate --epochs`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import days_of
from askance.cli.output import Failure, fail, plotted, print_json, print_report
from askance_aggregator.csv_tables import csv_table

if TYPE_CHECKING:
    from askance_aggregator.analyst import StudyEvent, StudySummary
    from askance_aggregator.studies.series import EpochStatus, StudySeries
    from askance_simulation.experiments import EpochSeries, Named

# Options that a series of epochs does not take, and their values when they are not given.
_NOT_WITH_EPOCHS: dict[str, Any] = {
    "fleet": "objects",
    "trials": 1,
    "workers": None,
    "cluster": None,
    "picture": None,
    "out": None,
    "delta": None,
}


def add_csv(parser: argparse._ActionsContainer) -> None:
    """Add the option of a series as CSV."""
    parser.add_argument(
        "--csv", action="store_true", help="with --epochs: print CSV, a row per epoch and estimate"
    )


def print_series(
    series: StudySeries,
    arguments: argparse.Namespace,
    extra: dict[str, Any] | None = None,
    *,
    quiet: bool = False,
) -> int:
    """Print a series as text, JSON or CSV, and draw it; return the exit code.

    `extra` has further parts of its JSON; where `quiet`, the text is left out.
    """
    from askance_aggregator.studies.series import series_report
    from askance_simulation.plots.epochs import series_picture

    refused = plotted(arguments.plot, lambda: series_picture(series))
    if arguments.json:
        print_json({**series.to_json(), **(extra or {})})
    elif arguments.csv:
        sys.stdout.write(csv_table(series.to_rows()))
    elif not quiet:
        print_report(series_report(series, every=arguments.all), verbose=arguments.verbose)
    return 0 if refused is None else fail(refused, as_json=False)


def check_series_options(arguments: argparse.Namespace) -> None:
    """Refuse --csv or --every without --epochs, and --csv beside --json."""
    for option in ("csv", "every"):
        if getattr(arguments, option, None) and not arguments.epochs:
            raise Failure(2, "usage", f"--{option}: expected --epochs with it, got none")
    if arguments.csv and arguments.json:
        raise Failure(2, "usage", "--csv: expected no --json with it, got both")


def simulated_series(arguments: argparse.Namespace, named: Named) -> EpochSeries:
    """Run the epochs that the options of `simulate` ask for."""
    from dataclasses import replace

    from askance_simulation.experiments import simulate_epochs
    from askance_simulation.populations import Population
    from askance_simulation.randomness import Seed

    for option, default in _NOT_WITH_EPOCHS.items():
        given = getattr(arguments, option)
        if given != default:
            text = f"--{option}: expected none, because --epochs is given, got {given}"
            raise Failure(2, "usage", text)
    root = Seed.of(arguments.seed)
    first = named.people(root / "people")

    def people(epoch: int) -> Population:
        return replace(first.in_round(epoch), drift=None)

    days = days_of(arguments.every)
    study = named.study(first)
    return simulate_epochs(study, people, every_days=days, epochs=arguments.epochs, seed=root)


def epochs_json(found: StudyEvent | StudySummary) -> dict[str, Any]:
    """Return the epochs of a status as JSON; nothing for a study that collects once."""
    from askance_aggregator.analyst import epochs_of

    status = epochs_of(found)
    if status is None:
        return {}
    return {
        "epoch": status.number,
        "epochs": status.repeat.epochs,
        "every_days": status.repeat.every_days,
        "first_day": status.first_day,
        "epochs_ended": status.ended,
        "epoch_open": status.open,
    }


def epoch_text(status: EpochStatus) -> str:
    """Say which epoch a repeated study is at: "epoch 3 of 12"."""
    return f"epoch {status.number} of {status.repeat.epochs}"
