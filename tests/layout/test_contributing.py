"""The contributor's map names files that exist, and its commands are those that CI runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.kinds import MARKS

ROOT = Path(__file__).resolve().parents[2]
_PATH = re.compile(r"`((?:\.?[\w-]+/)+[\w.-]*)`")
_LINK = re.compile(r"\]\((?!https?:)([\w./-]+)(?:#[\w-]*)?\)")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def named_paths(document: str) -> list[Path]:
    """Return the paths in code, from the root, and the links, from the document's folder."""
    text, folder = text_of(document), (ROOT / document).parent
    found = [ROOT / path for path in _PATH.findall(text) if "NAME" not in path]  # of a guide
    return [*found, *(folder / path for path in _LINK.findall(text) if "NAME" not in path)]


def recipes() -> dict[str, list[str]]:
    """Return the Makefile's commands by target."""
    found: dict[str, list[str]] = {}
    for line in text_of("Makefile").splitlines():
        if target := re.match(r"([a-z]+):", line):
            found[target.group(1)] = []
        elif line.startswith("\t"):
            found[list(found)[-1]].append(line.strip())
    return found


def test_no_helper_but_one_marks_the_tests_of_other_files() -> None:
    """A run of one marker's tests does not read files in which `MARKS` finds nothing."""
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if path.name[:5] != "test_"]
    marking = [
        path for path in helpers if re.search(r"mark\.(slow|nightly)", path.read_text("utf-8"))
    ]
    assert [path.name for path in marking] == ["kinds.py"]
    (name,) = re.findall(r"^def (\w+)", marking[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert MARKS["nightly"].fullmatch(name)
    assert all(pattern.search(f"pytest.mark.{marker}") for marker, pattern in MARKS.items())


def test_each_marker_has_its_run_and_the_default_has_no_marker() -> None:
    settings = tomllib.loads(text_of("pyproject.toml"))["tool"]["pytest"]["ini_options"]
    markers = [line.partition(":")[0] for line in settings["markers"]]
    assert markers == ["slow", "nightly"] == list(MARKS)
    options = settings["addopts"]
    assert options[options.index("-m") + 1] == "not slow and not nightly"
    assert "\npytest -q -m slow -n " in text_of(".ci/run")
    assert "\npytest -q -m nightly -n " in text_of(".ci/nightly")


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md"]
)
def test_every_path_that_is_named_exists(document: str) -> None:
    paths = named_paths(document)
    assert len(paths) > 3
    assert [path for path in paths if not path.exists()] == []


def test_a_query_travels_in_ten_steps_that_name_their_files() -> None:
    section = (
        text_of("docs/architecture.md").partition("## Path of a query")[2].partition("\n## ")[0]
    )
    steps = re.split(r"^(\d+)\. ", section, flags=re.MULTILINE)[1:]
    assert steps[::2] == [str(number) for number in range(1, 11)]
    assert all(_PATH.search(step) for step in steps[1::2])


def test_every_decision_is_listed_once_under_its_title() -> None:
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\(adr/(.+)\) \|", text_of("docs/decisions.md"), re.M)
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0] for page in pages]
    assert sorted((f"# {n}. {title}", name) for n, title, name in rows) == sorted(
        (title, page.name) for title, page in zip(titles, pages, strict=True)
    )


def test_every_package_is_on_the_map() -> None:
    text = text_of("CONTRIBUTING.md").partition("## Commands")[0]
    for package in ("protos", "client", "aggregator", "simulation", "papers"):
        assert f"`askance_{package}`" in text


def test_every_folder_of_tests_belongs_to_a_run() -> None:
    """The default one has the listed folders; those of papers and of a cluster are their own."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = tomllib.load(file)["tool"]["pytest"]["ini_options"]["testpaths"]
    folders = {str(file.parent.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")}
    homes = {"/".join(folder.split("/")[:2]) for folder in folders}
    assert homes == {*listed, "tests/papers", "tests/cluster"}
    script = text_of(".ci/run")
    assert "\npytest -q tests/papers\n" in script
    assert "\npytest -q -n 0 tests/cluster  #" in script


def test_contributors_have_five_commands_which_ci_runs_too() -> None:
    commands = recipes()
    assert set(commands) == {"help", "setup", "test", "check", "generate", "ci"}
    script = text_of(".ci/run")
    assert commands["ci"] == ["bash .ci/run"]
    for command in [*commands["test"], *commands["check"], commands["generate"][0]]:
        assert f"\n{command}\n" in script
    for name in commands.keys() - {"help"}:
        assert f"make {name} " in text_of("CONTRIBUTING.md")
