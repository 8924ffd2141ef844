"""`askance simulate`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.arguments import (
    add_learner,
    add_out,
    add_text,
    add_workers,
    check_new,
    chosen,
    count,
    required,
    seed,
)
from askance.cli.epochs import add_csv, check_series_options, print_series, simulated_series
from askance.cli.output import Failure, fail, plotted, print_json, print_result, written
from askance.cli.parameters import add_learner_parameters
from askance.cli.progress import progress
from askance_aggregator.reports.outcomes import simulation_report

if TYPE_CHECKING:
    from askance_simulation.disturbances import Faults, Misbehaviour

_CHANCES = ("absent", "dropout", "offline", "liars")


def add_disturbances(parser: argparse.ArgumentParser) -> None:
    """Add the options of absences, lies and faults."""
    group = parser.add_argument_group("devices that stay away or lie, and messages that are lost")
    group.add_argument(
        "--absent", metavar="P", help="the chance that a device misses a round, for each anew"
    )
    group.add_argument(
        "--dropout", metavar="P", help="the chance, after each round, that a device stays away"
    )
    group.add_argument("--offline", metavar="P", help="the share of devices that never answer")
    group.add_argument("--liars", metavar="P", help="the share of devices that lie")
    group.add_argument(
        "--attack",
        choices=("rpa", "ria", "mga", "extreme"),
        help="what liars send: any report, an honest report of another level, the report that"
        " favours the targets most, the one that moves one value most (default: mga)",
    )
    group.add_argument(
        "--attack-target",
        type=_level,
        action="append",
        default=[],
        metavar="LEVEL",
        help="a level that liars push, 0 being the first; may be repeated (default: the last)",
    )
    group.add_argument(
        "--faults",
        type=_chances,
        metavar="NAME=P,...",
        help="with --fleet grpc: chances that a message is lost, duplicate, reorder or slow, or"
        " that its device dies (crash); the transcript is the same",
    )


def behaviour_of(arguments: argparse.Namespace) -> Misbehaviour | None:
    """Build the behaviour from the options; None if all devices are present and honest."""
    chances = {name: getattr(arguments, name) for name in _CHANCES}
    given = {name: chance for name, chance in chances.items() if chance is not None}
    if "liars" not in given and (arguments.attack is not None or arguments.attack_target):
        raise Failure(2, "usage", "expected --liars with --attack and --attack-target, got none")
    if not given:
        return None
    from askance_simulation.disturbances import Misbehaviour

    return Misbehaviour(
        **given, attack=arguments.attack or "mga", targets=tuple(arguments.attack_target)
    )


def faults_of(arguments: argparse.Namespace) -> Faults | None:
    """Build the faults from the options; None if there are none."""
    if arguments.faults is None:
        return None
    from askance_simulation.disturbances import Faults

    return Faults.named(arguments.faults)


def _level(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a level, 0 or more, got {text!r}")
    return int(text)


def _chances(text: str) -> dict[str, str]:
    """Parse NAME=P,NAME=P."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, separator, chance = part.partition("=")
        if not separator or not name or not chance:
            raise argparse.ArgumentTypeError(f"expected NAME=P, got {part!r}")
        if name in found:
            raise argparse.ArgumentTypeError(f"expected each name once, got {name!r} twice")
        found[name] = chance
    return found


