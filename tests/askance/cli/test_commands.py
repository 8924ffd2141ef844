"""The command line's contract: one JSON object, its keys, its exit codes, one line for an error."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from askance.cli import main

Run = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with --json: its exit code, the one object it printed, and its stderr."""

    def call(*words: str) -> tuple[int, dict[str, Any], str]:
        code = main([*words, "--json"])
        printed = capsys.readouterr()
        assert printed.out.count("\n") == 1, printed.out
        return code, json.loads(printed.out), printed.err

    return call


SIMULATE = {
    "learner", "fleet", "users", "users_used", "epsilon", "trials", "successes", "error", "rounds",
    "queries", "hypothesis", "answers", "epsilon_spent", "transcript", "seconds",
    "answers_per_second", "steady_answers_per_second", "peak_memory_mb", "baseline", "reference",
    "verdict", "details",
}  # fmt: skip
DEMO = {
    "success", "transport", "devices", "rounds", "hypothesis", "target", "error", "reports",
    "refusals", "epsilon", "users_used", "transcript", "seconds",
}  # fmt: skip


def test_simulate_tells_all_that_it_promises(run: Run) -> None:
    words = ("simulate", "masked-parity", "--users", "700", "--epsilon", "4", "--trials", "3")
    code, result, err = run(*words)
    assert (code, err) == (0, "")
    assert result.keys() >= SIMULATE
    assert result["successes"] == result["trials"] == 3
    assert result["error"] == {"mean": 0.0, "max": 0.0}
    assert set(result["hypothesis"]) == {"r", "a"}
    assert len(result["hypothesis"]["r"]) == 8
    assert result["epsilon_spent"]["max"] == result["epsilon"] == 4.0
    assert result["rounds"] == result["queries"] == 2
    assert result["answers"] == result["users_used"] <= result["users"] == 700
    assert result["transcript"].startswith("sha256:")


def test_a_delta_is_told_beside_the_sum(run: Run) -> None:
    words = ("simulate", "masked-parity", "--users", "700", "--epsilon", "4", "--delta", "1e-6")
    code, result, err = run(*words)
    assert (code, err) == (0, "")
    spent = result["epsilon_spent"]
    assert spent["delta"] == 1e-6
    assert spent["at_delta"] == spent["max"] == 4.0, "nobody was charged twice"


def test_trial_0_is_what_one_trial_runs(run: Run) -> None:
    words = ("simulate", "masked-parity", "--users", "700", "--epsilon", "4", "--seed", "9")
    _, one, _ = run(*words)
    _, three, _ = run(*words, "--trials", "3")
    for key in ("transcript", "hypothesis", "users_used", "answers"):
        assert one[key] == three[key]


def test_a_demo_tells_its_story(run: Run) -> None:
    code, story, err = run("demo", "--devices", "650", "--epsilon", "4", "--seed", "2")
    assert (code, err) == (0, "")
    assert story.keys() >= DEMO
    assert story["success"] is True
    assert story["transport"] == "grpc"
    assert story["hypothesis"] == story["target"]
    assert story["error"] == 0.0
    assert story["refusals"] == 0
    assert story["reports"] == story["users_used"]
    assert story["epsilon"]["max_spent"] <= story["epsilon"]["budget"] == 4.0
    _, same, _ = run("simulate", "masked-parity", "--users", "650", "--epsilon", "4", "--seed", "2")
    assert same["transcript"] == story["transcript"]


def test_a_plan_has_its_rounds_and_refuses_with_3(run: Run) -> None:
    code, plan, _ = run("plan", "masked-parity", "--epsilon", "1")
    assert code == 0
    assert plan["feasible"] is True
    keys = {"queries", "users", "allocation", "randomizer", "privacy_loss", "tau", "n_variance"}
    assert all(row.keys() >= keys for row in plan["rounds"])
    assert plan["users_needed"] == sum(row["users"] for row in plan["rounds"])
    short = str(plan["users_needed"] - 1)
    code, plan, _ = run("plan", "masked-parity", "--epsilon", "1", "--users", short)
    assert (code, plan["feasible"]) == (3, False)
    code, failure, err = run("simulate", "masked-parity", "--epsilon", "1", "--users", short)
    assert code == 3
    assert failure["failure"]["reason"] == "plan-refused"
    assert failure["failure"]["message"] in err


@pytest.mark.parametrize(("epsilon", "little"), [("8", False), ("8.5", True)])
def test_an_epsilon_above_8_warns_that_it_protects_little(
    run: Run, capsys: pytest.CaptureFixture[str], epsilon: str, little: bool
) -> None:
    words = ("frequency", "--cells", "4", "--epsilon", epsilon)
    _, plan, _ = run("plan", *words)
    _, result, _ = run("simulate", *words, "--users", "500", "--fleet", "columns")
    for notes in (plan["notes"], result["notes"]):
        assert any("protects little" in note for note in notes) == little
    assert main(["plan", *words]) == 0
    assert main(["simulate", *words, "--users", "500", "--fleet", "columns"]) == 0
    text = capsys.readouterr().out
    belief = "f two equally likely values a reader of reports is at most 99.9"
    assert text.count(belief) == 2  # once each
    assert text.count("epsilons of several studies add up") == 2


