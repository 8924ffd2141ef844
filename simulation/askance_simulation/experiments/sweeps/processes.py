"""Trials in processes of their own, which do not outlive the one that started them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from askance_client.errors import AskanceError
from askance_simulation.experiments.sweeps.jobs import Job, run_job
from askance_simulation.experiments.sweeps.row_file import Row


def at_once(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Row]]:
    """Generate rows as trials end. Processes are spawned, since fleets may have threads.

    Raises:
      AskanceError: a process was killed, for the memory it took perhaps.
    """
    import multiprocessing  # of no use to a caller that runs one trial
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_end_with_parent)
    ended = False
    try:
        waiting = {pool.submit(run_job, job): job for job in jobs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
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
