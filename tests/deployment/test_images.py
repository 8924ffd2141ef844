"""The images that `deploy/build` has made: size, content, and their commands as they run in them.

Needs buildah and both images (`deploy/build wheels`, `base`, `images`), else the tests are skipped.
"""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from askance_client.version import __version__
from tests.deployment.manifests import AGGREGATOR, DEVICE

MEGABYTE = 1_000_000
MOST_BYTES = {AGGREGATOR: 200 * MEGABYTE, DEVICE: 120 * MEGABYTE}
OURS = {
    "askance",
    "askance_aggregator",
    "askance_simulation",
    "askance_papers",
    "askance_client",
    "askance_protos",
}
BUILDAH = shutil.which("buildah") or "/usr/bin/buildah"


def run(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def has_images() -> bool:
    if not Path(BUILDAH).is_file():
        return False
    found = subprocess.run([BUILDAH, "images", "--json"], capture_output=True, text=True)
    return found.returncode == 0 and all(f"/{name}:" in found.stdout for name in MOST_BYTES)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_images(), reason="needs images (deploy/build wheels base images)"),
]


@dataclass(frozen=True)
class Container:
    """A container of an image, and the folder in which its files are seen."""

    name: str
    root: Path

    def run(self, *words: str) -> str:
        """Run words in it, as the image's user."""
        return run(BUILDAH, "run", "--isolation", "chroot", self.name, "--", *words)

    @property
    def packages(self) -> set[str]:
        """The folders of its environment's packages."""
        (folder,) = self.root.glob("opt/askance/lib/python3*/site-packages")
        return {path.name for path in folder.iterdir()}


@contextmanager
def container(image: str) -> Iterator[Container]:
    name = run(BUILDAH, "from", "--pull-never", f"localhost/{image}").strip()
    try:
        yield Container(name, Path(run(BUILDAH, "mount", name).strip()))
    finally:
        run(BUILDAH, "rm", name)


@pytest.fixture(params=sorted(MOST_BYTES))
def made(request: pytest.FixtureRequest) -> Iterator[tuple[str, Container]]:
    with container(request.param) as found:
        yield request.param, found


@pytest.mark.parametrize("image", sorted(MOST_BYTES))
def test_an_image_is_small_enough(image: str, tmp_path: Path) -> None:
    source, target = f"localhost/{image}", f"dir:{tmp_path / 'layers'}"
    run(BUILDAH, "push", "--quiet", "--compression-format", "gzip", source, target)
    size = sum(path.stat().st_size for path in (tmp_path / "layers").iterdir())
    assert 20 * MEGABYTE < size <= MOST_BYTES[image]


def test_an_image_names_a_user_and_a_command(made: tuple[str, Container]) -> None:
    image, _ = made
    found = json.loads(run(BUILDAH, "inspect", "--type", "image", f"localhost/{image}"))
    config: dict[str, Any] = found["OCIv1"]["config"]
    assert config["User"] == "10001:10001"
    first = {AGGREGATOR: ["askance"], DEVICE: ["python", "-m", "askance_client"]}
    assert config["Entrypoint"] == first[image]
    assert "VIRTUAL_ENV" not in config["Env"]


def test_no_program_in_it_gives_rights_and_none_installs(made: tuple[str, Container]) -> None:
    _, inside = made
    for path in inside.root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID), path
            assert path.name != "pip"


def test_a_device_has_no_code_of_an_aggregator() -> None:
    with container(DEVICE) as device, container(AGGREGATOR) as aggregator:
        assert device.packages & OURS == {"askance_client", "askance_protos"}
        assert aggregator.packages & OURS == OURS
        assert "numpy" not in device.packages
        assert {"psycopg", "joserfc", "opentelemetry"} <= aggregator.packages


def test_the_programs_run_as_the_user_without_a_right_to_write() -> None:
    with container(AGGREGATOR) as inside:
        assert inside.run("askance", "--version") == f"askance {__version__}\n"
        assert inside.run("id", "-u") == "10001\n"
        assert "postgresql" in inside.run("askance", "aggregator", "migrate", "--help")
        code = "import os; print(os.access('/opt/askance', os.W_OK), os.access('/etc', os.W_OK))"
        assert inside.run("python3", "-c", code) == "False False\n"
        folder = "/tmp/aggregator"
        inside.run("askance", "aggregator", "init", folder)
        words = ("aggregator", "status", "--json", "--config", f"{folder}/aggregator.toml")
        assert json.loads(inside.run("askance", *words))["serving"] is False
    with container(DEVICE) as inside:
        assert "enroll" in inside.run("python", "-m", "askance_client", "--help")
        inside.run("python", "-m", "askance_client", "init", "/tmp/device", "--row", "0")
