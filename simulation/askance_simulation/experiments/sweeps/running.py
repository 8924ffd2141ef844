"""Running a sweep: what is missing, one trial after another or several at once."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from pickle import PicklingError

from askance_aggregator.names import unknown_name
from askance_aggregator.numbers import plain_arguments, whole_count
from askance_aggregator.studies.tallies import CHUNK
from askance_client import __version__
from askance_client.errors import (
    AskanceError,
    InvalidParameter,
    InvalidQuery,
    PlanExceeded,
    PlanRefused,
)
from askance_client.printable import value_text
from askance_simulation.experiments.catalogue import Named
from askance_simulation.experiments.sweeps.cells import (
    Cell,
    Grid,
    Making,
    SweepPopulation,
    by_name,
    cells_of,
)
from askance_simulation.experiments.sweeps.results import Sweep
from askance_simulation.experiments.sweeps.row_file import Row, RowFile, opened
from askance_simulation.experiments.trials import simulate
from askance_simulation.fleets import FLEETS, LAWS, WORKED, kept_ready
from askance_simulation.fleets.shards import (
    RETRIES,
    Remote,
    check_version,
    import_ray,
    raising_known_errors,
)
from askance_simulation.frames import write_rows
from askance_simulation.populations import DataSource
from askance_simulation.randomness import Seed

_RESULTS = (
    "refused", "success", "error", "baseline", "users_used", "queries", "rounds", "answers",
    "refusals", "epsilon_spent", "seconds", "transcript",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planned:
    """Plan of a cell, known before any user is asked."""

    users: int
    users_needed: int
    hoeffding_users: int  # by the paper's bound
    lower_bound: int  # users that any randomizers take at least (see `RoundPlan`)


@dataclass(frozen=True, slots=True)
class Job:
    """Trial of a cell that has not been run."""

    cell: Cell
    trial: int
    seed: int
    fleet: str
    workers: int | None  # of the fleet, as of `simulate`
    making: Making
    planned: Planned
    expected: int = 0  # users of all trials that the same process runs


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
    """Generate rows as trials end. Processes are spawned, since fleets may have threads."""
    # The trials of a cell run in one process, so that they share its plan and its users; at the end
    # a process without a cell of its own takes trials of others.
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
    """Initialize a worker, so that it ends with its parent."""
    # A worker whose parent was killed would wait for work for ever; Ctrl-C is the parent's.
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


_START_S = 1.0  # until a new process runs trials: .6 s on an idle core, nearly all of it imports
_FIRST = 2  # trials before the time of the others is known; the first of all loads what it needs


@dataclass(frozen=True, slots=True)
class Advance:
    """Progress of a sweep.

    `done` of `trials` trials have a row, some perhaps from an earlier run; `work` of `all_work`
    users have been met in this run; `answers` are the reports of this run.
    """

    done: int
    trials: int
    work: int
    all_work: int
    answers: int


@plain_arguments
def sweep(
    learner: str | Making | Sequence[str | Making],
    grid: Grid,
    *,
    trials: int = 1,
    out: Path | str | None = None,
    fleet: str = "columns",
    seed: int = 0,
    workers: int | None = None,
    spread: int = 1,
    cluster: str | None = None,
    population: str | None = None,
    data: DataSource | Path | str | None = None,
    schema: Path | str | None = None,
    label: str | None = None,
    progress: Callable[[Advance], None] | None = None,
) -> Sweep:
    """Run each cell of a grid `trials` times; with the same file, run only what is missing.

    Privacy: as of `simulate`, which runs every trial.

    Args:
      learner: a name, or what makes the study of a cell; or several.
      grid: by name, a value or several: `epsilon`, `users`, `beta`, `randomizer`, and every other
        name a parameter of the learner or the population.
      trials: of each cell. Trial t has a seed by the cell's own settings and t, so that no cell
        changes when others are added; `simulate` with a row's seed runs that trial.
      out: a *.jsonl file of rows, each durable when its trial has ended; or a *.parquet file,
        written at the end from the *.jsonl file beside it. None: rows are in memory only.
      fleet: how devices are reached; rows say the same but for their seconds.
      seed: of the whole sweep.
      workers: processes, each with a trial at a time; None: one. A program that is not imported by
        its name has to guard its start (`if __name__ == "__main__":`). On the fleet "ray", trials
        at a time; None: one per core. A few large trials run there one after another, each on all.
      spread: without workers, processes that take over once the trials left are worth their start.
      cluster: address of a Ray; None: a local one.
      population: the users that all cells ask, as of `named`.
      data: the users that all cells ask, as of `named`.
      schema: the users that all cells ask, as of `named`.
      label: the users that all cells ask, as of `named`.
      progress: called after each trial.

    Raises:
      InvalidParameter: a wrong name or value, or a file with rows of another sweep.
      InvalidRecord: a file of data that is not there or cannot be read. Nothing was run.

    Example:
      >>> len(ask.sweep("frequency", {"epsilon": [1, 4], "users": 3_000}, trials=2).rows)
      4
    """
    _check(fleet, trials=trials, workers=workers, spread=spread)
    Seed.of(seed)
    people = SweepPopulation.of(population, data, _path(schema), label)
    makings = _makings(learner)
    cells = cells_of(makings, grid, people)
    expected = {(cell.digest, trial): cell for cell in cells for trial in range(trials)}
    path = None if out is None else _rows_path(Path(out))
    with nullcontext(None) if path is None else opened(path) as file:
        rows = [] if file is None else list(file.rows)
        _check_own(rows, expected, seed, path)
        done = {(row["cell"], row["trial"]) for row in rows}
        missing = [(key, cell) for key, cell in expected.items() if key not in done]
        processes, shared = _divided(fleet, workers)
        later = spread if workers is None and fleet != "ray" else 1
        began = time.perf_counter()
        jobs = _jobs(missing, makings, fleet, shared, max(processes, later), seed)
        start_s = _START_S + (time.perf_counter() - began) / later  # which plans its cells anew
        counted = _Counted(len(expected), len(rows), jobs, progress)
        with kept_ready(fleet, shared, cluster) as tasks:
            rows += _kept(_made(jobs, processes, later, start_s, tasks), file, counted)
    return _written(Sweep(tuple(rows)), out, path)


def _check(fleet: str, **numbers: int | None) -> None:
    """Refuse a fleet that there is none of, and numbers below 1."""
    if fleet not in FLEETS | LAWS:
        raise unknown_name("fleet", fleet, FLEETS | LAWS)
    for name, number in numbers.items():
        whole_count(number, name)


def _divided(fleet: str, workers: int | None) -> tuple[int, int | None]:
    """Return how many processes run trials, and the workers of each trial's fleet."""
    if fleet == "ray":
        return 1, workers
    processes = workers or 1
    return processes, 1 if processes > 1 and fleet in WORKED else None  # they have the cores


