"""Trials as tasks of the Ray that this process has joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache
from pickle import PicklingError

from askance_aggregator.studies.tallies import CHUNK
from askance_client import __version__
from askance_client.errors import InvalidParameter
from askance_simulation.experiments.catalogue import Named
from askance_simulation.experiments.sweeps.cells import Cell
from askance_simulation.experiments.sweeps.jobs import Job, run_job
from askance_simulation.experiments.sweeps.queues import shared_out
from askance_simulation.experiments.sweeps.row_file import Row
from askance_simulation.fleets.shards import (
    RETRIES,
    Remote,
    check_version,
    import_ray,
    raising_known_errors,
)


def fill_by_parts(jobs: Sequence[Job], tasks: int) -> bool:
    """Return whether each trial is to have all workers: trials are few, and each is large."""
    return len(jobs) < tasks and all(job.planned.users >= tasks * CHUNK for job in jobs)


def in_tasks(jobs: Sequence[Job], tasks: int) -> Iterator[tuple[Job, Row]]:
    """Generate rows as trials end.

    A trial whose worker died is run again, with the same row. The studies of all cells go to Ray's
    store once, with the records of a data file or the arrays that their users have.

    Args:
      jobs: trials of the fleet "ray".
      tasks: how many tasks may be out at a time.
    """
    ray = import_ray()
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(run_as_task)
    cells = {job.cell: job for job in jobs}
    making = StoredMaking(_stored({cell: job.making(cell) for cell, job in cells.items()}))
    out: dict[Future[Row], Remote] = {}

    def submit(_: int, job: Job) -> Future[Row]:
        sent = replace(job, making=making, expected=job.expected // tasks)
        reference = task.remote(sent, __version__)
        row: Future[Row] = reference.future()
        out[row] = reference
        row.add_done_callback(out.pop)
        return row

    try:
        with raising_known_errors("a trial"):
            yield from shared_out(jobs, tasks, submit)
    finally:
        for reference in list(out.values()):
            ray.cancel(reference, force=False)


@dataclass(frozen=True, slots=True)
class StoredMaking:
    """Maker of the studies of cells that are in Ray's store."""

    reference: Remote

    def __call__(self, cell: Cell) -> Named:
        return _made(self.reference)[cell]


def run_as_task(job: Job, version: str) -> Row:
    """Run a trial on one thread of a worker, and return its row."""
    check_version(version)
    return run_job(replace(job, fleet="columns", workers=1)) | {"fleet": job.fleet}


def _stored(made: Mapping[Cell, Named]) -> Remote:
    """Put studies into Ray's store as one object, so that what several have in common goes once."""
    try:
        return import_ray().put(made)
    except (TypeError, PicklingError) as error:
        message = " ".join(str(error).split())
        raise InvalidParameter(
            f"learner: expected studies that can be pickled, got {message:.300}"
        ) from error


@lru_cache(maxsize=1)
def _made(reference: Remote) -> Mapping[Cell, Named]:
    """Return the studies of cells; a worker keeps them for its next trial."""
    found: Mapping[Cell, Named] = import_ray().get(reference)
    return found
