"""`askance device explain` of a study's file: what it would ask, before it is signed."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from askance.cli.main import main
from askance_client.cli.device import main as client_main

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_a_studys_file_is_explained_offline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "explain", str(EXAMPLES / "schooling.toml"), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["explained"]
    assert entry["fields"] == ["education"]
    assert (entry["budget_nano_nats"], entry["budget_odds"]) == (10**9, "2.72")
    (asked,) = entry["questions"]
    assert asked["nano_nats"] <= 10**9
    columns = zip(*(row["chances"] for row in asked["answers"]), strict=True)
    assert all(sum(map(Fraction, column)) == 1 for column in columns)


def test_no_answer_is_called_impossible_that_another_truth_may_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A randomizer gives each answer to each value; before, a row had 0 % where sizes differed."""
    (tmp_path / "people.toml").write_bytes((EXAMPLES / "people.toml").read_bytes())
    study = tmp_path / "mean.toml"
    lines = (
        'learner = "mean"',
        'schema = "people.toml"',
        "epsilon = 1",
        '[parameters]\ncolumn = "age"',
    )
    study.write_text("\n".join(lines), "utf-8")
    assert main(["device", "explain", str(study)]) == 0
    text = capsys.readouterr().out
    assert text.count("one of the likeliest answers") == text.count("another answer") == 1
    assert "  0 %" not in text
    assert main(["device", "explain", str(study), "--json"]) == 0
    ((asked,),) = (entry["questions"] for entry in json.loads(capsys.readouterr().out)["explained"])
    columns = list(zip(*(row["chances"] for row in asked["answers"]), strict=True))
    assert len(columns) == 3
    assert all(sum(map(Fraction, column)) == 1 for column in columns)


def test_a_studys_file_is_printed_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "explain", str(EXAMPLES / "schooling.toml")]) == 0
    text = capsys.readouterr().out
    assert "Which schooling people have. (frequency)" in text
    assert "may ask about  education" in text
    assert "possible answer" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_repeated_studys_file_has_the_price_of_all_epochs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, it had the price of one: 1 nat for twelve epochs of 1 nat each."""
    text = (EXAMPLES / "schooling.toml").read_text("utf-8")
    (tmp_path / "people.toml").write_bytes((EXAMPLES / "people.toml").read_bytes())
    study = tmp_path / "study.toml"
    study.write_text(f'{text}\n[repeat]\nevery = "7d"\nepochs = 12\n', "utf-8")
    assert main(["device", "explain", str(study), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["explained"]
    assert (entry["epochs"], entry["every_days"]) == (12, 7)
    assert (entry["budget_nano_nats"], entry["course_nano_nats"]) == (10**9, 12 * 10**9)


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "explain", "nofile.toml"]) == 2
    assert "nofile.toml: cannot be read: No such file" in capsys.readouterr().err


def test_a_client_alone_says_which_command_explains_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert client_main(["explain", str(EXAMPLES / "schooling.toml")]) == 2
    assert "askance device explain" in capsys.readouterr().err
