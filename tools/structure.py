"""Figures of the code's structure: lines, modules, imports, circles and docstrings, per package.

    python -m tools.structure                       # this tree, as a Markdown table
    python -m tools.structure --json > after.json
    python -m tools.structure --against before.json # the whole beside an earlier tree
    python -m tools.structure --commit v0.1.0       # another commit, from `git archive`
    python -m tools.structure --list                # names of one-user modules and of circles

Imports are those of the source text, also those within functions and under TYPE_CHECKING. Generated
stubs (`*_pb2*.py`) are left out. The papers are a column of their own, and no part of "all but
papers"; in commits before the package `askance_papers` its modules are found by their names then.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tools.trusted_base import code_lines, span, statements

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("protos", "client", "aggregator", "simulation", ".", "papers")
PACKAGES = (
    "askance_protos",
    "askance_client",
    "askance_aggregator",
    "askance_simulation",
    "askance",
    "askance_papers",
)
PAPERS = (
    "askance_papers",
    "askance_aggregator.curator",  # until 0.1.0 was prepared
    "askance_simulation.curate",
    "askance_simulation.reproduce",
    "askance.cli.curate",
    "askance.cli.reproduce",
)

SHORT = 125  # lines; a longer module with one user may well hold an idea of its own

Arrows = dict[str, set[str]]
Figures = dict[str, float]


@dataclass(frozen=True)
class Module:
    """Figures of one file of source text.

    Args:
        name: the dotted name; a package's `__init__` has the package's.
        lines: all lines.
        code: lines without blank lines, comments and docstrings.
        characters: of the code lines, together.
        docstrings: lines of docstrings.
        import_lines: lines of import statements.
        functions: code lines of each function, its signature and decorators included.
        imported: dotted names that the imports may mean, modules or what is in them.
    """

    name: str
    lines: int
    code: int
    characters: int
    docstrings: int
    import_lines: int
    functions: tuple[int, ...]
    imported: frozenset[str]


def measure(name: str, source: str, *, package: bool) -> Module:
    """Measure one module; `package` says that the text is a package's `__init__`."""
    tree = ast.parse(source)
    code = code_lines(source, tree)
    text = source.splitlines()
    docstrings, imports, functions, imported = 0, set[int](), list[int](), set[str]()
    for node in statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= span(node)
            imported |= _names_of(node, name if package else name.rpartition(".")[0])
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                docstrings += len(span(node.body[0]))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(len(code & span(node)))
    return Module(
        name=name,
        lines=len(text),
        code=len(code),
        characters=sum(len(text[line - 1]) for line in code),
        docstrings=docstrings,
        import_lines=len(imports),
        functions=tuple(functions),
        imported=frozenset(imported),
    )


def modules_of(root: Path, packages: Iterable[str] = PACKAGES) -> list[Module]:
    """Measure each module of the packages, generated stubs excepted."""
    found = []
    for package in packages:
        for folder in FOLDERS:
            for file in sorted((root / folder / package).rglob("*.py")):
                if "_pb2" not in file.stem:
                    parts = file.relative_to(root / folder).with_suffix("").parts
                    is_package = parts[-1] == "__init__"
                    name = ".".join(parts[:-1] if is_package else parts)
                    found.append(measure(name, file.read_text("utf-8"), package=is_package))
    return found


def module_arrows(modules: Iterable[Module]) -> Arrows:
    """Return the modules that each module imports, among these."""
    by_name = {module.name: module for module in modules}
    result: Arrows = {}
    for name, module in by_name.items():
        meant = {_longest(imported, by_name) for imported in module.imported}
        result[name] = meant - {name, ""}
    return result


def layer_of(module: str) -> str:
    """Return the layer of a module: its top-level package's direct child that holds it."""
    return ".".join(module.split(".")[:2])


def merged(arrows: Mapping[str, set[str]]) -> Arrows:
    """Return the arrows between layers, without those inside one."""
    result: Arrows = {}
    for module, imported in arrows.items():
        layer = layer_of(module)
        result.setdefault(layer, set()).update(set(map(layer_of, imported)) - {layer})
    return result


def circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of two or more names that import each other, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []
    for start in sorted(arrows):
        if start in order:
            continue
        work = [(start, iter(sorted(arrows[start])))]
        while work:
            name, rest = work[-1]
            if name not in order:
                order[name] = low[name] = len(order)
                stack.append(name)
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == order[name]:
                    at = stack.index(name)
                    group, stack = stack[at:], stack[:at]
                    groups += [sorted(group)] if len(group) > 1 else []
            elif following not in order:
                work.append((following, iter(sorted(arrows.get(following, ())))))
            elif following in stack:
                low[name] = min(low[name], order[following])
    return groups


