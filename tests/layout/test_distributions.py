"""Both wheels, installed, upgraded and uninstalled in several orders: pip owns each file once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT, WHOLE = "askance-client", "askance"
FRONT = {"askance", "askance_aggregator", "askance_papers", "askance_simulation"}
DEVICE = {"askance_client", "askance_protos"}
USES = {
    CLIENT: "import askance_client.device, askance_client.service, askance_protos.v1.exchange_pb2",
    WHOLE: "import askance, askance.cli, askance_aggregator, askance_papers, askance_simulation",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling builds the wheels"),
]


def run(*words: str | Path, cwd: Path | None = None) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, cwd=cwd, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path, version: str, wheels: Path) -> dict[str, Path]:
    """The wheels of both distributions at a version, from a copy of the tree."""
    tree = folder / version
    ignored = shutil.ignore_patterns(".*", "__pycache__", "tests", "benchmarks", "docs", "shared")
    shutil.copytree(ROOT, tree, ignore=ignored)
    for name, expression in (
        ("client/askance_client/version.py", r'(__version__ = ")[^"]*'),
        ("pyproject.toml", r"(askance-client==)[\d.]+"),
    ):
        text = (tree / name).read_text(encoding="utf-8")
        (tree / name).write_text(re.sub(expression, rf"\g<1>{version}", text), encoding="utf-8")
    shared = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", wheels)
    run(sys.executable, *shared, tree / "client", tree)
    return {
        CLIENT: wheels / f"askance_client-{version}-py3-none-any.whl",
        WHOLE: wheels / f"askance-{version}-py3-none-any.whl",
    }


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Path]]:
    folder = tmp_path_factory.mktemp("wheels")
    return {version: built(folder, version, folder / "built") for version in ("0.1.0", "0.1.1")}


class Environment:
    """An environment that sees the dependencies installed here, but for our own packages."""

    def __init__(self, folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        self.python = folder / "bin" / "python"
        (packages,) = folder.glob("lib/python*/site-packages")
        self.packages = packages
        # Dependencies, without the .pth files that put a clone on the path.
        kept = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "dependencies.pth").write_text(f"import sys; sys.path += {kept!r}\n")

    def pip(self, *words: str | Path) -> None:
        run(sys.executable, "-m", "pip", "--quiet", "--python", self.python, *words)

    def install(self, wheel: Path) -> None:
        """Without compiling: what is imported afterwards is compiled then."""
        self.pip("install", "--no-deps", "--no-index", "--no-compile", wheel)

    def uninstall(self, name: str) -> None:
        self.pip("uninstall", "--yes", name)

    def works(self, *names: str) -> None:
        run(self.python, "-c", "\n".join(USES[name] for name in names), cwd=self.packages)

    def ours(self) -> set[str]:
        return {path.name for path in self.packages.iterdir() if path.name in FRONT | DEVICE}


def files(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_no_file_is_in_both_wheels(wheels: dict[str, dict[str, Path]]) -> None:
    client, whole = (files(wheels["0.1.0"][name]) for name in (CLIENT, WHOLE))
    assert client & whole == set()
    assert {name.partition("/")[0] for name in client} == DEVICE
    assert {name.partition("/")[0] for name in whole} == FRONT
    assert "askance_protos/v1/exchange_pb2.py" in client
    assert {f"{package}/py.typed" for package in FRONT | DEVICE} <= client | whole


@pytest.mark.parametrize(
    ("first", "upgrade", "last"),
    [  # each two of the three choices in every combination
        (CLIENT, (CLIENT, WHOLE), CLIENT),
        (CLIENT, (WHOLE, CLIENT), WHOLE),
        (WHOLE, (CLIENT, WHOLE), WHOLE),
        (WHOLE, (WHOLE, CLIENT), CLIENT),
    ],
)
def test_orders_of_install_upgrade_and_uninstall(
    first: str,
    upgrade: tuple[str, str],
    last: str,
    wheels: dict[str, dict[str, Path]],
    tmp_path: Path,
) -> None:
    environment = Environment(tmp_path / "venv")
    second = WHOLE if first == CLIENT else CLIENT
    for name in (first, second):
        environment.install(wheels["0.1.0"][name])
    environment.works(CLIENT, WHOLE)
    for name in upgrade:
        environment.install(wheels["0.1.1"][name])
    environment.works(CLIENT, WHOLE)
    other = WHOLE if last == CLIENT else CLIENT
    environment.uninstall(other)
    if last == CLIENT:  # the device's distribution stands alone
        environment.works(CLIENT)
    assert environment.ours() == (DEVICE if last == CLIENT else FRONT)
    environment.uninstall(last)
    assert environment.ours() == set()