def _written(found: Sweep, out: Path | str | None, path: Path | None) -> Sweep:
    """Write the rows to a file of another format than that of the running sweep."""
    if out is not None and Path(out) != path:
        write_rows(found.flat(), Path(out))
    return found


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)


def _rows_path(out: Path) -> Path:
    """Return the path of the rows while the sweep runs."""
    if out.suffix not in (".jsonl", ".parquet"):
        raise InvalidParameter(f"expected a file named *.jsonl or *.parquet, got {out}")
    if not out.parent.is_dir():
        raise InvalidParameter(f"expected a folder for {out}, got none at {value_text(out.parent)}")
    return out.with_suffix(".jsonl")


def _makings(learner: str | Making | Sequence[str | Making]) -> dict[str, Making]:
    """Return the maker of each learner's studies, by the learner's name."""
    given = [learner] if isinstance(learner, str) or callable(learner) else learner
    found: dict[str, Making] = {}
    for one in given:
        name = one if isinstance(one, str) else getattr(one, "__name__", type(one).__name__)
        if name in found:
            raise InvalidParameter(f"learner: expected each once, got {name!r} twice")
        found[name] = by_name if isinstance(one, str) else one
    return found


def _check_own(
    rows: Sequence[Row], expected: dict[tuple[str, int], Cell], seed: int, path: Path | None
) -> None:
    """Refuse rows that this sweep would not have written; those of a part of it are its own."""
    for row in rows:
        cell = expected.get((row["cell"], row["trial"]))
        if cell is None or row["seed"] != cell.seed(seed, row["trial"]):
            raise InvalidParameter(
                f"{path}: expected rows of this sweep only, got one of another: trial"
                f" {row['trial']} of {row['learner']} at epsilon {row['epsilon']:g} with"
                f" {row['users']:,} users and seed {row['seed']}"
            )
        if row["version"] != __version__:
            raise InvalidParameter(
                f"{path}: expected rows of askance {__version__}, got some of {row['version']}"
            )


