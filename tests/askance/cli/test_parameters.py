"""Parameters of learners as options: listed with defaults, checked, and the same as --set."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from askance.cli import main
from askance.cli.parameters import first_positional
from askance_aggregator.learners import ParameterEntry, ParameterKind, find, learners
from askance_papers.curate import LEARNERS

NAMES = [entry.name for entry in learners()]
SMALL = ["--users", "300", "--epsilon", "4", "--fleet", "columns"]


def result(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("command", ["simulate", "plan", "sweep", "study submit"])
@pytest.mark.parametrize("name", NAMES)
def test_help_lists_a_learner_s_parameters_with_their_defaults(
    name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), name, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for entry in find(name).parameters:
        option = f"--{entry.name.replace('_', '-')}"
        assert f" {option} " in text
        if entry.default is not None:
            assert f"(default {entry.default})" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_default_and_a_tested_setting_have_the_parameter_s_form(name: str) -> None:
    entry = find(name)
    parameters = {item.name: item for item in entry.parameters}
    tested = [*entry.small.oracles.items(), *entry.small.on_fleets.items()]
    defaults = [(item.name, item.default) for item in entry.parameters if item.default is not None]
    for key, text in (*tested, *defaults):
        if key in parameters:  # others are the population's
            parameters[key].check(text)


@pytest.mark.parametrize("entry", LEARNERS.values(), ids=str)
def test_a_curator_s_default_has_the_parameter_s_form(entry: Any) -> None:
    for item in entry.parameters:
        if item.default is not None:
            item.check(item.default)


def test_an_option_is_the_same_as_set(capsys: pytest.CaptureFixture[str]) -> None:
    by_option = result(capsys, "simulate", "frequency", *SMALL, "--cells", "3", "--tau", "1/4")
    by_set = result(capsys, "simulate", "frequency", *SMALL, "--set", "cells=3", "--set", "tau=1/4")
    default = result(capsys, "simulate", "frequency", *SMALL)
    assert by_option["transcript"] == by_set["transcript"] != default["transcript"]


def test_the_last_one_of_option_and_set_holds(capsys: pytest.CaptureFixture[str]) -> None:
    first = result(capsys, "simulate", "frequency", *SMALL, "--cells", "3", "--set", "cells=5")
    second = result(capsys, "simulate", "frequency", *SMALL, "--set", "cells=5", "--cells", "3")
    assert (len(first["hypothesis"]), len(second["hypothesis"])) == (5, 3)


def test_generated_users_have_options_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("simulate", "conjunctions", "--users", "20000", "--epsilon", "8", "--d", "3")
    found = result(capsys, *words, "--accuracy", "1/2", "--relevant", "3", "--fleet", "columns")
    assert found["hypothesis"]["variables"] == [0, 1, 2]


def test_a_wrong_value_is_refused_by_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("simulate", "mean-vector", *SMALL)
    assert "argument --norm: norm: expected one of linf, l2, got 'l3'" in refusal(
        capsys, *words, "--norm", "l3"
    )
    assert "argument --d: d expects a whole number, got '1.5'" in refusal(
        capsys, *words, "--d", "1.5"
    )
    assert "argument --tau: tau expects a finite number, got 'small'" in refusal(
        capsys, *words, "--tau", "small"
    )


def test_a_misspelt_option_is_refused_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = refusal(capsys, "simulate", "frequency", *SMALL, "--cels", "3")
    assert said == (
        "askance: unrecognized arguments: --cels 3 (did you mean --cells?)"
        " (see askance simulate frequency --help)\n"
    )
    assert "unrecognized arguments: --depth 3" in refusal(
        capsys, "plan", "mean", "--epsilon", "1", "--depth", "3"
    )


def test_an_option_before_the_learner_s_name(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, "simulate", "--cells", "3", "frequency", *SMALL)
    assert len(found["hypothesis"]) == 3
    bare = argparse.ArgumentParser()
    bare.add_argument("--json", action="store_true")
    assert first_positional(bare, ["--x", "1", "--json", "--y=2", "mean"]) == "mean"
    assert first_positional(bare, ["--x", "mean", "--json"]) is None


def test_the_label_of_generated_users_is_the_learner_s(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("plan", "naive-bayes", "--epsilon", "2", "--population", "traits")
    assert result(capsys, *words, "--label", "y") == result(capsys, *words)
    assert "z" in refusal(capsys, *words, "--label", "z")


def test_a_sweep_has_an_axis_per_option_with_several_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("sweep", "frequency", "--epsilon", "4", "--users", "300", "--trials", "1")
    found = result(capsys, *words, "--cells", "2,3")
    assert (found["axes"], found["trials"]) == (["cells"], 2)
    assert result(capsys, *words, "--cells", "3", "--turn", "0,1")["axes"] == ["turn"]
    assert "argument --cells: cells expects a whole number, got 'x'" in refusal(
        capsys, *words, "--cells", "2,x"
    )


def test_a_value_with_commas_is_one_value_of_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("sweep", "marginals", "--epsilon", "4", "--users", "300", "--trials", "1")
    found = result(capsys, *words, "--columns", "member,y", "--tau", "1/2")
    assert (found["axes"], found["trials"]) == ([], 1)


def test_a_curator_s_parameters_are_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "people.csv"
    data.write_text("age\n" + "\n".join(map(str, range(20, 60))))
    words = ("curate", "mean", "--data", str(data), "--epsilon", "1", "--seed", "1")
    by_option = result(capsys, *words, "--columns", "age", "--bounds", "age:17:90")
    by_set = result(capsys, *words, "--set", "columns=age", "--set", "bounds=age:17:90")
    assert by_option == by_set
    assert "argument --outside: outside: expected one of refuse, clip" in refusal(
        capsys, *words, "--outside", "keep"
    )


def test_a_parameter_is_checked_by_its_kind() -> None:
    levels = ParameterEntry("levels", "", kind=ParameterKind.NUMBERS)
    levels.check("1/4, 0.5")
    with pytest.raises(Exception, match="levels expects a finite number, got 'half'"):
        levels.check("1/4,half")


class TestCandidates:
    """A list of values in a file, one per line."""

    WORDS = ("simulate", "heavy-hitters", "--data", "census", "--column", "education")

    def test_a_file_is_the_list_of_set(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "list.txt"
        file.write_text("\ufeffSecondary\n\n  Bachelor \r\nNone, yet\n", encoding="utf-8")
        small = ("--users", "2000", "--epsilon", "4", "--fleet", "columns")
        by_file = result(capsys, *self.WORDS, *small, "--candidates", str(file))
        by_set = result(
            capsys, *self.WORDS, *small, "--set", 'candidates=Secondary,Bachelor,"None, yet"'
        )
        assert by_file["transcript"] == by_set["transcript"]
        assert by_file["hypothesis"]["others"]["candidates"] == 3
        assert [one["value"] for one in by_file["details"]["true"]] == ["Secondary", "Bachelor"]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, "expected a file with one value per line, got {file}: No such file"),
            (b"\n \n", "expected one value per line, got none in {file}"),
            (b"\xff", "expected a file with one value per line, got {file}: not UTF-8"),
        ],
    )
    def test_a_file_that_is_no_list_is_refused(
        self,
        content: bytes | None,
        message: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        file = tmp_path / "list.txt"
        if content is not None:
            file.write_bytes(content)
        told = refusal(capsys, *self.WORDS, "--epsilon", "4", "--candidates", str(file))
        assert message.format(file=file) in told
