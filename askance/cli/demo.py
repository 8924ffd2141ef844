"""`askance demo`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import add_text, count, seed
from askance.cli.output import print_result
from askance.cli.progress import progress
from askance_aggregator.reports.outcomes import cost_line
from askance_aggregator.reports.report import CommandReport, Grid
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_simulation.experiments.simulations import Trial

NAME = "demo"
SUMMARY = "run an aggregator and 10,000 devices on this machine, and learn in two rounds"
DESCRIPTION = (
    "Starts an aggregator on this machine, and devices that connect to it over gRPC. Their records "
    "follow a rule with a hidden mask and a hidden bit (MASKED-PARITY), which two rounds of "
    "questions find. No record leaves its device."
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
    add_text(parser, rows=False)


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
    print_result(arguments, story, lambda: _report(story, arguments.d))
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


def _report(story: dict[str, Any], d: int) -> CommandReport:
    found, hidden, epsilon = story["hypothesis"], story["target"], story["epsilon"]
    masks = Grid(("", "r", "a"), left=("", "r", "a"))
    masks.add_row("  found", found["r"], str(found["a"]))
    masks.add_row("  hidden", hidden["r"], str(hidden["a"]))
    cost = cost_line(
        users=story["devices"],
        asked=story["users_used"],
        answers=story["reports"],
        budget=epsilon["budget"],
        max_spent=epsilon["max_spent"],
        mean_spent=epsilon["mean_spent"],
    )
    refused = [f"{counted(story['refusals'], 'device')} refused"] if story["refusals"] else []
    return CommandReport(
        title=f"masked-parity over gRPC, {counted(story['devices'], 'device')},"
        f" epsilon {epsilon['budget']:.9g}",
        body=[
            "The devices dialled an aggregator on this machine. Each holds one record (x, i, b, y)"
            f" of a world with a hidden {d}-bit mask r and a hidden bit a. No record left its"
            " device.",
            masks,
        ],
        verdict=f"The learner is {'right' if story['success'] else 'wrong'} after"
        f" {story['rounds']} rounds: the first reads r, the second asks a question that depends"
        " on r.",
        cost=f"{cost}  {story['seconds']:.1f} s",
        warnings=refused,
        details=["spending is counted by the devices", f"transcript {story['transcript']}"],
    )
