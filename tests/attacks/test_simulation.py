"""Attacks on the simulation that worked once: files of users, numbers that misled, full disks."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import askance as ask
from askance.cli import main
from askance.cli import version as some_command
from askance_simulation.fleets.grpc import room_for


def from_csv(folder: Path, text: str, **options: Any) -> ask.Population:
    path = folder / "people.csv"
    path.write_text(text, encoding="utf-8")
    return ask.Population.from_csv(path, **options)


class TestFilesOfPeople:
    def test_a_column_s_name_need_not_be_a_field_s(self, tmp_path: Path) -> None:
        text = ",hours-per-week,2nd job,größe\n1,40,no,1\n2,38,yes,2\n"
        people = from_csv(tmp_path, text, label="2nd job")
        assert list(people.schema.fields) == ["_", "hours_per_week", "_2nd_job", "gr__e"]
        assert isinstance(people.schema.fields["_2nd_job"], ask.Label)
        expected = "the column 'hours-per-week' is the field hours_per_week"
        assert expected in people.column_notes.renamed

    def test_columns_that_would_be_one_field_stay_two(self, tmp_path: Path) -> None:
        people = from_csv(tmp_path, "a-b,a b\n1,2\n2,3\n")
        assert [*people.schema.fields.values()] == [ask.Integer(1, 2), ask.Integer(2, 3)]
        with pytest.raises(ask.InvalidRecord, match="distinct column names, got 'a-b' twice"):
            from_csv(tmp_path, "a-b,a-b\n1,2\n2,3\n")

    def test_one_column_that_cannot_be_asked_about_does_not_spoil_the_others(
        self, tmp_path: Path
    ) -> None:
        rows = f"99999999999999999999,{'x' * 2000},30\n99999999999999999998,y,40\n"
        people = from_csv(tmp_path, "account,letter,age\n" + rows)
        assert dict(people.schema.fields) == {"age": ask.Integer(30, 40)}

    @pytest.mark.parametrize(
        ("low", "high"),
        [("0.0000012", "0.0000031"), ("1000.5", "87654.25"), ("-250000000.5", "1000000000.0")],
    )
    def test_numbers_of_any_size_can_be_told_apart_and_averaged(
        self, tmp_path: Path, low: str, high: str
    ) -> None:
        people = from_csv(tmp_path, f"x,y\n{low},1\n{high},2\n{high},3\n")
        learner = ask.learners.mean(people.schema["x"], missing="default")
        study = ask.Study(learner, people.schema, epsilon=2)
        (truth,) = ask.simulate(study, people).trials[0].assessment.truth
        mean, spread = (float(low) + 2 * float(high)) / 3, float(high) - float(low)
        assert truth == pytest.approx(mean, rel=0, abs=2**-15 * spread)

    def test_a_range_without_room_for_missing_numbers_is_refused_with_what_to_do(self) -> None:
        """A level for missing numbers takes as much again as the range: 2^31 units for both."""
        schema = ask.Schema("yen", 1, x=ask.Integer(0, (1 << 30) - 1), y=ask.Integer(0, 1 << 30))
        ask.learners.mean(schema["x"])
        with pytest.raises(ask.InvalidQuery, match=r"got 0 \.\. 1073741824: give closer bounds"):
            ask.learners.mean(schema["y"])
        ask.learners.mean(schema["y"], missing="default")


class TestNumbers:
    def test_the_truth_of_large_numbers_does_not_overflow(self) -> None:
        first = 1 << 60  # nanoseconds since 1970 are as large
        schema = ask.Schema("clock", 1, ns=ask.Integer(first, first + 100))
        people = ask.Population.from_columns(schema, {"ns": [first + 50] * 200})
        result = ask.simulate(ask.Study(ask.learners.mean(schema["ns"]), schema, epsilon=2), people)
        assert result.trials[0].assessment.truth == (float(first + 50),)
        assert result.successes == 1

    @pytest.mark.parametrize("beta", ["1e-99999999", "1e99999999", "nan", "1/0", "x"])
    def test_a_failure_chance_that_is_none_is_refused_at_once(self, beta: str) -> None:
        with pytest.raises(ask.InvalidParameter, match="beta"):
            ask.plan("mean", epsilon=1, beta=beta)


class TestCommands:
    @pytest.mark.parametrize("cell", ["estimate", "[/b]", "$1-$2", "$a_$"])
    def test_a_cell_may_be_called_anything(
        self, tmp_path: Path, cell: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        data, picture = tmp_path / "people.csv", tmp_path / "people.png"
        data.write_text(f"kind\n{cell}\nother\n", encoding="utf-8")
        words = ["simulate", "frequency", "--data", str(data), "--epsilon", "1"]
        assert main([*words, "--plot", str(picture)]) == 0
        assert cell in capsys.readouterr().out
        assert picture.stat().st_size > 0

    def test_a_schema_without_data_is_not_ignored(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["plan", "frequency", "--epsilon", "1", "--schema", "people.toml"]) == 2
        assert "expected a data file" in capsys.readouterr().err

    def test_a_folder_is_refused_before_the_work(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "rows.jsonl").mkdir()
        words = ["simulate", "mean", "--users", "9", "--epsilon", "1"]
        assert main([*words, "--out", str(tmp_path / "rows.jsonl")]) == 2
        assert "got a folder" in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]

    def test_nothing_half_written_is_left(self, tmp_path: Path) -> None:
        people = ask.Population.generated("numbers", 9)
        study = ask.Study(ask.learners.mean(people.schema["number"]), people.schema, epsilon=1)
        (tmp_path / "rows.jsonl").mkdir()
        with pytest.raises(OSError, match="directory"):
            ask.simulate(study, people).write(tmp_path / "rows.jsonl")
        assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]

    def test_a_command_that_is_told_to_end_unwinds(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        unwound = []

        def run(_: object) -> int:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                unwound.append(True)
            return 0

        monkeypatch.setattr(some_command, "run", run)
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            assert main(["version"]) == 130
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGTERM, before)
        assert unwound
        assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("devices", [1, 50_001, 200_000])
def test_there_is_room_for_every_device_of_a_fleet(devices: int) -> None:
    """A device refused for lack of a stream would never answer, and its round never close."""
    assert room_for(devices).max_streams >= devices
    assert room_for(devices).max_pending >= devices
