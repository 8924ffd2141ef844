"""Terminal output: the numbers of --json in words and tables; and the end of commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from askance.cli import main
from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[3]


def read(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Return a command's stdout; its stderr is empty, since there is no terminal."""
    assert main(list(words)) == code
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def parsed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(read(capsys, *words, "--json", code=code))
    return result


def cells_of(screen: str, name: str) -> list[str]:
    """Return a table's row, by its first cell."""
    table = [line.split() for line in screen.splitlines() if line.startswith("  ")]
    (row,) = [cells for cells in table if cells[:1] == [name]]
    return row[1:]


def test_a_hypothesis_stands_beside_what_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("simulate", "masked-parity", "--users", "700", "--epsilon", "4")
    screen, result = read(capsys, *words, "--verbose"), parsed(capsys, *words)
    assert screen.startswith("masked-parity of 4 fields, 700 users, epsilon 4\n")
    assert f"r = {result['hypothesis']['r']}" in screen
    assert f"a = {result['hypothesis']['a']}" in screen
    assert f"\n{result['verdict']}\n" in screen
    used = result["users_used"]
    assert f"{used} of 700 users answered once each and spent 4.00 of 4.00 nats." in screen
    assert result["transcript"] in screen


def test_the_default_text_has_no_bounds_and_no_transcript(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("simulate", "mean", "--users", "300", "--epsilon", "4")
    short, long = read(capsys, *words), read(capsys, *words, "--verbose")
    for detail in ("one false report", "transcript sha256:", "lower bound", "raw "):
        assert detail not in short
        assert detail in long
    # Title, estimate, verdict, cost, guarantees, note, and blank lines.
    assert len(short.splitlines()) == 8


def test_what_was_spent_is_stated_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("simulate", "mean", "--users", "300", "--epsilon", "4", "--verbose")
    screen = read(capsys, *words)
    assert "spent 4.00 of 4.00 nats" in screen
    assert "epsilon spent" not in screen
    composed = read(capsys, *words, "--delta", "0.001")
    (line,) = [one for one in composed.splitlines() if one.startswith("epsilon spent: ")]
    assert line.endswith(" at delta 0.001")


def test_the_mean_of_what_was_spent_is_added_where_users_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("simulate", "masked-parity", "--users", "700", "--epsilon", "4", "--verbose")
    screen, spent = read(capsys, *words), parsed(capsys, *words)["epsilon_spent"]
    assert spent["mean"] < spent["max"] == 4
    assert f"\nepsilon spent: {spent['mean']:.4g} in the mean over all users\n" in screen


def shown_numbers(screen: str, name: str) -> list[float]:
    """Return a row's estimate, half width and truth, in the unit that is shown."""
    cells = [cell for cell in cells_of(screen, name) if cell not in ("%", "+-", "true")]
    return [float(cell.replace(",", "")) for cell in cells]


@pytest.mark.parametrize(
    ("words", "rows", "unit"),
    [
        (("frequency", "--set", "cells=3"), ("0", "1", "2"), 100),
        (("mean",), ("mean",), 1),
        (("mean-vector", "--set", "d=2", "--set", "norm=l2"), ("x0", "x1"), 1),
    ],
)
def test_estimates_stand_beside_their_intervals_and_the_truth(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], rows: tuple[str, ...], unit: int
) -> None:
    command = ("simulate", *words, "--users", "3000", "--epsilon", "4")
    screen, result = read(capsys, *command), parsed(capsys, *command)
    found = result["hypothesis"]
    found = found.get("means", {"mean": found} if "estimate" in found else found)
    for name, truth in zip(rows, result["truth"], strict=True):
        value, half, true = shown_numbers(screen, name)
        assert value - half <= unit * found[name]["low"] + 1e-9
        assert value + half >= unit * found[name]["high"] - 1e-9
        assert half < unit * (found[name]["high"] - found[name]["low"])  # and is no wider than told
        assert true == pytest.approx(unit * truth, abs=0.1 * half)


