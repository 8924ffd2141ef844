"""Five packages, one direction of imports, two distributions with disjoint files."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "askance_protos": ROOT / "protos",
    "askance_client": ROOT / "client",
    "askance_aggregator": ROOT / "aggregator",
    "askance_simulation": ROOT / "simulation",
    "askance": ROOT,
    "askance_papers": ROOT / "papers",
}


def imported_by(statement: str, *packages: str) -> set[str]:
    """The modules that are loaded after a statement, in a process with these packages' folders."""
    path = [str(PACKAGES[package]) for package in packages or PACKAGES]
    code = f"import sys; sys.path[:0] = {path!r}; {statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def of(loaded: set[str], *packages: str) -> set[str]:
    return {
        name for name in loaded if name.startswith(tuple(f"{package}." for package in packages))
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_an_ordinary_one_with_types(package: str) -> None:
    assert (PACKAGES[package] / package / "__init__.py").is_file()
    assert (PACKAGES[package] / package / "py.typed").is_file()


def test_a_device_runs_without_the_aggregator_and_has_no_seeded_coins() -> None:
    loaded = imported_by(
        "import askance_client.device, askance_client.service, askance_client.cli.device",
        "askance_protos",
        "askance_client",
    )
    assert "askance_client.device.core" in loaded
    assert not of(loaded, "askance", "askance_aggregator", "askance_simulation")
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "client").rglob("*.py")]
    assert not any("SeededCoins" in source for source in sources)


def test_a_device_needs_no_numpy() -> None:
    """Neither at its start nor later: 57 MB of an install, and 12 MB of a process."""
    loaded = imported_by(
        "import askance_client.cli.running, askance_client.embedding",
        "askance_protos",
        "askance_client",
    )
    assert "askance_client.service.gateway" in loaded
    assert not loaded & {"numpy", "http.client", "cryptography.x509", "askance_client.cli.doctor"}
    importers = [
        file.name
        for file in (ROOT / "client").rglob("*.py")
        if "numpy" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Import) and any(name.name == "numpy" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numpy"))
    ]
    assert importers == []


def test_the_server_process_imports_neither_papers_nor_simulation() -> None:
    loaded = imported_by(
        "import askance_aggregator.server.process.process",
        "askance_protos",
        "askance_client",
        "askance_aggregator",
    )
    assert of(loaded, "askance_aggregator.server")
    assert not of(loaded, "askance_papers", "askance_simulation", "sklearn")


def test_help_loads_nothing_heavy() -> None:
    loaded = imported_by(
        "import contextlib; from askance.cli import main\n"
        "with contextlib.redirect_stdout(None), contextlib.suppress(SystemExit): main(['--help'])",
    )
    assert "askance.cli.main" in loaded
    heavy = {"numpy", "grpc", "google.protobuf", "scipy", "rich", "matplotlib", "cryptography"}
    assert loaded & heavy == set()


def test_both_distributions_are_of_one_version() -> None:
    version = (ROOT / "client/askance_client/version.py").read_text(encoding="utf-8")
    (number,) = re.findall(r'^__version__ = "(.*)"$', version, re.MULTILINE)
    assert f"askance-client=={number}" in project(ROOT)["dependencies"]


def test_the_distributions_files_are_disjoint() -> None:
    packages: list[str] = []
    for folder in (ROOT, ROOT / "client"):
        with (folder / "pyproject.toml").open("rb") as file:
            wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
        packages += [package.rpartition("/")[2] for package in wheel["packages"]]
    packages.append("askance_protos")  # by client/hatch_build.py
    assert sorted(packages) == sorted(PACKAGES)


def project(folder: Path) -> dict[str, list[str]]:
    with (folder / "pyproject.toml").open("rb") as file:
        found: dict[str, list[str]] = tomllib.load(file)["project"]
    return found


def public(tree: ast.Module) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node
        for node in tree.body
        if isinstance(node, kinds)
        and not node.name.startswith("_")
        and not any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
    ]


def files_of(package: str) -> list[Path]:
    return [file for file in (PACKAGES[package] / package).rglob("*.py") if "_pb2" not in file.name]


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_public_has_a_docstring(package: str) -> None:
    silent = []
    for file in files_of(package):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        nodes = [tree, *public(tree)]
        silent += [f"{file}: {getattr(n, 'name', '')}" for n in nodes if not ast.get_docstring(n)]
    assert silent == []


def test_files_and_functions_stay_small() -> None:
    large = []
    for package in PACKAGES:
        for file in files_of(package):
            text = file.read_text(encoding="utf-8")
            if len(text.splitlines()) > 900:
                large.append(str(file))
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    # A learner's signature declares its parameters, some lines each.
                    lines = (node.end_lineno or 0) - node.body[0].lineno
                    if lines > 68:
                        large.append(f"{file}: {node.name} has {lines} lines")
    assert large == []
