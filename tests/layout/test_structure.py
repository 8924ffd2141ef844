"""Figures of the code's structure: imports have one direction, between modules and layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.structure import (
    FOLDERS,
    PACKAGES,
    ROOT,
    cycles,
    files_of,
    longest_chain,
    merged,
    module_arrows,
    package_of,
    table,
)

CHAIN = {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"b"}}


def test_neither_modules_nor_layers_import_each_other() -> None:
    """Imports within functions count; imports for types only do not."""
    arrows = module_arrows(PACKAGES)
    assert cycles(arrows) == []
    assert cycles(merged(arrows, PACKAGES)) == []


@pytest.mark.parametrize(
    ("arrows", "found"),
    [
        (CHAIN, []),
        (CHAIN | {"c": {"a"}}, [["a", "b", "c"]]),
        (CHAIN | {"c": {"d"}}, [["b", "c", "d"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_cycles_are_groups_that_import_each_other(
    arrows: dict[str, set[str]], found: list[list[str]]
) -> None:
    assert sorted(cycles(arrows)) == found


def test_the_longest_chain_of_an_acyclic_graph() -> None:
    assert longest_chain(CHAIN) == 3
    assert longest_chain(CHAIN | {"c": {"a"}}) == "none: cycles"


def test_a_module_belongs_to_its_packages_direct_child() -> None:
    packages = ("askance", "askance_client")
    assert package_of("askance_client.ledger.sqlite", packages) == "askance_client.ledger"
    assert package_of("askance_client", packages) == "askance_client"
    assert package_of("askance.cli.main", packages) == "askance.cli"


def test_stubs_are_not_counted() -> None:
    names = {file.name for file in files_of(ROOT, FOLDERS, "askance_protos")}
    assert names == {"__init__.py"}


def test_a_module_is_a_package_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text("")
    assert files_of(tmp_path, ["."], "alone") == [tmp_path / "alone.py"]


def test_a_table_has_a_row_per_figure_of_either_tree() -> None:
    assert table({"lines": 1000}) == "| figure | value |\n|---|---:|\n| lines | 1,000 |"
    rows = table({"lines": 2}, {"lines": 1, "gone": 3}).splitlines()
    assert rows[2:] == ["| lines | 1 | 2 |", "| gone | 3 |  |"]
