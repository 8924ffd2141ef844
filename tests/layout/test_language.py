"""Docstrings, comments and headings are in plain technical English.

A docstring opens with a verb (functions) or a noun phrase (modules, classes, properties), never
with a question word, a conjunction or a pronoun. Indefinite pronouns hide who acts: name the user,
device, owner, caller, aggregator, operator or analyst. Metaphors are not searchable.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import re
import subprocess
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tools.trusted_base import statements

ROOT = Path(__file__).parents[2]

OPENINGS = frozenset(
    {"what", "who", "whom", "whose", "how", "whether", "which", "where", "why"}
    | {"of", "as", "so", "that", "it", "its", "they", "this", "these"}
    | {"likewise", "same", "one", "each"}
)
"""First words that a docstring may not have."""

HEADING_OPENINGS = OPENINGS - {"how", "one", "each", "same"}
"""First words that a heading may not have; "How to ..." names a task."""

WORDS = re.compile(
    r"\b(nobody|somebody|whoever|whomever|everybody|anybody|door|desk|journey|fate|seam|witness"
    r"|bench|sheet|dare|telling|a stranger|strangers?|the house|this room|the room)\b",
    re.IGNORECASE,
)
"""Words of which no docstring, comment or line of a document may make use."""

EXCEPTIONS = {"tests/layout/test_language.py": "states the words"}
"""Files that are not searched for words, each with its reason."""


def tracked(*suffixes: str) -> list[str]:
    """Return the tracked files with these suffixes; generated stubs are left out."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\n")
    return [
        name
        for name in listed
        if name.endswith(suffixes) and "_pb2" not in name and (ROOT / name).is_file()
    ]


def documented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every docstring."""
    for node in statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def opens_with(text: str, openings: frozenset[str]) -> bool:
    """Return whether the first word of a text is among `openings`."""
    word = re.match(r"\W*(\w+)", text)
    return word is not None and word[1].lower() in openings


def faults_in_source(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each breach in a Python file."""
    some = WORDS.search(source) is not None
    for line, text in documented(ast.parse(source)):
        first = text.split("\n")[0]
        if opens_with(first, OPENINGS):
            yield line, first
        if some:
            yield from ((line, f"{word[0]}: {first}") for word in WORDS.finditer(text))
    if some and any("#" in line and WORDS.search(line) for line in source.split("\n")):
        yield from ((line, text) for line, text in comments(source) if WORDS.search(text))