def _jobs(
    missing: Sequence[tuple[tuple[str, int], Cell]],
    makings: dict[str, Making],
    fleet: str,
    workers: int | None,
    processes: int,
    seed: int,
) -> list[Job]:
    """List the trials to be run, after planning every cell, so that bad input is found at once."""
    needed: dict[Cell, Planned] = {}
    jobs = []
    for cell in {cell: None for _, cell in missing if cell.people.data is not None}:
        makings[cell.learner](cell)  # its options are checked before a file is read
    for (_, trial), cell in missing:
        making = makings[cell.learner]
        if cell not in needed:
            needed[cell] = planned(cell, making)
        jobs.append(Job(cell, trial, cell.seed(seed, trial), fleet, workers, making, needed[cell]))
    users = sum(job.planned.users for job in jobs)
    return [replace(job, expected=users // processes) for job in jobs]


class _Counted:
    """Sink that reports every row to the progress callback."""

    def __init__(
        self,
        trials: int,
        done: int,
        jobs: Sequence[Job],
        progress: Callable[[Advance], None] | None,
    ) -> None:
        self._progress = progress
        everybody = sum(job.cell.users or 1 for job in jobs)
        self._stands = Advance(done, trials, 0, everybody, 0)
        self._tell()

    def row(self, job: Job, row: Row) -> None:
        before = self._stands
        self._stands = Advance(
            before.done + 1,
            before.trials,
            before.work + (job.cell.users or 1),
            before.all_work,
            before.answers + (row["answers"] or 0),
        )
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._stands)


def _kept(made: Iterator[tuple[Job, Row]], file: RowFile | None, counted: _Counted) -> list[Row]:
    """Keep the rows of trials as they end."""
    rows = []
    for job, row in made:
        if file is not None:
            file.append(row)
        rows.append(row)
        counted.row(job, row)
    return rows


def _made(
    jobs: Sequence[Job], processes: int, later: int, start_s: float, tasks: int | None
) -> Iterator[tuple[Job, Row]]:
    """Run trials as tasks, in several processes, or first in this one and `later` in several."""
    if tasks is not None and not fill_by_parts(jobs, tasks):
        return in_tasks(jobs, tasks)
    return at_once(jobs, processes) if processes > 1 else _one_by_one(jobs, later, start_s)


def _one_by_one(jobs: Sequence[Job], spread: int, start_s: float) -> Iterator[tuple[Job, Row]]:
    """Run trials in this process, and the rest in `spread` others once they are worth `start_s`."""
    began, met = time.perf_counter(), 0
    for number, job in enumerate(jobs):
        if number == _FIRST - 1:
            began, met = time.perf_counter(), 0
        elif number >= _FIRST and spread > 1:
            left = sum(other.cell.users or 1 for other in jobs[number:])
            left_s = (time.perf_counter() - began) / met * left
            if left_s * (1 - 1 / spread) > start_s:
                yield from at_once([_for_a_worker(other) for other in jobs[number:]], spread)
                return
        met += job.cell.users or 1
        yield job, run_job(job)


def _for_a_worker(job: Job) -> Job:
    """Return the trial as one of several processes runs it, each with a thread of the fleet."""
    return replace(job, workers=1) if job.fleet in WORKED else job


def fill_by_parts(jobs: Sequence[Job], tasks: int) -> bool:
    """Return whether each trial is to have all workers: trials are few, and each is large."""
    return len(jobs) < tasks and all(job.planned.users >= tasks * CHUNK for job in jobs)


def in_tasks(jobs: Sequence[Job], tasks: int) -> Iterator[tuple[Job, Row]]:
    """Generate rows as trials end."""
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
        return _studies_of(self.reference)[cell]


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
def _studies_of(reference: Remote) -> Mapping[Cell, Named]:
    """Return the studies of cells; a worker keeps them for its next trial."""
    found: Mapping[Cell, Named] = import_ray().get(reference)
    return found
