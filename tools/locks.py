"""Write the locked versions of all that is installed: of images, of CI, and the lowest ones.

    python tools/locks.py             # after a change of a pyproject.toml; the rest stays
    python tools/locks.py --upgrade   # the newest versions

Each file of `deploy/locks` is what `pip install --require-hashes -r FILE` takes, for every Python
and system that is declared; `lowest.txt` has no digests, since it is for a test alone. Needs `uv`
(the extra `dev`) and an index.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy" / "locks"
PYTHON = "3.11"  # the lowest that is declared
USERS_EXTRAS = "all,cluster,fast,oidc,otel,postgres"
_LOWEST = ("--resolution", "lowest-direct", "--python-version", PYTHON)


@dataclass(frozen=True)
class Lock:
    """A file of locked versions.

    Args:
      requires: what is to be installed, as pip names it, from the root of the repository.
      below: the file whose versions this one takes too.
    """

    name: str
    requires: tuple[str, ...]
    below: str | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.name}.txt"


DEVELOPMENT = Lock("development", ("./client", ".[dev]"))
LOCKS = (
    DEVELOPMENT,
    Lock("mutation", ("./client", ".[mutation]"), "development"),
    Lock("cluster", ("./client", ".[cluster]"), "development"),
    Lock("aggregator", ("./client", ".[postgres,oidc,otel]", "pip"), "development"),
    Lock("device", ("./client", "pip"), "aggregator"),
)
LOWEST = Lock("lowest", ("./client", f".[{USERS_EXTRAS}]"))


def _compile(lock: Lock, into: Path, *options: str) -> None:
    """Let uv write a file.

    Raises:
        SystemExit: there is no solution, or no index; uv's words are the message.
    """
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("uv is not installed; run: pip install -e '.[dev]'")
    with TemporaryDirectory() as folder:
        given = Path(folder) / "requirements.in"
        given.write_text("".join(f"{one}\n" for one in lock.requires))
        words = [uv, "pip", "compile", "--no-annotate", "--no-header", "--quiet"]
        words += ["--no-emit-package", "askance", "--no-emit-package", "askance-client"]
        done = subprocess.run(
            [*words, *options, str(given), "-o", str(into)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "UV_CUSTOM_COMPILE_COMMAND": "python tools/locks.py"},
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{lock.path.name}: {done.stderr}")


def write(lock: Lock, *, upgrade: bool) -> None:
    """Write a file with digests; without `upgrade` its versions stay where they still may."""
    options = ["--universal", "--python-version", PYTHON, "--generate-hashes"]
    if lock.below is not None:
        options += ["--constraint", str(FOLDER / f"{lock.below}.txt")]
    _compile(lock, lock.path, *options, *(["--upgrade"] if upgrade else []))


def write_lowest() -> None:
    """Write the lowest versions of what users install, with the newest tools of the tests."""
    with TemporaryDirectory() as folder:
        users = Path(folder) / "users.txt"
        _compile(LOWEST, users, *_LOWEST)
        tests = Lock("lowest", (*DEVELOPMENT.requires, f".[{USERS_EXTRAS}]"))
        _compile(
            tests, LOWEST.path, "--python-version", PYTHON, "--constraint", str(users), "--upgrade"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all files.

    Raises:
        SystemExit: versions that are wanted together cannot be had.
    """
    parser = argparse.ArgumentParser(description="Write the locked versions.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    upgrade: bool = parser.parse_args(arguments).upgrade
    for lock in LOCKS:
        write(lock, upgrade=upgrade)
    write_lowest()


if __name__ == "__main__":
    main()
