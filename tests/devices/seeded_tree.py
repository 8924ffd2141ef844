"""A test build of the TypeScript device: a copy of its source whose coins are seeded.

The shipped package has no way to pass coins in, so one expression of the copy is replaced. The copy
has the places of the tree, and the page's own `build.mjs` builds the page from it. A plant is one
more text that is replaced.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.devices.scripted import PACKAGE
from tests.devices.web_site import EXAMPLE, ROOT

CONSOLE = Path("client") / "askance_client" / "console"  # the page has its style from there


@dataclass(frozen=True)
class Change:
    """Text of a file of the package, which is there once, and what replaces it."""

    file: str
    text: str
    replacement: str


def _seeded(seed: int) -> tuple[Change, ...]:
    embedding = "src/embedding.ts"
    return (
        Change(embedding, "new SystemCoins()", f"new SeededCoins({seed}n, deviceId)"),
        Change(
            embedding,
            'import { SystemCoins } from "./randomizers/index.js";',
            'import { SeededCoins } from "../tests/seeded_stream.js";',
        ),
    )


PLANTS = {
    "coin": Change(
        "src/device/record_work.ts",
        "return coins.words(fromHex(digest), request.coins);",
        "return coins.words(fromHex(digest), request.coins + 1).subarray(1);",
    ),
    "rounding": Change(
        "src/randomizers/rounding.ts",
        "return coin < ((position % span) * COIN_SPACE) / span ? below + 1n : below;",
        "return 2n * (position % span) >= span ? below + 1n : below;",
    ),
    "order": Change(
        "src/device/record_work.ts",
        "[words.subarray(0, randomizer.coins), words.subarray(randomizer.coins)]",
        "[words.subarray(-randomizer.coins), words.subarray(0, -randomizer.coins)]",
    ),
}
"""Differences of the device: one coin more than it needs, rounding to the nearest level without a
coin, and the coins that round taken first."""


@dataclass(frozen=True)
class SeededTree:
    """A copy of the package, and of what the page is built from."""

    folder: Path

    @property
    def page(self) -> Path:
        """Folder of the page's source and of its build script."""
        return self.folder / EXAMPLE.relative_to(ROOT)

    @property
    def package(self) -> Path:
        """Folder of the package."""
        return self.folder / PACKAGE.relative_to(ROOT)

    @property
    def command(self) -> Path:
        """Script of the command for Node, once `build_command` has made it."""
        return self.folder / "node" / "command.js"

    def build_command(self) -> None:
        """Bundle the command and the threads that work on records."""
        out = self.command.parent
        names = ("command.ts", "record_thread.ts", "reading_thread.ts")
        sources = [str(self.package / "src/node" / name) for name in names]
        subprocess.run(
            [
                *(str(PACKAGE / "node_modules/.bin/esbuild"), *sources, "--bundle", "--format=esm"),
                *("--platform=node", "--target=es2022", "--log-level=warning", f"--outdir={out}"),
            ],
            check=True,
            timeout=60,
        )
        (out / "package.json").write_text(json.dumps({"type": "module"}))


def seeded_tree(folder: Path, seed: int, plants: Iterable[str] = ()) -> SeededTree:
    """Make a test build's source.

    Args:
      folder: where it goes; it is made.
      seed: of the coins.
      plants: names in `PLANTS`.

    Raises:
      ValueError: a text that is to be replaced is not there once.
    """
    tree = SeededTree(folder)
    shutil.copytree(EXAMPLE, tree.page, ignore=shutil.ignore_patterns("dist"))
    shutil.copytree(ROOT / CONSOLE, folder / CONSOLE, ignore=shutil.ignore_patterns("*.py", "__*"))
    shutil.copytree(PACKAGE / "src", tree.package / "src")
    (tree.package / "tests").mkdir()
    for name in ("package.json", "tsconfig.json", "tests/seeded_stream.ts"):
        shutil.copy(PACKAGE / name, tree.package / name)
    (tree.package / "node_modules").symlink_to(PACKAGE / "node_modules")
    for change in (*_seeded(seed), *(PLANTS[name] for name in plants)):
        file = tree.package / change.file
        source = file.read_text()
        if source.count(change.text) != 1:
            raise ValueError(f"{change.file}: expected once: {change.text}")
        file.write_text(source.replace(change.text, change.replacement))
    return tree
