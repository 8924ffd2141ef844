"""Kills and starts of the embedded example over TLS: aggregator away, token revoked, clock wrong.

    python tests/endurance/embedded.py [--starts 50] [--seed 0] [--quick]

Devices show certificates of their own, as an aggregator asks for by default. The example is started
again and again by one folder and killed (SIGKILL) at a random time, or left until the open round is
answered. Chance decides at each start whether the aggregator is there, and what the machine's clock
shows: the right time; two hours ahead, by which all certificates are valid; 40 days ahead, by which
the device's has ended; three years ahead, by which the aggregator's has; or two hours behind, by
which the aggregator's is not yet valid. TLS libraries have that clock too: a library with one
function, `time`, is compiled (`cc`) and loaded before the C library. The token is revoked once the
device is enrolled. A question that is refused because answers were charged in the future is
followed by the owner's `repair_clock`, with the right clock.

What must hold: no process ends by itself; where a clock does not suit a certificate and the
aggregator is there, the log says so in one line; every question has one report in the store, the
bytes of which stand in the ledger, and no question was charged twice. Exit code 1 where that does
not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from askance_aggregator.server.devices import Settings
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import SqliteStore
from askance_client import DeviceClient, Policy
from askance_client.cli.home import DeviceHome
from askance_client.ledger import PostingKind
from askance_client.service import system_now_s
from tests.aggregator.server.certified_service import CertifiedService, ServiceKeys
from tests.client.process.conftest import ENVIRONMENT, PUBLIC, SCHEMA, Aggregator
from tests.client.process.test_instrumented_apps import EXAMPLE, question, write_rows
from tests.ports import free_port

HOUR_S, DAY_S = 3_600, 86_400
LIFE_S = 30 * DAY_S  # of a device's certificate, an aggregator's default
RIGHT, AHEAD = "right", "ahead"
CLOCKS = {  # seconds ahead; chances in a hundred of a start that is not left alone
    RIGHT: (0, 40),
    AHEAD: (2 * HOUR_S, 30),
    "own ended": (40 * DAY_S, 10),
    "server's ended": (3 * 365 * DAY_S, 10),
    "not yet valid": (-2 * HOUR_S, 10),
}
SAID = {  # of them, words of the log's line
    "own ended": "got one that has ended by this clock",
    "server's ended": "expected a certificate that is valid by this clock, got one that ended",
    "not yet valid": "expected a certificate that is valid by this clock, got a later one",
}
MOST_S = 4.0  # until a kill: an example is connected after one or two
PATIENCE_S = 120.0  # of a start that is left until the round is answered
STARTED = """
import os, sys, time
ahead_ns, right_ns = int(os.environ["AHEAD_S"]) * 10**9, time.time_ns
time.time_ns = lambda: right_ns() + ahead_ns
exec(compile(open(sys.argv[1]).read(), sys.argv.pop(1), "exec"))
"""
# Certificates are checked by time(); clock_gettime stays, since the kernel ends waits by its own.
CLOCK = r"""
#include <stdlib.h>
#include <time.h>
time_t time(time_t *out) {
    const char *ahead = getenv("AHEAD_S");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time_t shown = now.tv_sec + (ahead ? atol(ahead) : 0);
    if (out) *out = shown;
    return shown;
}
"""


class Run:
    """Folder of an example, with its aggregator and counts."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        write_rows(folder, 1, 1)
        (folder / "people.toml").write_text(
            'name = "people"\n[fields]\nsmokes = { type = "bit" }\n'
        )
        self.folder, self.chance = folder, chance
        self.ports = free_port(), free_port()
        self.keys = ServiceKeys.made(system_now_s())
        (folder / "ca.pem").write_bytes(self.keys.ca.certificate)
        self.clock = folder / "clock.so"
        (folder / "clock.c").write_text(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.clock, folder / "clock.c"], check=True)
        self.store = SqliteStore.in_memory()
        self.service = self.serving()
        self.aggregator = Aggregator(self.service.server, self.store)
        self.token = self.aggregator.tokens.issue(1, 1)
        self.store.register.keep_token(self.token.token_id, 1, self.token.ends_unix_s)
        self.service.stop()
        self.digests: list[bytes] = []
        self.counts: Counter[str] = Counter()
        self.said: dict[str, str] = {}
        self.silent: list[str] = []

    def serving(self) -> CertifiedService:
        """Start the aggregator, with the keys and at the ports that it had before."""
        return CertifiedService(
            self.store,
            EnrolmentTokens(bytes(32), system_now_s),
            system_now_s,
            settings=Settings(check_in_every_ms=20, stop_grace_s=0.2),
            life_s=LIFE_S,
            keys=self.keys,
            ports=self.ports,
        )

    def start(self, clock: str) -> subprocess.Popen[str]:
        words = [str(EXAMPLE), str(self.folder / "people.db"), "0", f"127.0.0.1:{self.ports[0]}"]
        words += [PUBLIC, self.token.text, str(self.folder / "ca.pem")]
        clocks = {"LD_PRELOAD": str(self.clock), "AHEAD_S": str(CLOCKS[clock][0])}
        with self.log.open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-c", STARTED, *words],
                stdout=subprocess.DEVNULL,
                stderr=log,
                text=True,
                env=ENVIRONMENT | clocks,
            )

    @property
    def log(self) -> Path:
        """Lines of the present process."""
        return self.folder / "stderr"

    def step(self, *, left: bool) -> None:
        """Start the example once, and end it."""
        there = left or self.chance.random() < 0.6
        names, chances = list(CLOCKS), [chance for _, chance in CLOCKS.values()]
        (clock,) = self.chance.choices(names, chances)
        clock = RIGHT if left else clock
        self.counts.update({"starts": 1, "away": not there, clock: 1})
        if there:
            self.service = self.serving()
            self.aggregator.server = self.service.server
        process = self.start(clock)
        try:
            if left:
                self.until_answered(process)
            else:
                asked = self.ask() if there and self.store.population() else None
                self.sleep(process, self.chance.uniform(0, MOST_S))
                if there and clock in SAID and self.store.population():
                    self.until_said(process, clock)
                if asked is not None and asked.done():
                    self.close(asked)
            if process.poll() is not None:
                self.counts["crashes"] += 1
                print(self.log.read_text(), file=sys.stderr)
        finally:
            process.kill()
            process.wait()
            self.counts["kills"] += 1
            self.service.stop()

    def until_said(self, process: subprocess.Popen[str], clock: str) -> None:
        """Wait until the log says that a certificate is not valid by this clock."""
        end_s = time.monotonic() + PATIENCE_S / 4
        while process.poll() is None and time.monotonic() < end_s:
            for line in self.log.read_text().splitlines():
                if "failure=" in line and SAID[clock] in line:
                    self.said.setdefault(clock, line)
                    self.counts["lines about certificates"] += 1
                    return
            time.sleep(0.1)
        self.silent.append(f"{clock}: expected a line of the log, got {self.log.read_text()!r}")

    def ask(self) -> Future[Any]:
        """Ask the present question, or ask it again after the aggregator was away."""
        number = self.counts["ended"]
        self.round = question(self.aggregator, number, f"0.{100 + number}")
        return self.aggregator.ask(self.round)

    def until_answered(self, process: subprocess.Popen[str]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not self.store.population() and process.poll() is None:
            if time.monotonic() > end_s:
                raise TimeoutError("expected the device to be enrolled")
            time.sleep(0.02)
        if self.counts["ended"] == 0:
            self.store.register.revoke_token(self.token.token_id)
        asked = self.ask()
        while not asked.done() and process.poll() is None and time.monotonic() < end_s:
            time.sleep(0.02)
        if asked.done():
            self.close(asked)
        else:
            self.silent.append(f"expected an answer with the right clock: {self.log.read_text()}")

    def close(self, asked: Future[Any]) -> None:
        (tally,) = asked.result()
        self.counts["ended"] += 1
        if tally.answered:
            self.digests.append(self.round.groups[0].digest)
        else:
            self.counts["refused"] += 1
            self.repair = True

    repair = False

    def repaired(self) -> None:
        """Repair the clock as the owner does, if the ledger refused."""
        if self.repair:
            self.repair = False
            client = DeviceClient(
                self.folder / "device-0",
                aggregator=f"127.0.0.1:{self.ports[0]}",
                records=dict,
                schema=SCHEMA,
                policy=Policy(frozenset({bytes.fromhex(PUBLIC)}), life_nano_nats=8 * 10**9),
                ca=self.folder / "ca.pem",
            )
            self.counts["repairs"] += client.repair_clock()

    @staticmethod
    def sleep(process: subprocess.Popen[str], seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)

    def faults(self) -> list[str]:
        """Compare the store with the ledger."""
        found = [*self.silent]
        if self.counts["crashes"]:
            found.append(f"{self.counts['crashes']} processes ended")
        file = DeviceHome(self.folder / "device-0").ledgers()
        try:
            rows = [one for one in file.postings() if one.kind is PostingKind.ANSWER]
        finally:
            file.close()
        requests = [one.charge.request_digest for one in rows]
        if len(set(requests)) != len(requests):
            found.append("a request was charged twice")
        if len({one.charge.question for one in rows}) != len(rows):
            found.append("a question was charged twice")
        held = {one.charge.request_digest: one.report for one in rows}
        for digest in self.digests:
            if [data for _, data in self.store.reports(digest)] != [held.get(digest)]:
                found.append(f"{digest.hex()[:16]}: expected the ledger's report once")
        if len(rows) != len(self.digests):
            found.append(f"expected {len(self.digests)} charges, got {len(rows)}")
        return found


def main() -> int:
    """Run, print the counts as JSON, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="6 starts")
    given = parser.parse_args()
    starts, began = 6 if given.quick else given.starts, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), random.Random(given.seed))
        for number in range(starts):
            run.step(left=number % 5 == 4 or number == starts - 1)
            run.repaired()
        faults = run.faults()
    seconds = round(time.monotonic() - began)
    print(json.dumps({**run.counts, "answers": len(run.digests), "seconds": seconds}))
    for clock, line in run.said.items():
        print(f"{clock}: {line}")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
