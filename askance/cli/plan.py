"""`askance plan`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from askance.cli.arguments import add_learner, add_text, chosen, required
from askance.cli.course import add_course, course_lines, course_of
from askance.cli.figures import nats_text
from askance.cli.output import Failure, counted, fail, print_json, settings_line
from askance.cli.parameters import add_learner_parameters
from askance.cli.progress import working
from askance.cli.report import CommandReport, more_rows, print_report, shown_rows
from askance.cli.tables import table

if TYPE_CHECKING:
    from rich.table import Table

NAME = "plan"
SUMMARY = "compute the users that a learner needs per round, before any is asked"
_MOST_SHARES = 8  # that are shown of a round
DESCRIPTION = (
    "Computes how many users each round of a learner needs at an epsilon, how they are asked and"
    " by which randomizer. With --users it exits with 3 when they are too few."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the learner, its budget and its failure chance."""
    add_learner(parser)
    add_course(parser)
    add_text(parser)


def add_parameters(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the parameters of the learner that the command line names, and of a population."""
    add_learner_parameters(parser, words, default_population=False)


def run(arguments: argparse.Namespace) -> int:
    """Plan and print."""
    import askance as ask

    required(arguments, "epsilon")
    with working("planning"):
        planned = ask.plan(arguments.learner, **chosen(arguments))
    result = planned.to_json()
    course = course_of(arguments, planned)
    if course is not None:
        result["course"] = course.to_json()
    if planned.feasible:
        refusal = None
    else:
        refusal = Failure(3, "plan-refused", planned.reason or "the plan is not feasible")
        result["failure"] = {"reason": refusal.reason, "message": refusal.message}
    if arguments.json:
        print_json(result)
    else:
        every, verbose = arguments.all, arguments.verbose
        report = plan_report(arguments.learner, result, every=every, verbose=verbose)
        print_report(report, verbose=verbose)
    return 0 if refusal is None else fail(refusal, as_json=False)


def plan_report(
    learner: str, result: dict[str, Any], *, every: bool, verbose: bool
) -> CommandReport:
    """Make the report of a plan.

    Args:
        learner: its name.
        result: as `StudyPlan.to_json` has it.
        every: print all rounds.
        verbose: print allocations, randomizers, losses and lower bounds too.
    """
    rows, users = _equal_rounds(result["rounds"]), result["users"]
    places = shown_rows(len(rows), every=every)
    shown = [rows[place] for place in places]
    needed = counted(result["users_needed"], "user")
    most = max((row["privacy_loss"] for row in result["rounds"]), default=0.0)
    details = [f"asks about: {', '.join(result['fields']) or 'no field'}"]
    if result["settings"]:
        details.append(settings_line(result["settings"]))
    details += _allocations(shown)
    details.append(
        "x bound: users over those that the round's hardest value takes at least, whatever the"
        " randomizers; n x variance: of one answer, by the users who are asked"
    )
    warnings = []
    if any(row["waves"] > 1 for row in result["rounds"]):
        warnings.append("in waves: fewer users where the first waves are exact enough")
    return CommandReport(
        title=f"plan of {learner}, epsilon {result['epsilon']:.9g}, beta {result['beta']:g}",
        body=[
            (_details if verbose else _rounds)(shown),
            *more_rows(len(rows), len(shown)),
            *(f"  {line}" for line in course_lines(result.get("course"))),
        ],
        verdict=f"{needed} in all{'' if users is None else f'; there are {users:,}'}.",
        cost=f"Each user who is asked spends {nats_text(most, result['epsilon'])}.",
        warnings=warnings,
        details=details,
    )


def _equal_rounds(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rounds with their numbers, from 1; those that follow an equal one beside it."""
    found: list[dict[str, Any]] = []
    for number, row in enumerate(rounds, start=1):
        if found and {**found[-1], "numbers": None} == {**row, "numbers": None}:
            found[-1]["numbers"] = (found[-1]["numbers"][0], number)
        else:
            found.append({**row, "numbers": (number, number)})
    return found


def _numbers(row: dict[str, Any]) -> str:
    first, last = row["numbers"]
    return str(first) if first == last else f"{first} .. {last}"


def _users(row: dict[str, Any]) -> str:
    """Return the users of a round; of several, those of each of them."""
    first, last = row["numbers"]
    return f"{row['users']:,}" if first == last else f"{row['users']:,} each"


def _rounds(rows: list[dict[str, Any]]) -> Table:
    rounds = table(["  round", "questions", "users", "tau"])
    for row in rows:
        rounds.add_row(f"  {_numbers(row)}", str(row["queries"]), _users(row), _tau(row))
    return rounds


def _details(rows: list[dict[str, Any]]) -> Table:
    heads = ["  round", "questions", "users", "x bound", "allocation", "randomizer", "loss", "tau"]
    words = ("allocation", "randomizer")
    rounds = table([*heads, "n x variance"], left=words, long=("randomizer",))
    for row in rows:
        rounds.add_row(
            f"  {_numbers(row)}",
            str(row["queries"]),
            _users(row),
            _over(row["users"], row["lower_bound"]),
            row["allocation"],
            row["randomizer"],
            f"{row['privacy_loss']:.9g}",
            _tau(row),
            f"{row['n_variance']:.4g}",
        )
    return rounds


def _tau(row: dict[str, Any]) -> str:
    return "-" if row["tau"] is None else f"{row['tau']:.4g}"


def _allocations(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line on the choice of allocation, and one on its groups, per round of several."""
    told: list[str] = []
    for row in rows:
        if row["queries"] > 1:
            told += [f"round {_numbers(row)}: {_ways(row)}", f"  {_shares(row['shares'])}"]
    return told


def _ways(row: dict[str, Any]) -> str:
    """Format the users that each allocation needs, the least first."""
    ways = sorted(row["options"].items(), key=lambda way: way[1])
    told = ", ".join(f"{name} needs {users:,} users" for name, users in ways)
    least = min(row["options"].values())
    return told if row["users"] == least else f"{told}, for 1/20 of open ranges"


def _shares(shares: list[dict[str, Any]]) -> str:
    """Format the groups of a round: as many as are alike in one part."""
    parts = [
        f"{counted(share['groups'], 'question')} to {counted(share['users'], 'user')} each"
        f" at {share['privacy_loss']:.3g} nats ({share['randomizer']})"
        for share in shares[:_MOST_SHARES]
    ]
    more = len(shares) - len(parts)
    return "; ".join(parts) + (f"; {more} more (--json)" if more else "")


def _over(users: int, least: int) -> str:
    return f"{users / least:.3g}" if least else "-"
