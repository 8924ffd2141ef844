"""The benchmark of CSV files: the file that it makes, and what it measures."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("polars")


def test_every_reader_is_measured_and_ours_find_the_same_records(
    csv_rows: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    csv_rows.write(tmp_path / "flights.csv", 500)
    with (tmp_path / "flights.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert (len(header), len(rows)) == (19, 500)
    assert any("NA" in row for row in rows)
    assert csv_rows.main(["--rows", "500", "--repeats", "1", "--json"]) == 0
    readings = json.loads(capsys.readouterr().out)["readings"]
    assert [one["name"] for one in readings] == list(csv_rows.READERS)
    assert readings[2]["grid"] == readings[3]["grid"] != ""
