"""Counts of a progress bar, without a terminal."""

from __future__ import annotations

import pytest
from rich.progress import Progress

from askance.cli import progress as bars
from askance.cli.progress import Bar, progress, sweep_progress
from askance_aggregator.planning import RoundPlan
from askance_simulation.experiments import named, simulate
from askance_simulation.experiments.sweeps import Advance
from askance_simulation.randomness.seeds import Seed


def rounds() -> tuple[RoundPlan, ...]:
    made = named("masked-parity", epsilon=8, users=400, settings={"d": "2"})
    return made.study(made.people(Seed.of(0))).plan(400).rounds


def test_later_trials_are_expected_to_take_as_many_reports_as_those_so_far() -> None:
    with Progress(disable=True) as shown:
        task = shown.add_task("dialling in", total=None)
        bar = Bar(shown, task, trials=3)
        sizes = [plan.users for plan in rounds()]
        totals = []
        for _ in range(3):
            for number, plan in enumerate(rounds()):
                bar.round_opened(number, plan)
                bar.advance(plan.users)
                totals.append(shown.tasks[0].total)
        assert totals[1] == totals[3] == totals[5] == 3 * sum(sizes)
        assert shown.tasks[0].completed == 3 * sum(sizes)
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
