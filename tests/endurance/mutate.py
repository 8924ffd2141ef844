"""Mutation score of the trusted base: small defects are planted, and its tests must find them.

Mutants are those of cosmic-ray's operators: other binary and comparison operators, numbers one more
and one less, negated conditions, exchanged `and`/`or`, `True`/`False` and `break`/`continue`, loops
that do nothing, exceptions that are not caught, decorators left out. Excluded are annotations,
f-strings (messages: their text decides nothing), `is` in place of another comparison, and the lines
that `mutate.toml` lists with their reasons.

A mutant of a function is tested in a forked child of the collected tests, by those that reach its
line, up to the first failure. What passes there, or changes a module or a class, is imported anew
in a child and tested by all tests of its area. A test that runs past its limit of processor time,
or that waits for half a minute without any, counts as failed. With `--quick` tests above half a
second are left out, and a mutant of a function that passes in its forked child is not imported
anew: the score is then a lower bound.
A survivor that `mutants.md` does not list with a reason makes the program exit 1; a sample leaves
those out that are listed.

    pip install -e ./client -e '.[dev,mutation]'
    python tests/endurance/mutate.py [AREA ...] [--sample 200] [--seed 13] [--only TEXT] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import CO_NEWLOCALS
from math import ceil, inf, sqrt
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import coverage
import parso
import pytest
from _pytest.runner import runtestprotocol
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = tomllib.loads((Path(__file__).with_name("mutate.toml")).read_text("utf-8"))
EQUIVALENT = Path(__file__).with_name("mutants.md")
sys.path[:0] = [str(ROOT / path) for path in [*CONFIGURATION["paths"], ""]]

PROVIDER = OperatorProvider()
_LEAST_LIMIT_S = 5  # seconds of processor time, beside three times what the tests take
_QUICK_S = 0.5  # of processor time, with coverage: the most that a test takes with `--quick`
_TEST_LIMIT_S = 1  # of one test, beside three times what it takes
_IDLE_S = 30  # without any processor time: the child waits for what does not come
_MEMORY_BYTES = 6 << 30
_LRU = type(lru_cache(lambda: None))
_ARGUMENTS = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--no-header"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """Defect: a file, an operator and which of its positions in the file."""

    area: str
    path: str
    operator: str
    occurrence: int
    line: int

    @property
    def file(self) -> Path:
        """The module's file."""
        return Path(ROOT, CONFIGURATION["trusted"], self.path)

    def source(self) -> str:
        """Return the module's source with the defect."""
        mutated = mutate_code(
            self.file.read_text("utf-8"), PROVIDER[self.operator](), self.occurrence
        )
        assert isinstance(mutated, str)
        return mutated

    def key(self) -> str:
        """Return the mutant's line in `mutants.md`: file, and its changed line before and after."""
        old, new = self.file.read_text("utf-8").splitlines(), self.source().splitlines()
        for before, after in zip(old, new, strict=False):
            if before.strip() != after.strip():
                gone = len(old) != len(new)
                return f"{self.path}: `{before.strip()}` -> `{'' if gone else after.strip()}`"
        return f"{self.path}: `{old[-1].strip()}` -> ``"


