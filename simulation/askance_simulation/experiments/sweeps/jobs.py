"""Trial of a cell as a value that another process can run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction

from askance_client import __version__
from askance_client.errors import InvalidParameter, InvalidQuery, PlanExceeded, PlanRefused
from askance_simulation.experiments.sweeps.cells import Cell, Making
from askance_simulation.experiments.sweeps.row_file import Row
from askance_simulation.experiments.trials import simulate
from askance_simulation.randomness.seeds import Seed

_RESULTS = (
    "refused", "success", "error", "baseline", "users_used", "queries", "rounds", "answers",
    "refusals", "epsilon_spent", "seconds", "transcript",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planned:
    """Plan of a cell, known before any user is asked.

    Args:
      users_needed: how many its plan takes.
      hoeffding_users: how many by the paper's bound.
      lower_bound: how many any randomizers take at least (see `RoundPlan`).
    """

    users: int
    users_needed: int
    hoeffding_users: int
    lower_bound: int


@dataclass(frozen=True, slots=True)
class Job:
    """Trial of a cell that has not been run.

    Args:
      workers: the fleet's own, as of `simulate`.
      expected: users of all trials that the same process runs.
    """

    cell: Cell
    trial: int
    seed: int
    fleet: str
    workers: int | None
    making: Making
    planned: Planned
    expected: int = 0


def planned(cell: Cell, making: Making) -> Planned:
    """Return a cell's plan, on some population of its law."""
    try:
        made = making(cell)
        people = made.people(Seed.of(0))
        plan = made.study(people).bound(people.schema).plan(people.size)
    except (InvalidParameter, InvalidQuery) as error:
        raise InvalidParameter(f"{cell}: {error}") from error
    return Planned(
        people.size,
        plan.users_needed,
        plan.hoeffding_users,
        sum(round_.lower_bound for round_ in plan.rounds),
    )


def run_job(job: Job) -> Row:
    """Return the row of one trial; of a refused plan, with the reason and no result."""
    began = time.perf_counter()
    made = job.making(job.cell)
    row = _asked_for(job)
    try:
        done = simulate(
            made.study,
            made.people,
            fleet=job.fleet,
            workers=job.workers,
            seed=job.seed,
            expected=job.expected,
        )
    except (PlanRefused, PlanExceeded) as refused:
        return row | {"refused": str(refused), "seconds": time.perf_counter() - began}
    (trial,) = done.trials
    outcome, assessment = trial.outcome, trial.assessment
    finite = assessment.error is not None and math.isfinite(assessment.error)
    return row | {
        "success": assessment.success,
        "error": assessment.error if finite else None,
        "baseline": assessment.baseline,
        "users_used": outcome.users_used,
        "queries": outcome.queries,
        "rounds": outcome.rounds,
        "answers": outcome.answers,
        "refusals": outcome.refusals,
        "epsilon_spent": outcome.spending.max_spent / 10**9,
        "seconds": time.perf_counter() - began,
        "transcript": outcome.transcript,
    }


def _asked_for(job: Job) -> Row:
    """Return all of a row's names, with what is known before the trial."""
    cell = job.cell
    return {
        "cell": cell.digest,
        "trial": job.trial,
        "seed": job.seed,
        "learner": cell.learner,
        "population": cell.people.population,
        "data": None if cell.people.data is None else cell.people.data.name,
        "data_digest": cell.people.digest or None,
        "label": cell.people.label,
        "epsilon": float(cell.epsilon),
        "beta": float(Fraction(cell.beta)),
        "users": job.planned.users,
        "randomizer": cell.randomizer,
        "settings": dict(cell.settings),
        "fleet": job.fleet,
        "users_needed": job.planned.users_needed,
        "hoeffding_users": job.planned.hoeffding_users,
        "lower_bound": job.planned.lower_bound,
        **dict.fromkeys(_RESULTS),
        "version": __version__,
    }
