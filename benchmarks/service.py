"""Cost of durability: the aggregator's service beside bare gRPC with the same messages.

Three parts, each durable and raw in turn, in one run, on the same machine and with the same load:

- rounds: some streams, a study with seven questions open to each device; a round trip is seven
  requests out, seven reports in and durable, and their acknowledgements. Raw: messages of the same
  bytes, read and written and never looked at.
- check-ins: unary calls, idle ones, and ones that deliver seven reports.
- connections: 10,000 devices with a connection each, from two processes; all connect, and a round
  is asked of all of them at once.

The latency of fdatasync stands beside them: the service acknowledges what is durable.

    python benchmarks/service.py [--quick] [--json] [--connections 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleets import fdatasync_ms

HERE = Path(__file__).resolve().parent
QUESTIONS = 7
STOP_S = 60.0
REPEATS = 3


class Part:
    """A process of this benchmark, asked and answering in lines."""

    def __init__(self, script: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def tell(self, line: str) -> dict[str, Any]:
        """Send a line and return the answer."""
        self.send(line)
        return self.read()

    def send(self, line: str) -> None:
        """Send a line; `read` returns the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """Return the next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"expected an answer, found that {self._process.args!r} ended")
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        """Let the process end; end it if it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def together(parts: Sequence[Part], lines: Sequence[str]) -> list[dict[str, Any]]:
    """Send each part its line, and return the answers of all."""
    for part, line in zip(parts, lines, strict=True):
        part.send(line)
    return [part.read() for part in parts]


@contextmanager
def serving(
    kind: str, devices: int, questions: int = QUESTIONS, *more: int
) -> Iterator[tuple[Part, str]]:
    """Provide a server process and its address; see `service_server.py` for its arguments."""
    server = Part("service_server.py", kind, devices, questions, *more)
    try:
        yield server, server.read()["address"]
    finally:
        server.close()


def rounds(kind: str, streams: int, count: int) -> float:
    """Round trips a second over `streams` streams; the best of some."""
    with serving(kind, streams) as (server, address):
        load = Part("service_load.py", "streams", address, 0, streams)
        server.tell(f"connected {streams}")
        server.tell("rounds 2")
        best = min(server.tell(f"rounds {count}")["seconds"] for _ in range(REPEATS))
        server.close()
        lost = load.read()["lost"]
        load.close()
    if lost:
        raise RuntimeError(f"expected no call lost, found {lost}")
    return float(streams * count / best)


def check_ins(kind: str, load: str, calls: int) -> float:
    """Measure unary calls per second."""
    with serving(kind, calls) as (server, address):
        if load == "deliver":
            server.tell("open")
        part = Part("service_load.py", load, address, 0, calls)
        told = part.read()
        part.close()
    return float(told["calls"] / told["seconds"])


def connections(kind: str, count: int, processes: int = 2) -> dict[str, Any]:
    """Measure a connection per device, from two processes, and a broadcast to all of them."""
    share = count // processes
    with serving(kind, share * processes, 1) as (server, address):
        loads = [
            Part("service_load.py", "connections", address, place * share, share)
            for place in range(processes)
        ]
        connected = server.tell(f"connected {share * processes}")["seconds"]
        first = server.tell("rounds 1")["seconds"]
        again = [server.tell("rounds 1")["seconds"] for _ in range(REPEATS)]
        server.close()
        lost: dict[str, int] = {}
        for load in loads:
            for code, calls in load.read()["lost"].items():
                lost[code] = lost.get(code, 0) + calls
            load.close()
    return {
        "connections": share * processes,
        "connect_s": connected,
        "first_round_s": first,
        "round_s": min(again),
        "lost": lost,
    }


def measure(streams: int, count: int, calls: int, devices: int) -> dict[str, Any]:
    """Measure all parts, durable and raw side by side."""
    told: dict[str, Any] = {"cores": os.cpu_count(), "fdatasync_ms": fdatasync_ms()}
    raw, durable = (rounds(kind, streams, count) for kind in ("raw", "durable"))
    told["rounds"] = {"streams": streams, "raw": raw, "durable": durable, "ratio": durable / raw}
    for load in ("idle", "deliver"):
        raw, durable = (check_ins(kind, load, calls) for kind in ("raw", "durable"))
        told[f"check_ins_{load}"] = {"raw": raw, "durable": durable, "ratio": durable / raw}
    raw_many, durable_many = (connections(kind, devices) for kind in ("raw", "durable"))
    told["connections"] = {
        "raw": raw_many,
        "durable": durable_many,
        "ratio": durable_many["round_s"] / raw_many["round_s"],
    }
    return told


def show(told: dict[str, Any]) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=100)
    table = Table(title=f"Durable beside raw gRPC, {told['cores']} cores")
    for column in ("a second", "raw", "durable", "durable / raw"):
        table.add_column(column, justify="left" if column == "a second" else "right")
    names = {
        "rounds": f"round trips of {QUESTIONS} reports, {told['rounds']['streams']} streams",
        "check_ins_idle": "check-ins, idle",
        "check_ins_deliver": f"check-ins with {QUESTIONS} reports",
    }
    for key, name in names.items():
        one = told[key]
        table.add_row(name, f"{one['raw']:,.0f}", f"{one['durable']:,.0f}", f"{one['ratio']:.2f}")
    console.print(table)
    many = told["connections"]
    for kind in ("raw", "durable"):
        one = many[kind]
        console.print(
            f"{kind}: {one['connections']:,} connections in {one['connect_s']:.1f} s, first round"
            f" {one['first_round_s']:.2f} s, best later {one['round_s']:.2f} s, lost: {one['lost']}"
        )
    sync = told["fdatasync_ms"]
    console.print(
        f"round, durable / raw: {many['ratio']:.2f}\n"
        f"fdatasync of 4 KiB: median {sync['median']:.2f} ms, p99 {sync['p99']:.2f} ms"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--connections", type=int, default=10_000, metavar="N")
    arguments = parser.parse_args(argv)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    if arguments.quick:
        told = measure(streams=40, count=5, calls=200, devices=100)
    else:
        told = measure(streams=500, count=40, calls=10_000, devices=arguments.connections)
    if arguments.json:
        print(json.dumps(told))
    else:
        show(told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