@dataclass(frozen=True, slots=True)
class Baseline:
    """An area's tests as they pass: their seconds, and the tests that reach a line of a file."""

    seconds: Mapping[str, float]
    reached: Mapping[str, Mapping[int, Sequence[str]]]
    modules: Sequence[str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sample of the mutants, print the score and return 1 on an unlisted survivor."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(CONFIGURATION["areas"]))
    parser.add_argument("--sample", type=int, default=0, help="mutants per area; 0: all")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--only", default="", help="mutants whose line in mutants.md has this text")
    parser.add_argument("--quick", action="store_true", help="a lower bound of the score, sooner")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if unknown := set(given.areas) - set(CONFIGURATION["areas"]):
        parser.error(f"AREA: expected {', '.join(CONFIGURATION['areas'])}, got {unknown.pop()}")
    os.chdir(ROOT)
    listed = equivalents()
    totals, unlisted = [], 0
    for area in given.areas or CONFIGURATION["areas"]:
        result = run_area(area, given.sample, given.seed, given.only, listed, quick=given.quick)
        totals.append(result)
        unlisted += len(result["unlisted"])
    report(totals, as_json=given.json)
    return 1 if unlisted else 0


def run_area(
    area: str, sample: int, seed: int, only: str, listed: Mapping[str, str], *, quick: bool = False
) -> dict[str, Any]:
    """Test a sample of an area's mutants.

    Args:
        area: a name of `mutate.toml`.
        sample: the number of mutants; 0 for all.
        seed: of the sample.
        only: a text that the mutants' keys have.
        listed: key to reason of the mutants that change nothing.
        quick: count a mutant of a function that passes in its forked child as a survivor.

    Returns:
        The area's figures and survivors.
    """
    everything, excluded = mutants(area)
    chosen = [mutant for mutant in everything if not only or only in mutant.key()]
    if 0 < sample < len(chosen):
        drawn = random.Random(f"{seed} {area}").sample(chosen, sample)
        chosen = [mutant for mutant in drawn if mutant.key() not in listed]
    began = time.monotonic()
    note(f"{area}: {len(everything)} mutants, {len(chosen)} sampled")
    baseline, alive = measure(area, chosen, _QUICK_S if quick else inf)
    preload(baseline.modules)
    survivors = []
    for number, mutant in enumerate(chosen):
        if alive.get(number, True) and ((quick and number in alive) or survives(mutant, baseline)):
            survivors.append(mutant)
            known = " (listed)" if mutant.key() in listed else ""
            note(f"survivor{known}: {mutant.key()}  [{mutant.line}, {mutant.operator}]")
    unlisted = [mutant.key() for mutant in survivors if mutant.key() not in listed]
    return {
        "area": area,
        "mutants": len(everything),
        "excluded": excluded,
        "sampled": len(chosen),
        "killed": len(chosen) - len(survivors),
        "equivalent": len(survivors) - len(unlisted),
        "unlisted": unlisted,
        "seconds": round(time.monotonic() - began, 1),
    }


def mutants(area: str) -> tuple[list[Mutant], int]:
    """List the mutants of an area's modules, in order, and count those left out."""
    found, excluded = [], 0
    for path in sorted((ROOT / CONFIGURATION["trusted"] / area).rglob("*.py")):
        source = path.read_text("utf-8")
        lines, nodes, silent = source.splitlines(), nodes_of(source), unmutated(source)
        name = str(path.relative_to(ROOT / CONFIGURATION["trusted"]))
        for operator in filter(used, PROVIDER):
            places = (
                start
                for node in nodes
                for start, _ in PROVIDER[operator]().mutation_positions(node)
            )
            for occurrence, place in enumerate(places):
                line = lines[place[0] - 1]
                if any(start <= place < end for start, end in silent) or any(
                    text in line for text in CONFIGURATION["excluded"]
                ):
                    excluded += 1
                else:
                    found.append(Mutant(area, name, operator, occurrence, place[0]))
    return found, excluded


def used(operator: str) -> bool:
    """Leave out operators that need arguments, and `is` in place of another comparison."""
    to_identity = operator.endswith(("_Is", "_IsNot")) and "_Is" not in operator[:-6]
    return operator not in ("VariableReplacer", "VariableInserter") and not to_identity


def nodes_of(source: str) -> list[Any]:
    """List the nodes of a source's tree in the order of cosmic-ray's visitor."""
    found: list[Any] = []

    def walk(node: Any) -> None:
        found.append(node)
        for child in getattr(node, "children", ()):
            walk(child)

    walk(parso.parse(source))  # type: ignore[no-untyped-call]  # parso has no types
    return found


def unmutated(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Find the spans of annotations and f-strings, whose mutation decides nothing."""
    spans: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for node in nodes_of(source):
        parts = []
        if node.type == "fstring":
            parts = [node]
        elif node.type == "annassign":
            parts = [node.children[1]]
        elif node.type in ("param", "funcdef"):
            parts = [node.annotation] if node.annotation is not None else []
        spans.extend((part.start_pos, part.end_pos) for part in parts)
    return spans


def measure(
    area: str, chosen: Sequence[Mutant], longest_s: float
) -> tuple[Baseline, dict[int, bool]]:
    """Run an area's tests as they are, then on the mutants of functions, in a child.

    Args:
        area: a name of `mutate.toml`.
        chosen: the mutants.
        longest_s: seconds of processor time; tests that take more are not run on mutants.

    Returns:
        The baseline, and for the numbers of mutants that were tested, whether they survived.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        silence()
        loop = _Loop(area, chosen, longest_s, write)
        os._exit(pytest.main([*_ARGUMENTS, *CONFIGURATION["areas"][area]["tests"]], plugins=[loop]))
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        raise SystemExit(f"{area}: its tests do not pass as they are")
    found = json.loads(text)
    reached = {
        path: {int(line): tests for line, tests in lines.items()}
        for path, lines in found["reached"].items()
    }
    baseline = Baseline(found["seconds"], reached, found["modules"])
    return baseline, {int(number): alive for number, alive in found["alive"].items()}


class _Loop:
    """A pytest plugin: collected once, the tests run in one forked child per mutant.

    The mutant's function gets its new code in place. What was computed at import stays, so that a
    mutant may survive here and not in `survives`, which imports it anew; never the other way.
    """

    def __init__(self, area: str, chosen: Sequence[Mutant], longest_s: float, write: int) -> None:
        self.area, self.chosen, self.longest_s, self.write = area, chosen, longest_s, write

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        answer = self._baseline(list(items.values()))
        reached = {
            path: {int(line): tests for line, tests in lines.items()}
            for path, lines in answer["reached"].items()
        }
        baseline = Baseline(answer["seconds"], reached, answer["modules"])
        answer["alive"] = {}
        for number, mutant in enumerate(self.chosen):
            replaced = replacement(mutant)
            if replaced is not None:
                tests = reaching(mutant, baseline)
                limit = limit_of(tests, baseline)
                ordered = [items[test] for test in tests]
                passed = forked(partial(_run_replaced, replaced, ordered, baseline.seconds), limit)
                answer["alive"][number] = passed
                if passed:
                    note(f"passes in its child: {mutant.key()}  [{mutant.line}]")
            if number % 10 == 9:
                alive = sum(answer["alive"].values())
                note(f"{self.area}: {number + 1} of {len(self.chosen)}, {alive} to import anew")
        with os.fdopen(self.write, "wb") as stream:
            stream.write(json.dumps(answer).encode())
        return True

    def _baseline(self, items: list[pytest.Item]) -> dict[str, Any]:
        """Run all tests with coverage, once in this process' child."""
        read, write = os.pipe()

        def run() -> int:
            os.close(read)
            folder = ROOT / CONFIGURATION["trusted"] / self.area
            recorder = coverage.Coverage(data_file=None, include=[f"{folder}/*"], config_file=False)
            recorder.start()
            seconds = {}
            for item, following in zip(items, [*items[1:], None], strict=True):
                recorder.switch_context(item.nodeid)
                began = time.process_time()
                reports = runtestprotocol(item, nextitem=following, log=False)
                seconds[item.nodeid] = time.process_time() - began
                if any(report.failed for report in reports):
                    note(f"{self.area}: {item.nodeid} fails as it is")
                    return 1
            recorder.stop()
            data = recorder.get_data()
            reached = {
                str(Path(path).relative_to(ROOT / CONFIGURATION["trusted"])): {
                    line: sorted(set(tests))
                    for line, tests in data.contexts_by_lineno(path).items()
                }
                for path in data.measured_files()
            }
            local = (CONFIGURATION["own"], "tests", "conftest", "test_", "__main")
            modules = [name for name in sys.modules if not name.startswith(local)]
            quick = {test: s for test, s in seconds.items() if s <= self.longest_s}
            note(f"{self.area}: {len(seconds)} tests pass as they are, {len(quick)} are run")
            answer = {"seconds": quick, "reached": reached, "modules": modules}
            with os.fdopen(write, "wb") as stream:
                stream.write(json.dumps(answer).encode())
            return 0

        child = os.fork()
        if child == 0:
            os._exit(run())
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            text = stream.read()
        os.waitpid(child, 0)
        if not text:
            os._exit(1)
        found: dict[str, Any] = json.loads(text)
        return found


def replacement(mutant: Mutant) -> tuple[list[FunctionType], CodeType] | None:
    """Find the functions whose code a mutant changes, and the code; None if none or others."""
    path = str(mutant.file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = compile(mutant.file.read_text("utf-8"), path, "exec", dont_inherit=True)
        try:
            new = compile(mutant.source(), path, "exec", dont_inherit=True)
        except SyntaxError:
            return None
    changed = changed_code(old, new)
    if changed is None:
        return None
    before, after = changed
    functions = [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, FunctionType)
        and thing.__code__.co_filename == path
        and thing.__code__.co_qualname == before.co_qualname
        and thing.__code__.co_firstlineno == before.co_firstlineno
        and len(thing.__code__.co_freevars) == len(after.co_freevars)
    ]
    return (functions, after) if functions else None


def changed_code(old: CodeType, new: CodeType) -> tuple[CodeType, CodeType] | None:
    """Descend through bodies of modules and classes to the one function that differs."""
    olds = [constant for constant in old.co_consts if isinstance(constant, CodeType)]
    news = [constant for constant in new.co_consts if isinstance(constant, CodeType)]
    pairs = list(zip(olds, news, strict=False))
    different = [(before, after) for before, after in pairs if before != after]
    own = old.replace(co_consts=(), co_linetable=b"") != new.replace(co_consts=(), co_linetable=b"")
    plain = [c for c in old.co_consts if not isinstance(c, CodeType)]
    if own or len(olds) != len(news) or len(different) != 1:
        return None
    if plain != [c for c in new.co_consts if not isinstance(c, CodeType)]:
        return None
    before, after = different[0]
    if before.co_flags & CO_NEWLOCALS:
        return before, after
    return changed_code(before, after)


def _run_replaced(
    replaced: tuple[list[FunctionType], CodeType],
    items: list[pytest.Item],
    seconds: Mapping[str, float],
) -> int:
    functions, code = replaced
    for function in functions:
        function.__code__ = code
    for thing in gc.get_objects():
        if isinstance(thing, _LRU) and thing.__module__.startswith(CONFIGURATION["package"]):
            thing.cache_clear()
    for item, following in zip(items, [*items[1:], None], strict=True):
        signal.setitimer(signal.ITIMER_VIRTUAL, _TEST_LIMIT_S + 3 * seconds[item.nodeid])
        if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
            return 1
    return 0


class _Selection:
    """A pytest plugin that runs the given tests only, in the given order."""

    def __init__(self, order: Sequence[str], seconds: Mapping[str, float]) -> None:
        self.seconds = seconds
        self.places = {test: place for place, test in enumerate(order)}

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, _TEST_LIMIT_S + 3 * self.seconds[item.nodeid])

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.places),
            key=lambda item: self.places[item.nodeid],
        )


