"""The benchmark of Parquet files: the file that it makes, and what it measures."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import askance as ask

pytest.importorskip("pyarrow")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    rows = "".join(f"{row % 90},{('Graz', 'Wien')[row % 2]}\n" for row in range(300))
    path.write_text("age,town\n" + rows)
    return path


def test_a_file_is_repeated_row_by_row_and_measured(
    people: Path,
    tmp_path: Path,
    parquet_rows: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = parquet_rows
    monkeypatch.setattr(program, "GROUP", 256)
    program.write(people, tmp_path / "people-1000.parquet", 1000)
    once, many = ask.read(people), ask.read(tmp_path / "people-1000.parquet")
    assert many.schema.fields == once.schema.fields
    first, again = once.columns(0, 300), many.columns(600, 900)
    assert np.array_equal(np.asarray(first.values["age"]), np.asarray(again.values["age"]))
    words = [str(people), str(tmp_path), "--rows", "1000", "--column", "town"]
    assert program.main([*words, "--only", "frequency", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (run,) = told["runs"]
    assert run["answers_per_second"] > 0
    assert run["peak_mb"] > 20
