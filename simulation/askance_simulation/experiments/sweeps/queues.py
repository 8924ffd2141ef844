"""Trials that are shared out to workers: processes of this machine, or tasks of a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from askance_simulation.experiments.sweeps.cells import Cell
from askance_simulation.experiments.sweeps.jobs import Job
from askance_simulation.experiments.sweeps.row_file import Row

Submit = Callable[[int, Job], Future[Row]]
"""Starts a trial on a worker, by the worker's number, or queues it there."""


def shared_out(
    jobs: Sequence[Job], workers: int, submit: Submit, queued: int = 1
) -> Iterator[tuple[Job, Row]]:
    """Generate rows as trials end.

    Args:
      jobs: the trials, those of a cell one after another.
      workers: how many there are.
      submit: starts a trial.
      queued: trials per worker that are submitted and have not ended.
    """
    queues = TrialQueues(jobs, workers)
    running: dict[Future[Row], tuple[int, Job]] = {}

    def start(worker: int) -> None:
        job = queues.next(worker)
        if job is not None:
            running[submit(worker, job)] = worker, job

    for worker in [*range(workers)] * queued:
        start(worker)
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            worker, job = running.pop(future)
            row = future.result()
            start(worker)
            yield job, row


class TrialQueues:
    """Trials that wait for their workers, cell by cell.

    Args:
      jobs: the trials, those of a cell one after another.
      workers: how many.
    """

    def __init__(self, jobs: Sequence[Job], workers: int) -> None:
        cells: dict[Cell, deque[Job]] = {}
        for job in jobs:
            cells.setdefault(job.cell, deque()).append(job)
        self._cells = deque(cells.values())
        self._own: list[deque[Job]] = [deque() for _ in range(workers)]

    def next(self, worker: int) -> Job | None:
        """Take the next trial of a worker; None: none is left."""
        if not self._own[worker] and self._cells:
            self._own[worker] = self._cells.popleft()
        if self._own[worker]:
            return self._own[worker].popleft()
        longest = max(self._own, key=len)
        return longest.pop() if longest else None
