"""`askance reproduce`: what the paper says beside what is measured, and whether it holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from askance.cli import main
from askance_papers import reproduce
from askance_papers.reproduce import Reproduction, Setting


@dataclass(frozen=True)
class Entry:
    """A reproduction that is measured at once."""

    holds: bool
    name: str = "toy"
    summary: str = "as quick as can be"

    def reproduce(self, setting: Setting) -> Reproduction:
        setting.progress("all of it")
        rows = (
            {"what": "[red]loss", "n": 1000, "measured": 0.123456, "bound": None, "holds": True},
            {"what": "error", "n": 10, "measured": 1.0, "bound": 2.0, "holds": self.holds},
        )
        effort = f"effort: {setting.effort.value}, key: {setting.seed.key.hex()[:8]}"
        return Reproduction(
            self.name, "a paper", "It is so.", "It is not so.", rows, (effort,), _draw
        )


def _draw(figure: Any) -> None:
    figure.add_subplot().plot([0, 1], [0, 1])


@pytest.fixture(params=[True, False], ids=["holds", "does not hold"])
def holds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    entry = Entry(request.param)
    monkeypatch.setattr(reproduce.registry, "REPRODUCTIONS", {"toy": entry})
    monkeypatch.setattr(reproduce, "REPRODUCTIONS", {"toy": entry})
    return bool(request.param)


def test_people_read_the_claim_the_table_and_the_verdict(
    holds: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "toy"]) == (0 if holds else 1)
    screen, err = capsys.readouterr()
    assert err == ""
    assert "It is so.\nNot as printed: It is not so.\n" in screen
    table = [line.split() for line in screen.splitlines() if line.startswith(" ")]
    assert table[1] == ["[red]loss", "1,000", "0.1235", "-", "yes"]
    assert screen.splitlines()[-2] == ("It holds." if holds else "It does NOT hold.")


def test_programs_read_one_object(holds: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "toy", "--json", "--quick", "--seed", "3"]) == (0 if holds else 1)
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["holds"]) == ("toy", holds)
    assert found["differs_from_print"] == "It is not so."
    assert found["rows"][0]["bound"] is None
    assert found["notes"][0].startswith("effort: quick, key: ")


def test_the_list_names_them(holds: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["reproductions"]
    assert listed == [{"name": "toy", "summary": "as quick as can be"}]
    assert main(["reproduce", "--list"]) == 0
    assert "as quick as can be" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_picture_is_the_same_every_time(holds: bool, suffix: str, tmp_path: Path) -> None:
    one, two = (tmp_path / f"{name}{suffix}" for name in "ab")
    for path in (one, two):
        main(["reproduce", "toy", "--plot", str(path)])
    assert len(one.read_bytes()) > 1000
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such"], "reproduction: expected one of"),
        ([], "expected a name, got none"),
        (["toy", "--data", "nowhere"], "data: expected a folder"),
        (["toy", "--plot", "a.gif"], "expected a file named *.png or *.svg"),
        (["toy", "--seed", "-1"], "expected a whole number of 0 or more"),
    ],
)
def test_bad_input_is_one_line(
    holds: bool, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_every_entry_has_its_module() -> None:
    from importlib import import_module

    for name, entry in reproduce.REPRODUCTIONS.items():
        assert entry.name == name
        module = import_module(f"askance_papers.reproduce.{entry.module}")
        assert callable(module.reproduce)
