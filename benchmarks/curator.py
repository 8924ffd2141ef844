"""Cost of the trusted curator's exact draws and choices, beside OpenDP where it has them.

OpenDP lives in an environment of its own, made beforehand:

    python -m venv ENV && ENV/bin/pip install -r benchmarks/peers/opendp/requirements.txt
    python benchmarks/curator.py [--quick] [--json] [--opendp ENV/bin/python]

Each time is the best of three rounds: a machine's other work only ever adds to it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from askance_aggregator.sampling import SystemWords, discrete_gaussian, discrete_laplace
from askance_papers.curator.mechanisms import Exponential, PermuteAndFlip, ScoredCandidates

SCALE = 1000  # of the draws, in steps
PEER = Path(__file__).parent / "peers" / "opendp" / "laplace.py"


@dataclass(frozen=True, slots=True)
class Row:
    """Cost of one kind of draw.

    Args:
      what: the draw, and whose.
      count: drawn in one call.
      call: microseconds a call.
      draw: microseconds a draw.
    """

    what: str
    count: int
    call: float
    draw: float


def best(work: Callable[[], object], repeats: int) -> float:
    """Measure the seconds per call: the best of three rounds."""
    found = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(repeats):
            work()
        found = min(found, (time.perf_counter() - began) / repeats)
    return found


def row(what: str, count: int, seconds: float) -> Row:
    """Format the costs, in microseconds."""
    return Row(what, count, seconds * 1e6, seconds * 1e6 / count)


def ours(counts: Sequence[int]) -> list[Row]:
    """Measure discrete Laplace and Gaussian draws, from the operating system's randomness."""
    words, scale = SystemWords(), Fraction(SCALE)
    found = []
    for count in counts:
        repeats = max(3, 300 // count)
        spent = best(partial(discrete_laplace, words, scale, count), repeats)
        found.append(row("discrete Laplace", count, spent))
        spent = best(partial(discrete_gaussian, words, scale**2, count), repeats)
        found.append(row("discrete Gaussian", count, spent))
    return found


def choices(sizes: Sequence[int]) -> list[Row]:
    """Measure both mechanisms of choice on scores that fall by one per candidate.

    So only some 2 / epsilon of them are near the best, and most draws are turned down.
    """
    words = SystemWords()
    found = []
    for size in sizes:
        scored = ScoredCandidates(-np.arange(size))
        for name, kind in (("exponential", Exponential), ("permute-and-flip", PermuteAndFlip)):
            spent = best(partial(kind.of(1).choose, scored, words), 3)
            found.append(row(f"{name}, one of", size, spent))
    return found


def opendp(python: Path, counts: Sequence[int]) -> list[Row]:
    """Measure OpenDP's discrete Laplace, in its own environment."""
    command = [str(python), str(PEER), str(SCALE), *map(str, counts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    spent: dict[str, float] = json.loads(done.stdout)
    return [row("OpenDP's discrete Laplace", int(count), one) for count, one in spent.items()]


def _show(table: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=f"Draws of scale {SCALE}")
    for name in ("draw", "of, or in a call", "us a call", "us each"):
        shown.add_column(name, justify="left" if name == "draw" else "right")
    for one in table:
        shown.add_row(one.what, f"{one.count:,}", f"{one.call:,.0f}", f"{one.draw:.3g}")
    Console(width=100).print(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="vectors of 1 and 1,000 only")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--opendp", type=Path, metavar="PYTHON", help="an interpreter that has it")
    given = parser.parse_args(arguments)
    counts = [1, 1000] if given.quick else [1, 1000, 100_000]
    table = ours(counts) + choices([1000] if given.quick else [1000, 1_000_000])
    if given.opendp is not None:
        table += opendp(given.opendp, counts)
    if given.json:
        print(json.dumps({"scale": SCALE, "rows": [asdict(one) for one in table]}))
    else:
        _show(table)
        if given.opendp is None:
            print("OpenDP was left out: no --opendp PYTHON")
    return 0


if __name__ == "__main__":
    sys.exit(main())
