"""Build the files of a release twice, compare them, and write what they consist of.

    python tools/release.py dist

Both distributions, each as sdist and wheel. `SOURCE_DATE_EPOCH` is the time of the last commit, so
the same commit gives the same bytes on every machine with the same versions of the build tools.
What an index would refuse is an error. Beside each wheel lies its bill of materials
(`tools/bills.py`). Needs the extra `dev`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT / "client", ROOT)


def _run(words: Sequence[str | Path], **environment: str) -> str:
    """Run a command of this interpreter's environment and return its output.

    Raises:
        SystemExit: it failed; its output is the message.
    """
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path, epoch: str) -> dict[str, str]:
    """Build both distributions into a folder.

    Args:
        folder: where the files go; made if it is not there.
        epoch: the time in the archives, in seconds since 1970.

    Returns:
        The SHA-256 in hex of each file, by its name.
    """
    for source in SOURCES:
        words = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source)
        _run(words, SOURCE_DATE_EPOCH=epoch)
    return {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name.endswith((".whl", ".tar.gz"))
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Build a release and print the digest of each file.

    Raises:
        SystemExit: a build failed, two builds differ, or an index would refuse a file.
    """
    parser = argparse.ArgumentParser(description="Build and check the files of a release.")
    parser.add_argument("folder", type=Path, help="where the files go; empty or new")
    folder: Path = parser.parse_args(arguments).folder.resolve()
    if folder.is_dir() and any(folder.iterdir()):
        raise SystemExit(f"the folder has files already: {folder}; name an empty or a new one")
    epoch = _run(("git", "log", "-1", "--format=%ct")).strip()
    digests = build(folder, epoch)
    with TemporaryDirectory() as again:
        second = build(Path(again), epoch)
    differing = sorted(name for name in digests if digests[name] != second.get(name))
    if differing:
        raise SystemExit(f"two builds of one commit differ: {', '.join(differing)}")
    _run((sys.executable, "-m", "twine", "check", "--strict", *(folder / name for name in digests)))
    _run((sys.executable, ROOT / "tools" / "bills.py", folder))
    for name, digest in digests.items():
        print(f"{digest}  {name}")


if __name__ == "__main__":
    main()
