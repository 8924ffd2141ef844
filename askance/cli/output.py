"""Output of commands: results, one-line failures, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from askance_client.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, TaskID

    from askance_aggregator.planning import RoundPlan
    from askance_simulation.experiments.sweeps import Advance

_WIDTH = 140
_TO_IES = ("ry", "dy")  # of query and study, but not of day


class Failure(Exception):
    """End of a command: its exit code, a word for programs, a line for readers."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Return the failure that an exception means."""
        from askance_client.errors import (
            AskanceError,
            InvalidParameter,
            InvalidQuery,
            InvalidRecord,
            PlanExceeded,
            PlanRefused,
        )

        if isinstance(error, Failure):
            return error
        message = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, PlanRefused):
            return cls(3, "plan-refused", message)
        if isinstance(error, PlanExceeded):
            return cls(1, "plan-exceeded", message)
        if isinstance(error, InvalidParameter | InvalidQuery | InvalidRecord):
            return cls(2, "bad-input", message)
        if isinstance(error, AskanceError | OSError | MemoryError):
            return cls(1, "failed", message)
        named = f"{type(error).__name__}: {message} (a fault of askance; --debug shows where)"
        return cls(1, "internal", named)


def fail(failure: Failure, *, as_json: bool) -> int:
    """Print a failure and return its exit code."""
    if as_json:
        print_json({"failure": {"reason": failure.reason, "message": failure.message}})
    print(f"askance: {printable(failure.message)}", file=sys.stderr)
    return failure.code


def counted(number: int, thing: str) -> str:
    """Format a count with its unit: "1 round", "2,000 users", "3 queries"."""
    if number != 1:
        thing = f"{thing[:-1]}ies" if thing.endswith(_TO_IES) else f"{thing}s"
    return f"{number:,} {thing}"


def tell_settings(console: Console, settings: dict[str, str]) -> None:
    """Print the settings that a learner was not given; nothing if there are none."""
    if settings:
        chosen = ", ".join(f"{name} {text}" for name, text in settings.items())
        console.print(
            f"settings by users and noise (--set changes them): {chosen}",
            markup=False,
            soft_wrap=True,
        )


def print_json(result: dict[str, Any]) -> None:
    """Print the one JSON object of a command."""
    print(json.dumps(result, ensure_ascii=False, allow_nan=False))


def screen() -> Console:
    """Return the console for results, wide enough for the tables if the terminal has no width."""
    from rich.console import Console

    found = Console(highlight=False, emoji=False)
    return found if found.is_terminal else Console(highlight=False, emoji=False, width=_WIDTH)


class Bar:
    """A progress bar over the reports of a study's rounds, and of as many trials as it has."""

    def __init__(self, bar: Progress, task: TaskID, trials: int) -> None:
        self._bar = bar
        self._task = task
        self._trials = trials
        self._trial = 0
        self._expected = 0

    def round_opened(self, number: int, plan: RoundPlan) -> None:
        """Report of one more round are on their way; later trials will take about as many."""
        if number == 0:
            self._trial += 1
        self._expected += sum(group.users for group in plan.groups)
        told = f"round {number + 1}"
        if self._trials > 1:
            told = f"trial {self._trial} of {self._trials}, {told}"
        total = max(self._expected * self._trials // self._trial, self._expected)
        self._bar.update(self._task, total=total, description=told)

    def round_stands(self, number: int, asked: int, answered: int) -> None:
        """Record that a round is open, and the number of devices that have answered."""
        self._bar.update(
            self._task, total=asked, completed=answered, description=f"round {number + 1}"
        )

    def advance(self, reports: int) -> None:
        """Advance the bar by the number of new reports."""
        self._bar.advance(self._task, reports)


@contextmanager
def progress(trials: int = 1) -> Iterator[Bar]:
    """Show a bar on stderr, if it is a terminal: reports, their rate, the time left."""
    from rich.progress import MofNCompleteColumn

    with _shown(MofNCompleteColumn()) as bar:
        yield Bar(bar, bar.add_task("dialling in", total=None), trials)


@contextmanager
def sweep_progress() -> Iterator[Callable[[Advance], None]]:
    """Show a bar on stderr, if it is a terminal: trials, answers per second, the time left.

    The time left goes by the users met, for trials with few are soon done.
    """
    with _shown() as bar:
        task = bar.add_task("planning", total=None, answers=0)

        def show(stands: Advance) -> None:
            bar.update(
                task,
                description=f"{stands.done:,} of {counted(stands.trials, 'trial')}",
                total=stands.all_work,
                completed=stands.work,
                answers=stands.answers,
            )

        yield show


def _shown(*counts: ProgressColumn) -> Progress:
    """Build a bar with a rate and the time left; `counts` stand after it."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
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
        """Answers per second: recently, or since the start if they are counted apart."""

        def render(self, task: Task) -> Text:
            """Return the rate as text."""
            rate = task.speed
            if "answers" in task.fields:
                rate = task.fields["answers"] / task.elapsed if task.elapsed else None
            return Text("" if not rate else f"{rate:,.0f} answers/s")

        def get_table_column(self) -> Column:
            """Return a column of one line; the bar is the shorter one on a narrow screen."""
            return Column(no_wrap=True)

    watched = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *counts,
        Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=watched,
        transient=True,
        disable=not watched.is_terminal,
    )
