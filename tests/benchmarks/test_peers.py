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


def test_a_speed_has_enough_users_and_n_mse_of_parts(load: Load) -> None:
    questions = load("peers.questions")
    effort = questions.Effort(seconds=0.0, less=1, degrees=3)

    def exact_but(error: float) -> Callable[[list[int]], np.ndarray]:
        return lambda given: np.bincount(given, minlength=2) / len(given) + [error, -error]

    row = questions.measured("cells-2", "some", exact_but(0.1), effort, 60, 10_000)
    assert (row.users, row.question) == (60, "cells-2")
    assert row.seconds > 0
    assert row.n_mse == pytest.approx(20 * 0.01)  # three parts of 20 users
    assert row.n_mse_se == pytest.approx(row.n_mse * (2 / 3) ** 0.5)
    slow = questions.Effort(seconds=1e9, less=1, degrees=1)
    row = questions.measured("cells-2", "some", exact_but(0.0), slow, 60, 1000)
    assert (row.users, row.n_mse) == (1000, 0)


def test_every_question_knows_its_truth(load: Load) -> None:
    for name, question in load("peers.questions").QUESTIONS.items():
        records = question.drawn(50)
        truth = question.truth(records)
        assert (len(records), len(truth)) == (50, question.values), name
        assert np.abs(truth).max() <= 1
        assert question.mean or truth.sum() == pytest.approx(1)


def test_what_a_peer_lacks_is_told(load: Load, tmp_path: Path) -> None:
    row = {"question": "mean", "protocol": "Laplace", "users": 10, "seconds": 0.1}
    told = json.dumps({"version": "1", "rows": [row | {"n_mse": 8.0, "n_mse_se": 0.5}]})
    folder = environment(tmp_path, "pfl", f"echo '{told}'")
    rows, skipped = load("simulators").rows_of(["mean", "cells-2"], folder, "quick", ())
    assert [(one.whose, one.question, one.per_s) for one in rows] == [("pfl", "mean", 100)]
    assert {one.peer: one.reason for one in skipped}["pfl"] == "no local mechanism for cells-2"


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


@pytest.mark.parametrize("question", ["cells-16", "mean", "vector-100"])
def test_our_fleets_are_asked_the_same(load: Load, question: str) -> None:
    (row,) = load("simulators").ours(question, "quick", ("columns",))
    assert (row.whose, row.question) == ("askance", question)
    assert row.protocol.startswith("columns, ")
    assert row.per_s == pytest.approx(row.users / row.seconds)
    stated = {"cells-16": 3.02, "mean": 4.45, "vector-100": 468.0}[question]
    assert row.n_mse == pytest.approx(stated, rel=0.6)


def test_a_ratio_is_to_the_fastest_peer_with_the_same_error(load: Load) -> None:
    simulators = load("simulators")

    def row(whose: str, question: str, how: str, users: int, n_mse: float) -> object:
        return simulators.Row(whose, "1", question, how, users, 1.0, n_mse, 0.01 * n_mse)

    own = row("askance", "cells-2", "columns, a response", 1000, 4.0)
    (ratio,) = simulators.ratios(
        [
            own,
            row("askance", "mean", "columns, a response", 1000, 4.0),
            row("some", "cells-2", "exact", 50, 3.0),
            row("some", "cells-2", "as exact", 100, 5.1),  # 1.4 standard errors over 1.25 times 4
            row("other", "cells-2", "fast", 200, 5.2),  # 2.8
            row("other", "cells-16", "as exact", 400, 4.0),
            row("other", "mean", "fast", 400, 8.0),
        ]
    )
    assert (ratio.question, ratio.fleet, ratio.ratio) == ("cells-2", "columns", 10.0)
    assert (ratio.peer, ratio.protocol) == ("some", "as exact")


@pytest.mark.slow
def test_the_program_runs_without_peers(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    simulators = load("simulators")
    assert simulators.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    questions = load("peers.questions").QUESTIONS
    assert len(told["rows"]) == 2 * len(questions)
    assert {one["peer"] for one in told["skipped"]} == set(simulators.PEERS)
    assert all(row["per_s"] > 0 for row in told["rows"])
