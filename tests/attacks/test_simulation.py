"""Attacks on the simulation that worked once: files of people, numbers that misled, full disks."""

from __future__ import annotations

from pathlib import Path

import pytest

import askance.api as ask


def from_csv(folder: Path, text: str, **options: str) -> ask.Population:
    path = folder / "people.csv"
    path.write_text(text, encoding="utf-8")
    return ask.Population.from_csv(path, **options)


class TestFilesOfPeople:
    def test_a_column_s_name_need_not_be_a_field_s(self, tmp_path: Path) -> None:
        text = ",hours-per-week,2nd job,größe\n1,40,no,1\n2,38,yes,2\n"
        people = from_csv(tmp_path, text, label="2nd job")
        assert list(people.schema.fields) == ["_", "hours_per_week", "_2nd_job", "gr__e"]
        assert isinstance(people.schema.fields["_2nd_job"], ask.Label)
        assert "the column 'hours-per-week' is called hours_per_week" in people.notes

    def test_columns_that_become_one_name_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ask.InvalidRecord, match="distinct column names"):
            from_csv(tmp_path, "a-b,a b\n1,2\n2,3\n")

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
        study = ask.Study(ask.learners.mean(people.schema["x"]), people.schema, epsilon=2)
        (truth,) = ask.simulate(study, people).trials[0].verdict.truth
        mean, spread = (float(low) + 2 * float(high)) / 3, float(high) - float(low)
        assert truth == pytest.approx(mean, rel=0, abs=2**-15 * spread)
