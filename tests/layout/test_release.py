"""The files of a release: equal bytes from one commit, their bills, and a demo from the wheels."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        any(
            find_spec(name) is None
            for name in ("build", "cyclonedx_py", "hatchling", "twine", "uv")
        ),
        reason="tools of the extra dev make and check a release",
    ),
]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("release") / "dist"
    words = [sys.executable, str(ROOT / "tools" / "release.py"), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_a_release_is_built_twice_with_the_same_bytes_and_its_digests_are_printed(
    released: tuple[Path, str],
) -> None:
    folder, printed = released
    assert sorted(line.split()[1] for line in printed.splitlines()) == sorted(
        path.name for path in folder.iterdir() if path.suffix in (".whl", ".gz")
    )
    assert len(printed.splitlines()) == 4


@pytest.mark.parametrize(
    ("name", "some", "no"),
    [
        ("askance-client", {"askance-client", "grpcio", "protobuf", "cryptography"}, "numpy"),
        ("askance", {"askance", "askance-client", "numpy", "scipy"}, "psycopg"),
        ("image-aggregator", {"askance", "psycopg", "joserfc", "opentelemetry-sdk"}, "pip"),
    ],
)
def test_a_bill_names_each_part_with_its_licence(
    released: tuple[Path, str], name: str, some: set[str], no: str
) -> None:
    folder, _ = released
    bill = json.loads((folder / f"{name}.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    licences = {part["name"]: part["licenses"] for part in bill["components"]}
    assert some <= licences.keys()
    assert no not in licences
    assert all(licences.values())
    assert str(folder) not in json.dumps(bill)


def test_the_wheels_alone_run_the_demo_in_an_empty_environment(
    released: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = released
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet")
    python = environment / "bin" / "python"
    subprocess.run([*uv, "--python", python, *folder.glob("*.whl")], check=True, cwd=tmp_path)
    demo = (environment / "bin" / "askance", "demo", "--devices", "4000", "--json")
    done = subprocess.run(demo, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["success"] is True
