"""Bad input gets one clear line, exit code 2, and nothing is lost."""

import json
from pathlib import Path

import pytest

from askance.cli import main

MASKED = "simulate masked-parity --users 700"
BAD = [
    "",
    "nothing",
    "simulate",
    "simulate masked-parity --epsilon 1",
    "simulate masked-parity --users 700",
    "simulate nobody --users 700 --epsilon 1",
    "simulate masked-parity --users 0 --epsilon 1",
    "simulate masked-parity --users -5 --epsilon 1",
    "simulate masked-parity --users 1.5 --epsilon 1",
    "simulate masked-parity --users many --epsilon 1",
    f"{MASKED} --epsilon 0",
    f"{MASKED} --epsilon=-1",
    f"{MASKED} --epsilon nan",
    f"{MASKED} --epsilon inf",
    f"{MASKED} --epsilon much",
    f"{MASKED} --epsilon 50",
    f"{MASKED} --epsilon 4 --beta 0",
    f"{MASKED} --epsilon 4 --beta 1.5",
    f"{MASKED} --epsilon 4 --delta 0",
    f"{MASKED} --epsilon 4 --delta much",
    f"{MASKED} --epsilon 4 --trials 0",
    f"{MASKED} --epsilon 4 --seed -1",
    f"{MASKED} --epsilon 4 --fleet pigeons",
    f"{MASKED} --epsilon 4 --set d",
    f"{MASKED} --epsilon 4 --set d=1",
    f"{MASKED} --epsilon 4 --set d=eight",
    f"{MASKED} --epsilon 4 --set colour=red",
    f"{MASKED} --epsilon 4 --set variant=other",
    f"{MASKED} --epsilon 4 --population nowhere",
    f"{MASKED} --epsilon 4 --population numbers",
    f"{MASKED} --epsilon 4 --plot here.txt",
    f"{MASKED} --epsilon 4 --out here.csv",
    f"{MASKED} --epsilon 4 --out no/such/folder/rows.jsonl",
    f"{MASKED} --epsilon 4 --label y",
    "simulate frequency --epsilon 1 --data none.csv",
    "simulate frequency --epsilon 1 --data empty.csv",
    "simulate frequency --epsilon 1 --data ragged.csv",
    "simulate frequency --epsilon 1 --data twice.csv",
    "simulate frequency --epsilon 1 --data binary.csv",
    "simulate frequency --epsilon 1 --data people.csv --set column=shoe",
    "simulate frequency --epsilon 1 --data people.csv --label shoe",
    "simulate mean --epsilon 1 --data people.csv --set column=education",
    "simulate mean --epsilon 1 --data people.csv --schema none.toml",
    "simulate mean --epsilon 1 --data people.csv --population numbers",
    "simulate mean --users 100 --epsilon 1 --every 7d",
    "simulate mean --users 100 --epsilon 1 --epochs 2 --trials 3",
    "simulate mean --users 100 --epsilon 1 --epochs 2 --absent 0.1",
    "plan masked-parity",
    "plan mean --tau 0.1 --epsilon 1 --every 7d",
    "plan mean --deployment devices=10",
    "plan nobody --epsilon 1",
    "plan frequency --epsilon 1 --set cells=1",
    "verify --epsilon 0",
    "verify --epsilon x",
    "demo --devices 0",
    "demo --d 1",
    "device",
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    (tmp_path / "binary.csv").write_bytes(b"a,b\n\xff\xfe\x00,1\n")
    (tmp_path / "people.csv").write_text(
        "age,education\n" + "".join(f"{20 + i % 50},{'AB?'[i % 3]}\n" for i in range(300))
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_one_clear_line(
    command: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(files.iterdir())
    assert main(command.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("askance: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize("command", BAD)
def test_under_json_the_failure_is_the_one_object(
    command: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--json"]) == 2
    said = capsys.readouterr()
    failure = json.loads(said.out)["failure"]
    assert failure.keys() == {"reason", "message"}
    assert failure["message"] in said.err


@pytest.mark.parametrize("command", ["simulate mean --users 9", "plan mean --tau 0.1"])
def test_days_without_their_letter_name_the_option(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(f"{command} --epsilon 1 --epochs 2 --every 7".split()) == 2
    assert capsys.readouterr().err == "askance: --every: expected days as \"7d\", got '7'\n"


@pytest.mark.parametrize("name", ["life", "study", "window"])
def test_a_budget_that_is_none_names_its_option(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    course = "plan mean --epsilon 1 --users 1000 --epochs 3 --every 7d"
    assert main([*course.split(), f"--{name}-epsilon", "-2"]) == 2
    wanted = f"askance: --{name}-epsilon: expected a positive number of nats, got '-2'\n"
    assert capsys.readouterr().err == wanted


def test_missing_values_are_no_error(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A third of the users have no education: that is a cell of its own."""
    words = "simulate frequency --epsilon 1 --data people.csv --set column=education --json"
    assert main(words.split()) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["users_used"] == 300
    assert set(result["hypothesis"]) == {"(missing)", "A", "B"}
    assert result["truth"] == pytest.approx([1 / 3, 1 / 3, 1 / 3])


def test_debug_shows_where(files: Path) -> None:
    from askance_client.errors import InvalidRecord

    with pytest.raises(InvalidRecord):
        main(["simulate", "frequency", "--epsilon", "1", "--data", "none.csv", "--debug"])


def test_a_fault_of_our_own_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import askance

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(askance, "plan", broken)
    assert main(["plan", "mean", "--epsilon", "1"]) == 1
    err = capsys.readouterr().err
    assert err == "askance: RuntimeError: two lines (a fault of askance; --debug shows where)\n"
