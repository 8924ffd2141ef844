"""Trials that are shared out to workers: processes of this machine, or tasks of a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from askance_client.errors import AskanceError
from askance_simulation.experiments.sweeps.cells import Cell
from askance_simulation.experiments.sweeps.jobs import Job, run_job
from askance_simulation.experiments.sweeps.row_file import Row

Submit = Callable[[int, Job], Future[Row]]
"""Starts a trial on a worker, by the worker's number, or queues it there."""


def shared_out(
    jobs: Sequence[Job], workers: int, submit: Submit, queued: int = 1
) -> Iterator[tuple[Job, Row]]:
    """Generate rows as trials end."""
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
    """Trials that wait for their workers, cell by cell."""

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


_QUEUED = 2  # trials of a worker that are submitted: it need not wait for the next one


def at_once(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Row]]:
    """Generate rows as trials end. Processes are spawned, since fleets may have threads.

    The trials of a cell run in one process, so that they share its plan and its users; at the end
    a process without a cell of its own takes trials of others.

    Raises:
      AskanceError: a process was killed, for the memory it took perhaps.
    """
    import multiprocessing  # of no use to a caller that runs one trial
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    pools = [
        ProcessPoolExecutor(1, mp_context=spawn, initializer=_end_with_parent)
        for _ in range(min(workers, len(jobs)))
    ]
    ended = False
    try:
        yield from shared_out(
            jobs, len(pools), lambda worker, job: pools[worker].submit(run_job, job), _QUEUED
        )
        ended = True
    except BrokenProcessPool as error:
        raise AskanceError(
            "a worker was killed in the middle of a trial; what was done is kept, and fewer workers"
            " take less memory"
        ) from error
    finally:
        if not ended:  # no caller waits for trials whose rows are dropped
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
        for pool in pools:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Initialize a worker, so that it ends with its parent.

    A worker whose parent was killed would wait for work for ever; Ctrl-C is the parent's.
    """
    import multiprocessing
    import os
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
