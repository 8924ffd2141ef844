r"""Figures of the code's structure: lines, files, import arrows and cycles, per package.

    python tools/structure.py                      # this tree, as a Markdown table
    python tools/structure.py --json > after.json
    python tools/structure.py --against before.json

Another tree, of another layout, is measured by its packages and the folders that hold them:

    python tools/structure.py --root ../old --folders protos client aggregator simulation \\
        --packages askance.protos askance.client askance.aggregator askance.simulation \\
        --core askance.client.accounting askance.client.ledger --loads askance.api --json

Imports are those of the source text, by grimp, also those within functions, but not those under
TYPE_CHECKING. Lines are all lines of a file; generated stubs (`*_pb2*.py`) are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (".", "protos", "client", "aggregator", "simulation", "papers")
PACKAGES = (
    "askance_protos",
    "askance_client",
    "askance_aggregator",
    "askance_simulation",
    "askance",
    "askance_papers",
)
# The part of the client that carries epsilon: charges, draws and losses, evaluation, the ledger,
# the device's core and decoding.
CORE = tuple(
    f"askance_client.{name}"
    for name in ("accounting", "randomizers", "queries", "ledger", "device", "codec", "messages")
)

# One process per measurement: modules, milliseconds of CPU and megabytes after an import.
_MEASURE = """
import os, sys, time
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
modules, seconds, megabytes = len(sys.modules), time.process_time(), resident()
__import__(sys.argv[1])
print(len(sys.modules) - modules, time.process_time() - seconds, resident() - megabytes)
"""

Arrows = dict[str, set[str]]
Figures = dict[str, str | int | float]


def files_of(root: Path, folders: Iterable[str], package: str) -> list[Path]:
    """Return the package's Python files but for generated stubs."""
    parts = package.split(".")
    homes = [root.joinpath(folder, *parts) for folder in folders]
    files = {file for home in homes for file in home.rglob("*.py")}
    files |= {home.with_suffix(".py") for home in homes if home.with_suffix(".py").is_file()}
    return sorted(file for file in files if "_pb2" not in file.stem)


def lines_of(files: Iterable[Path]) -> int:
    """Return the number of lines of all files together."""
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def module_arrows(packages: Iterable[str]) -> Arrows:
    """Return the modules that each module imports, among these packages' own."""
    first, *others = packages
    graph = grimp.build_graph(first, *others, exclude_type_checking_imports=True, cache_dir=None)
    generated = {module for module in graph.modules if "_pb2" in module}
    return {
        module: graph.find_modules_directly_imported_by(module) - generated
        for module in graph.modules - generated
    }


def package_of(module: str, packages: Iterable[str]) -> str:
    """Return the layer of a module: its top-level package's direct child that holds it."""
    top = max((name for name in packages if f"{module}.".startswith(f"{name}.")), key=len)
    child = module.removeprefix(top).strip(".").partition(".")[0]
    return f"{top}.{child}" if child else top


def merged(arrows: Mapping[str, set[str]], packages: Iterable[str]) -> Arrows:
    """Return the arrows between layers, without those inside one."""
    names = tuple(packages)
    result: Arrows = {}
    for module, imported in arrows.items():
        layer = package_of(module, names)
        found = result.setdefault(layer, set())
        found |= {package_of(other, names) for other in imported} - {layer}
    return result


def cycles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
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


def longest_chain(arrows: Mapping[str, set[str]]) -> int | str:
    """Return the length of the longest chain of imports, in layers; none if there is a cycle."""
    if cycles(arrows):
        return "none: cycles"
    length: dict[str, int] = {}
    for name in TopologicalSorter(arrows).static_order():
        length[name] = 1 + max((length[other] for other in arrows.get(name, ())), default=0)
    return max(length.values())


def figures(root: Path, folders: list[str], packages: list[str], core: list[str]) -> Figures:
    """Measure a tree.

    Args:
        root: the tree's folder.
        folders: the folders that hold the packages, from the root.
        packages: the packages' dotted names, the lowest layer first.
        core: the modules and packages of the trusted core.
    """
    sys.path[:0] = [str(root / folder) for folder in folders]
    arrows = module_arrows(packages)
    layers = merged(arrows, packages)
    result: Figures = {}
    every: list[Path] = []
    for package in packages:
        files = files_of(root, folders, package)
        every += files
        result[f"{package}: lines"] = lines_of(files)
        result[f"{package}: files"] = len(files)
        held = {file.parent for file in files if file.name == "__init__.py"}
        result[f"{package}: packages"] = len(held)
    result["all: lines"], result["all: files"] = lines_of(every), len(every)
    result["trusted core: lines"] = lines_of(
        sorted({file for name in core for file in files_of(root, folders, name)})
    )
    result["imports between modules"] = sum(map(len, arrows.values()))
    result["imports between layers"] = sum(map(len, layers.values()))
    for name, found in (("modules", cycles(arrows)), ("layers", cycles(layers))):
        result[f"cycles of {name}"] = len(found)
        result[f"{name} in cycles"] = sum(map(len, found))
    result["longest chain of layers"] = longest_chain(layers)
    longest = max((str(file.relative_to(root)) for file in every), key=len)
    result["longest path: characters"] = len(longest)
    result["longest path"] = longest
    result["largest file: lines"] = max(lines_of([file]) for file in every)
    return result


def loading(module: str, root: Path, folders: Iterable[str]) -> Figures:
    """Measure one import: modules, and the medians of CPU and memory over five processes."""
    path = os.pathsep.join(str(root / folder) for folder in folders)
    command = [sys.executable, "-c", _MEASURE, module]
    runs = [
        subprocess.run(
            command, env=os.environ | {"PYTHONPATH": path}, check=True, capture_output=True
        ).stdout.split()
        for _ in range(5)
    ]
    middle = [sorted(float(run[column]) for run in runs)[2] for column in range(3)]
    return {
        "import: modules": int(middle[0]),
        "import: ms of CPU": round(1000 * middle[1], 1),
        "import: MB": round(middle[2], 1),
    }


def table(after: Figures, before: Figures | None = None) -> str:
    """Return the figures as a Markdown table, with a column of earlier ones if there are any."""
    names = list(dict.fromkeys([*(before or {}), *after]))
    head = "| figure | before | after |" if before is not None else "| figure | value |"
    rows = [head, "|---|" + "---:|" * (head.count("|") - 2)]
    for name in names:
        values = [] if before is None else [before.get(name, "")]
        rows.append(" | ".join(["| " + name, *map(_shown, [*values, after.get(name, "")])]) + " |")
    return "\n".join(rows)


def _shown(value: str | float) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    """Print the figures of a tree."""
    parser = argparse.ArgumentParser(description="Figures of the code's structure.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree's folder")
    parser.add_argument("--folders", nargs="+", default=FOLDERS, help="folders of packages")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="lowest layer first")
    parser.add_argument("--core", nargs="+", default=CORE, help="modules of the trusted core")
    parser.add_argument("--loads", default="askance", help="the module whose import is measured")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--against", type=Path, help="JSON of an earlier tree")
    given = parser.parse_args()
    root = given.root.resolve()
    measured = figures(root, list(given.folders), list(given.packages), list(given.core))
    measured |= loading(given.loads, root, given.folders)
    if given.json:
        print(json.dumps(measured, indent=1))
    else:
        before = json.loads(given.against.read_text()) if given.against else None
        print(table(measured, before))


if __name__ == "__main__":
    main()
