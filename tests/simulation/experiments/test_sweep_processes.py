"""Trials in several processes: each once, those of a cell in one process, one thread each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from askance_simulation.experiments.sweeps import running, sweep
from askance_simulation.experiments.sweeps.cells import SweepPopulation, by_name, cells_of
from askance_simulation.experiments.sweeps.row_file import Row
from askance_simulation.experiments.sweeps.running import Job, Planned, TrialQueues, _asked_for

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

    def listed(jobs: Sequence[Job], *_: object) -> Iterator[tuple[Job, Row]]:
        asked.extend(jobs)
        return iter(())

    for name in ("_one_by_one", "at_once"):
        monkeypatch.setattr(running, name, listed)
    sweep("mean", {"epsilon": 8, "users": 300}, fleet=fleet, workers=workers, trials=2)
    assert [job.workers for job in asked] == [threads] * 2


def row_of(job: Job) -> Row:
    """The row of a trial that was not run."""
    return _asked_for(job)


@pytest.mark.parametrize(
    ("trials", "start_s", "here"),
    [
        pytest.param(40, -3_600.0, 2, id="worth it as soon as the time of a trial is known"),
        pytest.param(40, 3_600.0, 40, id="never worth it"),
        pytest.param(2, -3_600.0, 2, id="none left"),
    ],
)
def test_the_rest_moves_to_processes_once_they_are_worth_their_start(
    monkeypatch: pytest.MonkeyPatch, trials: int, start_s: float, here: int
) -> None:
    moved: list[Job] = []

    def others(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Row]]:
        assert workers == 2
        assert {job.workers for job in jobs} == {1}
        moved.extend(jobs)
        return iter([(job, row_of(job)) for job in jobs])

    monkeypatch.setattr(running, "at_once", others)
    monkeypatch.setattr(running, "run_job", row_of)
    monkeypatch.setattr(running, "_START_S", start_s)
    grid = {"epsilon": 1, "users": 2_000}
    assert len(running.sweep("mean", grid, trials=trials, spread=2).rows) == trials
    assert len(moved) == trials - here


def test_workers_that_are_given_are_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_START_S", -3_600.0)
    monkeypatch.setattr(running, "at_once", None)
    monkeypatch.setattr(running, "run_job", row_of)
    grid = {"epsilon": 1, "users": 2_000}
    assert len(running.sweep("mean", grid, trials=9, workers=1, spread=2).rows) == 9
    assert len(running.sweep("mean", grid, trials=9).rows) == 9
