"""Writes the kit's cases.

    python -m tests.conformance.make [--folder FOLDER] [NAME ...]

Answers are the client's; where the documents state an outcome (good and bad vectors, scripts
written by hand) the client is held to it first.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.conformance.client_adapter import answer
from tests.conformance.make.draws import (
    level_cases,
    loss_cases,
    randomizer_cases,
    record_cases,
    tie_cases,
)
from tests.conformance.make.from_vectors import Json, vector_cases
from tests.conformance.make.limits import limit_cases
from tests.conformance.make.programs import changed_cases, program_cases
from tests.conformance.make.scripts import check, random_scripts, scripts
from tests.conformance.make.wire_forms import form_cases

CASES = Path(__file__).parents[1] / "cases"
SEED = 19
PROGRAMS, CHANGED, LOSSES, RANDOMIZERS, LEVELS, SCRIPTS = 10_000, 1_500, 1_200, 20, 800, 120


def programs() -> Iterator[Json]:
    """Yield the generated programs."""
    yield from program_cases(Random(SEED), PROGRAMS)


def messages() -> Iterator[Json]:
    """Yield messages that are accepted or refused, and records."""
    for case in vector_cases():
        refused = "refused" in answer(case["kind"], case["input"])
        bad = case["name"].startswith("bad_") and case["kind"] != "signature"
        assert refused == bad, case["name"]
        yield case
    yield from form_cases()
    yield from record_cases()
    yield from changed_cases(Random(SEED + 1), list(program_cases(Random(SEED + 2), CHANGED)))


def randomizers() -> Iterator[Json]:
    """Yield losses, randomizers, draws, alphabets and roundings."""
    yield from loss_cases(Random(SEED + 3), LOSSES)
    yield from randomizer_cases(Random(SEED + 4), RANDOMIZERS)
    yield from tie_cases()
    yield from level_cases(Random(SEED + 5), LEVELS)


def ledgers() -> Iterator[Json]:
    """Yield scripts for a device's ledger."""
    for script in scripts():
        case = script.case()
        check(script, answer("ledger", case["input"])["steps"])
        yield case
    yield from random_scripts(Random(SEED + 6), SCRIPTS)


def limits() -> Iterator[Json]:
    """Yield cases on both sides of each limit, held to the outcome that is stated with them."""
    for accepted, case in limit_cases():
        assert ("refused" not in answer(case["kind"], case["input"])) == accepted, case["name"]
        yield case


FILES = {
    "messages": messages,
    "programs": programs,
    "randomizers": randomizers,
    "ledgers": ledgers,
    "limits": limits,
}


def write(name: str, folder: Path) -> None:
    """Write one file of cases, with the client's answers."""
    lines = []
    for case in FILES[name]():
        expected = answer(case["kind"], case["input"])
        lines.append(json.dumps({**case, "expected": expected}, separators=(",", ":")))
    data = ("\n".join(lines) + "\n").encode()
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(data, 9, mtime=0))


def write_sums(folder: Path) -> None:
    """Write the SHA-256 of each file's content."""
    sums = [
        f"{hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()}  {path.stem}\n"
        for path in sorted(folder.glob("*.jsonl.gz"))
    ]
    (folder / "SHA256SUMS").write_text("".join(sums), "ascii")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the cases of the conformance kit.")
    parser.add_argument("--folder", type=Path, default=CASES)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FILES)}; or all")
    chosen = parser.parse_args()
    chosen.folder.mkdir(exist_ok=True)
    for chosen_name in chosen.names or FILES:
        write(chosen_name, chosen.folder)
    write_sums(chosen.folder)
