"""`askance verify --audit`."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

import askance
from askance.cli import main
from askance_aggregator.families import randomized_response
from askance_simulation.audit import (
    Audit,
    MemoryLedgers,
    StreamCoins,
    audit_devices,
    of_cells,
    subjects,
)
from askance_simulation.randomness import Seed

WORDS = ["verify", "--audit", "--epsilon", "1", "--epsilon", "60", "--reports", "60"]
SUBJECTS = {"randomized-response", "k-ary-response(3)", "subset-selection(17)"}


def stuck() -> Audit:
    """Return devices without coins."""

    class Stuck(StreamCoins):
        def words(self, request: bytes, count: int) -> tuple[int, ...]:
            return (0,) * count

    subject = of_cells("stuck", randomized_response(10**9))
    return audit_devices(subject, Stuck(Seed.of(1)), MemoryLedgers(), reports=100)


def test_every_subject_is_audited_at_every_epsilon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three of them; test_audit.py audits all."""
    few = {name: make for name, make in subjects().items() if name in SUBJECTS}
    room = import_module("askance_simulation.audit.audit")  # `audit` is also a function there
    monkeypatch.setattr(room, "subjects", lambda: few)
    assert main([*WORDS, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["alarms"] == 0
    one = [row for row in result["audited"] if row["epsilon"] == 1]
    assert {row["randomizer"] for row in one} == SUBJECTS
    for row in one:
        assert row["reports"] == 60
        assert row["pairs"][0]["epsilon"] == 1
        assert row["pairs"][1]["epsilon"] == 0
        assert row["alarms"] == []
    refused = [row for row in result["audited"] if row["epsilon"] == 60]
    assert any("at most" in row["refused"] for row in refused)


def test_an_alarm_ends_with_1_and_says_what_was_expected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(askance, "audit", lambda *_, **__: iter([stuck()]))
    assert main(["verify", "--audit"]) == 1
    screen = capsys.readouterr().out
    assert "stuck, epsilon 1: the first cell: expected symbol 00 in about 73.11 of 100" in screen
    assert "note: the absence of an alarm is no proof; askance verify is\n" in screen
    assert main(["verify", "--audit", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["alarms"] == len(result["audited"][0]["alarms"]) > 0


@pytest.mark.parametrize(
    "words",
    [
        ["--reports", "10"],
        ["--audit", "--reports", "0"],
        ["--audit", "--reports", "1"],
        ["--audit", "--epsilon", "0"],
        ["--audit", "--epsilon", "much"],
    ],
)
def test_bad_input_gets_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("askance: ")
    assert said.err.count("\n") == 1
