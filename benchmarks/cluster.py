"""Cost of Ray: one of its workers against one thread of the columns fleet, and its own start.

Both fleets compute the same chunks, in turn in one run, so that their ratio means something on a
noisy machine; the best of each counts. Ray runs all the while, with one worker; what it takes to
start and to stop stands apart. Transcripts are compared: they must be equal.

- one predicate: the column is given, and all users are asked whether they are over 40. Its way
  into Ray's object store, which it takes once, is in the first trial, reported apart.
- masked parity: d = 64, eps = 1; users are generated.
- a task: an empty one, there and back; and many at once.

With `--whole N` instead two threads beside two workers: a mean of N generated users, judged, and a
sweep of six settings with five trials of a thousandth of them. Memory is the peak of the study's
own process, from its start on, and that of Ray's workers, added up; without Ray's own processes.

    python benchmarks/cluster.py [--quick] [--json] [--users 100000000] [--whole 1000000000]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

import askance as ask
from askance_aggregator.studies.study import Study
from askance_simulation.experiments import run_trial
from askance_simulation.fleets import fleet_by
from askance_simulation.fleets.cluster import joined
from askance_simulation.fleets.shards import import_ray
from askance_simulation.populations import Population, masked_parity
from askance_simulation.randomness import Seed

USERS, QUICK_USERS = 100_000_000, 5_000_000
REPEATS = 2
TWO = 2
TASKS = 1000
FLEETS = ("columns", "ray")


@ask.non_adaptive("older", version=1)
def older(age: ask.Expression) -> tuple[ask.Batch, Callable[[ask.Answers], float]]:
    """Return a learner of the share of users over 40."""
    batch = ask.Batch([ask.Question(ask.predicate(age > 40))])
    return batch, lambda answers: answers[0].value


def one_predicate(users: int) -> tuple[Study, Population]:
    """Make a question, and users whose ages are an array."""
    schema = ask.Schema("ages", 1, age=ask.Integer(0, 127))
    ages = np.random.default_rng(0).integers(0, 100, users, dtype=np.int64)
    people = Population.from_columns(schema, {"age": ages})
    return Study(older(schema.age), schema, epsilon="1"), people


def parity(users: int) -> tuple[Study, Population]:
    """Make MASKED-PARITY and its generated users."""
    people = masked_parity(users, Seed.of(0), 64)
    return Study(ask.learners.masked_parity(people.schema), people.schema, epsilon="1"), people


def compared(study: Study, people: Population) -> dict[str, Any]:
    """Measure the seconds of a trial, by fleet, the best of those that were run in turn."""
    taken: dict[str, list[float]] = {fleet: [] for fleet in FLEETS}
    transcripts = set()
    answers = 0
    for _ in range(REPEATS):
        for fleet in FLEETS:
            began = time.perf_counter()
            trial = run_trial(study, people, fleet=fleet_by(fleet, 1), seed=Seed.of(1))
            taken[fleet].append(time.perf_counter() - began)
            transcripts.add(trial.outcome.transcript)
            answers = trial.outcome.answers
    (_,) = transcripts
    best = {fleet: min(seconds) for fleet, seconds in taken.items()}
    return {
        "users": people.size,
        "answers": answers,
        "columns_s": best["columns"],
        "ray_s": best["ray"],
        "ray_first_s": taken["ray"][0],
        "ratio": best["ray"] / best["columns"],
    }


def tasks() -> dict[str, float]:
    """Measure the cost of an empty task."""
    ray = import_ray()
    empty = ray.remote(lambda: None)  # one that travels by value
    ray.get(empty.remote())
    began = time.perf_counter()
    for _ in range(TASKS // 10):
        ray.get(empty.remote())
    there_and_back = (time.perf_counter() - began) / (TASKS // 10)
    began = time.perf_counter()
    ray.get([empty.remote() for _ in range(TASKS)])
    return {
        "there_and_back_ms": there_and_back * 1e3,
        "many_at_once_ms": (time.perf_counter() - began) / TASKS * 1e3,
    }


def measured(users: int) -> dict[str, Any]:
    """Measure all parts."""
    began = time.perf_counter()
    import_ray()
    imported = time.perf_counter()
    with joined(1):
        started = time.perf_counter()
        told = {
            "tasks": tasks(),
            "one_predicate": compared(*one_predicate(users)),
            "masked_parity": compared(*parity(users)),
        }
        ended = time.perf_counter()
    stopped = time.perf_counter()
    return told | {
        "import_s": imported - began,
        "start_s": started - imported,
        "stop_s": stopped - ended,
    }


def _peak_mb(process: Path) -> float:
    """Return the peak memory of a process by its folder in /proc; 0 of one that has ended."""
    try:
        lines = (process / "status").read_text("ascii").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def _workers_mb() -> float:
    """Return the peak memory of the processes of Ray's workers on this machine."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(b"ray::"):
                found.append(process)
    return sum(map(_peak_mb, found))


