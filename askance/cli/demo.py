"""`askance demo`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import count, seed
from askance.cli.output import print_json, progress, screen

if TYPE_CHECKING:
    from askance_simulation.experiments.trials import Trial

NAME = "demo"
SUMMARY = "run a fleet of devices and a two-round learner over gRPC, on this machine"
DESCRIPTION = (
    "Starts an aggregator on a loopback port with its SQLite store and a fleet of devices that "
    "connect to it over gRPC, and runs the two-round MASKED-PARITY learner on them: it finds the "
    "hidden mask and bit, and no record leaves its device."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the devices, mask, budget and seed."""
    parser.add_argument(
        "--devices",
        type=count,
        default=10_000,
        metavar="N",
        help="number of devices; default 10000",
    )
    parser.add_argument("--d", type=count, default=8, help="bits of the mask, 2..1024; default 8")
    parser.add_argument(
        "--epsilon", default="2.0", metavar="E", help="each user's budget in nats; default 2.0"
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="S", help="seed of all randomness; default 0"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and print its story."""
    import askance as ask

    with progress() as bar:
        trial = ask.demo(
            devices=arguments.devices,
            d=arguments.d,
            epsilon=arguments.epsilon,
            seed=arguments.seed,
            progress=bar.advance,
            watch=bar.round_opened,
        )
    story = _story(trial)
    if not story["success"]:
        story["failure"] = {"reason": "wrong", "message": "the hypothesis is not the target"}
    if arguments.json:
        print_json(story)
    else:
        _tell(story, arguments.d)
    return 0 if story["success"] else 1


def _story(trial: Trial) -> dict[str, Any]:
    outcome, target = trial.outcome, trial.population.target
    spending = outcome.spending
    return {
        "success": bool(trial.assessment.success),
        "transport": "grpc",
        "devices": trial.population.size,
        "rounds": outcome.rounds,
        "hypothesis": outcome.hypothesis.to_json(),
        "target": target.to_json() if hasattr(target, "to_json") else None,
        "error": trial.assessment.error,
        "reports": outcome.answers,
        "refusals": outcome.refusals,
        "epsilon": {
            "budget": spending.budget / 10**9,
            "max_spent": spending.max_spent / 10**9,
            "mean_spent": spending.total_spent / trial.population.size / 10**9,
        },
        "users_used": outcome.users_used,
        "transcript": outcome.transcript,
        "seconds": trial.seconds,
    }


def _tell(story: dict[str, Any], d: int) -> None:
    from rich.table import Table

    console = screen()
    found, hidden, epsilon = story["hypothesis"], story["target"], story["epsilon"]
    console.print(
        f"{story['devices']:,} devices dialled an aggregator on this machine over gRPC. Each holds"
        f" one record (x, i, b, y) of a world with a hidden {d}-bit mask r and a hidden bit a. No"
        " record left its device."
    )
    table = Table(show_header=True, box=None, padding=(0, 2))
    table.add_column("")
    table.add_column("r")
    table.add_column("a")
    table.add_row("found", found["r"], str(found["a"]))
    table.add_row("hidden", hidden["r"], str(hidden["a"]))
    console.print(table)
    ending = "[green]right[/green]" if story["success"] else "[red]wrong[/red]"
    console.print(
        f"The learner is {ending} after {story['rounds']} rounds: the first reads r, the second"
        " asks a question that depends on r."
    )
    console.print(
        f"{story['users_used']:,} users were asked and {story['reports']:,} answered,"
        f" {story['refusals']} refused; no user spent more than {epsilon['max_spent']:.9g} of their"
        f" {epsilon['budget']:.9g} nats (as counted by the devices themselves; the mean over all"
        f" users is {epsilon['mean_spent']:.3g})."
    )
    console.print(f"{story['seconds']:.1f} s   transcript {story['transcript']}", soft_wrap=True)
