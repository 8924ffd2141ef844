"""Gateways with one stream for all members, beside one stream per member.

Two parts:

- throughput: members of some load processes answer rounds of questions, once with a stream per
  member and once with a stream per process, in turn, against the aggregator's own service on a
  SQLite store. A report counts when it is durable. Memory of the server is read after the rounds.
- memory (`--memory`): an aggregator and gateways as `askance aggregator serve` and
  `askance device run` start them, over TLS, with a ledger per member. Resident memory is read when
  all members are on the streams, and again when all have answered a question.

    python benchmarks/gateway.py [--quick] [--json] [--members 8000] [--memory 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fleets import fdatasync_ms
from service import REPEATS, Part, serving

from askance_aggregator.store import SqliteStore
from askance_client.ledger import LedgerFile

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from tests.ports import free_address  # noqa: E402 - a script is not run from the root

GATEWAYS = 4
QUESTIONS = (1, 7)  # in one round
WAYS = {"a stream per member": "streams", "a stream per gateway": "gateway"}
ASKANCE = [sys.executable, "-m", "askance"]
READY_S = 600.0
SCHEMA = """name = "people"
version = 1

[fields]
smoker = { type = "category", labels = ["yes", "no"] }
"""


def resident_mb(pid: int) -> float:
    """Read the resident memory of a process, in MB."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1000


def throughput(way: str, members: int, questions: int, rounds: int) -> dict[str, float]:
    """Measure durable reports per second, and the server's memory before and after."""
    share = members // GATEWAYS
    with serving("durable", share * GATEWAYS, questions, GATEWAYS) as (server, address):
        empty = resident_mb(server.pid)
        loads = [
            Part("service_load.py", way, address, place * share, share) for place in range(GATEWAYS)
        ]
        server.tell(f"connected {share * GATEWAYS}")
        connected = resident_mb(server.pid)
        server.tell("rounds 1")
        best = min(server.tell(f"rounds {rounds}")["seconds"] for _ in range(REPEATS))
        after = resident_mb(server.pid)
        server.close()
        lost = {code for load in loads for code in load.read()["lost"]}
        for load in loads:
            load.close()
    if lost:
        raise RuntimeError(f"expected no call lost, found {sorted(lost)}")
    return {
        "reports_per_s": share * GATEWAYS * questions * rounds / best,
        "empty_mb": empty,
        "connected_mb": connected,
        "after_mb": after,
    }


def measure_throughput(members: int, rounds: int, repeats: int) -> list[dict[str, Any]]:
    """Measure both ways in turn, and keep the better of the repeats of each."""
    rows = []
    for questions in QUESTIONS:
        best: dict[str, dict[str, float]] = {}
        for _ in range(repeats):
            for name, way in WAYS.items():
                one = throughput(way, members, questions, rounds)
                if name not in best or one["reports_per_s"] > best[name]["reports_per_s"]:
                    best[name] = one
        before, after = (best[name]["reports_per_s"] for name in WAYS)
        rows.append(
            {"questions": questions, "members": members, "ratio": after / before, "ways": best}
        )
    return rows