def one_user_modules(arrows: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the modules that one module imports, a sibling in the same package, and that one."""
    users: Arrows = {name: set() for name in arrows}
    for name, imported in arrows.items():
        for other in imported:
            users[other].add(name)
    return {
        name: user
        for name, (user, *others) in sorted((n, sorted(u)) for n, u in users.items() if u)
        if not others and _package_of(user) == _package_of(name)
    }


def figures(modules: Sequence[Module], arrows: Mapping[str, set[str]]) -> Figures:
    """Return the figures of some modules, by arrows between all."""
    names = {module.name for module in modules}
    lines = sum(module.lines for module in modules)
    code = sum(module.code for module in modules)
    docstrings = sum(module.docstrings for module in modules)
    one_user = names & one_user_modules(arrows).keys()
    lengths = [length for module in modules for length in module.functions]
    return {
        "lines": lines,
        "code lines": code,
        "modules": len(modules),
        "import lines": sum(module.import_lines for module in modules),
        "one-user modules": len(one_user),
        f"one-user modules of {SHORT} lines at most": sum(
            module.lines <= SHORT for module in modules if module.name in one_user
        ),
        "circles of imports": sum(not names.isdisjoint(group) for group in circles(arrows)),
        "largest file": max((module.lines for module in modules), default=0),
        "docstring lines": docstrings,
        "docstrings, % of lines": round(100 * docstrings / max(1, lines), 1),
        "functions": len(lengths),
        "function's code lines, median": median(lengths or [0]),
        "characters per code line": round(
            sum(module.characters for module in modules) / max(1, code), 1
        ),
    }


def figures_of_tree(root: Path) -> dict[str, Figures]:
    """Measure a tree: in all, without the papers, and per package."""
    modules = modules_of(root)
    arrows = module_arrows(modules)
    columns = {"all": modules, "all but papers": [m for m in modules if not in_papers(m.name)]}
    for package in PACKAGES[:-1]:
        columns[package] = [m for m in columns["all but papers"] if m.name.split(".")[0] == package]
    columns["askance_papers"] = [module for module in modules if in_papers(module.name)]
    return {name: figures(held, arrows) for name, held in columns.items()}


def in_papers(module: str) -> bool:
    """Return whether a module belongs to the papers."""
    return any(f"{module}.".startswith(f"{prefix}.") for prefix in PAPERS)


def table(columns: Mapping[str, Figures]) -> str:
    """Return figures as a Markdown table with a column per part."""
    rows = [
        f"| figure | {' | '.join(columns)} |",
        "|---|" + "---:|" * len(columns),
    ]
    for figure in next(iter(columns.values())):
        cells = (f"{column[figure]:,}" for column in columns.values())
        rows.append(f"| {figure} | {' | '.join(cells)} |")
    return "\n".join(rows)


def listing(root: Path) -> str:
    """Return the names behind two figures: one-user modules with their users, and circles."""
    arrows = module_arrows(modules_of(root))
    users = [f"{name} <- {user}" for name, user in one_user_modules(arrows).items()]
    return "\n".join([*users, *(f"circle: {' '.join(group)}" for group in circles(arrows))])


def _names_of(node: ast.Import | ast.ImportFrom, package: str) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    start = package.split(".")[: 1 - node.level or None] if node.level else []
    base = ".".join([*start, *([node.module] if node.module else [])])
    return {f"{base}.{alias.name}" for alias in node.names}


def _longest(name: str, known: Mapping[str, object]) -> str:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def _package_of(module: str) -> str:
    return module.rpartition(".")[0]


def _unpack(commit: str, folder: Path) -> None:
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def main() -> None:
    """Print the figures of a tree."""
    parser = argparse.ArgumentParser(description="Figures of the code's structure.")
    parser.add_argument("--commit", help="a commit; without it the files of this tree")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--against", type=Path, help="JSON of an earlier tree")
    parser.add_argument("--list", action="store_true", help="print names instead of figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = ROOT
        if given.commit:
            root = Path(folder)
            _unpack(given.commit, root)
        if given.list:
            print(listing(root))
            return
        measured = figures_of_tree(root)
    if given.json:
        print(json.dumps(measured, indent=1))
    elif given.against:
        before = json.loads(given.against.read_text("utf-8"))
        for part in measured:
            print(table({f"{part}, before": before[part], "after": measured[part]}), end="\n\n")
    else:
        print(table(measured))


if __name__ == "__main__":
    main()