def test_a_result_no_better_than_guessing_is_judged_in_the_table_s_units(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = "simulate frequency --population categories --users 300 --epsilon 0.1 --fleet columns"
    words = command.split()
    result = parsed(capsys, *words)
    assert result["placement"] == "no_better"
    screen = " ".join(read(capsys, *words).split())
    assert "Nothing was learned: the intervals are as wide as before any user was asked" in screen
    assert "(error 165 %; of a constant guess 28 %)" in screen
    assert result["advice"]
    assert f"What would help, by the planner: {'; '.join(result['advice'])}." in screen


def test_no_estimate_lies_outside_the_interval_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Raw shares of rare cells are negative; --json keeps them."""
    command = ("simulate", "frequency", "--users", "400", "--epsilon", "1", "--set", "cells=64")
    screen, result = read(capsys, *command, "--all"), parsed(capsys, *command)
    negative = [name for name, cell in result["hypothesis"].items() if cell["estimate"] < 0]
    assert len(negative) > 10
    for name in result["hypothesis"]:
        assert shown_numbers(screen, name)[0] >= 0


def test_the_greatest_estimates_come_first_and_the_rest_on_demand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ("simulate", "frequency", "--users", "400", "--epsilon", "1", "--set", "cells=64")
    short, long = read(capsys, *command), read(capsys, *command, "--all")
    assert "  and 44 more: --all\n" in short
    assert "more: --all" not in long
    shown = [float(line.split()[1]) for line in long.splitlines() if "+-" in line]
    assert len(shown) == 64
    assert shown == sorted(shown, reverse=True)
    assert [line for line in short.splitlines() if "+-" in line] == [
        line for line in long.splitlines() if "+-" in line
    ][:20]


def test_every_answer_is_shown_with_its_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("simulate", "mean", "--users", "300", "--epsilon", "4")
    screen, result = read(capsys, *command, "--verbose"), parsed(capsys, *command)
    (bounds,) = result["bounds"]
    assert 0 < bounds["least_users"] <= bounds["answers"] == 300
    assert (
        f"round 1, question 1: 300 answers, within {bounds['within']:.4g}; one false report moves"
        f" it by at most {bounds['one_report_moves_by']:.4g}; lower bound for this width, any"
        f" randomizer, worst population: {bounds['least_users']} users" in screen
    )


def test_labels_are_shown_as_they_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Neither as markup nor as pictures."""
    labels = ["[bold]", "[/nothing]", ":smile:"]
    data = tmp_path / "people.csv"
    data.write_text("\n".join(["label", *labels * 50]))
    screen = read(capsys, "simulate", "frequency", "--epsilon", "4", "--data", str(data))
    assert all(len(shown_numbers(screen, label)) == 3 for label in labels)
    assert "note: bounds and labels were inferred from the data file" in screen


def test_a_plan_is_a_table_of_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "masked-parity", "--epsilon", "2")
    screen, result = read(capsys, *words), parsed(capsys, *words)
    for number, row in enumerate(result["rounds"], start=1):
        assert cells_of(screen, str(number))[:2] == [str(row["queries"]), f"{row['users']:,}"]
        assert row["randomizer"] not in screen
    assert f"\n{result['users_needed']:,} users in all.\n" in screen
    assert "\nEach user who is asked spends 2.00 of 2.00 nats. Of two equally likely" in screen
    assert result["rounds"][0]["randomizer"] in read(capsys, *words, "--verbose")


def test_equal_rounds_of_a_plan_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("plan", "linear-regression", "--epsilon", "1", "--rounds", "30")
    screen, result = read(capsys, *words), parsed(capsys, *words)
    users = result["rounds"][0]["users"]
    assert len(result["rounds"]) == 30
    assert f"1 .. 30 1 {users:,} each" in " ".join(screen.split())


def test_a_plan_that_cannot_work_says_so_and_exits_with_3(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("plan", "masked-parity", "--epsilon", "2", "--users", "10")
    assert main([*words, "--json"]) == 3
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert result["feasible"] is False
    assert result["failure"] == {"reason": "plan-refused", "message": result["reason"]}
    assert said.err == f"askance: {result['reason']}\n"
    assert main(list(words)) == 3
    said = capsys.readouterr()
    assert said.err == f"askance: {result['reason']}\n"
    assert "users in all" in said.out


def test_a_check_that_is_refused_is_no_violation(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("verify", "--epsilon", "1", "--epsilon", "60")
    short, screen = read(capsys, *words), read(capsys, *words, "--all")
    assert cells_of(short, "60")[3:] == ["33", "0"]  # refused, violated
    assert "subset-selection" not in short
    assert "0 violations" in screen
    assert "refused" in screen
    assert "holds, tight" in screen
    assert "1,000,000,000" in screen


def test_a_demo_tells_what_was_found_and_what_was_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = read(capsys, "demo", "--devices", "650", "--epsilon", "4", "--seed", "2")
    assert cells_of(screen, "found") == cells_of(screen, "hidden")
    assert "The learner is right after 2 rounds" in screen


def test_the_list_is_for_people_too(capsys: pytest.CaptureFixture[str]) -> None:
    screen, listed = read(capsys, "simulate", "--list"), parsed(capsys, "simulate", "--list")
    for entry in (*listed["learners"], *listed["populations"]):
        assert f"  {entry['name']}: {entry['summary']}" in screen


def test_an_interrupted_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import askance

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(askance, "plan", interrupted)
    assert main(["plan", "mean", "--epsilon", "1", "--json"]) == 130
    said = capsys.readouterr()
    assert json.loads(said.out)["failure"]["reason"] == "interrupted"
    assert said.err == "askance: interrupted\n"


def test_options_have_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    """An abbreviated --json would print a failure that is no JSON."""
    for words in (["version", "--js"], ["plan", "mean", "--epsilon", "1", "--user", "5"]):
        assert main(words) == 2
        assert "unrecognized arguments: --" in capsys.readouterr().err


def test_a_reader_who_has_gone_is_not_told_off() -> None:
    """A closed stdout is no error: `askance simulate --list | head -1`."""
    code = "import sys; from askance.cli import main; sys.exit(main(['version']))"
    rooms = os.pathsep.join(str(ROOT / folder) for folder in FOLDERS)
    gone, pipe = os.pipe()
    os.close(gone)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": rooms},
            timeout=60,
        )
    finally:
        os.close(pipe)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up a terminal of 80 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def seen(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the text that a terminal shows, without colours."""
    assert main(list(words)) == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().out)


@pytest.mark.usefixtures("narrow")
def test_a_terminal_of_80_columns_shows_numbers_and_names_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    large = ("plan", "decision-tree", "--epsilon", "1", "--verbose")
    cells = ("--epsilon", "0.5,1", "--users", "1000,10000", "--trials", "5")
    grid = ("sweep", "mean", "--workers", "1", *cells)
    screens = [
        seen(capsys, *words) for words in (large, grid, ("verify", "--epsilon", "0.5", "--all"))
    ]
    for screen in screens:
        assert "\N{HORIZONTAL ELLIPSIS}" not in screen
        assert max(map(len, screen.splitlines())) <= 80
    users = [f"{row['users']:,}" for row in parsed(capsys, *large)["rounds"]]
    assert all(number in screens[0] for number in users)
    assert "signed-subset-selection(1024)" in screens[2]
