"""The rule of the timed part: one module reads a record or handles a value that follows from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "client" / "askance_client"
WORK = "device/record_work.py"
# Functions that take a record, or a value, level or symbol that follows from one.
HANDLES = {
    "evaluate_vector",
    "vector_level",
    "round_to_levels",
    "sign_pattern",
    "randomize",
}
# Definitions, and sources: what they give goes to the work alone. The owner's own reading of the
# own ledger, on the owner's command, is no part of an answer.
DEFINE = ("queries/", "randomizers/", "records/")
STEPS = {"prepare", "evaluate", "fix", "draw", "end", "answer"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(CLIENT.rglob("*.py")):
        name = path.relative_to(CLIENT).as_posix()
        if not name.startswith(DEFINE):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def used(tree: ast.AST) -> set[str]:
    """Names that are called, passed on or imported."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.name.rpartition(".")[2])
    return names


def loads(tree: ast.AST) -> list[ast.Call]:
    """Calls of `x.load()` without arguments, as a record has it."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "load"
        and not node.args
    ]


def test_the_module_does_all_that_is_looked_for() -> None:
    """A name that nothing uses would make the tests below empty."""
    tree = ast.parse((CLIENT / WORK).read_text(encoding="utf-8"))
    assert used(tree) >= (HANDLES - {"sign_pattern"}) | {"evaluate"}
    assert len(loads(tree)) == 1


def test_no_other_module_reads_a_record_or_handles_a_value() -> None:
    handling = {name for name, tree in modules() if (used(tree) & HANDLES) or loads(tree)}
    assert handling == {WORK}


def test_steps_are_run_by_the_timed_evaluation_and_the_core_alone() -> None:
    """`x.work.step` or `work.step`, wherever that is written."""
    found: dict[str, set[str]] = {}
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in STEPS:
                owner = node.value
                last = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                if last == "work":
                    found.setdefault(name, set()).add(node.attr)
    assert found == {
        "device/core.py": {"answer", "end"},
        "service/evaluation.py": {"answer", "prepare", "evaluate", "fix", "draw"},
    }


def test_a_commit_is_given_finished_symbols_alone() -> None:
    """`Charge` is made in one function of the core, whose symbol is an argument of bytes."""
    tree = ast.parse((CLIENT / "device/core.py").read_text(encoding="utf-8"))
    (spend,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and "Charge" in made(node)
    ]
    assert [
        (arg.arg, ast.unparse(arg.annotation)) for arg in spend.args.args if arg.annotation
    ] == [
        ("due", "Due"),
        ("symbol", "bytes"),
    ]
    (charge,) = [
        node
        for node in ast.walk(spend)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Charge"
    ]
    (symbol,) = [word.value for word in charge.keywords if word.arg == "symbol"]
    assert ast.unparse(symbol) == "symbol"
    imported = {name for name in used(tree) if name in {"Value", "Query", "round_to_levels"}}
    assert imported == set()


def made(function: ast.FunctionDef) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("folder", ["randomizers", "device"])
def test_no_cache_is_keyed_by_a_value_of_a_record(folder: str) -> None:
    """The one cache of draws is keyed by a number of components, which the request states."""
    cached = set()
    for path in sorted((CLIENT / folder).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                "cache" in ast.unparse(decorator) for decorator in node.decorator_list
            ):
                cached.add((node.name, ast.unparse(node.args)))
    expected = {("patterns_within", "components: int")} if folder == "randomizers" else set()
    assert cached == expected