def preload(modules: Sequence[str]) -> None:
    """Import what no mutant changes, once, so that every child finds it there."""
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if unmutated_modules := [n for n in sys.modules if n.startswith(CONFIGURATION["package"])]:
        raise SystemExit(f"expected no module that mutants change, got {unmutated_modules[0]}")


def reaching(mutant: Mutant, baseline: Baseline) -> list[str]:
    """List the tests that reach the mutant's line, the fast ones first; all of them at import.

    A line without instructions of its own belongs to the nearest ones around it that have some.
    """
    lines = baseline.reached.get(mutant.path, {})
    before = max((line for line in lines if line <= mutant.line), default=None)
    after = min((line for line in lines if line >= mutant.line), default=None)
    around = [line for line in (before, after) if line is not None]
    tests = {test for line in around for test in lines[line]} or set(baseline.seconds)
    if not tests & set(baseline.seconds):
        tests = set(baseline.seconds)
    return sorted(tests & set(baseline.seconds), key=baseline.seconds.__getitem__)


def survives(mutant: Mutant, baseline: Baseline) -> bool:
    """Import the mutant anew and run all tests of its area, those that reach it first."""
    first = reaching(mutant, baseline)
    rest = sorted(set(baseline.seconds) - set(first), key=baseline.seconds.__getitem__)
    tests = [*first, *rest]
    return forked(
        lambda: _test_in_child(mutant, tests, baseline.seconds), limit_of(tests, baseline)
    )


