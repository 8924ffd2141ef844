"""All columns of a file by the plain command: rows, marks, and the exit status."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


def row(all_columns: ModuleType, error: float, deviation: float = 0.004) -> Any:
    return all_columns.Row("naive-bayes", 1.0, 100, error, deviation, 0.24, 20, 1.0)


def test_worse_is_more_than_two_standard_errors_of_the_difference(all_columns: ModuleType) -> None:
    """sqrt(.003^2 + .004^2) = .005."""
    before, worse = row(all_columns, 0.20, 0.003), row(all_columns, 0.2101)
    assert not row(all_columns, 0.2099).worse_than(before)
    assert worse.worse_than(before)
    assert "0.210 +- 0.004*" in all_columns.line(worse, before)


def test_an_error_above_the_constants_and_a_hundredth_is_marked(all_columns: ModuleType) -> None:
    high = row(all_columns, 0.2501)
    assert not row(all_columns, 0.2499).above
    assert high.above
    assert "0.250 +- 0.004!" in all_columns.line(high, None)


def test_a_file_is_measured_and_compared_with_an_earlier_run(
    all_columns: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(600) < 0.3
    bits = labels ^ (rng.random(600) < 0.1)
    rows = [
        f"{int(bit)},{'yes' if label else 'no'}" for bit, label in zip(bits, labels, strict=True)
    ]
    file, out = tmp_path / "rows.csv", tmp_path / "rows.jsonl"
    file.write_text("\n".join(["bit,label", *rows]) + "\n")
    arguments = [str(file), "--label", "label", "--learners", "naive-bayes", "--epsilons", "4"]
    assert all_columns.main([*arguments, "--trials", "2", "--out", str(out)]) == 0
    (found,) = all_columns.read(out).values()
    assert found.error < found.baseline
    assert (
        all_columns.main([*arguments, "--trials", "2", "--against", str(out)]) == 0
    )  # the same trials
    assert capsys.readouterr().out.count(f"{found.error:.3f}") == 3


def test_without_the_file_nothing_is_measured(all_columns: ModuleType, tmp_path: Path) -> None:
    assert all_columns.main([str(tmp_path / "none.csv")]) == 0
