"""`askance plan`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from askance.cli.arguments import add_learner, chosen, required
from askance.cli.output import Failure, counted, fail, print_json, screen
from askance.cli.parameters import add_learner_parameters
from askance.cli.tables import table

NAME = "plan"
SUMMARY = "compute the users that a learner needs per round, before any is asked"
DESCRIPTION = (
    "Computes how many users each round of a learner needs at an epsilon, how they are asked and"
    " by which randomizer. With --users it exits with 3 when they are too few."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the learner, its budget and its failure chance."""
    add_learner(parser)


def add_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learner that the command line names, and of a population."""
    add_learner_parameters(parser, words, default_population=False)


def run(arguments: argparse.Namespace) -> int:
    """Plan and print."""
    import askance as ask

    required(arguments, "epsilon")
    planned = ask.plan(arguments.learner, **chosen(arguments))
    result = planned.to_json()
    if planned.feasible:
        refusal = None
    else:
        refusal = Failure(3, "plan-refused", planned.reason or "the plan is not feasible")
        result["failure"] = {"reason": refusal.reason, "message": refusal.message}
    if arguments.json:
        print_json(result)
    else:
        _tell(result)
    return 0 if refusal is None else fail(refusal, as_json=False)


def _tell(result: dict[str, Any]) -> None:
    console = screen()
    heads = ["round", "queries", "users", "x bound", "allocation", "randomizer", "loss", "tau"]
    words = ("allocation", "randomizer")
    rounds = table([*heads, "n x variance"], left=words, long=("randomizer",))
    for number, row in enumerate(result["rounds"], start=1):
        rounds.add_row(
            str(number),
            str(row["queries"]),
            f"{row['users']:,}",
            _over(row["users"], row["lower_bound"]),
            row["allocation"],
            row["randomizer"],
            f"{row['privacy_loss']:.9g}",
            "-" if row["tau"] is None else f"{row['tau']:.4g}",
            f"{row['n_variance']:.4g}",
        )
    console.print(rounds)
    console.print(f"{counted(result['users_needed'], 'user')} in all")
    if result["settings"]:
        chosen = ", ".join(f"{name} {text}" for name, text in result["settings"].items())
        console.print(f"settings by users and noise (--set changes them): {chosen}", markup=False)
    console.print(f"asks about: {', '.join(result['fields']) or 'no field'}", markup=False)
    console.print(
        "x bound: users over those that the round's hardest value takes at least, whatever the"
        " randomizers"
    )
    if any(row["waves"] > 1 for row in result["rounds"]):
        console.print("in waves: fewer where the first ones are exact enough")


def _over(users: int, least: int) -> str:
    return f"{users / least:.3g}" if least else "-"
