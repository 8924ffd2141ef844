"""The device in TypeScript: its names and limits, its generated messages, and the kit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import run
from tests.devices.scripted import PACKAGE, build, missing

SOURCE = PACKAGE / "src"
CLIENT = PACKAGE.parents[1] / "client" / "askance_client"
MAX_CORE_LINES = 3_000  # code lines of what decides privacy, as in the client
OWN = {
    "integers": "whole numbers of any size and their bytes, which Python has",
    "codec/wire": "messages as bytes, which Python's protobuf library reads and writes",
    "randomizers/shake_128": "SHAKE-128, which WebCrypto lacks",
}
"""Modules of the core that have no namesake in Python, each with the reason."""
CORE = ("accounting", "codec", "queries", "randomizers")

needs_package = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def sources() -> Iterator[tuple[str, str]]:
    """Yield path below `src` and text of each module that is not generated."""
    for path in sorted(SOURCE.rglob("*.ts")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("protos/"):
            yield name, path.read_text("utf-8")


def code_lines(text: str) -> int:
    """Count lines without blank ones and comments."""
    lines = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).splitlines()
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("//"))


def test_the_core_keeps_its_limit_of_code_lines() -> None:
    assert code_lines("/** One\n * two. */\n\nlet a = 1; // three\n// four\n") == 1
    lines = sum(code_lines(text) for name, text in sources() if name.split("/")[0] in CORE)
    assert 2_000 < lines <= MAX_CORE_LINES


def test_modules_of_the_core_have_namesakes_in_the_client() -> None:
    for name, _ in sources():
        module = name.removesuffix(".ts")
        if module.split("/")[0] in CORE and not module.endswith("/index") and module not in OWN:
            assert (CLIENT / f"{module}.py").is_file(), f"{module} has no namesake"


PLATFORMS = ("browser", "node")
"""Parts of the source that one platform has; what a device decides is in none of them."""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_decides_knows_no_platform(platform: str) -> None:
    """A page's bundle has nothing of Node, and Node's command no part of a page."""
    entry = {"browser": "index", "node": "node"}[platform]
    users = {
        name
        for name, text in sources()
        if re.search(rf'from "(\.\.?/)+{platform}/', text)
        or (platform == "node" and re.search(r'from "node(:|\.js")', text))
    }
    outside = {name for name in users if not name.startswith(f"{platform}/")}
    assert outside == {f"{entry}.ts"}


def test_the_lock_file_names_no_registry() -> None:
    lock = (PACKAGE / "package-lock.json").read_text("utf-8")
    assert '"integrity"' in lock
    assert '"resolved"' not in lock


def test_randomness_comes_from_one_place() -> None:
    """Privacy rests on the coins: `Math.random` and other sources do not occur."""
    users = [name for name, text in sources() if "getRandomValues" in text]
    assert "randomizers/coins.ts" in users
    assert [name for name, text in sources() if "Math.random" in text] == []


def test_every_transaction_of_a_browser_is_strictly_durable() -> None:
    """No kill of a process shows it: only power that fails loses what was relaxed."""
    text = dict(sources())["browser/storage.ts"]
    assert text.count(".transaction(") == text.count('{ durability: "strict" }') == 1


@needs_package
def test_a_sample_of_the_kit_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    program = build() / "conformance" / "program.js"
    status = run.main(["--sample", "10", "--", "node", str(program)])
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert shown.split()[-1] == "0"  # unsupported


@needs_package
@pytest.mark.slow
def test_the_messages_are_those_that_the_protos_give() -> None:
    pytest.importorskip("grpc_tools")
    folder = Path(sys.executable).parent  # whose python3 has the tools
    environment = {"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin"}
    subprocess.run(["./generate", "--check"], cwd=PACKAGE, env=environment, check=True)


@needs_package
@pytest.mark.slow
def test_the_package_holds_what_is_built_and_no_test() -> None:
    words = ["npm", "pack", "--dry-run", "--json"]
    (build() / "src" / "removed.js").write_text("")  # of an earlier version
    shown = subprocess.run(words, cwd=PACKAGE, capture_output=True, text=True, check=True).stdout
    files = set(re.findall(r'"path": "([^"]+)"', shown))
    expected = {"package.json", "README.md", "LICENSE", "dist/src/index.js", "dist/src/index.d.ts"}
    assert expected <= files
    assert "dist/src/removed.js" not in files
    assert not [name for name in files if "test" in name or "conformance" in name]


@needs_package
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_whole_kit_is_answered_in_a_browser() -> None:
    build()
    words = ["node", "dist/conformance/browser.js", "chromium"]
    done = subprocess.run(words, cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kind, passed, failed, _ = done.stdout.splitlines()[-1].split()
    assert (kind, int(passed), int(failed)) == ("all", sum(1 for _ in run.load()), 0)
