"""`askance sweep`: a grid on the command line, its printed results, files and pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import askance as ask
from askance.cli import main
from askance_simulation.cores import cores

# In one process, however slow: trials of a busy machine would be worth other processes.
SWEEP = ("sweep", "--workers", "1")
MEAN = (*SWEEP, "mean", "--epsilon", "1,2", "--users", "50,80", "--trials", "3")


def parsed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """Return a command's one JSON object; stderr is no terminal."""
    assert main([*words, "--json"]) == code
    said = capsys.readouterr()
    if code == 0:
        out = Path(words[words.index("--out") + 1]) if "--out" in words else None
        assert said.err == (f"wrote {out}: {out.stat().st_size:,} bytes\n" if out else "")
    else:
        assert said.err != ""
    assert said.out.count("\n") == 1
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_a_cell_is_told_with_its_bands(capsys: pytest.CaptureFixture[str]) -> None:
    found = parsed(capsys, *MEAN)
    assert (found["trials"], found["refused"], found["axes"]) == (12, 0, ["epsilon", "users"])
    assert [(cell["epsilon"], cell["users"]) for cell in found["cells"]] == [
        (1, 50), (1, 80), (2, 50), (2, 80),
    ]  # fmt: skip
    for cell in found["cells"]:
        assert cell["error"]["low"] < cell["error"]["value"] < cell["error"]["high"]
        assert 0 <= cell["success"]["low"] <= cell["success"]["value"] <= cell["success"]["high"]
    assert found["answers"] == 3 * 2 * (50 + 80)


def test_people_read_a_table_and_why_a_cell_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*SWEEP, "masked-parity", "--epsilon", "8", "--users", "20,400", "--set", "d=2")
    assert main([*words, "--trials", "2"]) == 0
    screen = capsys.readouterr().out
    heads, *lines = screen.splitlines()[2:5]
    assert re.split(r"  +", heads.strip()) == [
        *("users", "trials", "error", "error, 95%", "success", "success, 95%", "asked", "s"),
    ]
    refused, enough = (line.split() for line in lines)
    assert refused[:4] == ["20", "2", "refused", "needs"]
    assert enough[:4] == ["400", "2", "0", "1"], "no band of errors that are all the same"
    assert "4 trials of 2 cells, 2 plans refused" in screen


def test_the_same_command_goes_on_with_its_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    first = parsed(capsys, *MEAN, "--out", str(out))
    written = out.read_bytes()
    out.write_bytes(written[: len(written) // 2])
    again = parsed(capsys, *MEAN, "--out", str(out))
    kept = [{name: cell[name] for name in cell if name != "seconds"} for cell in first["cells"]]
    assert kept == [
        {name: cell[name] for name in cell if name != "seconds"} for cell in again["cells"]
    ]
    assert out.read_bytes().count(b"\n") == 12


def test_a_row_is_what_simulate_says_with_its_seed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    words = ("--epsilon", "2", "--users", "500", "--randomizer", "k-ary-response")
    parsed(capsys, *SWEEP, "frequency", *words, "--set", "cells=4,8", "--out", str(out))
    row = json.loads(out.read_text().splitlines()[-1])
    settings = (f"cells={row['settings']['cells']}", "--seed", str(row["seed"]))
    found = parsed(capsys, "simulate", "frequency", *words, "--set", *settings)
    assert found["transcript"] == row["transcript"]
    assert found["error"]["mean"] == row["error"]


def test_a_value_with_commas_is_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*SWEEP, "quantiles", "--epsilon", "8", "--users", "9000", "--trials", "1")
    fixed = ("--fix", "levels=1/4,3/4", "--set", "steps=8,16")
    found = parsed(capsys, *words, *fixed)
    assert found["axes"] == ["steps"]
    assert {cell["levels"] for cell in found["cells"]} == {"1/4,3/4"}


@pytest.mark.parametrize(
    ("suffix", "how"),
    [
        (".png", ()),
        *((".svg", how) for how in ((), ("--x", "epsilon"), ("--y", "success"))),
        *(
            pytest.param(".png", how, marks=pytest.mark.slow)
            for how in (("--x", "epsilon"), ("--y", "success"), ("--y", "users"))
        ),
        pytest.param(".svg", ("--y", "users"), marks=pytest.mark.slow),
    ],
)
def test_a_picture_is_the_same_bytes_for_the_same_rows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str, how: tuple[str, ...]
) -> None:
    pictures = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for picture in pictures:
        parsed(capsys, *MEAN, "--plot", str(picture), *how)
    one, two = (picture.read_bytes() for picture in pictures)
    assert one == two
    assert len(one) > 5_000


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "expected LEARNER, got none"),
        ("mean", "expected --epsilon"),
        ("mean --epsilon 1", "expected a number of users"),
        ("mean --epsilon 1, --users 9", "expected values with commas between, got '1,'"),
        ("mean --epsilon 1 --users 9,x", "users: expected a whole number"),
        ("mean --epsilon 1 --users 9 --set d=", "--set d: expected values"),
        ("mean --epsilon 1 --users 9 --set d=1 --set d=2", "expected d once, got '2' again"),
        ("mean --epsilon 1 --users 9 --set d=1 --fix d=2", "expected d once, got '2' again"),
        ("mean --epsilon 1 --users 9 --plot a.png", "expected an axis with several values"),
        ("mean --epsilon 1,2 --users 9 --plot a.png --x users", "got epsilon"),
        ("mean --epsilon 1 --users 9 --plot a.txt", "expected a file named *.png or *.svg"),
        ("mean --epsilon 1 --users 9 --out a.csv", "expected a file named *.jsonl or *.parquet"),
        ("mean --epsilon 1 --users 9 --trials 0", "expected a whole number of 1 or more"),
        ("mean --epsilon 1 --users 9 --fleet pigeons", "fleet: expected one of objects"),
    ],
)
def test_bad_input_is_one_clear_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert complaint in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("picture", ["result", "spending", "rounds"])
def test_simulate_draws_each_of_its_pictures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, picture: str
) -> None:
    file = tmp_path / "picture.png"
    words = ("simulate", "masked-parity", "--users", "700", "--epsilon", "4", "--plot", str(file))
    parsed(capsys, *words, "--picture", picture)
    assert file.read_bytes().startswith(b"\x89PNG")


class Asked(Exception):
    """Stands for a sweep that would begin."""


@pytest.mark.parametrize(("words", "expected"), [((), None), (("--workers", "3"), 3)])
def test_a_sweep_may_fill_all_cores(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: int | None
) -> None:
    def begun(*_: Any, workers: int | None, spread: int, **__: Any) -> None:
        assert (workers, spread) == (expected, cores())
        raise Asked

    monkeypatch.setattr(ask, "sweep", begun)
    grid = ("--epsilon", "1,2", "--users", "50,80")
    with pytest.raises(Asked):
        main(["sweep", "mean", *grid, *words, "--debug"])