def limit_of(tests: Sequence[str], baseline: Baseline) -> int:
    """The processor time that tests may take, in seconds."""
    return _LEAST_LIMIT_S + 3 * ceil(sum(baseline.seconds[test] for test in tests))


def forked(run: Callable[[], int], limit: int) -> bool:
    """Run a function in a child; False if it returns another number than 0 or takes too long."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            silence()
            code = run()
        finally:
            os._exit(code)
    taken, ends = -1, 0.0  # a child that waits for ever takes no processor time
    while (ticks := ticks_of(child)) > taken or time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        if ticks > taken:
            taken, ends = ticks, time.monotonic() + _IDLE_S
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def ticks_of(process: int) -> int:
    """The processor time of a child and of those children of it that ended, in clock ticks."""
    text = Path(f"/proc/{process}/stat").read_text("utf-8")
    return sum(map(int, text.rpartition(")")[2].split()[11:15]))


def silence() -> None:
    """Send what tests print to nowhere; notes go to the terminal still."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)


def _test_in_child(mutant: Mutant, tests: Sequence[str], seconds: Mapping[str, float]) -> int:
    os.dup2(1, 2)
    sys.meta_path.insert(0, Planter(mutant))
    files = sorted({test.split("::")[0] for test in tests})
    return int(pytest.main([*_ARGUMENTS, *files], plugins=[_Selection(tests, seconds)]))