def faults_in_document(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each breach in a Markdown file; code blocks are left out."""
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and (
            WORDS.search(line) or (line.startswith("#") and opens_with(line, HEADING_OPENINGS))
        ):
            yield number, line


def undocumented(
    classes: Iterable[ast.ClassDef], bases: Mapping[str, ast.ClassDef]
) -> Iterator[tuple[int, str]]:
    """Yield public methods without a docstring of their own or a base's, by line and name."""
    for node in classes:
        if not node.name.startswith("_"):
            inherited = set(documented_in_bases(node, bases))
            for method in methods(node):
                if (
                    not method.name.startswith("_")
                    and not any("overload" in ast.unparse(by) for by in method.decorator_list)
                    and ast.get_docstring(method) is None
                    and method.name not in inherited
                ):
                    yield method.lineno, method.name


def documented_in_bases(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[str]:
    """Yield the names of the documented methods of a class's bases, and of theirs."""
    for name in (ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases):
        if (base := classes.get(name)) is not None and base is not node:
            yield from (method.name for method in methods(base) if ast.get_docstring(method))
            yield from documented_in_bases(base, classes)


def parsed(name: str) -> ast.Module:
    """Parse a file of the tree."""
    return ast.parse((ROOT / name).read_text(encoding="utf-8"))


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions in the body of a class."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            yield method


def interface_methods(classes: Iterable[ast.ClassDef]) -> Iterator[str]:
    """Yield the names of the documented methods of protocols."""
    for node in classes:
        if any("Protocol" in ast.unparse(base) for base in node.bases):
            yield from (method.name for method in methods(node) if ast.get_docstring(method))


def test_docstrings_comments_and_headings_are_plain() -> None:
    faults = []
    for name in tracked(".py"):
        if name not in EXCEPTIONS:
            source = (ROOT / name).read_text(encoding="utf-8")
            faults += [f"{name}:{line}: {text}" for line, text in faults_in_source(source)]
    for name in tracked(".md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        faults += [f"{name}:{line}: {text}" for line, text in faults_in_document(text)]
    assert not faults, "\n" + "\n".join(sorted(faults))


def test_a_public_method_is_documented_or_implements_one_that_is() -> None:
    """An implementation does not repeat the docstring of its interface."""
    interfaces, silent = set[str](), []
    found = {
        name: [node for node in statements(parsed(name)) if isinstance(node, ast.ClassDef)]
        for name in tracked(".py")
        if not name.startswith("tests/")
    }
    bases = {node.name: node for classes in found.values() for node in classes}
    for name, classes in found.items():
        interfaces.update(interface_methods(classes))
        silent += [(name, line, method) for line, method in undocumented(classes, bases)]
    faults = [
        f"{name}:{line}: {method}" for name, line, method in silent if method not in interfaces
    ]
    assert not faults, "\n" + "\n".join(faults)


def test_a_method_without_a_docstring_is_found() -> None:
    source = (
        "class Base:\n    def shown(self):\n        '''Show.'''\n"
        "class Other(Base):\n    def shown(self): ...\n    def hidden(self): ...\n"
        "class Alone:\n    def shown(self): ...\n"
    )
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    found = undocumented(classes, {node.name: node for node in classes})
    assert list(found) == [(6, "hidden"), (8, "shown")]


def test_every_exception_is_needed() -> None:
    for name in EXCEPTIONS:
        assert WORDS.search((ROOT / name).read_text(encoding="utf-8")), name


def test_public_classes_have_one_name_each() -> None:
    """No name of a public class stands for two classes of different packages."""
    places: dict[str, list[str]] = {}
    for name in tracked(".py"):
        if name.split("/")[0] in ("client", "aggregator", "simulation", "papers", "askance"):
            for node in ast.parse((ROOT / name).read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize(
    "source",
    [
        '"""What a device answers."""',
        'def f():\n    """As in a result."""',
        'class A:\n    """One of many."""',
        '"""Wait for it.\n\nWhoever waits is woken."""',
        "x = 1  # nobody is asked",
    ],
)
def test_a_breach_in_source_is_found(source: str) -> None:
    assert list(faults_in_source(source))


def test_a_breach_in_a_document_is_found() -> None:
    text = "# What it is\n\n```\nnobody\n```\nAsk somebody.\n## Install\n"
    assert [line for line, _ in faults_in_document(text)] == [1, 6]


def test_plain_words_pass() -> None:
    source = '"""Answer a request."""\nx = 1  # leaves room for one more\n'
    assert list(faults_in_source(source)) == []


def test_the_glossary_names_code_that_exists() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(askance_\w+(?:\.\w+)+)`", text))
    assert len(names) > 30
    for name in names:
        module, _, last = name.rpartition(".")
        if importlib.util.find_spec(name if last.islower() else module) is None:
            pytest.fail(f"docs/glossary.md: expected a module, got {name}")
        assert last.islower() or hasattr(importlib.import_module(module), last), name


def names_in_code(names: Iterable[str]) -> Iterator[str]:
    """Yield the names in the code of files."""
    for name in names:
        source = (ROOT / name).read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME:
                yield token.string


def test_a_package_names_modules_that_exist() -> None:
    """Single words in backticks are modules, or names of the code."""
    files = [name for name in tracked(".py") if not name.startswith("tests/")]
    known = {part for name in files for part in Path(name).with_suffix("").parts}
    known |= {*names_in_code(files), "postgres"}  # a container's user
    faults = []
    for name in files:
        if name.endswith("__init__.py"):
            text = ast.get_docstring(ast.parse((ROOT / name).read_text(encoding="utf-8"))) or ""
            faults += [f"{name}: {word}" for word in {*re.findall(r"`([a-z_]+)`", text)} - known]
    assert not faults, "\n".join(faults)
