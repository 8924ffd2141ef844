"""A simulation's trials as rows, written to JSON lines or Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance_aggregator.learners import hypothesis_json, table_of
from askance_aggregator.planning import RoundPlan
from askance_aggregator.studies import Tally
from askance_client.errors import InvalidParameter
from askance_simulation.output_files import replaced, write_whole

if TYPE_CHECKING:
    from askance_simulation.experiments.simulations import Simulation


@dataclass(frozen=True, slots=True)
class RoundTaken:
    """A round as it was carried out.

    Args:
      queries: how many questions it had.
      users: the users who were asked.
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


def rows_of(simulation: Simulation) -> list[dict[str, Any]]:
    """Return a row per trial: its hypothesis, error and costs."""
    return [
        {
            "trial": number,
            "learner": simulation.study.learner.name,
            "epsilon": simulation.study.epsilon,
            "users": trial.population.size,
            "users_used": trial.outcome.users_used,
            "users_saved": trial.outcome.users_saved,
            "success": trial.assessment.success,
            "error": trial.assessment.error,
            "baseline": trial.assessment.baseline,
            "rounds": trial.outcome.rounds,
            "queries": trial.outcome.queries,
            "answers": trial.outcome.answers,
            "refusals": trial.outcome.refusals,
            "max_spent_nano_nats": trial.outcome.spending.max_spent,
            "transcript": trial.outcome.transcript,
            "hypothesis": json.dumps(hypothesis_json(trial.outcome.hypothesis)),
            "notes": json.dumps(trial.notes),
            "seconds": trial.seconds,
        }
        for number, trial in enumerate(simulation.trials)
    ]


def estimate_rows(simulation: Simulation) -> list[dict[str, Any]]:
    """Return a row per estimate and trial, or per row of the hypothesis's own table.

    Raises:
      InvalidParameter: the hypothesis has no table.
    """
    return [
        {"trial": number, **row}
        for number, trial in enumerate(simulation.trials)
        for row in table_of(
            trial.outcome.hypothesis, trial.assessment.truth, simulation.study.learner.name
        )
    ]


def estimates(hypothesis: Any, name: str) -> dict[str, Any] | None:
    """Return a hypothesis's estimates by cell; a lone one is named `name`; None: none."""
    means = hypothesis.get("means") if isinstance(hypothesis, dict) else None
    for cells in ({name: hypothesis}, hypothesis, means):  # a number's, shares, a vector's
        if isinstance(cells, dict) and all(map(_is_estimate, cells.values())):
            return cells
    return None


def _is_estimate(item: Any) -> bool:
    """Return whether an item is an estimate, by its number; a cell may be named "estimate", too."""
    return isinstance(item, dict) and isinstance(item.get("estimate"), float)


def write_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows to a .jsonl or .parquet file, whole or not at all.

    Raises:
      InvalidParameter: another suffix.
      OSError: it cannot be written, as on a full disk.
    """
    if path.suffix not in (".jsonl", ".parquet"):
        raise InvalidParameter(f"expected a file named *.jsonl or *.parquet, found {path}")
    if path.suffix == ".jsonl":
        write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
        return
    import pyarrow
    from pyarrow import parquet

    with replaced(path) as partial:
        parquet.write_table(pyarrow.Table.from_pylist(list(rows)), partial)
