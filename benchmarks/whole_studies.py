"""Processor time of whole studies: start-up, device objects, judging and a sweep over a file.

Parts, each in a process of its own, in seconds of its processor time:

- start: `askance simulate LEARNER` on 5,000 users in columns, of which almost all is imports.
- objects: device objects in their own process; answers per second of the first study, planned in
  it, and of a later one, the best of three.
- columns: a study on one thread, generated and judged; and the same users' totals read once more,
  which is what a judge with a pass of its own takes.
- sweep: trials over a file of records, each on a seed of its own.

    python benchmarks/whole_studies.py [--quick] [--json] [--data FILE.csv --column NAME]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import askance as ask
from askance_aggregator.learners.totals import queries_judged

REPEATS = 3
SWEEP_TRIALS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the users")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--data", type=Path, metavar="FILE", help="records of the sweep")
    parser.add_argument("--column", default="education", help="category that the sweep asks about")
    given = parser.parse_args(arguments)
    less = 10 if given.quick else 1
    figures = {f"start {name}, s": start_up(name) for name in ("mean", "frequency")}
    figures |= objects("mean", 20_000 // less)
    for name in ("mean", "frequency"):
        figures |= columns(name, 10_000_000 // less)
    if given.data is not None:
        figures["sweep of 10 trials, s"] = sweep(given.data, given.column)
    if given.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:40} {figure:12,.3f}")
    return 0


def start_up(learner: str) -> float:
    """Return the processor seconds of a small study from the command line, the least of three."""
    words = ["simulate", learner, "--users", "5000", "--epsilon", "2", "--fleet", "columns"]
    command = [sys.executable, "-m", "askance", *words, "--json"]
    seconds = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        seconds.append(used)
    return min(seconds)


def objects(learner: str, users: int) -> dict[str, float]:
    """Return the answers per second of device objects: of the first study, and of a later one."""
    made = ask.named(learner, epsilon=1, users=users)
    people = made.people(ask.Seed.of(0))
    study = made.study(people)
    first, *later = [
        _timed(lambda: ask.simulate(study, people, fleet="objects")) for _ in range(1 + REPEATS)
    ]
    return {
        f"objects {learner}, first, answers/s": users / first,
        f"objects {learner}, steady, answers/s": users / min(later),
    }


def columns(learner: str, users: int) -> dict[str, float]:
    """Return the seconds of a judged study on one thread, and of a pass over its users."""
    study, people = _planned(learner, users)
    ask.simulate(study, people, fleet="columns", workers=1)
    study_s = _timed(lambda: ask.simulate(study, people, fleet="columns", workers=1))
    pass_s = _timed(lambda: people.totals(queries_judged(study.learner)))
    return {f"columns {learner}, s": study_s, f"another pass, {learner}, s": pass_s}


def sweep(data: Path, column: str) -> float:
    """Return the seconds of ten trials over a file."""
    grid = {"epsilon": [1, 2], "column": column}
    return _timed(lambda: ask.sweep("frequency", grid, trials=SWEEP_TRIALS // 2, data=data))


def _planned(learner: str, users: int) -> tuple[Any, ask.Population]:
    made = ask.named(learner, epsilon=1, users=users)
    people = made.people(ask.Seed.of(0))
    study = made.study(people)
    study.plan(users)
    return study, people


def _timed(run: Callable[[], object]) -> float:
    """Return the processor seconds of a call."""
    began = time.process_time()
    run()
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
