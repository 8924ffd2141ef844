"""Text of an ended study's results, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from askance.cli.bounds import tell_bounds
from askance.cli.hypotheses import tell_hypothesis
from askance.cli.output import counted
from askance_client.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

_MAX_INFLUENCES = 8  # of more questions, the one that is moved the furthest stands for all


def tell_result(console: Console, result: dict[str, Any]) -> None:
    """Print a study's result: what it found, what it cost, how far it can be led astray."""
    head = f"{result['learner']}, {result['state']}: study {result['study']}"
    console.print(head, markup=False, soft_wrap=True)
    if result["hypothesis"] is not None:
        tell_hypothesis(console, result)
    console.print(
        f"asked about: {', '.join(map(printable, result['fields'])) or 'no field'}", markup=False
    )
    refusals = [f"{why.replace('_', '-')} {n:,}" for why, n in result["refusals"].items()]
    console.print(
        f"{result['users_asked']:,} of {counted(result['users'], 'user')} asked; closed:"
        f" {counted(result['rounds'], 'round')} of {counted(result['queries'], 'query')},"
        f" {counted(result['answers'], 'answer')}, refusals: {', '.join(refusals) or 'none'}",
        markup=False,
    )
    epsilon = result["epsilon"]
    console.print(
        f"epsilon: budget {epsilon['budget']:.9g}, spent at most {epsilon['max_spent']:.9g},"
        f" mean {epsilon['mean_spent']:.4g}"
    )
    if not result["reconciled"]:
        console.print(
            "the spending that devices report differs from the charges they were asked for"
        )
    console.print(result["privacy"], markup=False)
    if result["bounds"]:
        tell_bounds(console, result["bounds"])
    else:  # of a study that came to no end
        _tell_influence(console, result["influence"])
    console.print(f"transcript {result['transcript']}", markup=False, soft_wrap=True)


def tell_verification(console: Console, found: dict[str, Any]) -> None:
    """Print what was verified of a study, and what has to be believed."""
    console.print(
        f"study {found['study']} ({found['state']}) holds together", markup=False, soft_wrap=True
    )
    console.print(
        f"{counted(found['rounds'], 'round')} of {counted(found['answers'], 'answer')} replayed,"
        f" signed by {found['public_key']}",
        markup=False,
        soft_wrap=True,
    )
    for head, lines in (("checked", found["checked"]), ("to be believed", found["believed"])):
        console.print(f"{head}:")
        for line in lines:
            console.print(f"  {line}", markup=False)
    console.print(f"transcript {found['transcript']}", markup=False, soft_wrap=True)


def _tell_influence(console: Console, rows: list[dict[str, Any]]) -> None:
    shown = rows
    if len(rows) > _MAX_INFLUENCES:
        shown = [max(rows, key=lambda row: float(row["one_report_moves_by"]))]
        console.print(f"of {counted(len(rows), 'question')}, the one that is moved the furthest:")
    for row in shown:
        console.print(
            f"one false report moves question {row['question'] + 1} of round {row['round'] + 1} by"
            f" at most {row['one_report_moves_by']:.4g}"
        )
