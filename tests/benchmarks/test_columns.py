"""The columns fleet's benchmark runs, and what it compares is of equal size."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def test_answers_and_coins_are_counted_alike(
    columns: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "REPEATS", 2)
    told = columns.predicate_speed(70_000, 2)
    assert (told["users"], told["workers"], told["best_of"]) == (70_000, 2, 2)
    for clock in ("wall", "processor"):
        one = told[clock]
        assert one["ratio"] == pytest.approx(one["answers_per_s"] / one["ceiling_per_s"])
        assert one["ratio"] > 0


def test_users_that_repeat_themselves_are_the_given_ones(columns: ModuleType) -> None:
    people = columns.repeating(3 * columns.CHUNK)
    first = people.columns(0, columns.CHUNK).values["age"]
    last = people.columns(2 * columns.CHUNK, 3 * columns.CHUNK).values["age"]
    given = columns.given(columns.CHUNK).columns(0, columns.CHUNK).values["age"]
    assert np.array_equal(first, last)
    assert np.array_equal(first, given)


def test_growth_is_drawn(columns: ModuleType, tmp_path: Path) -> None:
    rows = [{"users": 10**k, "seconds": 10.0**k, "peak_memory_mb": 60.0} for k in (4, 5)]
    columns.draw(rows, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.nightly
def test_it_runs(columns: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert columns.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["masked_parity"]["successes"] == 1
    assert [row["users"] for row in told["growth"]] == [10**4, 10**5, 10**6, 10**7]
    assert all(row["peak_memory_mb"] < 500 for row in told["growth"])
