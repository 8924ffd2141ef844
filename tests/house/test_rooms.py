"""The four roots share one namespace, the device stands alone, and every room says what it is."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("protos", "client", "aggregator", "simulation")


@pytest.mark.parametrize("room", ROOMS)
def test_no_root_hides_the_others(room: str) -> None:
    """An __init__.py directly under a folder `askance` would end the shared namespace there."""
    assert (ROOT / room / "askance").is_dir()
    assert not (ROOT / room / "askance" / "__init__.py").exists()


def imported_by(statement: str, *rooms: str) -> set[str]:
    """The modules that are loaded after a statement, in a process with these rooms only."""
    path = [str(ROOT / room) for room in rooms]
    code = f"import sys; sys.path[:0] = {path!r}; {statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_a_device_runs_without_the_aggregator_and_has_no_seeded_coins() -> None:
    loaded = imported_by(
        "import askance.client.device, askance.client.service, askance.client.command.device",
        "protos",
        "client",
    )
    assert "askance.client.device.core" in loaded
    assert not any(name.startswith(("askance.aggregator", "askance.simulation")) for name in loaded)
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "client").rglob("*.py")]
    assert not any("SeededCoins" in source for source in sources)


def test_help_loads_nothing_heavy() -> None:
    loaded = imported_by(
        "import contextlib; from askance.simulation.cli import main\n"
        "with contextlib.redirect_stdout(None), contextlib.suppress(SystemExit): main(['--help'])",
        *ROOMS,
    )
    assert "askance.simulation.cli.main" in loaded
    heavy = {"numpy", "grpc", "google.protobuf", "scipy", "rich", "matplotlib", "cryptography"}
    assert loaded & heavy == set()


def test_the_edge_wheel_carries_the_device_and_the_wire() -> None:
    with (ROOT / "client" / "pyproject.toml").open("rb") as file:
        wheel = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["askance"]
    assert wheel["force-include"] == {"../protos/askance": "askance"}


def test_both_wheels_need_the_same_for_a_device() -> None:
    needs = []
    for place in (ROOT, ROOT / "client"):
        with (place / "pyproject.toml").open("rb") as file:
            needs.append(tomllib.load(file)["project"]["dependencies"])
    assert needs[0] == needs[1]


def public(tree: ast.Module) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node
        for node in tree.body
        if isinstance(node, kinds)
        and not node.name.startswith("_")
        and not any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_public_has_a_docstring(room: str) -> None:
    silent = []
    for file in (ROOT / room / "askance").rglob("*.py"):
        if "_pb2" in file.name:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        nodes = [tree, *public(tree)]
        silent += [f"{file}: {getattr(n, 'name', '')}" for n in nodes if not ast.get_docstring(n)]
    assert silent == []


def test_files_and_functions_stay_small() -> None:
    large = []
    for room in ROOMS:
        for file in (ROOT / room / "askance").rglob("*.py"):
            if "_pb2" in file.name:
                continue
            text = file.read_text(encoding="utf-8")
            if len(text.splitlines()) > 500:
                large.append(str(file))
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (node.end_lineno or 0) - node.lineno
                    if lines > 70:
                        large.append(f"{file}: {node.name} has {lines} lines")
    assert large == []
