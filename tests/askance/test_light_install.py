"""Commands of the light install: no extra's package is imported, and a missing one is named.

The packages are hidden from the import system, as if they were not installed.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.examples.documents import steps

ROOT = Path(__file__).parents[2]
HIDDEN = (
    "matplotlib",
    "sklearn",
    "dp_accounting",
    "pyarrow",
    "pandas",
    "argcomplete",
    "jinja2",
    "starlette",
    "uvicorn",
    "ray",
)
PROGRAM = f"""
import importlib.machinery, sys

usual = importlib.machinery.PathFinder.find_spec

def find(name, path=None, target=None):
    return None if name.split(".")[0] in {HIDDEN} else usual(name, path, target)

importlib.machinery.PathFinder.find_spec = find
from askance.cli import main

code = 0
for words in sys.argv[1:]:
    code = main(words.split())
    if code:
        break
sys.exit(code)
"""


def run(folder: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run commands one after another in a process in which the packages are hidden."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *commands],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_the_commands_of_a_newcomer_need_no_extra(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        "demo --devices 3000 --d 4 --epsilon 4",
        "plan masked-parity --epsilon 1 --set d=16",
        "simulate frequency --data census --set column=education --epsilon 1 --fleet columns",
        "simulate naive-bayes --data census --label income --epsilon 2 --fleet columns"
        " --out rows.jsonl",
        "sweep mean --epsilon 1,2 --users 1000 --trials 2 --out mean.jsonl",
        "curate mean --data census --epsilon 1 --set columns=age --set bounds=age:18:90",
        "verify --epsilon 1",
        "reproduce --list",
        "simulate --list",
    )
    files = [line.partition(":")[0] for line in done.stderr.splitlines()]
    assert (done.returncode, files) == (0, ["wrote rows.jsonl", "wrote mean.jsonl"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mean.jsonl", "rows.jsonl"]


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("simulate mean --users 300 --epsilon 1 --plot a.png", "matplotlib", "plots"),
        ("sweep mean --users 300,400 --epsilon 1 --plot a.svg", "matplotlib", "plots"),
        ("reproduce theorem-5.1 --quick --plot a.png", "matplotlib", "plots"),
        ("simulate mean --users 300 --epsilon 1 --out a.parquet", "pyarrow", "frames"),
        ("simulate mean --data a.parquet --epsilon 1", "pyarrow", "frames"),
        ("simulate mean --users 300 --epsilon 1 --fleet ray", "Ray", "cluster"),
        ("console --key a.pem", "starlette", "console"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_to_install(
    tmp_path: Path, command: str, package: str, extra: str
) -> None:
    (tmp_path / "a.parquet").touch()
    done = run(tmp_path, f"{command} --force" if "--out" in command else command)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"expected {package} installed" in done.stderr
    assert re.search(rf"pip install ('askance|-e '\.)\[{extra}\]'", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_estimators_name_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("askance.estimators", "sklearn"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"expected scikit-learn installed.*askance\[curator\]"):
        importlib.import_module("askance.estimators")


@pytest.mark.parametrize(
    ("needing", "install"), [("--plot ", ".[plots]"), ("from askance.estimators", ".[curator]")]
)
def test_readme_installs_an_extra_before_it_is_needed(needing: str, install: str) -> None:
    texts = [str(step) for step in steps("README.md")]
    first = {
        word: next(number for number, text in enumerate(texts) if word in text)
        for word in (needing, install)
    }
    assert first[install] < first[needing]


def test_the_hidden_packages_are_of_extras_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
    names = (
        "matplotlib",
        "scikit-learn",
        "dp-accounting",
        "pyarrow",
        "pandas",
        "argcomplete",
        "jinja2",
        "starlette",
        "uvicorn",
        "ray",
    )
    for needed in (*project["dependencies"], *client["dependencies"]):
        assert not needed.startswith(names)
    extras = project["optional-dependencies"]
    in_all = ("plots", "frames", "curator", "completion", "console")
    of_all = [line for extra in in_all for line in extras[extra]]
    for name in names[:-1]:
        assert any(line.startswith(name) for line in of_all), name
    assert extras["all"] == [f"askance[{','.join(in_all)}]"]
