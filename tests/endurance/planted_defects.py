"""Defects planted one at a time in a copy of the tree; the tests beside them must find them.

`planted/device.toml` and `planted/service.toml` list defects of meaning: each breaks a promise that
the documents make, as a careful programmer could. The mutants of `mutate.py` are chosen by syntax
instead. A defect is killed if a test fails that passes without it, and survives if all of its tests
pass. The tests that found defects are run without any at the end, all in one process.

Exit code 1: a defect survives that is not listed as equivalent, one that is listed so is killed,
the text that it replaces does not occur once, or the tests do not run with it.

    python tests/endurance/planted_defects.py [LIST ...] [--only TEXT] [--kind KIND] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[2]
LISTS = ("device", "service")
_FOLDERS = ("askance", "protos", "client", "aggregator", "simulation", "tests", "benchmarks")
_IMPORTED = (".", "protos", "client", "aggregator", "simulation", "benchmarks", "tests/endurance")
_LEFT_OUT = shutil.ignore_patterns(".*", "*.egg-info", "node_modules", "build")
_PYTEST = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--hypothesis-seed=0"]
_LIMIT_S = 540  # of a defect's tests; one that lets them hang is found as well
_HANG = "the tests hang"
_PASSED, _FAILED = 0, 1  # exit codes of pytest; all others mean that the tests did not run


class Verdict(StrEnum):
    """Verdict on a planted defect."""

    KILLED = "killed"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"  # it survives, for a listed reason
    NOT_APPLICABLE = "does not apply"
    BROKEN = "tests do not run"


@dataclass(frozen=True, slots=True)
class PlantedDefect:
    """Defect of a list.

    Args:
      list_name: "device" or "service".
      name: promise that it breaks, or the way in which it does.
      kind: of promise.
      file: path below the root.
      old: text of the file, which occurs once.
      new: text in its place.
      tests: arguments for pytest.
      reported: True if a review had found that all related tests passed with it.
      equivalent: reason why no input tells it from the code; empty: it can be told.
    """

    list_name: str
    name: str
    kind: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reported: bool
    equivalent: str

    def applies(self, root: Path = ROOT) -> bool:
        """Return whether the text that is replaced occurs once."""
        path = root / self.file
        return path.is_file() and path.read_text("utf-8").count(self.old) == 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Verdict on one defect.

    Args:
      defect: the defect.
      verdict: the verdict.
      detail: the test that failed, or the end of the output.
      seconds: taken by its tests.
    """

    defect: PlantedDefect
    verdict: Verdict
    detail: str
    seconds: float

    @property
    def wrong(self) -> bool:
        """True if the run is to fail."""
        killed = self.verdict is Verdict.KILLED and not self.defect.equivalent
        return not killed and self.verdict is not Verdict.EQUIVALENT


def read_list(name: str) -> list[PlantedDefect]:
    """Read a list.

    Args:
      name: one of `LISTS`.

    Raises:
      ValueError: two defects have one name, or no tests stand with a file.
    """
    content = tomllib.loads((Path(__file__).parent / "planted" / f"{name}.toml").read_text("utf-8"))
    found = [
        PlantedDefect(
            name,
            entry["name"],
            entry["kind"],
            entry["file"],
            entry["old"],
            entry["new"],
            tuple(entry.get("tests") or _related(content["related"], entry["file"])),
            entry.get("reported", False),
            entry.get("equivalent", ""),
        )
        for entry in content["planted"]
    ]
    twice = [text for text, count in Counter(one.name for one in found).items() if count > 1]
    if twice:
        raise ValueError(f"{name}.toml: expected distinct names, got {twice[0]!r} twice")
    return found


def _related(related: dict[str, list[str]], file: str) -> list[str]:
    paths = [path for path in related if file.startswith(path)]
    if not paths:
        raise ValueError(f"expected tests that stand with {file}, got none")
    return related[max(paths, key=len)]


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Copy what the tests need, and what is compiled of it, to a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="askance-planted-") as folder:
        root = Path(folder)
        for name in _FOLDERS:
            shutil.copytree(ROOT / name, root / name, ignore=_LEFT_OUT)
        for path in ROOT.iterdir():
            if path.is_file() and not path.name.startswith("."):
                shutil.copy2(path, root / path.name)
        yield root


def plant_and_test(defect: PlantedDefect, root: Path) -> Outcome:
    """Plant a defect in a copy of the tree, run its tests, and take it out again."""
    if not defect.applies(root):
        return Outcome(defect, Verdict.NOT_APPLICABLE, "", 0.0)
    path = root / defect.file
    source = path.read_text("utf-8")
    began = time.monotonic()
    try:
        _write(path, source.replace(defect.old, defect.new))
        code, output = _run_tests(defect.tests, root)
    finally:
        _write(path, source)
    seconds = time.monotonic() - began
    if code == _PASSED:
        verdict = Verdict.EQUIVALENT if defect.equivalent else Verdict.SURVIVED
        return Outcome(defect, verdict, defect.equivalent, seconds)
    if code == _FAILED and not output:
        return Outcome(defect, Verdict.KILLED, _HANG, seconds)
    failed = _failed(output)
    if code == _FAILED and failed and "NameError: " not in output:
        return Outcome(defect, Verdict.KILLED, failed[0], seconds)
    return Outcome(defect, Verdict.BROKEN, output[-2_000:], seconds)


