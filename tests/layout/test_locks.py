"""Locked versions: what pyproject.toml declares is in them, with digests, and within its bounds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ROOT / "deploy" / "locks"
OF_USERS = ("all", "cluster", "fast", "oidc", "otel", "postgres")
LOCKED = {
    "development": ("dev",),
    "mutation": ("mutation",),
    "cluster": ("cluster",),
    "aggregator": ("postgres", "oidc", "otel"),
    "device": None,
    "lowest": OF_USERS,
}
"""Of each file the extras that it is of; None: of the device's distribution alone."""


def _declared(extras: tuple[str, ...] | None) -> list[Requirement]:
    """All that the distributions declare to need with some extras, but each other."""
    files = [ROOT / "client" / "pyproject.toml"]
    if extras is not None:
        files.append(ROOT / "pyproject.toml")
    found, wanted = [], list(extras or ())
    for file in files:
        project = tomllib.loads(file.read_text())["project"]
        more = project.get("optional-dependencies", {})
        found += [Requirement(text) for text in project["dependencies"]]
        for extra in wanted:
            for one in map(Requirement, more.get(extra, ())):
                wanted += [name for name in one.extras if one.name == "askance"]
                found.append(one)
    return [one for one in found if one.name not in ("askance", "askance-client")]


def _pins(name: str) -> dict[str, list[Version]]:
    pins: dict[str, list[Version]] = {}
    for found in re.finditer(r"^([\w.-]+)==([^\s;]+)", (LOCKS / f"{name}.txt").read_text(), re.M):
        pins.setdefault(found[1].lower(), []).append(Version(found[2]))
    return pins


@pytest.mark.parametrize("name", LOCKED)
def test_all_that_is_declared_is_locked_within_its_bounds(name: str) -> None:
    pins = _pins(name)
    for declared in _declared(LOCKED[name]):
        found = pins.get(declared.name.lower(), [])
        assert found, f"{declared.name}: not in {name}.txt; run tools/locks.py"
        assert all(declared.specifier.contains(one) for one in found), (declared, found)


def test_the_lowest_versions_are_the_bounds_that_are_declared() -> None:
    """A bound that is not installed in a test is a guess."""
    pins = _pins("lowest")
    for declared in _declared(OF_USERS):
        (bound,) = (one.version for one in declared.specifier if one.operator in (">=", "=="))
        assert pins[declared.name.lower()] == [Version(bound)], declared


@pytest.mark.parametrize("name", [name for name in LOCKED if name != "lowest"])
def test_each_version_has_digests_and_no_file_names_an_index(name: str) -> None:
    text = (LOCKS / f"{name}.txt").read_text()
    entries = re.split(r"^(?=\S)", text, flags=re.M)[1:]
    assert len(entries) == sum(map(len, _pins(name).values()))
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert "index-url" not in text