@contextmanager
def started(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that says when it has started; it is ended afterwards."""
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"expected {command[-4:]} to start: {log.read_text()[-500:]}")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(READY_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(what: str, count: int, read: Any) -> float:
    """Wait until a number is reached; return the seconds."""
    began = time.perf_counter()
    while (found := read()) < count:
        if time.perf_counter() - began > READY_S:
            raise TimeoutError(f"expected {count} {what}, found {found}")
        time.sleep(0.5)
    return time.perf_counter() - began


def memory(members: int, folder: Path) -> dict[str, Any]:
    """Run an aggregator and gateways of so many members in all, and read their memory."""
    share = members // GATEWAYS
    address = free_address()
    service = folder / "service"
    configuration = service / "aggregator.toml"
    askance("aggregator", "init", service)
    text = configuration.read_text()  # beside other aggregators of the machine
    configuration.write_text(text.replace("127.0.0.1:7444", free_address()))
    token = folder / "token"
    schema = folder / "schema.toml"
    schema.write_text(SCHEMA)
    with ExitStack() as stack:
        serve = (*ASKANCE, "aggregator", "serve", "--config", str(configuration), "--json")
        log = folder / "service.log"
        server = stack.enter_context(started([*serve, "--listen", address], log))
        empty = resident_mb(server.pid)
        token.write_text(
            askance("aggregator", "token", "--config", configuration, "--devices", members)
        )
        analyst = (service / "analyst.pub").read_text().strip()
        gateways = []
        for number in range(GATEWAYS):
            home, data = folder / f"gateway{number}", folder / f"people{number}.csv"
            lines = [f"{number}-{row},{('yes', 'no')[row % 2]}" for row in range(share)]
            data.write_text("\n".join(["id,smoker", *lines, ""]))
            given = ("--ca", service / "ca.pem", "--analyst", analyst, "--schema", schema)
            records = ("--data", data, "--key", "id", "--life-epsilon", 8)
            askance("device", "init", home, "--aggregator", address, *given, *records)
            askance("device", "enroll", home, "--token-file", token)
            run = [*ASKANCE, "device", "run", str(home), "--json"]
            gateways.append(stack.enter_context(started(run, folder / f"gateway{number}.log")))
        connected_s = wait_for(
            "members", share * GATEWAYS, lambda: connected(configuration, address)
        )
        pids = [server.pid, *(gateway.pid for gateway in gateways)]
        rest = [resident_mb(pid) for pid in pids]
        began = time.perf_counter()
        key = ("--key", service / "analyst.pem", "--ca", service / "ca.pem")
        askance(
            *("study", "submit", "frequency", "--column", "smoker", "--schema", schema),
            *("--epsilon", 1, "--aggregator", address, *key, "--wait"),
        )
        seconds = time.perf_counter() - began
        asked = [resident_mb(pid) for pid in pids]
    answers = 0
    for number in range(GATEWAYS):
        file = LedgerFile.open(folder / f"gateway{number}" / "ledger.sqlite")
        answers += sum(1 for _ in file.answers())
        file.close()
    store = SqliteStore.open(service / "store.sqlite")
    population = store.population()
    store.close()
    return {
        "members": population,
        "answers": answers,
        "connect_s": connected_s,
        "study_s": seconds,
        "aggregator_mb": {"empty": empty, "connected": rest[0], "after": asked[0]},
        "gateway_mb": {"connected": max(rest[1:]), "after": max(asked[1:])},
    }


def connected(configuration: Path, address: str) -> int:
    """Return how many devices are connected to a running aggregator."""
    given = ("--config", configuration, "--listen", address, "--json")
    return int(json.loads(askance("aggregator", "status", *given))["connected"])


def askance(*arguments: object) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        [*ASKANCE, *map(str, arguments)], capture_output=True, text=True, timeout=READY_S
    )
    if done.returncode:
        raise RuntimeError(f"askance {arguments[:2]}: {done.stderr.strip()[-500:]}")
    return done.stdout


def show(told: dict[str, Any]) -> None:
    """Print the tables."""
    for row in told["throughput"]:
        print(f"{row['members']:,} members, {row['questions']} questions per round")
        for name, one in row["ways"].items():
            print(
                f"  {name}: {one['reports_per_s']:,.0f} durable reports/s, server"
                f" {one['empty_mb']:.0f} MB empty, {one['connected_mb']:.0f} MB connected,"
                f" {one['after_mb']:.0f} MB after"
            )
        print(f"  ratio: {row['ratio']:.2f}")
    if "memory" in told:
        one = told["memory"]
        print(f"{one['members']:,} members over {GATEWAYS} gateways, TLS: {json.dumps(one)}")
    sync = told["fdatasync_ms"]
    print(f"fdatasync of 4 KiB: median {sync['median']:.2f} ms, p99 {sync['p99']:.2f} ms")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--members", type=int, default=8_000, metavar="N", help="for throughput")
    parser.add_argument("--memory", type=int, default=0, metavar="N", help="members; 0: skip")
    arguments = parser.parse_args(argv)
    told: dict[str, Any] = {"cores": os.cpu_count(), "fdatasync_ms": fdatasync_ms()}
    if arguments.quick:
        told["throughput"] = measure_throughput(members=80, rounds=2, repeats=1)
    elif arguments.members:
        told["throughput"] = measure_throughput(arguments.members, rounds=4, repeats=2)
    else:
        told["throughput"] = []
    if arguments.memory:
        with tempfile.TemporaryDirectory(prefix="askance-") as folder:
            told["memory"] = memory(arguments.memory, Path(folder))
    print(json.dumps(told)) if arguments.json else show(told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