def without_defects(outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """Run the tests that found defects without any; one that fails so too has found nothing."""
    found = [one for one in outcomes if one.verdict is Verdict.KILLED and one.detail != _HANG]
    if not found:
        return
    tests = sorted({one.detail for one in found})
    words = (f"--maxfail={len(tests)}", *tests)
    code, output = _run_tests(words, ROOT, _LIMIT_S * len(tests))
    fail = set(_failed(output)) if code == _FAILED and output else set(tests)
    for one in found:
        if code != _PASSED and one.detail in fail:
            yield replace(one, verdict=Verdict.BROKEN, detail=output[-2_000:])


def _failed(output: str) -> list[str]:
    """Return the tests that failed, in order."""
    return [line[7:].partition(" - ")[0] for line in output.splitlines() if line[:7] == "FAILED "]


def _write(path: Path, source: str) -> None:
    """Write a module, and drop its compiled form: that is known by its second and its size."""
    path.write_text(source, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def _run_tests(tests: Sequence[str], root: Path, limit_s: float = _LIMIT_S) -> tuple[int, str]:
    """Run tests in a copy of the tree, whose packages are imported before any installed ones."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(root / path) for path in _IMPORTED)
    }
    try:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *_PYTEST, *tests],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return _FAILED, ""
    return run.returncode, run.stdout + run.stderr


def try_defects(defects: Sequence[PlantedDefect], jobs: int) -> Iterator[Outcome]:
    """Try defects in copies of the tree, one per job; yield the outcomes in order."""
    trees: SimpleQueue[Path] = SimpleQueue()

    def work(defect: PlantedDefect) -> Outcome:
        root = trees.get()
        try:
            return plant_and_test(defect, root)
        finally:
            trees.put(root)

    with ExitStack() as copies, ThreadPoolExecutor(jobs) as pool:
        for _ in range(jobs):
            trees.put(copies.enter_context(copied_tree()))
        yield from pool.map(work, defects)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the defects of the lists, print each verdict, and return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lists", nargs="*", metavar="LIST", help=", ".join(LISTS))
    parser.add_argument("--only", action="append", default=[], help="a part of a name; repeatable")
    parser.add_argument("--kind", default="", help="of promise")
    parser.add_argument("--reported", action="store_true", help="those that a review reported")
    parser.add_argument("--jobs", type=int, default=1, help="at one time, each in its own copy")
    parser.add_argument("--check", action="store_true", help="look for their texts; run no test")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if unknown := set(given.lists) - set(LISTS):
        parser.error(f"LIST: expected {', '.join(LISTS)}, got {unknown.pop()}")
    defects = [
        defect
        for name in given.lists or LISTS
        for defect in read_list(name)
        if (not given.only or any(text in defect.name for text in given.only))
        and given.kind in ("", defect.kind)
        and (defect.reported or not given.reported)
    ]
    if not defects:
        parser.error("expected a defect that fits, got none")
    stale = [defect for defect in defects if not defect.applies()]
    for defect in stale:
        print(f"{Verdict.NOT_APPLICABLE}: {defect.name} [{defect.file}]", flush=True)
    if given.check:
        return 1 if stale else 0
    outcomes = [Outcome(defect, Verdict.NOT_APPLICABLE, "", 0.0) for defect in stale]
    for outcome in try_defects([one for one in defects if one not in stale], given.jobs):
        outcomes.append(outcome)
        _show(outcome, as_json=given.json)
    for outcome in without_defects(outcomes):
        outcomes = [outcome if one.defect == outcome.defect else one for one in outcomes]
        _show(outcome, as_json=given.json)
    report(outcomes, as_json=given.json)
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def _show(outcome: Outcome, *, as_json: bool) -> None:
    if not as_json:
        detail = f"  {outcome.detail}" if outcome.detail else ""
        print(f"{outcome.verdict}: {outcome.defect.name}{detail}", flush=True)


def report(outcomes: Sequence[Outcome], *, as_json: bool) -> None:
    """Print how many defects of each list had which verdict."""
    counted = {
        name: Counter(one.verdict for one in outcomes if one.defect.list_name == name)
        for name in LISTS
    }
    seconds = sum(one.seconds for one in outcomes)
    if as_json:
        print(json.dumps({"lists": counted, "seconds": round(seconds, 1)}))
        return
    for name, counts in counted.items():
        if counts:
            told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
            print(f"{name}: {counts.total()} defects: {told}")
    print(f"{seconds:.0f} s of tests")


if __name__ == "__main__":
    sys.exit(main())
