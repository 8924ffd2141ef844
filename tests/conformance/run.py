"""Runner of the conformance kit: asks a program the cases and compares its answers.

    python tests/conformance/run.py [--sample N] [--kind KIND] -- COMMAND ...

COMMAND reads a line of JSON per case from its standard input, {"id": n, "kind": k, "input": {...}},
and writes a line per case to its standard output, {"id": n, "answer": {...}}, in the same order.
The answer {"unsupported": kind} leaves a case out. The page docs/reference/conformance.md has the
kinds, their inputs and their answers. This file needs Python 3.11 and nothing else.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

CASES = Path(__file__).parent / "cases"
SHOWN = 5  # failures per kind
SEED = 1

Json = dict[str, Any]
Ask = Callable[[str, Json], Json]
"""(kind, input) -> answer."""


def load(folder: Path = CASES) -> Iterator[Json]:
    """Yield all cases: dictionaries with kind, name, input and expected.

    Raises:
        ValueError: a file is not the one whose SHA-256 is recorded.
    """
    for line in (folder / "SHA256SUMS").read_text("ascii").splitlines():
        digest, name = line.split()
        data = gzip.decompress((folder / f"{name}.gz").read_bytes())
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"{name}: expected SHA-256 {digest}, got another file")
        yield from map(json.loads, data.splitlines())


def sampled(cases: Iterable[Json], each: int) -> list[Json]:
    """Choose at most `each` cases of every kind, by a fixed seed."""
    by_kind: dict[str, list[Json]] = {}
    for case in cases:
        by_kind.setdefault(case["kind"], []).append(case)
    random = Random(SEED)
    return [
        case for found in by_kind.values() for case in random.sample(found, min(each, len(found)))
    ]


@dataclass
class Tally:
    """Counts per kind, and the first failures."""

    passed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, case: Json, answer: Json) -> None:
        """Count one answer."""
        kind = case["kind"]
        if answer == {"unsupported": kind}:
            self.unsupported[kind] += 1
        elif answer == case["expected"]:
            self.passed[kind] += 1
        else:
            self.failed[kind] += 1
            if self.failed[kind] <= SHOWN:
                expected, got = json.dumps(case["expected"]), json.dumps(answer)
                self.failures.append(
                    f"{kind}, {case['name']}: expected {expected:.400}, got {got:.400}"
                )

    def __str__(self) -> str:
        kinds = sorted({*self.passed, *self.failed, *self.unsupported})
        rows: list[tuple[str, ...]] = [("kind", "passed", "failed", "unsupported")]
        counts = (self.passed, self.failed, self.unsupported)
        rows += [(kind, *(str(count[kind]) for count in counts)) for kind in kinds]
        rows.append(("all", *(str(count.total()) for count in counts)))
        return "\n".join("{:<12}{:>8}{:>8}{:>13}".format(*row) for row in rows)


def compare(cases: Iterable[Json], ask: Ask) -> Tally:
    """Ask every case and count."""
    tally = Tally()
    for case in cases:
        tally.add(case, ask(case["kind"], case["input"]))
    return tally


class Program:
    """An implementation in a process of its own, asked by lines."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._asked = 0

    def ask(self, kind: str, given: Json) -> Json:
        """Ask one case.

        Raises:
            ValueError: the program ended, or its line is no answer to this case.
        """
        self._asked += 1
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {"id": self._asked, "kind": kind, "input": given}
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise ValueError(f"case {self._asked}: expected a program that reads it") from None
        line = self._process.stdout.readline()
        try:
            reply = json.loads(line)
            answer = reply["answer"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"case {self._asked}: expected an answer, got {line!r:.200}") from None
        if reply.get("id") != self._asked or not isinstance(answer, dict):
            raise ValueError(f"case {self._asked}: expected its id, got {line!r:.200}")
        return answer

    def close(self) -> None:
        """Close the program's input and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


def main(arguments: list[str] | None = None) -> int:
    """Run the kit against a command.

    Returns:
        0 if every answer is as expected, 1 if one is not, 2 if the program does not answer.
    """
    parser = argparse.ArgumentParser(description="Hold a program to the conformance kit.")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N cases of every kind")
    parser.add_argument("--kind", action="append", help="these kinds only; may be repeated")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    chosen = parser.parse_args(arguments)
    cases: Iterable[Json] = load()
    if chosen.kind:
        cases = [case for case in cases if case["kind"] in chosen.kind]
    if chosen.sample is not None:
        cases = sampled(cases, chosen.sample)
    program = Program(chosen.command)
    try:
        tally = compare(cases, program.ask)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        program.close()
    print("\n".join([*tally.failures, str(tally)]))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
