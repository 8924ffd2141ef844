"""Sweeps: seeds by what a cell is, rows that `simulate` can be asked for again, bad input first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from askance_client import __version__
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_simulation.experiments import Named, named, simulate
from askance_simulation.experiments.sweeps import Advance, Cell, Grid, Sweep, sweep

GRID = {"epsilon": [2, 8], "users": [100, 400], "d": "2"}


def trials(**changes: Any) -> Sweep:
    settings: dict[str, Any] = {"learner": "masked-parity", "grid": GRID, "trials": 2} | changes
    return sweep(settings.pop("learner"), settings.pop("grid"), **settings)


def without_seconds(sweep_result: Sweep) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name != "seconds"} for row in sweep_result.rows]


@pytest.fixture(scope="module")
def sweep_result() -> Sweep:
    return trials()


class TestSeeds:
    def test_a_row_s_seed_runs_its_trial_again(self, sweep_result: Sweep) -> None:
        for row in (row for row in sweep_result.rows if row["refused"] is None):
            made = named(
                row["learner"],
                epsilon=row["epsilon"],
                beta=row["beta"],
                users=row["users"],
                settings=row["settings"],
                randomizer=row["randomizer"],
            )
            again = simulate(made.study, made.people, fleet="objects", seed=row["seed"])
            assert again.transcript.digest == row["transcript"]
            assert again.to_json()["error"]["mean"] == row["error"]

    def test_all_seeds_differ(self, sweep_result: Sweep) -> None:
        seeds = [row["seed"] for row in sweep_result.rows]
        assert len(set(seeds)) == len(seeds) == 8
        assert all(0 <= seed < 2**63 for seed in seeds)
        assert not set(seeds) & {row["seed"] for row in trials(seed=1).rows}

    def test_more_cells_change_no_other_one(self, sweep_result: Sweep) -> None:
        wider = trials(grid={**GRID, "epsilon": [2, 3, 8], "d": ["2", "4"]}, trials=3)
        theirs = without_seconds(wider)
        assert len(theirs) == 3 * 12
        assert [row for row in without_seconds(sweep_result) if row not in theirs] == []

    @pytest.mark.parametrize("epsilon", [2, 2.0, "2", "2.000", "2e0"])
    def test_equal_numbers_are_the_same_cell(self, sweep_result: Sweep, epsilon: Any) -> None:
        again = trials(grid={"epsilon": epsilon, "users": "4e2", "beta": "1/100", "d": 2})
        assert without_seconds(again) == without_seconds(sweep_result.where(epsilon=2, users=400))

    def test_the_fleet_and_the_workers_change_nothing(self, sweep_result: Sweep) -> None:
        other = without_seconds(trials(fleet="objects", workers=2))
        assert {row.pop("fleet") for row in other} == {"objects"}
        ours = without_seconds(sweep_result)
        assert {row.pop("fleet") for row in ours} == {"columns"}
        assert other == ours


class TestRows:
    def test_a_row_tells_all_settings_and_results(self, sweep_result: Sweep) -> None:
        row = sweep_result.where(epsilon=8, users=400).rows[0]
        assert row["settings"] == {"d": "2"}
        told = (row["learner"], row["randomizer"], row["beta"], row["fleet"], row["version"])
        assert told == ("masked-parity", "best", 0.01, "columns", __version__)
        assert row["users_used"] == row["answers"] == row["users_needed"] <= 400
        assert row["lower_bound"] < row["users_needed"] < row["hoeffding_users"]
        assert (row["rounds"], row["queries"], row["epsilon_spent"]) == (2, 2, 8.0)
        assert row["error"] == float(not row["success"]) == 0.0
        assert row["seconds"] > 0
        assert json.loads(json.dumps(row)) == row

    def test_a_refused_plan_is_a_row_with_its_reason(self, sweep_result: Sweep) -> None:
        refused = sweep_result.where(epsilon=2, users=100).rows
        assert len(refused) == 2
        for row in refused:
            assert "the population has 100" in row["refused"]
            assert row["users_needed"] > 100
            results = ("success", "error", "transcript", "answers", "users_used")
            assert {row[name] for name in results} == {None}

    def test_cells_come_in_order_and_trials_within(self, sweep_result: Sweep) -> None:
        order = [(row["epsilon"], row["users"], row["trial"]) for row in sweep_result.rows]
        assert order == sorted(order)
        assert sweep_result.axes == ("epsilon", "users")

    def test_randomizers_and_learners_are_axes_too(self) -> None:
        grid: Grid = {"epsilon": 2, "users": 500, "randomizer": ["best", "k-ary-response"]}
        sweep_result = sweep(["frequency", "marginals"], grid)
        assert sweep_result.axes == ("learner", "randomizer")
        assert len({row["transcript"] for row in sweep_result.rows}) == 4

    def test_a_learner_of_one_s_own_makes_its_studies(self) -> None:
        asked: list[Cell] = []

        def own(cell: Cell) -> Named:
            asked.append(cell)
            return named("mean", epsilon=cell.epsilon, users=cell.users)

        sweep_result = sweep(own, {"epsilon": 1, "users": [50, 60], "colour": "red"})
        assert [row["learner"] for row in sweep_result.rows] == ["own", "own"]
        assert {cell.settings for cell in asked} == {(("colour", "red"),)}

    def test_a_data_file_is_who_it_holds_and_not_where_it_lies(self, tmp_path: Path) -> None:
        files = [tmp_path / folder / "people.csv" for folder in ("one", "two", "three")]
        for file, label in zip(files, "bbc", strict=True):
            file.parent.mkdir()
            file.write_text("letter\n" + f"a\n{label}\n" * 60)
        one, two, three = (sweep("frequency", {"epsilon": 1}, data=file) for file in files)
        assert (one.rows[0]["users"], one.rows[0]["data"]) == (120, "people.csv")
        assert one.rows[0]["data_digest"] != three.rows[0]["data_digest"]
        assert without_seconds(one) == without_seconds(two) != without_seconds(three)
        assert one.rows[0]["seed"] != three.rows[0]["seed"]

    def test_progress_counts_rows_users_and_answers(self) -> None:
        told: list[Advance] = []
        sweep_result = trials(progress=told.append)
        assert [one.done for one in told] == list(range(9))
        assert {(one.trials, one.all_work) for one in told} == {(8, 2_000)}
        assert told[-1].work == 2_000
        assert told[-1].answers == sum(row["answers"] or 0 for row in sweep_result.rows)


class TestBadInput:
    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"trials": 0}, "trials: expected a whole number of 1 or more, got 0"),
            ({"workers": 0}, "workers: expected a whole number of 1 or more, got 0"),
            ({"seed": -1}, "seed: expected a whole number of 0 or more"),
            ({"fleet": "ships"}, "fleet: expected one of objects, grpc, grpc-streams, columns"),
            ({"learner": "nobody"}, "nobody"),
            ({"learner": []}, "learner: expected one or more"),
            ({"learner": ["mean", "mean"]}, "expected each once, got 'mean' twice"),
            ({"population": "nowhere"}, "population: expected one of"),
            ({"grid": {"users": 10}}, "grid: expected values of epsilon, got none"),
            ({"grid": {**GRID, "epsilon": []}}, "grid: expected values of epsilon, got none"),
            ({"grid": {**GRID, "epsilon": [1, 0]}}, "epsilon: expected a positive number"),
            ({"grid": {**GRID, "users": [1, 1.5]}}, "users: expected a whole number of 1 or more"),
            ({"grid": {**GRID, "beta": 1}}, "beta: expected a number between 0 and 1"),
            ({"grid": {**GRID, "colour": "red"}}, "at epsilon 2, 100 users, colour=red.*'colour'"),
            ({"grid": {**GRID, "randomizer": "dice"}}, "randomizer: expected one of best"),
            ({"grid": {"epsilon": 1}}, "expected a number of users, got none"),
            ({"out": "rows.csv"}, r"expected a file named \*.jsonl or \*.parquet"),
            ({"out": "no/such/rows.jsonl"}, "expected a folder"),
        ],
    )
    def test_is_refused_before_anything_is_run(
        self,
        changes: dict[str, Any],
        complaint: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidParameter, match=complaint):
            trials(**{"out": "rows.jsonl"} | changes)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("given", ["data", "schema"])
    def test_a_file_that_is_not_there_is_refused_as_every_command_refuses_it(
        self, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        complaint = r"^none\.csv: cannot be read: No such file or directory$"
        with pytest.raises(InvalidRecord, match=complaint):
            trials(**{"out": "rows.jsonl", given: "none.csv"})
        assert list(tmp_path.iterdir()) == []

    def test_a_part_that_is_not_there(self, sweep_result: Sweep) -> None:
        with pytest.raises(InvalidParameter, match=r"expected one of .* got 'colour'"):
            sweep_result.where(colour="red")
        with pytest.raises(InvalidParameter, match="expected a trial with"):
            sweep_result.where(epsilon=3)
