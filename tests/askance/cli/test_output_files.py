"""Results that cannot be written: one line that names the file, and nothing is left behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from askance.cli import main

MEAN = "simulate mean --users 300 --epsilon 1 --fleet columns"
SHARES = "simulate frequency --users 2000 --epsilon 4 --fleet columns"
LIST = [sys.executable, "-m", "askance", "simulate", "--list"]


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which each file takes three bytes and no more."""
    usual = Path.write_bytes

    def failing(path: Path, data: bytes) -> int:
        if tmp_path not in path.resolve().parents:
            return usual(path, data)
        usual(path, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", failing)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (f"{MEAN} --out rows.jsonl", "rows.jsonl"),
        (f"{SHARES} --plot shares.png", "shares.png"),
        (f"{SHARES} --plot shares.svg", "shares.svg"),
        (
            "curate mean --data census --epsilon 1 --set columns=age --set bounds=age:18:90"
            " --out mean.json",
            "mean.json",
        ),
    ],
)
def test_a_full_disk_is_one_line_with_the_file_s_name_and_leaves_no_part_of_it(
    command: str,
    name: str,
    full_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(full_disk)
    assert main(command.split()) == 1
    shown = capsys.readouterr()
    assert shown.err == f"askance: {name}: No space left on device\n"
    assert list(full_disk.iterdir()) == []
    if command.startswith("simulate"):
        assert " users, epsilon " in shown.out


def test_a_full_disk_leaves_the_one_object_of_json(
    full_disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(full_disk)
    assert main([*SHARES.split(), "--out", "rows.jsonl", "--plot", "shares.png", "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["learner"] == "frequency"
    assert shown.err == "askance: rows.jsonl: No space left on device\n"


def test_a_full_disk_leaves_the_file_that_was_there(
    full_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (full_disk / "rows.jsonl").open("w") as file:
        file.write("kept\n")
    monkeypatch.chdir(full_disk)
    assert main([*MEAN.split(), "--out", "rows.jsonl", "--force"]) == 1
    assert [path.name for path in full_disk.iterdir()] == ["rows.jsonl"]
    assert (full_disk / "rows.jsonl").read_text() == "kept\n"


@pytest.mark.parametrize(
    "command",
    [
        f"{MEAN} --out result.jsonl",
        "curate mean --data census --epsilon 1 --set columns=age --set bounds=age:18:90"
        " --out result.json",
        "study result 0123456789 --key none.pem --out result.json",
    ],
)
def test_out_replaces_no_file_unless_forced(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    path = Path(command.split()[-1])
    path.write_text("kept\n")
    assert main(command.split()) == 2
    assert capsys.readouterr().err == (
        f"askance: --out: expected a new file, got {path}, which exists: give another name, or"
        " --force to replace it\n"
    )
    assert path.read_text() == "kept\n"


def test_force_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("old\n")
    assert main([*MEAN.split(), "--out", "rows.jsonl", "--force"]) == 0
    assert json.loads(Path("rows.jsonl").read_text())["learner"] == "mean"
    size = Path("rows.jsonl").stat().st_size
    assert capsys.readouterr().err == f"wrote rows.jsonl: {size:,} bytes\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_standard_output_that_is_full_is_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*LIST, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode == 1
    assert done.stderr == "askance: standard output: No space left on device\n"


@pytest.mark.parametrize("words", [LIST, [sys.executable, "-m", "askance", *MEAN.split()]])
def test_a_closed_pipe_ends_the_command_silently_and_well(words: list[str]) -> None:
    """The reader leaves before the first byte, as the reader of `askance ... | head -0` does."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_broken_pipe_of_something_else_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import askance

    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    monkeypatch.setattr(askance, "plan", broken)
    assert main(["plan", "mean", "--epsilon", "1"]) == 1
    assert capsys.readouterr().err == "askance: [Errno 32] Broken pipe\n"


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["text", "json"])
def test_a_label_that_the_terminal_cannot_show_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    data = tmp_path / "towns.csv"
    data.write_text("town\n" + "K\u00f6ln\nWien\n" * 200, encoding="utf-8")
    shown = tmp_path / "terminal"
    with shown.open("w", encoding="ascii") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "__stdout__", terminal)
        status = main(["simulate", "frequency", "--data", str(data), "--epsilon", "1", *words])
        monkeypatch.undo()
    assert status == 0
    assert "K\\u00f6ln" in shown.read_text(encoding="ascii")
    if words:
        assert "K\u00f6ln" in str(json.loads(shown.read_text(encoding="ascii")))
