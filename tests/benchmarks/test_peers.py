"""Measurements of peers: the same users, the same errors; absent peers are reported."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def environment(folder: Path, peer: str, script: str) -> Path:
    """Return an environment whose interpreter is a shell script."""
    python = folder / peer / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return folder


def test_half_of_the_cells_are_empty(load: Load) -> None:
    measuring = load("peers.measuring")
    values = measuring.cells(1000, 8)
    truth = measuring.shares(values, 8)
    assert truth.sum() == pytest.approx(1)
    assert (truth[:4] > 0).all()
    assert not truth[4:].any()
    assert np.array_equal(values, measuring.cells(1000, 8))


def test_errors_are_told_as_n_mse_and_the_bias_of_an_empty_cell(load: Load) -> None:
    measuring = load("peers.measuring")
    values = np.array([0, 0, 0, 1])  # shares 3/4, 1/4, 0, 0
    estimates = [
        {"raw": np.array([0.75, 0.25, 0.1, -0.1]), "clipped": np.array([0.75, 0.15, 0.1, 0.0])},
        {"raw": np.array([0.55, 0.45, 0.0, 0.0]), "clipped": np.array([0.75, 0.25, 0.0, 0.0])},
    ]
    raw, clipped = measuring.accuracy("some", 1.0, values, 4, estimates)
    # squared errors, a repetition: .02 and .08 over 4 cells; times 4 users
    assert (raw.estimate, raw.n, raw.k, raw.repetitions) == ("raw", 4, 4, 2)
    assert raw.n_mse == pytest.approx((0.02 + 0.08) / 2)
    assert raw.n_mse_se == pytest.approx(0.03)
    assert raw.bias == pytest.approx(0)
    assert clipped.estimate == "clipped"
    assert clipped.n_mse == pytest.approx((0.02 + 0) / 2)
    assert (clipped.bias, clipped.bias_se) == (pytest.approx(0.025), pytest.approx(0.025))


def test_a_mean_has_an_error_of_its_own(load: Load) -> None:
    measuring = load("peers.measuring")
    row = measuring.accuracy_of_mean("some", "raw", 2.0, np.array([-1.0, 1.0]), [0.5, -0.1])
    assert (row.question, row.k, row.n) == ("mean", None, 2)
    assert row.n_mse == pytest.approx(2 * (0.25 + 0.01) / 2)
    assert row.bias == pytest.approx(0.2)


def test_a_speed_says_how_far_off_its_answer_was(load: Load) -> None:
    measuring = load("peers.measuring")
    values = np.array([1, 0, 0, 0])
    row = measuring.speed("predicate", "some", values, lambda given: [sum(given) / 4 + 0.125])
    assert (row.users, row.error) == (4, 0.125)
    assert row.seconds > 0
    whole = measuring.speed("frequency", "some", values, lambda _: np.array([0.5, 0.5]))
    assert whole.error == 0.25


def test_who_is_absent_is_told_with_the_reason(load: Load, tmp_path: Path) -> None:
    run_peers = load("peers_environments").run_peers
    ran, (skipped,) = run_peers("speed", ["pfl"], None, "quick")
    assert (ran, skipped.reason) == ([], "no --peers FOLDER")
    ran, (skipped,) = run_peers("speed", ["pfl"], tmp_path, "quick")
    assert (ran, skipped.reason) == ([], "no environment 'pfl' in the folder of --peers")


def test_a_peer_whose_packages_are_not_there_is_left_out(load: Load, tmp_path: Path) -> None:
    folder = environment(tmp_path, "pure_ldp", f'exec {sys.executable} -S "$@"')  # no packages
    ran, (skipped,) = load("peers_environments").run_peers("speed", ["pure_ldp"], folder, "quick")
    assert ran == []
    assert skipped.reason == "failed: ModuleNotFoundError: No module named 'numpy'"


def test_a_peer_that_takes_too_long_is_ended(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = load("peers_environments")
    monkeypatch.setattr(peers, "WITHIN_S", 0.1)
    folder = environment(tmp_path, "pfl", "sleep 30 & wait")  # the pipe stays open until both end
    ran, (skipped,) = peers.run_peers("speed", ["pfl"], folder, "quick")
    assert (ran, skipped.reason) == ([], "speed took more than 0 s")


def test_what_a_script_prints_last_is_read(load: Load, tmp_path: Path) -> None:
    row = {
        "question": "mean",
        "protocol": "Laplace",
        "estimate": "raw",
        "eps": 1.0,
        "k": None,
        "n": 500,
        "repetitions": 10,
        "n_mse": 8.0,
        "n_mse_se": 0.1,
        "bias": 0.0,
        "bias_se": 0.01,
    }
    told = json.dumps({"version": "1.2", "rows": [row, row | {"n_mse": 7.0}]})
    folder = environment(tmp_path, "diffprivlib", f"echo a warning; echo '{told}'")
    accuracy = load("peers_accuracy")
    rows, skipped = accuracy.peers_accuracy(folder, "quick")
    assert [(one.peer, one.version, one.n_mse) for one in rows] == [
        ("diffprivlib", "1.2", 8.0),
        ("diffprivlib", "1.2", 7.0),
    ]
    assert [one.peer for one in skipped] == ["pure_ldp", "multi_freq_ldpy", "opendp"]
    assert accuracy.best(rows, "mean", 1.0, None) == rows[1]
    assert accuracy.best(rows, "mean", 2.0, None) is None


@pytest.mark.parametrize(
    ("fleet", "question"), [("columns", "predicate"), ("columns", "frequency")]
)
def test_our_fleets_are_asked_the_same(load: Load, fleet: str, question: str) -> None:
    row = load("simulators").ours(fleet, question, 300)
    assert (row.whose, row.question, row.users) == ("askance", question, 300)
    assert row.protocol.startswith(f"{fleet}, ")
    assert row.per_s == pytest.approx(300 / row.seconds)
    assert 0 < row.error < 1


def test_a_ratio_is_of_users_a_second_at_one_question(load: Load) -> None:
    simulators = load("simulators")
    own = simulators.Row("askance", "1", "predicate", "columns, a response", 1000, 0.5, 0.1)
    peer = simulators.Row("some", "2", "predicate", "theirs", 100, 0.25, 0.1)
    other = simulators.Row("some", "2", "frequency", "theirs", 100, 0.25, 0.1)
    (ratio,) = simulators.ratios([own, peer, other])
    assert (ratio.fleet, ratio.peer, ratio.ratio) == ("columns", "some", 5.0)


@pytest.mark.slow
def test_the_program_runs_without_peers(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    simulators = load("simulators")
    assert simulators.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["rows"]) == 4
    assert {one["peer"] for one in told["skipped"]} == set(simulators.PEERS)
    assert all(row["per_s"] > 0 for row in told["rows"])
