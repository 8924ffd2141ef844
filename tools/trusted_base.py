"""Lines of the trusted base, per module, and the limits that they keep.

    python tools/trusted_base.py                 # a table, per package
    python tools/trusted_base.py --modules       # per module
    python tools/trusted_base.py --check         # exit status 1 past a limit

The core is the list of the import contract "the trusted core" in pyproject.toml; the contract
forbids it the network, the command line and record sources. `SUPPORT` is what the core imports
besides. `AUTHORING` stands in the core's packages and is not counted with them: no received byte
reaches it (`tests/trusted_base/test_authoring.py`). `PAGE` is the owner's page in a browser, which
no running device imports (the contract "the owner's page"); it has a limit of its own.

A module is counted three times: all lines; code lines, which are the lines without blank lines,
comments and docstrings; and read lines, which are the code lines without import statements and
`__all__`. The limits are on read lines of the core and on code lines of the client: an import
decides nothing, and the contract checks it.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT = "askance_client"
CONTRACT = "the trusted core"
SUPPORT = (
    "askance_client.errors",
    "askance_client.printable",
    "askance_client.sqlite_file",
    "askance_client.durable_files",
)
AUTHORING = (
    "askance_client.queries.categories",
    "askance_client.queries.operators",
    "askance_client.queries.rendering",
)
PAGE = "askance_client.console"
CORE_READ_LINES = 4_000
CLIENT_CODE_LINES = 12_000
PAGE_CODE_LINES = 600

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of source text.

    Args:
        total: all lines.
        code: without blank lines, comments and docstrings.
        read: code without import statements and `__all__`.
    """

    total: int = 0
    code: int = 0
    read: int = 0

    def __add__(self, other: Lines) -> Lines:
        return Lines(self.total + other.total, self.code + other.code, self.read + other.read)

    def __sub__(self, other: Lines) -> Lines:
        return Lines(self.total - other.total, self.code - other.code, self.read - other.read)


def count(source: str) -> Lines:
    """Count the lines of one module."""
    tree = ast.parse(source)
    code = code_lines(source, tree)
    imports: set[int] = set()
    for node in statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Assign) and _names_all(node)
        ):
            imports |= span(node)
    return Lines(len(source.splitlines()), len(code), len(code - imports))


def code_lines(source: str, tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that are not blank, a comment or part of a docstring."""
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in statements(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            code -= span(node.body[0])
    return code


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield a module and its statements, those in blocks included; expressions hold none."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            waiting += getattr(node, part, ())


def span(node: ast.stmt) -> set[int]:
    """Return the numbers of a statement's lines."""
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def core() -> tuple[str, ...]:
    """Return the packages and modules of the trusted core, from the import contract."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["name"] == CONTRACT
    ]
    return tuple(contract["source_modules"])


def modules(names: Iterable[str]) -> Iterator[tuple[str, Lines]]:
    """Yield each module of the packages, with its lines; `AUTHORING` where it is named itself."""
    names = tuple(names)
    left_out = set(AUTHORING) - set(names) if CLIENT not in names else set()
    for name in names:
        path = ROOT / "client" / Path(*name.split("."))
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        for file in files:
            module = ".".join(file.relative_to(ROOT / "client").with_suffix("").parts)
            if module not in left_out:
                yield module, _counted(file)


@cache
def _counted(file: Path) -> Lines:
    return count(file.read_text(encoding="utf-8"))


def lines_of(names: Iterable[str]) -> Lines:
    """Return the lines of several packages together."""
    return sum((lines for _, lines in modules(names)), Lines())


def client() -> Lines:
    """Return the lines of the client without the owner's page."""
    return lines_of([CLIENT]) - lines_of([PAGE])


def violations() -> list[str]:
    """Return the limits that are passed, one line per limit."""
    found = []
    read, code, page = lines_of(core()).read, client().code, lines_of([PAGE]).code
    if read > CORE_READ_LINES:
        found.append(f"core: expected at most {CORE_READ_LINES} read lines, got {read}")
    if code > CLIENT_CODE_LINES:
        found.append(f"client: expected at most {CLIENT_CODE_LINES} code lines, got {code}")
    if page > PAGE_CODE_LINES:
        found.append(f"page: expected at most {PAGE_CODE_LINES} code lines, got {page}")
    return found


def table(rows: Iterable[tuple[str, Lines]]) -> str:
    """Format rows as a Markdown table."""
    head = ["| | all lines | code lines | read lines |", "|---|---:|---:|---:|"]
    body = [f"| {name} | {n.total:,} | {n.code:,} | {n.read:,} |" for name, n in rows]
    return "\n".join([*head, *body])


def report(*, per_module: bool) -> str:
    """Return the table of the core, what supports it, and the client."""
    names = core()
    rows = list(modules(names)) if per_module else [(name, lines_of([name])) for name in names]
    rows = [(f"`{name}`", lines) for name, lines in rows]
    rows.append(("**the trusted core**", lines_of(names)))
    rows += [(f"`{name}` (support)", lines_of([name])) for name in SUPPORT]
    rows += [(f"`{name}` (authoring)", lines_of([name])) for name in AUTHORING]
    rows.append(("**the client without the owner's page**", client()))
    rows.append((f"`{PAGE}` (the owner's page)", lines_of([PAGE])))
    return table(rows)


def _names_all(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)


def main() -> int:
    """Print the table, or check the limits."""
    parser = argparse.ArgumentParser(description="Lines of the trusted base, and its limits.")
    parser.add_argument("--modules", action="store_true", help="a row per module")
    parser.add_argument("--check", action="store_true", help="exit with 1 past a limit")
    arguments = parser.parse_args()
    print(report(per_module=arguments.modules))
    found = violations()
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