def test_the_risk_is_that_of_what_was_spent(capsys: pytest.CaptureFixture[str]) -> None:
    """12 nats: 1 / (1 + e^-12) is .9999939."""
    assert main(["simulate", "mean", "--users", "1000", "--epsilon", "20"]) == 0
    spent = "spent 12.00 of 20.00 nats. Of two equally likely values a reader of reports is at"
    assert f"{spent} most 99.999 %" in capsys.readouterr().out


def test_a_plan_without_an_epsilon_finds_the_least(run: Run, tmp_path: Path) -> None:
    words = ("plan", "mean", "--tau", "0.05", "--missing", "default")
    code, given, _ = run(*words, "--epsilon", "2")
    assert "curve" not in given
    users = str(given["users_needed"])
    code, plan, err = run(*words, "--users", users, "--plot", str(tmp_path / "curve.svg"))
    assert (code, err, plan["epsilon"], plan["feasible"]) == (0, "", 2, True)
    assert plan["curve"]["grid"].startswith("0.01 to 0.1 by 0.01, to 1 by 0.05")
    below = [row for row in plan["curve"]["points"] if row["epsilon"] == 1.9]
    assert below[0]["users_needed"] > given["users_needed"]
    assert "<svg" in (tmp_path / "curve.svg").read_text()
    code, plan, err = run(*words, "--users", "10")
    assert (code, plan["epsilon"], plan["failure"]["reason"]) == (3, 16, "plan-refused")


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (  # the refusal alone: no plan at an epsilon that was not asked for
            ("frequency", "--cells=4", "--tau=0.01", "--users=50"),
            3,
            "",
            r"askance: no epsilon up to 16 nats is enough: at 16 the plan needs [\d,]+ users, and"
            r" there are 50 \(allow a wider tolerance, ask a simpler question, or find more"
            r" users\)",
        ),
        (  # with an epsilon the plan is what was asked for
            ("frequency", "--cells=4", "--tau=0.01", "--users=50", "--epsilon=16"),
            3,
            "plan of frequency, epsilon 16",
            "askance: the plan needs .* the population has 50: .* or tau above 0.01",
        ),
    ],
)
def test_a_refused_plan_prints_what_was_asked(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, out: str, err: str
) -> None:
    assert main(["plan", *words]) == code
    printed = capsys.readouterr()
    assert re.search(f"^{err}$", printed.err, re.MULTILINE)
    assert printed.out.startswith(out)
    assert bool(printed.out) == bool(out)
    assert printed.out.count("of two equally likely") <= 1


@pytest.mark.parametrize(
    ("learner", "unit"),
    [
        ("difference", "in the column's own unit, of a bit as a share"),
        ("mean", "in the column's own unit"),
    ],
)
def test_a_tolerance_says_its_unit(
    capsys: pytest.CaptureFixture[str], learner: str, unit: str
) -> None:
    with pytest.raises(SystemExit):
        main(["plan", learner, "--help"])
    assert unit in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tau", "0.1"), "expected --epsilon, or --users with a tolerance"),
        (("--epsilon", "1", "--plot", "a.png"), "--plot: expected no --epsilon with it"),
        (("--users", "10", "--plot", "a.jpg"), "a.jpg"),
        (("--users", "10"), "a tolerance (tau) for each answer of mean"),
    ],
)
def test_a_plan_that_no_epsilon_follows_from_is_bad_usage(
    run: Run, words: tuple[str, ...], message: str
) -> None:
    code, failure, _ = run("plan", "mean", *words)
    assert code == 2
    assert message in failure["failure"]["message"]


def test_a_plan_of_less_than_devices_answer_is_refused_with_3(run: Run) -> None:
    code, failure, _ = run("plan", "frequency", "--set", "cells=4", "--epsilon", "0.0009")
    assert code == 3
    assert failure["failure"]["reason"] == "plan-refused"
    assert "0.001 nats or more per question" in failure["failure"]["message"]


def test_waves_are_planned_and_what_they_save_is_told(run: Run) -> None:
    words = ("frequency", "--epsilon", "8", "--set", "cells=2", "--set", "tau=0.04")
    code, plan, _ = run("plan", *words, "--waves", "3")
    assert code == 0
    assert plan["rounds"][0]["waves"] == 3
    assert 0 < plan["rounds"][0]["lower_bound"] < plan["users_needed"]
    found = {}
    for waves in ("1", "3"):
        code, found[waves], _ = run(
            "simulate", *words, "--users", "3000", "--waves", waves, "--fleet", "columns"
        )
        assert code == 0
        assert found[waves]["waves"] == int(waves)
    assert found["1"]["users_saved"] == 0
    assert found["3"]["users_used"] + found["3"]["users_saved"] == plan["users_needed"]


