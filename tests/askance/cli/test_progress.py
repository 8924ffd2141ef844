"""Counts of a progress bar, without a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from rich.progress import Progress

from askance.cli import progress as bars
from askance.cli.progress import Bar, LineTasks, progress, sweep_progress, working
from askance_aggregator.planning import RoundPlan
from askance_simulation.experiments import named, simulate
from askance_simulation.experiments.sweeps import Advance
from askance_simulation.randomness import Seed


def rounds() -> tuple[RoundPlan, ...]:
    made = named("masked-parity", epsilon=8, users=400, settings={"d": "2"})
    return made.study(made.people(Seed.of(0))).plan(400).rounds


def test_the_bar_is_of_the_round_that_is_open() -> None:
    with Progress(disable=True) as shown:
        task = shown.add_task("dialling in", total=None)
        bar = Bar(shown, task, trials=3)
        for _ in range(3):
            for number, plan in enumerate(rounds()):
                bar.round_opened(number, plan)
                assert (shown.tasks[0].completed, shown.tasks[0].total) == (0, plan.users)
                bar.advance(plan.users)
                assert shown.tasks[0].completed == plan.users
        assert shown.tasks[0].description == "trial 3 of 3, round 2"


def test_a_whole_simulation_fills_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Progress(disable=True)
    monkeypatch.setattr(bars, "_shown", lambda **_: shown)
    made = named("masked-parity", epsilon=8, users=400, settings={"d": "2"})
    with progress(2) as bar:
        simulate(made.study, made.people, trials=2, progress=bar.advance, watch=bar.round_opened)
    (task,) = shown.tasks
    assert task.completed == task.total


def test_a_sweep_s_bar_goes_by_the_users_met(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Progress(disable=True)
    monkeypatch.setattr(bars, "_shown", lambda **_: shown)
    with sweep_progress() as show:
        show(Advance(done=3, trials=8, work=0, all_work=500, answers=0))
        show(Advance(done=4, trials=8, work=100, all_work=500, answers=90))
    (task,) = shown.tasks
    assert (task.completed, task.total) == (100, 500)
    assert (task.description, task.fields["unit"]) == ("4 of 8 trials", "users/s")


def ends_after(lines: int) -> Callable[[float], bool]:
    """Return a wait that is over at once, and ends the task after so many lines."""
    waits = iter([False] * lines + [True])
    return lambda seconds: next(waits)


def test_without_a_terminal_there_is_a_line_every_ten_seconds() -> None:
    said: list[str] = []
    lines = LineTasks(said.append, ends_after(2))
    lines.add_task("reading flights.csv", total=None, unit="")
    lines.run()
    assert said == ["reading flights.csv, 10 s", "reading flights.csv, 20 s"]


def test_a_line_says_how_much_is_done() -> None:
    said: list[str] = []
    lines = LineTasks(said.append, ends_after(1))
    bar = Bar(lines, lines.add_task("planning", total=None, unit="users/s"), 1)
    bar.round_stands(0, 400, 80)
    bar.advance(20)
    lines.run()
    assert said == ["round 1: 25 % done, 10 s"]


def test_a_line_of_a_learner_that_goes_on_is_of_its_round() -> None:
    said: list[str] = []
    lines = LineTasks(said.append, ends_after(1))
    bar = Bar(lines, lines.add_task("planning", total=None, unit="users/s"), 1)
    (plan, *_) = rounds()
    for number in range(21):  # of a number that nothing tells beforehand
        bar.round_opened(number, plan)
        bar.advance(plan.users if number < 20 else plan.users // 2)
    lines.run()
    assert said == [f"round 21: {100 * (plan.users // 2) / plan.users:.0f} % done, 10 s"]


def test_a_line_on_judging_has_no_share_of_the_users() -> None:
    said: list[str] = []
    lines = LineTasks(said.append, ends_after(1))
    bar = Bar(lines, lines.add_task("planning", total=None, unit="users/s"), 1)
    bar.round_stands(0, 400, 400)
    bar.judging()
    lines.run()
    assert said == ["judging, 10 s"]


def test_a_command_that_lasts_prints_on_stderr_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = Event()

    class Ended:
        """Event that is set after two lines, of which the first comes once work has begun."""

        def __init__(self) -> None:
            self._ended = ends_after(2)

        def wait(self, seconds: float) -> bool:
            begun.wait()
            return self._ended(seconds)

        def set(self) -> None:
            pass

    monkeypatch.setattr(bars, "Event", Ended)
    with working("planning"):
        begun.set()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "planning, 10 s\nplanning, 20 s\n"


def test_a_file_that_is_read_is_named_meanwhile() -> None:
    with Progress(disable=True) as shown:
        bar = Bar(shown, shown.add_task("planning", total=None), trials=1)

        def make(seed: int) -> str:
            return f"{shown.tasks[0].description}, seed {seed}"

        assert bar.reading(Path("folder/flights.csv"), make)(3) == "reading flights.csv, seed 3"
        assert shown.tasks[0].description == "planning"
        assert bar.reading(None, make)(3) == "planning, seed 3"
