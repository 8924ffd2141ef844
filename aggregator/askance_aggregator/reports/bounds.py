"""Text of answers' bounds and of the influence of one report."""

from __future__ import annotations

from typing import Any

from askance_aggregator.reports.texts import counted

_MAX_SHOWN = 8  # of more answers, the one that matters most stands for all


def bounds_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Format each answer's users, interval width, influence of one liar, and lower bound.

    The lower bound is the number of users that the best possible randomizers need for that width.
    """
    shown, head = _shown(rows, "within", "answer", "the one with the widest interval")
    return head + [
        f"round {row['round'] + 1}, question {row['question'] + 1}:"
        f" {counted(row['answers'], 'answer')}, within {row['within']:.4g}; one false report"
        f" moves it by at most {row['one_report_moves_by']:.4g}{_least(row)}"
        for row in shown
    ]


def influence_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Format the influence of one report on each question, of a study without an outcome."""
    shown, head = _shown(rows, "one_report_moves_by", "question", "the one moved the furthest")
    return head + [
        f"one false report moves question {row['question'] + 1} of round {row['round'] + 1} by"
        f" at most {row['one_report_moves_by']:.4g}"
        for row in shown
    ]


def _shown(
    rows: list[dict[str, Any]], measure: str, thing: str, which: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows to be shown; of many the one with the greatest measure, with a heading."""
    if len(rows) <= _MAX_SHOWN:
        return rows, []
    widest = max(rows, key=lambda row: float(row[measure]))
    return [widest], [f"of {counted(len(rows), thing)}, {which}:"]


def _least(row: dict[str, Any]) -> str:
    """Format the lower bound; empty if it is unknown, or if any number of users may suffice."""
    if not row["least_users"]:
        return ""
    easier = " (this one is easier)" if row["least_users"] > row["answers"] else ""
    users = counted(row["least_users"], "user")
    return f"; lower bound for this width, any randomizer, worst population: {users}{easier}"
