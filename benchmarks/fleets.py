"""Speed of fleets: device objects against devices over gRPC, and the phases of a demo.

Two parts, in one run of one process, so that their ratio means something on a noisy machine:

- answers: every device of a small fleet answers one question; the best of three runs each, of
  device objects and of devices over gRPC (on loopback, with the service's SQLite store): on shared
  streams and on a stream each.
- demo: what `askance demo` runs, in its phases. There devices dial in while the first round is
  open; here the round waits until all have, so that connecting and answering are measured apart.

The latency of fdatasync stands beside them: the service acknowledges what is durable.

    python benchmarks/fleets.py [--quick] [--json] [--devices 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from askance_aggregator import learners
from askance_aggregator.studies import Accounts, Fleet, Round, Tally
from askance_aggregator.studies.study import Study
from askance_simulation.experiments import Trial, run_trial
from askance_simulation.fleets import FLEETS, Devices, OpenedFleet, Progress
from askance_simulation.populations import POPULATIONS, Population, masked_parity
from askance_simulation.randomness import Seed

CONNECTED_WITHIN_S = 300.0
MEASURED = ("objects", "grpc", "grpc-streams")
POLL_S = 0.005
REPEATS = 3


@dataclass(slots=True)
class Phases:
    """Seconds of one run by activity.

    Args:
        make: devices are made, each with its record and its ledger.
        connect: from the start of the service until all devices hold a stream open; device objects
            have nothing to connect.
        rounds: each round, from its opening to its last answer.
        answers: how many came.
        total: all, with signing, planning and hanging up.
    """

    make: float = 0.0
    connect: float = 0.0
    rounds: list[float] = field(default_factory=list)
    answers: int = 0
    total: float = 0.0

    @property
    def answers_per_s(self) -> float:
        """Answers over the time that rounds were open."""
        return self.answers / sum(self.rounds)

    def to_json(self) -> dict[str, Any]:
        """Measure the seconds by phase."""
        return {
            "make_s": self.make,
            "connect_s": self.connect,
            "rounds_s": self.rounds,
            "other_s": self.total - self.make - self.connect - sum(self.rounds),
            "total_s": self.total,
            "answers": self.answers,
            "answers_per_s": self.answers_per_s,
        }


class _Timed:
    """A fleet whose rounds are timed."""

    def __init__(self, fleet: Fleet, phases: Phases) -> None:
        self._fleet = fleet
        self._phases = phases

    @property
    def population(self) -> int:
        return self._fleet.population

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        began = time.perf_counter()
        tallies = self._fleet.ask(round_, accounts)
        self._phases.rounds.append(time.perf_counter() - began)
        self._phases.answers += sum(tally.answered for tally in tallies)
        return tallies

    def recall(self, round_: Round, accounts: Accounts) -> None:
        self._fleet.recall(round_, accounts)


def timed_run(study: Study, population: Population, fleet: str) -> tuple[Phases, Trial]:
    """Run one study on one of the fleets, and time each phase."""
    phases = Phases()

    @contextmanager
    def open_timed(devices: Devices, progress: Progress | None) -> Iterator[OpenedFleet]:
        began = time.perf_counter()
        for ordinal in range(len(devices)):
            devices[ordinal]
        made = time.perf_counter()
        phases.make = made - began
        with FLEETS[fleet](devices, progress) as opened:
            if fleet != "objects":
                _wait_until(_connected(opened.fleet), len(devices))
                phases.connect = time.perf_counter() - made
            yield OpenedFleet(_Timed(opened.fleet, phases), opened.log)

    began = time.perf_counter()
    trial = run_trial(study, population, fleet=open_timed, seed=Seed.of(0))
    phases.total = time.perf_counter() - began
    return phases, trial


def _connected(fleet: Any) -> Callable[[], int]:
    """Count the devices that hold a stream open; only the service knows, and no round needs it."""
    hub = fleet._runners._server.hub
    return lambda: int(hub.connected)


def _wait_until(count: Callable[[], int], expected: int) -> None:
    deadline = time.perf_counter() + CONNECTED_WITHIN_S
    while count() < expected:
        if time.perf_counter() > deadline:
            raise TimeoutError(f"expected {expected} devices to connect, found {count()}")
        time.sleep(POLL_S)


def answers(devices: int) -> dict[str, Any]:
    """Measure one question to all users on each fleet in turn; the best run of each."""
    population = POPULATIONS["categories"].build(devices, Seed.of(0))
    (name, *_) = population.schema.fields
    study = Study(learners.frequency(population.schema[name]), population.schema, epsilon="1")
    best: dict[str, Phases] = {}
    for _ in range(REPEATS):
        for fleet in MEASURED:
            phases, _ = timed_run(study, population, fleet)
            if fleet not in best or phases.answers_per_s > best[fleet].answers_per_s:
                best[fleet] = phases
    return {
        "devices": devices,
        "best_of": REPEATS,
        **{fleet: phases.to_json() for fleet, phases in best.items()},
        "ratio": best["objects"].answers_per_s / best["grpc"].answers_per_s,
    }


def demo(devices: int) -> dict[str, Any]:
    """Run the study of `askance demo` over gRPC, once."""
    population = masked_parity(devices, Seed.of(0), 8)
    study = Study(learners.masked_parity(population.schema), epsilon="2.0")
    phases, trial = timed_run(study, population, "grpc")
    return {"devices": devices, "success": bool(trial.assessment.success)} | phases.to_json()


def fdatasync_ms(writes: int = 200) -> dict[str, float]:
    """Measure the time that 4 KiB take to be durable, in the folder of the store."""
    taken = []
    with tempfile.TemporaryFile(prefix="askance-") as file:
        for _ in range(writes):
            file.write(b"\0" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e3)
    return {"median": statistics.median(taken), "p99": statistics.quantiles(taken, n=100)[-1]}


def _show(told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    speed, run, sync = told["answers"], told["demo"], told["fdatasync_ms"]
    table = Table(title=f"Answers per second, {speed['devices']:,} devices, best of {REPEATS}")
    for column in ("fleet", "answers/s", "make s", "connect s", "rounds s"):
        table.add_column(column, justify="right")
    for name in MEASURED:
        one = speed[name]
        times = (one["make_s"], one["connect_s"], sum(one["rounds_s"]))
        table.add_row(name, f"{one['answers_per_s']:,.0f}", *(f"{spent:.2f}" for spent in times))
    console = Console(width=100)
    console.print(table)
    rounds = " + ".join(f"{spent:.2f}" for spent in run["rounds_s"])
    console.print(
        f"objects / gRPC: {speed['ratio']:.2f}\n"
        f"demo, {run['devices']:,} devices: make {run['make_s']:.2f} s, "
        f"connect {run['connect_s']:.2f} s, rounds {rounds} s ({run['answers']:,} answers), "
        f"other {run['other_s']:.2f} s, total {run['total_s']:.2f} s\n"
        f"fdatasync of 4 KiB: median {sync['median']:.2f} ms, p99 {sync['p99']:.2f} ms"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="500 devices, and 5,000 for the demo")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--devices", type=int, metavar="N", help="of the demo; default 10000")
    given = parser.parse_args(arguments)
    told = {
        "fdatasync_ms": fdatasync_ms(),
        "answers": answers(500 if given.quick else 2000),
        "demo": demo(given.devices or (5000 if given.quick else 10_000)),
    }
    if given.json:
        print(json.dumps(told))
    else:
        _show(told)
    return 0 if told["demo"]["success"] else 1


if __name__ == "__main__":
    sys.exit(main())
