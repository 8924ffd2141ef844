"""Summaries of runs: rounds as they were carried out, and a sweep's cells with bands.

Bands are of a stated confidence and a cell's own, not joint over cells. That of a mean error is
Student's t over its trials: approximate, exact where errors are normal, and cut at 0, below which
no error is. Where all trials have the same error (none, say) it would have no width and mean
nothing, so there is none. That of a success rate is Clopper-Pearson's: exact. Trials of a refused
plan have no result and are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from askance_aggregator.estimation.intervals import clopper_pearson
from askance_aggregator.planning import RoundPlan
from askance_aggregator.studies import Tally
from askance_simulation import frames
from askance_simulation.levels import level_text


@dataclass(frozen=True, slots=True)
class RoundTaken:
    """A round as it was carried out.

    Args:
      answers: the reports that came, one per user and question asked of that user.
      tau: the least tolerance among its questions.
      nano_nats: what it charged a user at most.
    """

    queries: int
    users: int
    answers: int
    tau: float
    nano_nats: int


def rounds_taken(
    plans: Sequence[RoundPlan], tallies: Sequence[Sequence[Tally]]
) -> tuple[RoundTaken, ...]:
    """Summarize the outcome of each round's plan."""
    return tuple(
        RoundTaken(
            plan.queries,
            plan.users,
            sum(tally.answered for tally in round_),
            plan.tau,
            plan.nano_nats,
        )
        for plan, round_ in zip(plans, tallies, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Band:
    """An estimate and the ends of its interval; None: there is none, for errors do not vary."""

    value: float
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, float | None]:
        """Return the band as JSON, as the command line prints it."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class CellSummary:
    """A cell's trials.

    Args:
      at: what it is, by name: learner, epsilon, users and the rest; settings by their own names.
      trials: that have ended.
      refused: of these, how many whose plan was refused, and why.
      error: the mean error; None where nothing could be judged.
      success: the part of trials that were right; None where there is nothing to be right about.
      users_needed, hoeffding_users, lower_bound: by the plan.
      users_used, answers, seconds: means over the trials that were not refused, if there are any.
    """

    at: Mapping[str, Any]
    trials: int
    refused: int
    reason: str | None
    error: Band | None
    success: Band | None
    users_needed: int
    hoeffding_users: int
    lower_bound: int
    users_used: float | None
    answers: float | None
    seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON, as the command line prints it."""
        return {
            **self.at,
            "trials": self.trials,
            "refused": self.refused,
            "reason": self.reason,
            "error": None if self.error is None else self.error.to_json(),
            "success": None if self.success is None else self.success.to_json(),
            "users_needed": self.users_needed,
            "hoeffding_users": self.hoeffding_users,
            "lower_bound": self.lower_bound,
            "users_used": self.users_used,
            "answers": self.answers,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """A sweep's cells in order, with bands of the same confidence each.

    `axes` are the names in which cells differ.
    """

    cells: tuple[CellSummary, ...]
    confidence: float
    axes: tuple[str, ...]

    def __iter__(self) -> Iterator[CellSummary]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def __str__(self) -> str:
        """Return a table in plain text."""
        shown = self.table()
        widths = [max(len(line[place]) for line in shown) for place in range(len(shown[0]))]
        return "\n".join(
            "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
            for line in shown
        )

    def table(self) -> list[list[str]]:
        """Return the lines as text, the heads first."""
        band = f"{self.confidence:.0%}"
        heads = [
            *(*self.axes, "trials", "error", f"error, {band}"),
            *("success", f"success, {band}", "asked", "s"),
        ]
        return [heads, *(_line(cell, self.axes) for cell in self.cells)]

    def to_json(self) -> list[dict[str, Any]]:
        """Return a dictionary a cell."""
        return [cell.to_json() for cell in self.cells]

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table`, one row per cell."""
        return frames.to_arrow(self.to_json())

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, one row per cell."""
        return frames.to_pandas(self.to_json())


def summarise(
    at: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], confidence: float
) -> CellSummary:
    """Return the summary of one cell's rows."""
    ended = [row for row in rows if row["refused"] is None]
    errors = [row["error"] for row in ended if row["error"] is not None]
    assessments = [row["success"] for row in ended if row["success"] is not None]
    first = rows[0]
    return CellSummary(
        at=at,
        trials=len(rows),
        refused=len(rows) - len(ended),
        reason=next((row["refused"] for row in rows if row["refused"] is not None), None),
        error=mean_band(errors, confidence) if errors else None,
        success=rate_band(sum(assessments), len(assessments), confidence) if assessments else None,
        users_needed=first["users_needed"],
        hoeffding_users=first["hoeffding_users"],
        lower_bound=first["lower_bound"],
        users_used=_mean(ended, "users_used"),
        answers=_mean(ended, "answers"),
        seconds=_mean(ended, "seconds"),
    )


def mean_band(values: Sequence[float], confidence: float) -> Band:
    """Return a mean of numbers that are never negative, by Student's t."""
    count = len(values)
    mean = sum(values) / count
    if len(set(values)) == 1:
        return Band(mean, None, None)
    from askance_aggregator.special_functions import stdtrit

    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    half = float(stdtrit(count - 1, (1 + confidence) / 2)) * deviation / sqrt(count)
    return Band(mean, max(mean - half, 0.0), mean + half)


def rate_band(hits: int, count: int, confidence: float) -> Band:
    """Return a success rate, by Clopper-Pearson."""
    low, high = clopper_pearson(np.array([hits]), count, 1 - confidence)
    return Band(hits / count, float(low[0]), float(high[0]))


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return sum(row[name] for row in rows) / len(rows) if rows else None


def _line(cell: CellSummary, axes: tuple[str, ...]) -> list[str]:
    at = [level_text(cell.at[name]) for name in axes]
    if cell.refused == cell.trials:
        return [*at, str(cell.trials), "refused", "", "", "", f"needs {cell.users_needed:,}", ""]
    line = [*at, str(cell.trials)]
    for band in (cell.error, cell.success):
        if band is None:
            line += ["-", ""]
        elif band.low is None or band.high is None:
            line += [f"{band.value:.3g}", ""]
        else:
            line += [f"{band.value:.3g}", f"{band.low:.2g}..{band.high:.2g}"]
    return [*line, f"{cell.users_used:,.0f}", f"{cell.seconds:.2g}"]
