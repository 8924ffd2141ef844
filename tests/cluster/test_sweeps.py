"""Sweeps on Ray: rows of the columns fleet to the byte, whatever becomes of a worker."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

import askance as ask
from askance_aggregator.studies.tallies import CHUNK
from askance_client.errors import InvalidParameter
from askance_simulation.experiments import Named, named
from askance_simulation.experiments.sweeps import Cell, running
from askance_simulation.fleets.cluster import joined
from askance_simulation.fleets.shards import LostResults, import_ray
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed

pytestmark = pytest.mark.usefixtures("ray_of_three")

GRID = {"epsilon": [1, 2], "users": 500}
MANY, FEW = 4, 2
"""Trials per cell: more than the six tasks of Ray's at a time in all, and fewer."""
LARGE = 6 * CHUNK
"""Users of whom each of these tasks has a part."""

Happens = Callable[[], None]


def text(rows: tuple[dict[str, Any], ...]) -> str:
    """Format rows without what differs from run to run, and from fleet to fleet."""
    return json.dumps([row | {"seconds": None, "fleet": None} for row in rows])


def making(happens: Happens) -> Callable[[Cell], Named]:
    """Return a learner; `happens` is called in a worker where a trial makes its users."""
    caller = os.getpid()

    def own(cell: Cell) -> Named:
        made = named("mean", epsilon=cell.epsilon, users=cell.users)

        def people(seed: Seed) -> Population:
            if os.getpid() != caller:
                happens()
            return made.people(seed)

        return Named(made.study, people)

    return own


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    rows = [f"t{row % 5},v{row % 7}" for row in range(3_000)]
    path.write_text("\n".join(["town,visits", *rows, ""]))
    return path


class TestRows:
    @pytest.mark.parametrize(("trials", "users"), [(MANY, 400), (FEW, 400), (FEW, LARGE)])
    def test_they_are_those_of_columns(self, trials: int, users: int) -> None:
        grid = {"epsilon": [".02", 8], "users": users, "d": "2"}
        rows = [
            ask.sweep("masked-parity", grid, trials=trials, fleet=fleet).rows
            for fleet in ("columns", "ray")
        ]
        assert {row["fleet"] for row in rows[1]} == {"ray"}
        assert {row["refused"] is None for row in rows[1]} == {False, True}
        assert text(rows[0]) == text(rows[1])

    def test_they_are_kept_as_they_come_and_a_sweep_goes_on(self, tmp_path: Path) -> None:
        out = tmp_path / "rows.jsonl"
        ask.sweep("mean", GRID, trials=MANY, fleet="ray", out=out)
        lines = out.read_text().splitlines(keepends=True)
        out.write_text("".join(lines[:1]))
        again = ask.sweep("mean", GRID, trials=MANY, fleet="ray", out=out)
        assert text(again.rows) == text(ask.sweep("mean", GRID, trials=MANY).rows)
        assert len(out.read_text().splitlines()) == 2 * MANY

    def test_of_a_file(self, people: Path) -> None:
        grid = {"epsilon": [2, 4], "column": ["town", "visits"]}
        rows = [
            ask.sweep("frequency", grid, trials=2, data=people, fleet=fleet).rows
            for fleet in ("columns", "ray")
        ]
        assert text(rows[0]) == text(rows[1])

    @pytest.mark.parametrize(
        ("trials", "users", "by_parts"),
        [(FEW, LARGE, True), (FEW, LARGE - 1, False), (MANY, LARGE, False)],
    )
    def test_few_and_large_trials_have_all_workers_each(
        self, monkeypatch: pytest.MonkeyPatch, trials: int, users: int, by_parts: bool
    ) -> None:
        monkeypatch.setattr(running, "in_tasks", lambda jobs, tasks: iter(()))
        grid = {"epsilon": [1, 2], "users": users}
        rows = ask.sweep("mean", grid, trials=trials, fleet="ray").rows
        assert len(rows) == (2 * trials if by_parts else 0)


class TestWorkers:
    def test_a_worker_that_is_killed_costs_no_trial(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        deaths = [tmp_path / "first", tmp_path / "second"]

        def dies() -> None:
            for death in deaths:
                if not death.exists():
                    death.touch()
                    os.kill(os.getpid(), signal.SIGKILL)

        own = making(dies)
        rows = ask.sweep(own, GRID, trials=MANY, fleet="ray").rows
        assert all(death.exists() for death in deaths)
        assert text(rows) == text(ask.sweep(own, GRID, trials=MANY).rows)
        assert capfd.readouterr() == ("", "")

    def test_what_a_worker_raises_is_one_line_and_rows_stay(self, tmp_path: Path) -> None:
        def fails() -> None:
            raise ZeroDivisionError("no such people")

        out = tmp_path / "rows.jsonl"
        ask.sweep(making(lambda: None), GRID, trials=1, fleet="columns", out=out)
        with pytest.raises(LostResults) as caught:
            ask.sweep(making(fails), GRID, trials=MANY + 1, fleet="ray", out=out)
        assert str(caught.value) == (
            "cluster: expected the results of a trial, got ZeroDivisionError: no such people"
        )
        assert len(out.read_text().splitlines()) == 2

    def test_what_has_a_name_here_keeps_it(self) -> None:
        def fails() -> None:
            raise InvalidParameter("users: not these")

        with pytest.raises(InvalidParameter, match=r"^users: not these$"):
            ask.sweep(making(fails), GRID, trials=MANY, fleet="ray")

    def test_studies_that_cannot_be_sent_are_refused(self) -> None:
        lock = Lock()

        def holds() -> None:
            lock.acquire()

        with pytest.raises(InvalidParameter, match="learner: expected studies that can be pickled"):
            ask.sweep(making(holds), GRID, trials=MANY, fleet="ray")

    def test_several_trials_run_at_once(self, tmp_path: Path) -> None:
        """A trial waits until another one has begun."""

        def waits() -> None:
            (tmp_path / str(os.getpid())).touch()
            deadline = time.monotonic() + 60
            while len(list(tmp_path.iterdir())) < 2:
                if time.monotonic() > deadline:
                    raise TimeoutError("no other trial has begun")
                time.sleep(0.01)

        with joined(3):
            rows = ask.sweep(making(waits), GRID, trials=MANY, fleet="ray").rows
        assert len(rows) == 2 * MANY


class TestFiles:
    def test_users_travel_with_their_records(self, people: Path) -> None:
        """Another machine does not have the file."""
        made = named("frequency", epsilon=4, data=people, settings={"column": "town"})
        here = made.people(Seed.of(1))
        sent = import_ray().cloudpickle.dumps(made)
        people.unlink()
        there = import_ray().cloudpickle.loads(sent)
        found = there.people(Seed.of(1))
        assert (found.schema.digest, found.size) == (here.schema.digest, here.size)
        one, other = (np.asarray(users.columns(0, 99).values["town"]) for users in (found, here))
        assert one.tolist() == other.tolist()

    def test_the_records_of_many_cells_are_sent_once(self, people: Path) -> None:
        dumps = import_ray().cloudpickle.dumps
        cells = [
            named("frequency", epsilon=epsilon, data=people, settings={"column": "town"})
            for epsilon in (1, 2, 3, 4)
        ]
        one, all_ = len(dumps(cells[:1])), len(dumps(cells))
        records = len(dumps(cells[0].people(Seed.of(0))))
        assert all_ - one < records
