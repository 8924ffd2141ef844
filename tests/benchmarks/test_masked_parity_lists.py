"""Both rounds with a list of masks take about half the users of one mask, and fail as planned."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("masked_parity_lists")


def test_it_runs_and_the_list_takes_fewer_users(
    program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["--epsilon", "1", "--d", "8", "--trials", "500", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["planned_ratio"] < 0.6
    assert row["measured_list"] <= row["planned_list"]
    assert row["planned_one"] < row["planned_printed"]


def test_a_broken_claim_is_an_exit_code(
    program: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "CLAIM", 0.1)
    monkeypatch.setattr(program, "CLAIMED_FROM", 8)
    assert program.main(["--epsilon", "1", "--d", "8", "--trials", "500"]) == 1
    assert "NO" in capsys.readouterr().out
