"""Trials in several processes: each once, those of a cell in one process, one thread each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from askance_simulation.experiments.sweeps import running, sweep
from askance_simulation.experiments.sweeps.cells import SweepPopulation, by_name, cells_of
from askance_simulation.experiments.sweeps.jobs import Job, Planned
from askance_simulation.experiments.sweeps.processes import TrialQueues

TRIALS = 4


def jobs_of(cells: int) -> list[Job]:
    grid = {"epsilon": list(range(1, cells + 1)), "users": 100}
    found = cells_of(["mean"], grid, SweepPopulation())
    return [
        Job(cell, trial, trial, "columns", 1, by_name, Planned(100, 100, 100, 100))
        for cell in found
        for trial in range(TRIALS)
    ]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("cells", [1, 2, 5])
def test_each_trial_goes_to_one_worker_once(cells: int, workers: int) -> None:
    jobs = jobs_of(cells)
    queues = TrialQueues(jobs, workers)
    found = [queues.next(turn % workers) for turn in range(len(jobs))]
    assert Counter(map(id, found)) == Counter(map(id, jobs))
    assert [queues.next(worker) for worker in range(workers)] == [None] * workers


def test_the_trials_of_a_cell_run_in_one_process() -> None:
    """Another process would plan the cell once more."""
    jobs = jobs_of(4)
    queues = TrialQueues(jobs, 2)
    seen: dict[str, set[int]] = {}
    for turn in range(len(jobs)):
        job = queues.next(turn % 2)
        assert job is not None
        seen.setdefault(job.cell.digest, set()).add(turn % 2)
    assert len(seen) == 4
    assert all(len(workers) == 1 for workers in seen.values())


def test_a_worker_without_a_cell_takes_trials_of_another() -> None:
    jobs = jobs_of(1)
    queues = TrialQueues(jobs, 2)
    assert queues.next(0) is jobs[0]
    assert queues.next(1) is jobs[-1]


@pytest.mark.parametrize(
    ("fleet", "workers", "threads"),
    [("columns", None, None), ("columns", 1, None), ("columns", 2, 1), ("objects", 2, None)],
)
def test_trials_beside_each_other_have_one_thread_each(
    monkeypatch: pytest.MonkeyPatch, fleet: str, workers: int | None, threads: int | None
) -> None:
    asked: list[Job] = []

    def listed(jobs: Sequence[Job], *_: object) -> list[object]:
        asked.extend(jobs)
        return []

    monkeypatch.setattr(running, "_run", listed)
    sweep("mean", {"epsilon": 8, "users": 300}, fleet=fleet, workers=workers, trials=2)
    assert [job.workers for job in asked] == [threads] * 2
