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


def test_a_studys_file_is_printed_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "explain", str(EXAMPLES / "schooling.toml")]) == 0
    text = capsys.readouterr().out
    assert "Which schooling people have. (frequency)" in text
    assert "may ask about  education" in text
    assert "possible answer" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_client_alone_says_which_command_explains_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert client_main(["explain", str(EXAMPLES / "schooling.toml")]) == 2
    assert "askance device explain" in capsys.readouterr().err
