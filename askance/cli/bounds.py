"""Text of answers' bounds, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from askance.cli.output import counted

if TYPE_CHECKING:
    from rich.console import Console

_MAX_SHOWN = 8  # of more answers, the one with the widest interval stands for all


def tell_bounds(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print each answer's users, interval width, influence of one liar, and lower bound.

    The lower bound is the number of users that the best possible randomizers need for that width.
    """
    shown = rows
    if len(rows) > _MAX_SHOWN:
        shown = [max(rows, key=lambda row: float(row["within"]))]
        console.print(f"of {counted(len(rows), 'answer')}, the one with the widest interval:")
    for row in shown:
        console.print(
            f"round {row['round'] + 1}, question {row['question'] + 1}:"
            f" {counted(row['answers'], 'answer')}, within {row['within']:.4g}; one false report"
            f" moves it by at most {row['one_report_moves_by']:.4g}{_least(row)}"
        )


def _least(row: dict[str, Any]) -> str:
    """Format the lower bound; empty if it is unknown, or if any number of users may suffice."""
    if not row["least_users"]:
        return ""
    easier = " (this one is easier)" if row["least_users"] > row["answers"] else ""
    return f"; for any population it takes {counted(row['least_users'], 'user')} or more{easier}"