NAME = "simulate"
SUMMARY = "run a learner on simulated users: those of a file, or generated ones"
DESCRIPTION = (
    "Runs a learner on simulated users. Each has a device with a ledger and the randomizers of a "
    "deployment; the only difference is that random numbers come from a seed."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the learner and its users, the fleet, the seed and the output."""
    add_learner(parser, nargs="?")
    parser.add_argument(
        "--list", action="store_true", help="list learners and populations, with parameters"
    )
    parser.add_argument(
        "--fleet",
        choices=("objects", "grpc", "grpc-streams", "columns", "ray", "tally"),
        default="objects",
        help="how devices are reached; the transcript is the same, but for `tally`, which draws the"
        " counts from their law, without devices (default: objects)",
    )
    parser.add_argument(
        "--delta",
        metavar="D",
        help="report what the worst user's charges compose to at this delta, beside their sum",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="S", help="seed of all randomness; default 0"
    )
    parser.add_argument(
        "--trials", type=count, default=1, metavar="T", help="number of trials; default 1"
    )
    add_workers(
        parser,
        "threads of --fleet columns, tasks at a time of --fleet ray; they change no transcript"
        " (default: one per core)",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture: .png or .svg")
    parser.add_argument(
        "--picture",
        choices=("result", "trials", "spending", "rounds"),
        help="the picture by --plot: the result of trial 0 (default), the error of every trial"
        " (default with several), the epsilon users were asked for, or users, answers and tolerance"
        " by round",
    )
    add_out(parser, "FILE", "one row per trial: .jsonl or .parquet")
    epochs = parser.add_argument_group("repeated study")
    epochs.add_argument(
        "--epochs",
        type=count,
        metavar="N",
        help="collect N times from the same users, with --fleet objects; --set drift=SHARE changes"
        " their records in between",
    )
    epochs.add_argument(
        "--every", metavar="DAYS", help='with --epochs: days of an epoch, as "7d" (default)'
    )
    add_csv(epochs)
    add_disturbances(parser)
    add_text(parser)


def add_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learner that the command line names, and of its users."""
    add_learner_parameters(parser, words)


def run(arguments: argparse.Namespace) -> int:
    """Run the simulation and print the result."""
    import askance as ask
    from askance_aggregator.learners import find

    if arguments.list:
        return _list(as_json=arguments.json)
    required(arguments, "learner")
    find(arguments.learner)
    required(arguments, "epsilon")
    if arguments.data is None:
        required(arguments, "users")
    _check_outputs(arguments)
    check_series_options(arguments)
    behaviour, faults = behaviour_of(arguments), faults_of(arguments)
    named = ask.named(arguments.learner, delta=arguments.delta, **chosen(arguments))
    if arguments.epochs is not None:
        if behaviour is not None or faults is not None:
            raise Failure(
                2,
                "usage",
                "--absent, --liars and the like: expected none, because --epochs is given",
            )
        found = simulated_series(arguments, named)
        return print_series(found.series, arguments, {"max_spent_nano_nats": found.max_spent})
    with progress(arguments.trials) as bar:
        result = ask.simulate(
            named.study,
            bar.reading(arguments.data, named.people),
            fleet=arguments.fleet,
            seed=arguments.seed,
            trials=arguments.trials,
            workers=arguments.workers,
            cluster=arguments.cluster,
            behaviour=behaviour,
            faults=faults,
            progress=bar.advance,
            watch=bar.round_opened,
        )
        bar.judging()
        told = result.to_json()
    unwritten = written(arguments.out, result.write)
    refused = plotted(arguments.plot, lambda: result.picture(arguments.picture))
    every, verbose = arguments.all, arguments.verbose
    print_result(
        arguments,
        told,
        lambda: simulation_report(told, result.presentation, every=every, verbose=verbose),
    )
    failure = unwritten or refused
    return 0 if failure is None else fail(failure, as_json=False)


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Check the output files before the work for them starts."""
    from askance.operations import check_output
    from askance_simulation.experiments.sweeps.row_file import is_of_a_sweep

    check_output(arguments.plot, (".png", ".svg"))
    check_output(arguments.out, (".jsonl", ".parquet"))
    if arguments.picture is not None and arguments.plot is None:
        raise Failure(2, "usage", "expected --plot with --picture, got none")
    if arguments.out is not None and is_of_a_sweep(arguments.out):
        found = f"{arguments.out}: expected a file to write anew, got a sweep's rows"
        raise Failure(2, "usage", found)
    check_new(arguments)


def _list(*, as_json: bool) -> int:
    import askance as ask

    catalogue = ask.catalogue()
    if as_json:
        print_json(catalogue)
        return 0
    for kind, entries in catalogue.items():
        print(f"{kind}:")
        for entry in entries:
            print(f"  {entry['name']}: {entry['summary']}")
            for parameter in entry["parameters"]:
                default = (
                    "" if parameter["default"] is None else f" (default {parameter['default']})"
                )
                note = f": {parameter['summary']}" if parameter["summary"] else ""
                option = f"--{parameter['name'].replace('_', '-')}"
                print(f"      {option}{note}{default}")
            if "error" in entry:
                print(f"      error: {entry['error']}")
                print(f"      constant guess: {entry['guess'] or 'none'}")
                print(f"      success: {entry['success'] or 'not claimed'}")
    return 0