@pytest.mark.parametrize(
    ("words", "variance"),
    [
        (("mean", "--epsilon", "1"), 5.607),  # a level for "missing"
        (("mean", "--epsilon", "1", "--set", "missing=default"), 4.683),
        (("frequency", "--epsilon", "1", "--set", "cells=64"), 3.55),
        (("frequency", "--epsilon", "4", "--set", "cells=1024"), 0.0762),  # hashed
    ],
)
def test_a_plan_needs_no_data_and_knows_its_variance(
    run: Run, words: tuple[str, ...], variance: float
) -> None:
    code, plan, _ = run("plan", *words)
    assert code == 0
    assert plan["rounds"][0]["n_variance"] == pytest.approx(variance, rel=0.01)


def test_verify_finds_no_violation(run: Run) -> None:
    code, result, _ = run("verify", "--epsilon", "0.5", "--epsilon", "40", "--epsilon", "60")
    assert (code, result["violations"]) == (0, 0)
    half = [row for row in result["checked"] if row["epsilon"] == 0.5]
    assert half
    for row in half:
        assert row.keys() >= {"randomizer", "epsilon", "privacy_loss", "nano_nats", "tight"}
        assert row["tight"] is True
        assert row["nano_nats"] == 500_000_000
        assert row["privacy_loss"] <= 0.5 + 1e-9
    # Certainty is never the answer to a large epsilon: an exact table, or a clear refusal.
    for row in result["checked"]:
        if row["epsilon"] == 40.0:
            assert row["privacy_loss"] <= 40 + 1e-9
        if row["epsilon"] == 60.0:  # patterns of many signs are likelier than one coin resolves
            patterns = row["randomizer"] in ("hypercube(64)", "hypercube(1024)")
            assert row["privacy_loss"] <= 60 + 1e-9 if patterns else "at most" in row["refused"]


def test_the_list_names_learners_and_populations(run: Run) -> None:
    _, listed, _ = run("simulate", "--list")
    assert {entry["name"] for entry in listed["learners"]} >= {
        "masked-parity", "conjunctions", "frequency", "mean",
    }  # fmt: skip
    assert all(entry["error"] and entry["guess"] for entry in listed["learners"])


def test_the_version_is_the_packages(run: Run) -> None:
    from askance_client import __version__

    code, found, _ = run("version")
    assert (code, found["askance"]) == (0, __version__)


@pytest.mark.parametrize("command", ["", "demo", "simulate", "plan", "verify", "device", "version"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    assert end.value.code == 0
    assert "usage: askance" in capsys.readouterr().out


def test_rows_and_pictures_are_written(run: Run, tmp_path: Path) -> None:
    words = ("simulate", "masked-parity", "--users", "700", "--epsilon", "4", "--trials", "2")
    for suffix in (".jsonl", ".parquet"):
        code, _, _ = run(*words, "--out", str(tmp_path / f"rows{suffix}"))
        assert code == 0
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["trial"] for line in lines] == [0, 1]
    from pyarrow import parquet

    assert parquet.read_table(tmp_path / "rows.parquet").num_rows == 2
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        picture = tmp_path / f"errors{suffix}"
        assert run(*words, "--plot", str(picture))[0] == 0
        assert picture.read_bytes().startswith(magic)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [
        ".jsonl", ".parquet", ".png", ".svg",
    ]  # fmt: skip


def test_a_picture_that_says_nothing_is_refused_after_the_result(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "mean.png"
    words = ("simulate", "mean", "--users", "300", "--epsilon", "2", "--fleet", "columns")
    code, found, err = run(*words, "--plot", str(picture))
    assert code == 2
    assert found["learner"] == "mean"
    assert err.startswith("askance: plot: expected a result with a picture, got none: one mean")
    assert err.count("\n") == 1
    assert not picture.exists()
    assert run(*words, "--plot", str(picture), "--trials", "2")[0] == 0
    assert picture.exists()


def test_a_sweep_s_rows_are_not_written_over(run: Run, tmp_path: Path) -> None:
    rows = tmp_path / "mean.jsonl"
    grid = ("mean", "--epsilon", "1", "--users", "50", "--out", str(rows))
    assert run("sweep", *grid, "--trials", "2")[0] == 0
    before = rows.read_bytes()
    code, found, _ = run("simulate", *grid)
    assert code == 2
    assert "got a sweep's rows" in found["failure"]["message"]
    assert rows.read_bytes() == before


def test_a_picture_of_what_is_not_drawn_is_refused(run: Run) -> None:
    words = ("simulate", "mean", "--users", "50", "--epsilon", "1", "--picture", "rounds")
    code, found, _ = run(*words)
    assert code == 2
    assert found["failure"]["message"] == "expected --plot with --picture, got none"
