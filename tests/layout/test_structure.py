"""Figures of the code's structure: imports have one direction, between modules and layers."""

from __future__ import annotations

import pytest

from tools.structure import (
    ROOT,
    Module,
    circles,
    figures,
    in_papers,
    layer_of,
    measure,
    merged,
    module_arrows,
    modules_of,
    one_user_modules,
    table,
)

CHAIN = {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"b"}}

TEXT = '''"""A module.

Of two paragraphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..other import Name
from . import sibling


def first(name: Name) -> int:
    """Return one."""
    # a comment

    return 1
'''


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return modules_of(ROOT)


def test_neither_modules_nor_layers_import_each_other(modules: list[Module]) -> None:
    """Imports within functions and those for types only count."""
    arrows = module_arrows(modules)
    assert circles(arrows) == []
    assert circles(merged(arrows)) == []


@pytest.mark.parametrize(
    ("arrows", "found"),
    [
        (CHAIN, []),
        (CHAIN | {"c": {"a"}}, [["a", "b", "c"]]),
        (CHAIN | {"c": {"d"}}, [["b", "c", "d"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_circles_are_groups_that_import_each_other(
    arrows: dict[str, set[str]], found: list[list[str]]
) -> None:
    assert sorted(circles(arrows)) == found


@pytest.mark.parametrize(
    "block",
    [
        "try:\n    pass\nexcept OSError:\n    import a",
        "try:\n    pass\nfinally:\n    import a",
        "for _ in ():\n    pass\nelse:\n    import a",
        "match 1:\n    case 1:\n        import a",
        "async def f():\n    async with f():\n        import a",
    ],
)
def test_an_import_in_any_block_counts(block: str) -> None:
    module = measure("top", block + "\n", package=False)
    assert module.imported == {"a"}
    assert module.import_lines == 1


def test_a_module_is_measured_by_its_text() -> None:
    module = measure("top.inner.alone", TEXT, package=False)
    assert (module.lines, module.code, module.docstrings, module.import_lines) == (19, 7, 5, 4)
    assert module.functions == (2,)
    assert module.characters == 34 + 32 + 17 + 28 + 21 + 29 + 12
    assert {"top.other.Name", "top.inner.sibling", "typing.TYPE_CHECKING"} < module.imported


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert (
        "top.inner.sibling.x"
        in measure("top.inner", "from .sibling import x", package=True).imported
    )


def test_imports_for_types_only_make_a_circle() -> None:
    other = measure("top.other", "from .inner.alone import first", package=False)
    alone = measure("top.inner.alone", TEXT, package=False)
    arrows = module_arrows([other, alone])
    assert circles(arrows) == [["top.inner.alone", "top.other"]]


def test_a_one_user_module_has_a_sibling_for_its_user() -> None:
    arrows = {
        "a.used": set(),
        "a.user": {"a.used", "b.far"},
        "b.far": {"a.twice"},
        "a.twice": set[str](),
        "a.third": {"a.twice"},
    }
    assert one_user_modules(arrows) == {"a.used": "a.user"}


def test_a_module_belongs_to_its_packages_direct_child() -> None:
    assert layer_of("askance_client.ledger.sqlite") == "askance_client.ledger"
    assert layer_of("askance_client") == "askance_client"


def test_papers_of_older_commits_are_papers() -> None:
    assert in_papers("askance_papers")
    assert in_papers("askance_aggregator.curator.people")
    assert not in_papers("askance_aggregator.curators")


def test_figures_of_one_module() -> None:
    module = measure("top.inner.alone", TEXT, package=False)
    found = figures([module], {"top.inner.alone": set()})
    assert found["docstrings, % of lines"] == 26.3
    assert found["one-user modules"] == found["circles of imports"] == 0


def test_stubs_are_not_counted(modules: list[Module]) -> None:
    assert not [module.name for module in modules if "_pb2" in module.name]


def test_a_table_has_a_column_per_part() -> None:
    assert table({"before": {"lines": 1000}, "after": {"lines": 999}}) == (
        "| figure | before | after |\n|---|---:|---:|\n| lines | 1,000 | 999 |"
    )
