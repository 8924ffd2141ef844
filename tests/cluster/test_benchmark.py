"""Cost of Ray: measured on equal transcripts."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "cluster.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_cluster", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("ray_of_three")
def test_both_fleets_compute_the_same(program: ModuleType) -> None:
    told = program.compared(*program.one_predicate(100_000))
    assert told["answers"] == told["users"] == 100_000
    assert told["ratio"] == pytest.approx(told["ray_s"] / told["columns_s"])
    assert told["ray_s"] <= told["ray_first_s"]


@pytest.mark.usefixtures("ray_of_three")
def test_a_study_and_a_sweep_on_workers_are_those_on_threads(program: ModuleType) -> None:
    told = program.whole(200_000)
    assert told["users"] == 200_000
    assert told["ratio"] == pytest.approx(told["ray_study_s"] / told["columns_study_s"])
    assert told["ray_sweep_s"] > 0
    assert told["ray_workers_mb"] > told["ray_caller_mb"] / 10 > 0


@pytest.mark.slow
def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["masked_parity"]["users"] == 5_000_000
    assert told["start_s"] > 0
