"""Durable reports per second: SQLite, PostgreSQL and raw gRPC with the same messages, in one run.

Two studies ask seven reports of every device, round after round, over streams of two load
processes: requests out, reports in and durable, acknowledgements. The kinds take turns, so that
other work on the machine disturbs all:

- raw: the same messages on grpc.aio, read and answered and never looked at.
- sqlite: one aggregator on its SQLite store, which drives both studies.
- postgresql: the same on a local server, which syncs each commit and shares the machine's cores.
- replicas: two aggregators on one such database. Each drives one study and follows the other; half
  of the devices are connected to each.

A kind's rate is the median of its turns, and its ratio the median of the ratios to the raw turn of
the same repetition. Beside the rate stands the processor time per report of aggregators, load and
database together, which other work disturbs less.

With `--distinct` no two devices' reports are equal; without, one of 128 messages answers a round,
as with seven bits.

    python benchmarks/store.py [--quick] [--distinct] [--streams 500] [--rounds 20] [--turns 5]
      [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleets import fdatasync_ms
from service import QUESTIONS, Part, serving, together

from askance_aggregator.store import store_location

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from tests.postgresql import PostgresqlServer  # noqa: E402 - a script is not run from the root

KINDS = ("raw", "sqlite", "postgresql", "replicas")
STUDIES = 2
LOADS = 2
TARGETS = {"sqlite": 0.6, "postgresql": 0.35, "replicas": 0.35}  # of raw, least
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Turn:
    """Reports per second, and microseconds of processor time per report by process."""

    reports_per_s: float
    used_us: dict[str, float]


def processor_s(processes: Iterable[int]) -> float:
    """Return the seconds of processor time that running processes have used."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def words_of(kind: str, database: PostgresqlServer) -> list[tuple[str, int, list[int]]]:
    """Return for each server process its store, the rounds per round of a study, and words."""
    if kind == "raw":
        return [("raw", STUDIES, [])]
    if kind == "sqlite":
        return [("durable", 1, [1, STUDIES])]
    address = database.new_database()
    store_location(address).migrate()
    if kind == "postgresql":
        return [(address, 1, [1, STUDIES])]
    return [(address, 1, [1, STUDIES, replica]) for replica in range(STUDIES)]


def turn(
    kind: str, streams: int, count: int, database: PostgresqlServer, *words_of_load: str
) -> Turn:
    """Measure so many rounds of each study over so many streams."""
    share = streams // LOADS
    with ExitStack() as stack:
        servers, addresses, factors = [], [], []
        for store, factor, words in words_of(kind, database):
            server, address = stack.enter_context(serving(store, share * LOADS, QUESTIONS, *words))
            servers.append(server)
            addresses.append(address)
            factors.append(factor)
        loads = [
            Part(
                "service_load.py",
                "streams",
                addresses[n % len(addresses)],
                n * share,
                share,
                *words_of_load,
            )
            for n in range(LOADS)
        ]
        together(servers, [f"connected {share * LOADS // len(servers)}"] * len(servers))
        together(servers, ["rounds 2"] * len(servers))

        def used() -> dict[str, float]:
            processes = database.processes if kind in ("postgresql", "replicas") else []
            return {
                "aggregators": processor_s(server.pid for server in servers),
                "load": processor_s(load.pid for load in loads),
                "database": processor_s(processes),
            }

        before = used()
        found = together(servers, [f"rounds {factor * count}" for factor in factors])
        after = used()
        for server in servers:
            server.close()
        lost = [load.read()["lost"] for load in loads]
        for load in loads:
            load.close()
    if any(lost):
        raise RuntimeError(f"expected no call lost, found {lost}")
    reports = QUESTIONS * share * LOADS * count * STUDIES
    seconds = max(one["seconds"] for one in found)
    return Turn(reports / seconds, {k: 1e6 * (after[k] - before[k]) / reports for k in after})


def measure(streams: int, count: int, turns: int, *words_of_load: str) -> dict[str, Any]:
    """Measure all kinds in turn."""
    found: list[dict[str, Turn]] = []
    with PostgresqlServer.running({"shared_buffers": "256MB"}) as database:
        for _ in range(turns):
            found.append(
                {kind: turn(kind, streams, count, database, *words_of_load) for kind in KINDS}
            )
        ((version,),) = database.execute("SHOW server_version")
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "fdatasync_ms": fdatasync_ms(),
        "postgresql": version,
        "streams": streams,
        "turns": turns,
        "kinds": {kind: _summary(kind, found) for kind in KINDS},
    }


def _summary(kind: str, found: Sequence[dict[str, Turn]]) -> dict[str, Any]:
    """Return medians over the repetitions, and the least and greatest ratio."""
    ratios = [one[kind].reports_per_s / one["raw"].reports_per_s for one in found]
    parts = {
        part: statistics.median(one[kind].used_us[part] for one in found)
        for part in found[0][kind].used_us
    }
    return {
        "reports_per_s": statistics.median(one[kind].reports_per_s for one in found),
        "ratio": statistics.median(ratios),
        "ratios": [min(ratios), max(ratios)],
        "target": TARGETS.get(kind),
        "processor_us_per_report": parts,
        "processor_ratio": statistics.median(
            sum(one["raw"].used_us.values()) / sum(one[kind].used_us.values()) for one in found
        ),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all")
    parser.add_argument("--distinct", action="store_true", help="no two devices' reports are equal")
    parser.add_argument("--streams", type=int, default=500, metavar="N")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="of each study")
    parser.add_argument("--turns", type=int, default=5, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    load = ("distinct",) if arguments.distinct else ()
    if arguments.quick:
        told = measure(40, 3, 1, *load)
    else:
        told = measure(arguments.streams, arguments.rounds, arguments.turns, *load)
    if arguments.json:
        print(json.dumps(told))
        return 0
    for kind, one in told["kinds"].items():
        parts = ", ".join(f"{k} {us:.1f}" for k, us in one["processor_us_per_report"].items())
        low, high = one["ratios"]
        print(
            f"{kind:>10}: {one['reports_per_s']:>9,.0f} reports per second, {one['ratio']:.2f} of"
            f" raw ({low:.2f} to {high:.2f}); us of processors per report: {parts};"
            f" {one['processor_ratio']:.2f} of raw"
        )
    sync = told["fdatasync_ms"]
    print(f"PostgreSQL {told['postgresql']}, {told['streams']} streams, {told['cores']} cores,")
    print(f"load {told['load']:.1f}, fdatasync {sync['median']:.2f} ms (p99 {sync['p99']:.2f} ms)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
