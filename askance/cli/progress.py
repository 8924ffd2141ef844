"""Progress of long commands on stderr: a bar on a terminal, else a line every ten seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from askance_aggregator.planning import RoundPlan
    from askance_simulation.experiments.sweeps import Advance

USERS = "users/s"
_EVERY_S = 10  # between two lines
_Made = TypeVar("_Made")


class Tasks(Protocol):
    """The part of rich's `Progress` that is used here."""

    def add_task(self, description: str, *, total: float | None, **fields: Any) -> TaskID:
        """Add a task and return its number."""

    def update(self, task_id: TaskID, **fields: Any) -> None:
        """Change a task's figures."""

    def advance(self, task_id: TaskID, advance: float) -> None:
        """Add to what is done of a task."""


class LineTasks:
    """Task that is told in a line every ten seconds, where no bar can be drawn.

    A command that ends sooner prints none. rich is not imported.

    Args:
        write: prints a line.
        wait: waits for so many seconds, and returns whether the task has ended.
    """

    def __init__(self, write: Callable[[str], object], wait: Callable[[float], bool]) -> None:
        self._write = write
        self._wait = wait
        # replaced as a whole: a thread reads it
        self._stands: dict[str, Any] = {"description": "", "total": None, "completed": 0}

    def add_task(self, description: str, *, total: float | None, **fields: Any) -> TaskID:
        task = cast("TaskID", 0)
        self.update(task, description=description, total=total)
        return task

    def update(self, task_id: TaskID, *, advance: float = 0, **fields: Any) -> None:
        stands = {**self._stands, **fields}
        self._stands = {**stands, "completed": stands["completed"] + advance}

    def advance(self, task_id: TaskID, advance: float) -> None:
        self.update(task_id, advance=advance)

    def run(self) -> None:
        """Print lines until the task has ended, or stderr is closed."""
        seconds = 0
        with suppress(OSError, ValueError):
            while not self._wait(_EVERY_S):
                seconds += _EVERY_S
                stands = self._stands
                done, total = stands["completed"], stands["total"]
                share = f": {100 * done / total:.0f} % done" if total else ""
                self._write(f"{stands['description']}{share}, {seconds} s")


@contextmanager
def _lines() -> Iterator[LineTasks]:
    """Print lines on stderr from a thread of its own."""
    ended = Event()
    lines = LineTasks(lambda line: print(line, file=sys.stderr, flush=True), ended.wait)
    thread = Thread(target=lines.run, name="askance-progress", daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        ended.set()
        thread.join()


class Bar:
    """A progress bar over the users of the round that is open: how many follow is not known."""

    def __init__(self, bar: Tasks, task: TaskID, trials: int) -> None:
        self._bar = bar
        self._task = task
        self._trials = trials
        self._trial = 0
        self._users_per_report = 1.0

    def round_opened(self, number: int, plan: RoundPlan) -> None:
        """Begin anew with the users of one more round, whose reports are on their way."""
        if number == 0:
            self._trial += 1
        reports = sum(group.users for group in plan.groups)
        self._users_per_report = plan.users / reports if reports else 1.0
        told = f"round {number + 1}"
        if self._trials > 1:
            told = f"trial {self._trial} of {self._trials}, {told}"
        self._bar.update(self._task, total=plan.users, completed=0, description=told)

    def round_stands(self, number: int, asked: int, answered: int) -> None:
        """Record that a round is open, and the number of devices that have answered."""
        self._bar.update(
            self._task, total=asked, completed=answered, description=f"round {number + 1}"
        )

    def advance(self, reports: int) -> None:
        """Advance the bar by the users of new reports."""
        self._bar.advance(self._task, reports * self._users_per_report)

    def reading(self, data: Path | None, make: Callable[[_Made], Any]) -> Callable[[_Made], Any]:
        """Return a maker of users that shows that a file is read; None: there is no file."""
        if data is None:
            return make

        def shown(seed: _Made) -> Any:
            self._bar.update(self._task, description=f"reading {data.name}")
            people = make(seed)
            self._bar.update(self._task, description="planning")
            return people

        return shown

    def judging(self) -> None:
        """Record that all users have answered and the result is compared with exact answers."""
        self._bar.update(self._task, description="judging", total=None)  # how long is not known


@contextmanager
def progress(trials: int = 1) -> Iterator[Bar]:
    """Show a bar: users, users per second, the time left."""
    _prepare()
    with _shown(counts=True) as bar:
        yield Bar(bar, bar.add_task("planning", total=None, unit=USERS), trials)


@contextmanager
def sweep_progress(data: Path | None = None) -> Iterator[Callable[[Advance], None]]:
    """Show a bar: trials, users per second, the time left; `data` is read before the first trial.

    The time left goes by the users met, for trials with few are soon done.
    """
    _prepare()
    with _shown() as bar:
        task = bar.add_task(reading_and("planning", data), total=None, unit=USERS)

        def show(stands: Advance) -> None:
            bar.update(
                task,
                description=f"{stands.done:,} of {counted(stands.trials, 'trial')}",
                total=stands.all_work,
                completed=stands.work,
            )

        yield show


@contextmanager
def counted_progress(
    description: str, total: int, unit: str = ""
) -> Iterator[Callable[[int, str], None]]:
    """Show a bar over work whose amount is known, with the time left."""
    with _shown() as bar:
        task = bar.add_task(description, total=total, unit=unit)

        def show(amount: int, part: str) -> None:
            bar.update(task, advance=amount, description=part)

        yield show


@contextmanager
def working(description: str) -> Iterator[Callable[[str], None]]:
    """Show the current part of work whose amount is not known, its number and the time so far.

    Yields:
        A function of the next part.
    """
    with _shown() as bar:
        task = bar.add_task(description, total=None, unit="")
        parts = 0

        def show(part: str) -> None:
            nonlocal parts
            parts += 1
            bar.update(task, description=f"part {parts}: {part}")

        yield show


def reading_and(description: str, data: Path | None) -> str:
    """Describe work that begins with reading a file, if there is one."""
    return description if data is None else f"reading {data.name} and {description}"


def _prepare() -> None:
    """Load special functions, which takes longer once a bar has its thread."""
    from askance_aggregator import special_functions

    special_functions.load()


def _shown(*, counts: bool = False) -> AbstractContextManager[Tasks]:
    """Build a bar with a rate and the time left, or with `counts` the numbers done and to do."""
    # On anything but a terminal that can draw, there are lines.
    if not sys.stderr.isatty():
        return _lines()
    from rich.console import Console

    watched = Console(stderr=True)
    return _lines() if watched.is_dumb_terminal else _drawn(watched, counts=counts)


def _drawn(watched: Console, *, counts: bool) -> Progress:
    """Build the bar on a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class Rate(ProgressColumn):
        """Recent rate in the unit of the task."""

        def render(self, task: Task) -> Text:
            """Return the rate as text."""
            unit, rate = task.fields["unit"], task.speed
            if rate is None and task.elapsed:  # of a single step there is no recent rate
                rate = task.completed / task.elapsed
            return Text(f"{rate:,.0f} {unit}" if unit and rate else "")

        def get_table_column(self) -> Column:
            """Return a column of one line; the bar is the shorter one on a narrow screen."""
            return Column(no_wrap=True)

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *([MofNCompleteColumn()] if counts else []),
        Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=watched,
        transient=True,
    )
