"""The client holds functions that a device calls, and none that only an aggregator needs."""

from __future__ import annotations

import ast
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "client" / "askance_client"

# Functions of the client that no module of it calls by name, with the reason.
ELSEWHERE = {
    "__init__.py __getattr__": "Python calls it",
    "cli/record_settings.py an_origin": "cli/device.py loads it by the text of its name",
    "embedding.py outside_hours": "an application calls it",
}


def functions_without_a_caller(sources: dict[str, str]) -> set[str]:
    """Return `FILE NAME` of every top-level function that no code of these files names."""
    trees = {file: ast.parse(source) for file, source in sources.items()}
    named = {
        node.id if isinstance(node, ast.Name) else node.attr
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    }
    return {
        f"{file} {node.name}"
        for file, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name not in named
        and not node.decorator_list  # a decorator may register it
    }


def test_every_function_of_the_client_has_a_caller_in_the_client() -> None:
    sources = {
        path.relative_to(CLIENT).as_posix(): path.read_text(encoding="utf-8")
        for path in CLIENT.rglob("*.py")
    }
    assert functions_without_a_caller(sources) == set(ELSEWHERE)


def test_a_function_that_only_another_package_calls_is_found() -> None:
    sources = {
        "a.py": "def encode(): ...\n\n\ndef decode(): ...\n\n\nprint(encode())\n",
        "b.py": "from a import decode\n",
    }
    assert functions_without_a_caller(sources) == {"a.py decode"}