def whole(users: int) -> dict[str, Any]:
    """Measure the seconds of a judged study and of a sweep, on two threads and on two workers."""
    grid = {"epsilon": ["0.25", "0.5", 1, 2, 4, 8], "users": max(users // 1000, 2000)}
    told: dict[str, Any] = {"users": users}
    for fleet in FLEETS:
        with joined(TWO) if fleet == "ray" else nullcontext():
            for name, size in (("first", max(users // 1000, 2000)), ("study", users)):
                made = ask.named("mean", epsilon=1, users=size)
                with suppress(OSError):
                    Path("/proc/self/clear_refs").write_text("5")  # begins the peak anew
                began = time.perf_counter()
                found = ask.simulate(made.study, made.people, fleet=fleet, workers=TWO)
                told[f"{fleet}_{name}_s"] = time.perf_counter() - began
            told[f"{fleet}_caller_mb"] = _peak_mb(Path("/proc/self"))
            told[f"{fleet}_workers_mb"] = _workers_mb() if fleet == "ray" else 0.0
            told.setdefault("transcripts", set()).add(found.transcript.digest)
            began = time.perf_counter()
            rows = ask.sweep("mean", grid, trials=5, fleet=fleet, workers=TWO).rows
            told[f"{fleet}_sweep_s"] = time.perf_counter() - began
            told.setdefault("swept", set()).add(tuple(row["transcript"] for row in rows))
    (_,), (_,) = told.pop("transcripts"), told.pop("swept")
    return told | {
        "ratio": told["ray_study_s"] / told["columns_study_s"],
        "sweep_ratio": told["ray_sweep_s"] / told["columns_sweep_s"],
    }


def _show(told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Seconds of a trial, one thread or one worker, best of {REPEATS}")
    for column in (
        "study",
        "users",
        "columns s",
        "ray s",
        "first s",
        "ray / columns",
        "ray answers/s",
    ):
        table.add_column(column, justify="right")
    for name in ("one_predicate", "masked_parity"):
        one = told[name]
        table.add_row(
            name.replace("_", " "),
            f"{one['users']:,}",
            f"{one['columns_s']:.2f}",
            f"{one['ray_s']:.2f}",
            f"{one['ray_first_s']:.2f}",
            f"{one['ratio']:.2f}",
            f"{one['answers'] / one['ray_s']:,.0f}",
        )
    console = Console(width=100)
    console.print(table)
    console.print(
        f"Ray: imported in {told['import_s']:.1f} s, started in {told['start_s']:.1f} s,"
        f" stopped in {told['stop_s']:.1f} s\n"
        f"an empty task: {told['tasks']['there_and_back_ms']:.2f} ms there and back,"
        f" {told['tasks']['many_at_once_ms']:.2f} ms among {TASKS}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_USERS:,} users")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--users", type=int, metavar="N", help=f"default {USERS:,}")
    parser.add_argument("--whole", type=int, metavar="N", help="two workers, N users, in JSON")
    given = parser.parse_args(arguments)
    if given.whole:
        print(json.dumps(whole(given.whole)))
        return 0
    told = measured(given.users or (QUICK_USERS if given.quick else USERS))
    if given.json:
        print(json.dumps(told))
    else:
        _show(told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
