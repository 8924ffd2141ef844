"""Time and memory of boosting for queries: T rounds of draws, answers and fits.

Marginals of random records, at the tight plan of eps = 1, delta = 1e-6, with 200 samples a round;
the words are the operating system's, as in a release. The largest case is the largest universe that
the package accepts, 2^16 cells, with more than 10^5 queries; it is left out with --quick.

    python benchmarks/boosting.py [--quick] [--json]

Exit code 1: the best run of 1760 queries on 4096 cells took 3 s or more, an error was not below
what answering nothing but 1/2 would give, or the process grew to a GiB or more.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from askance_aggregator.sampling import SystemWords
from askance_papers.curator.synopsis import (
    Histogram,
    MarginalFamily,
    QuerySet,
    Universe,
    boosted_counting,
    tight_plan,
)

EPSILON, DELTA = 1, "1e-6"
RECORDS = 100_000
ALLOWED_MIB = 1024.0


@dataclass(frozen=True, slots=True)
class Case:
    """Marginals over `way` of this many bits; `allowed_s` is what a run may take, if anything."""

    bits: int
    way: int
    runs: int
    allowed_s: float | None


QUICK = (Case(8, 3, 3, None), Case(12, 3, 3, 3.0))
FULL = (Case(8, 3, 9, None), Case(12, 3, 9, 3.0), Case(14, 4, 3, None), Case(16, 5, 1, None))


@dataclass(frozen=True, slots=True)
class Row:
    """Measurements of one case.

    Args:
      cells: |X|.
      queries: |Q|.
      rounds: T.
      best_s, median_s: of the runs.
      error: the greatest maximal error of a run.
      peak_mib: the most memory the process held during the runs.
      allowed_s: what the best may be; None: nothing is claimed of this case.
    """

    cells: int
    queries: int
    rounds: int
    runs: int
    best_s: float
    median_s: float
    error: float
    peak_mib: float
    allowed_s: float | None

    @property
    def holds(self) -> bool:
        """True if it is as fast and as small as is claimed, and its answers are accurate."""
        fast = self.allowed_s is None or self.best_s < self.allowed_s
        return fast and self.error < 0.5 and self.peak_mib < ALLOWED_MIB


def _peak_mib() -> float:
    """Return the most memory that the process held since its peak was set back."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) / 1024


def measure(case: Case) -> Row:
    """Time a case's runs on one data set."""
    rng = np.random.default_rng(case.bits)
    family = MarginalFamily(Universe.of_bits(case.bits), case.way)
    table = rng.random((RECORDS, case.bits)) < rng.beta(0.5, 0.5, case.bits)
    histogram = Histogram.of(family.universe, table)
    truth = family.counts(histogram) / RECORDS
    plan = tight_plan(QuerySet.counting(family, RECORDS), EPSILON, DELTA)
    seconds, errors = [], []
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from here on: proc(5)
    for _ in range(case.runs):
        began = time.perf_counter()
        release = boosted_counting(histogram, family, plan, SystemWords())
        seconds.append(time.perf_counter() - began)
        errors.append(float(np.abs(release.answers - truth).max()))
    return Row(
        cells=family.universe.cells,
        queries=family.size,
        rounds=plan.schedule.rounds,
        runs=case.runs,
        best_s=min(seconds),
        median_s=median(seconds),
        error=max(errors),
        peak_mib=_peak_mib(),
        allowed_s=case.allowed_s,
    )


def story(table: Sequence[Row]) -> dict[str, Any]:
    """Return the document that `--json` prints."""
    return {
        "claim": "1760 queries on 4096 cells take less than 3 s, and every case less than a GiB",
        "holds": all(row.holds for row in table),
        "rows": [asdict(row) for row in table],
    }


def _show(table: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=f"Boosting for queries, eps = {EPSILON}, n = {RECORDS:,}")
    for name in ("|X|", "|Q|", "T", "best, s", "median", "allowed", "maximal error", "peak, MiB"):
        shown.add_column(name, justify="right")
    for row in table:
        shown.add_row(
            f"{row.cells:,}",
            f"{row.queries:,}",
            str(row.rounds),
            f"{row.best_s:.2f}",
            f"{row.median_s:.2f}",
            "" if row.allowed_s is None else f"{row.allowed_s:.0f}",
            f"{row.error:.4f}",
            f"{row.peak_mib:.0f}",
        )
    Console(width=110).print(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small cases, few runs")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    given = parser.parse_args(arguments)
    table = [measure(case) for case in (QUICK if given.quick else FULL)]
    told = story(table)
    if given.json:
        print(json.dumps(told))
    else:
        _show(table)
        print(f"{told['claim']}: {told['holds']}")
    return 0 if told["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
