"""Costs of one device on an edge machine: memory, start, idle CPU and the size of the install.

An aggregator runs on loopback in this process, over TLS. Per source tree, the device's distribution
is installed alone in an environment of its own, and one device of it enrols, runs, answers a round
and stays idle. Trees take turns, so that one machine's load meets all of them.

- resident: of the device's process, in MB of 10^6 bytes: at rest after its start, and after a
  round; private is the part that no file backs (its own heap and written pages).
- start: seconds from the start of the process to the aggregator's acceptance of its stream; the
  median of several starts.
- idle: CPU time of the process over some seconds with an open stream and no round, and how often it
  woke up.
- install: bytes of everything in site-packages, without pip.

    git worktree add BEFORE main
    python benchmarks/edge.py --tree before=BEFORE --tree after=. [--idle-s 30] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_aggregator.server.devices import Settings
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Accounts, Cohort, Group, Permutation, Round
from askance_client.accounting import parse_epsilon
from askance_client.codec import digest_of
from askance_client.messages import Request, StudyTerms
from askance_client.queries import Bit, Schema
from askance_client.service import system_now_s

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.aggregator.server.certified_service import CertifiedService

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SCHEMA = Schema("people", 1, smokes=Bit())
BUDGET = parse_epsilon("2")
MEGABYTE = 1e6
WAIT_S = 60
SETTLED_S = 3  # after which a start or a round has left its traces in memory
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Figures:
    """Measurements of one tree, in the units of the table."""

    install_mb: float
    largest: list[tuple[str, float]]
    start_s: list[float] = field(default_factory=list)
    resident_mb: float = 0.0
    private_mb: float = 0.0
    after_round_mb: float = 0.0
    idle_cpu_ms: float = 0.0
    idle_s: float = 0.0
    wakeups: int = 0


class Aggregator:
    """A service over TLS in this process, whose devices enrol by tokens."""

    def __init__(self) -> None:
        self.store = SqliteStore.in_memory()
        self.tokens = EnrolmentTokens(bytes(32), system_now_s)
        self._service = CertifiedService(
            self.store, self.tokens, system_now_s, settings=Settings(), life_s=30 * 86_400
        )
        self.authority = self._service.ca.certificate
        self.address, self.server = self._service.address, self._service.server
        self._pool = ThreadPoolExecutor(1)

    def ask(self, number: int) -> None:
        """Ask all connected users one question, and wait for the answers."""
        fields = tuple(sorted(SCHEMA.fields))
        terms = StudyTerms(
            bytes(16), "edge", 1, (), SCHEMA, BUDGET, system_now_s() + 3600, "edge", fields=fields
        )
        signed, users = sign_study(terms, KEY), self.store.population()
        study = digest_of(signed.study)
        query, randomizer = predicate(SCHEMA["smokes"] == 1), randomized_response(10**9)
        payload = encode_request(Request(study, number, 0, query, randomizer))
        cohort = Cohort(Permutation(b"", users), 0, users)
        nano = randomizer.loss.nano_nats
        group = Group(payload, digest_of(payload), query, randomizer, nano, cohort, bytes(32))
        asked = Round(number, signed, study, (group,))
        self._pool.submit(self.server.fleet.ask, asked, Accounts(users, BUDGET)).result(WAIT_S)

    def stop(self) -> None:
        """End the service."""
        self._service.stop()
        self._pool.shutdown()


class Device:
    """A device's folder and the environment that its distribution alone is installed in."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self._folder = folder
        self._environment = folder / "environment"
        self._python = self._environment / "bin" / "python"
        quiet = ("--quiet", "--disable-pip-version-check")
        run(sys.executable, "-m", "venv", "--without-pip", self._environment)
        run(
            *(sys.executable, "-m", "pip", "--python", self._python, "install", *quiet),
            tree / "client",
        )

    def sizes(self) -> list[tuple[str, float]]:
        """The entries of site-packages in MB, the largest first."""
        (packages,) = self._environment.glob("lib/python*/site-packages")
        sizes = [(entry.name, size_of(entry) / MEGABYTE) for entry in packages.iterdir()]
        return sorted(sizes, key=lambda pair: -pair[1])

    def enrol(self, aggregator: Aggregator) -> None:
        """Make a folder of one user and make it known to an aggregator."""
        schema, people, ca = (self._folder / name for name in ("s.toml", "people.csv", "ca.pem"))
        schema.write_text('name = "people"\n[fields]\nsmokes = { type = "bit" }\n')
        people.write_text("smokes\n1\n")
        ca.write_bytes(aggregator.authority)
        public = KEY.public_key().public_bytes_raw().hex()
        self._command(
            *("init", "--aggregator", aggregator.address, "--ca", ca, "--analyst", public),
            *("--life-epsilon", 1000, "--schema", schema, "--data", people, "--row", 0),
        )
        self._command("enroll", "--token", aggregator.tokens.issue(1, 1).text)

    def _command(self, name: str, *words: object) -> None:
        run(self._python, "-m", "askance_client", name, self._folder / "device", *words)

    @contextmanager
    def running(self) -> Iterator[int]:
        """Start the device; end it after the block. The value is its process id."""
        command = [self._python, "-m", "askance_client", "run", self._folder / "device"]
        with subprocess.Popen(
            list(map(str, command)),
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                yield process.pid
            finally:
                process.terminate()


def environment() -> dict[str, str]:
    """Environment without this process's own path of modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*words: object) -> None:
    """Run a command to its end; a failure ends the benchmark with what it printed."""
    done = subprocess.run(
        list(map(str, words)), env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr}")


def size_of(entry: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    files = entry.rglob("*") if entry.is_dir() else iter([entry])
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident and private memory of a process, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    values = {line.split(":")[0]: line.split()[1:2] for line in lines}
    resident, private = (1024 * int(values[name][0]) for name in ("VmRSS", "RssAnon"))
    return resident / MEGABYTE, private / MEGABYTE


def cpu_ms(pid: int) -> float:
    """CPU time that a process has taken, in milliseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / _TICKS


def wakeups(pid: int) -> int:
    """Number of times that the threads of a process went to sleep of their own accord."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def until_connected(aggregator: Aggregator, number: int) -> None:
    """Wait until so many streams are open."""
    for _ in range(1000 * WAIT_S):
        if aggregator.server.hub.connected == number:
            return
        threading.Event().wait(0.001)
    raise SystemExit(f"expected {number} connected devices, got {aggregator.server.hub.connected}")


def start(aggregator: Aggregator, device: Device) -> float:
    """Seconds from the start of a device's process to its stream."""
    began = time.perf_counter()
    with device.running():
        until_connected(aggregator, 1)
        taken = time.perf_counter() - began
    until_connected(aggregator, 0)
    return taken


def at_rest(aggregator: Aggregator, device: Device, figures: Figures, idle_s: float) -> None:
    """Measure a device at rest, over idle seconds, and after a round."""
    with device.running() as pid:
        until_connected(aggregator, 1)
        time.sleep(SETTLED_S)
        figures.resident_mb, figures.private_mb = memory_mb(pid)
        before, woken = cpu_ms(pid), wakeups(pid)
        time.sleep(idle_s)
        figures.idle_s = idle_s
        figures.idle_cpu_ms = cpu_ms(pid) - before
        figures.wakeups = wakeups(pid) - woken
        aggregator.ask(0)
        time.sleep(SETTLED_S)
        figures.after_round_mb, _ = memory_mb(pid)


def measure(
    trees: dict[str, Path], folder: Path, *, starts: int, idle_s: float
) -> dict[str, Figures]:
    """Measure the devices of several trees in turn, each with an aggregator of its own."""
    devices, aggregators, found = {}, {}, {}
    for name, tree in trees.items():
        (folder / name).mkdir()
        devices[name] = Device(tree, folder / name)
        sizes = devices[name].sizes()
        found[name] = Figures(sum(size for _, size in sizes), sizes[:5])
        aggregators[name] = Aggregator()
        devices[name].enrol(aggregators[name])
    for _ in range(starts):
        for name, device in devices.items():
            found[name].start_s.append(start(aggregators[name], device))
    for name, device in devices.items():
        at_rest(aggregators[name], device, found[name], idle_s)
        aggregators[name].stop()
    return found


def table(found: dict[str, Figures]) -> str:
    """Format a line per tree."""
    lines = [
        "| tree | install MB | resident MB (private) | after a round | start s (least) | idle |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in found.items():
        lines.append(
            f"| {name} | {one.install_mb:.1f} | {one.resident_mb:.1f} ({one.private_mb:.1f}) |"
            f" {one.after_round_mb:.1f} | {statistics.median(one.start_s):.2f}"
            f" ({min(one.start_s):.2f}) | {one.idle_cpu_ms:.0f} ms in {one.idle_s:g} s,"
            f" {one.wakeups} wake-ups |"
        )
    for name, one in found.items():
        parts = ", ".join(f"{entry} {size:.1f}" for entry, size in one.largest)
        lines.append(f"\n{name}, largest parts of the install in MB: {parts}")
    return "\n".join(lines)


def named_tree(text: str) -> tuple[str, Path]:
    """Parse NAME=FOLDER."""
    name, _, path = text.partition("=")
    return name, Path(path).resolve()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print a table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--tree", type=named_tree, action="append", metavar="NAME=FOLDER")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--idle-s", type=float, default=30.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    trees = dict(options.tree or [("this", root)])
    with tempfile.TemporaryDirectory() as folder:
        found = measure(trees, Path(folder), starts=options.starts, idle_s=options.idle_s)
    shown: Any = {name: vars(one) for name, one in found.items()}
    print(json.dumps(shown) if options.json else table(found))


if __name__ == "__main__":
    main()