class Planter(importlib.abc.MetaPathFinder):
    """An importer that gives one module the mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        path = mutant.file
        parts = path.relative_to(ROOT / CONFIGURATION["import_root"]).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.path, self.source = path, mutant.source()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        where = [str(self.path.parent)] if self.is_package else None
        return importlib.util.spec_from_file_location(
            fullname,
            self.path,
            loader=_Loader(fullname, str(self.path), self.source),
            submodule_search_locations=where,
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.mutated = source

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.mutated, self.path, "exec", dont_inherit=True)
        return code


def equivalents() -> dict[str, str]:
    """Read the listed mutants and the heading that gives their reason."""
    found, reason = {}, ""
    for line in EQUIVALENT.read_text("utf-8").splitlines():
        if line.startswith("## "):
            reason = line[3:]
        elif line.startswith("- "):
            found[line[2:].strip()] = reason
    return found


def interval(killed: int, sampled: int, mutants_: int) -> tuple[float, float]:
    """Bound the score of all mutants with 95 % confidence, by Wilson's score interval.

    With every mutant tested it is the score itself.
    """
    if not sampled:
        return 0.0, 1.0
    share = killed / sampled
    if sampled == mutants_:
        return share, share
    z = 1.959964
    middle = (share + z * z / (2 * sampled)) / (1 + z * z / sampled)
    half = (
        z * sqrt(share * (1 - share) / sampled + z * z / (4 * sampled**2)) / (1 + z * z / sampled)
    )
    return max(middle - half, 0.0), min(middle + half, 1.0)


def report(totals: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print one line per area and one for all, then the survivors that no list explains."""
    if as_json:
        print(json.dumps(totals))
        return
    sums: Counter[str] = Counter()
    print(
        f"{'area':12} {'mutants':>8} {'sampled':>8} {'killed':>7} {'listed':>7} {'others':>7} "
        f"{'score':>7}  95 % interval"
    )
    for total in totals:
        counts = {name: total[name] for name in ("mutants", "sampled", "killed", "equivalent")}
        counts["unlisted"] = len(total["unlisted"])
        sums.update(counts)
        _print_line(total["area"], counts)
    _print_line("all", sums)
    for total in totals:
        for key in total["unlisted"]:
            print(f"survivor that mutants.md does not list: {key}")


def _print_line(area: str, counts: Mapping[str, int]) -> None:
    score = counts["killed"] / counts["sampled"] if counts["sampled"] else 1.0
    low, high = interval(counts["killed"], counts["sampled"], counts["mutants"])
    print(
        f"{area:12} {counts['mutants']:8} {counts['sampled']:8} {counts['killed']:7} "
        f"{counts['equivalent']:7} {counts['unlisted']:7} {score:7.3f}  {low:.3f} to {high:.3f}"
    )


def note(text: str) -> None:
    """Print progress apart from the result."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
