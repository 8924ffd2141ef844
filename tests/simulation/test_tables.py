"""Tables of rows in files, and rows of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from askance_aggregator.analyst import StudyResult
from askance_aggregator.store import StudyState
from askance_client.errors import InvalidParameter
from askance_simulation.frames import write_table

ROWS: list[dict[str, Any]] = [
    {"name": 'a "b", c', "low": 0.25, "count": 3, "path": ["x", "ö"]},
    {"name": "line\nbreak", "low": None, "count": 2.5, "extra": True},
]


def test_a_csv_is_exact(tmp_path: Path) -> None:
    write_table(ROWS, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_bytes().decode() == (
        "name,low,count,path,extra\r\n"
        '"a ""b"", c",0.25,3,"[""x"", ""ö""]",\r\n'
        '"line\nbreak",,2.5,,True\r\n'
    )


def test_a_parquet_file_has_one_type_per_column(tmp_path: Path) -> None:
    write_table(ROWS, tmp_path / "x.parquet")
    assert parquet.read_table(tmp_path / "x.parquet").to_pylist() == [
        {"name": 'a "b", c', "low": 0.25, "count": 3.0, "path": ["x", "ö"], "extra": None},
        {"name": "line\nbreak", "low": None, "count": 2.5, "path": None, "extra": True},
    ]


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"expected a file named \*.csv or \*.parquet"):
        write_table(ROWS, tmp_path / "x.json")


def result(state: StudyState, content: dict[str, Any]) -> StudyResult:
    return StudyResult("00", state, "", "", content, fetch=lambda: pytest.fail("no fetch"))


def test_the_rows_of_a_result_are_its_estimates() -> None:
    share = {"estimate": 0.5, "low": 0.25, "high": 0.75}
    hypothesis = {"yes": share, "no": share}
    shares = {"learner": "frequency", "fields": ["smokes"], "hypothesis": hypothesis}
    assert result(StudyState.DONE, shares).to_rows() == [
        {"group": "", "name": name, "estimate": 0.5, "low": 0.25, "high": 0.75, "shown": 0.5}
        for name in ("yes", "no")
    ]


@pytest.mark.parametrize(
    ("state", "learner", "hypothesis", "message"),
    [
        (StudyState.FAILED, "frequency", None, "a study that is done, got failed"),
        (StudyState.DONE, "masked-parity", {"r": "01", "a": 1}, "got that of masked-parity"),
    ],
)
def test_a_result_without_a_table_is_refused(
    state: StudyState, learner: str, hypothesis: Any, message: str
) -> None:
    content = json.loads(json.dumps({"learner": learner, "fields": [], "hypothesis": hypothesis}))
    with pytest.raises(InvalidParameter, match=message):
        result(state, content).to_rows()
