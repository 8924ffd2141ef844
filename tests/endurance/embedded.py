"""Kills and starts of the embedded example: aggregator away, token revoked, clock ahead.

    python tests/endurance/embedded.py [--starts 50] [--seed 0] [--quick]

The example is started again and again by one folder and killed (SIGKILL) at a random time, or left
until the open round is answered. Chance decides at each start whether the aggregator is there, and
whether the machine's clock is two hours ahead. The token is revoked once the device is enrolled. A
question that is refused because answers were charged in the future is followed by the owner's
`repair_clock`, with the right clock.

What must hold: no process ends by itself, every question has one report in the store, the bytes of
which stand in the ledger, and no question was charged twice. Exit code 1 where it does not.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from askance_aggregator.store import SqliteStore
from askance_client import DeviceClient, Policy
from askance_client.cli.home import DeviceHome
from askance_client.ledger import PostingKind
from tests.client.process.conftest import ENVIRONMENT, PUBLIC, SCHEMA, Aggregator, serving
from tests.client.process.test_instrumented_apps import EXAMPLE, question, write_rows
from tests.ports import free_port

AHEAD_S = 7_200
MOST_S = 4.0  # until a kill: an example is connected after one or two
PATIENCE_S = 120.0  # of a start that is left until the round is answered
STARTED = """
import sys, time
ahead_ns, right_ns = int(sys.argv.pop(1)) * 10**9, time.time_ns
time.time_ns = lambda: right_ns() + ahead_ns
exec(compile(open(sys.argv[1]).read(), sys.argv.pop(1), "exec"))
"""


class Run:
    """Folder of an example, with its aggregator and counts."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        write_rows(folder, 1, 1)
        (folder / "people.toml").write_text(
            'name = "people"\n[fields]\nsmokes = { type = "bit" }\n'
        )
        self.folder, self.chance, self.port = folder, chance, free_port()
        self.store = SqliteStore.in_memory()
        self.aggregator = Aggregator(serving(self.store), self.store)
        self.token = self.aggregator.tokens.issue(1, 1)
        self.store.register.keep_token(self.token.token_id, 1, self.token.ends_unix_s)
        self.aggregator.server.stop()
        self.digests: list[bytes] = []
        self.counts = dict.fromkeys(
            ("starts", "kills", "ended", "away", "ahead", "refused", "repairs", "crashes"), 0
        )

    def start(self, *, ahead: bool) -> subprocess.Popen[str]:
        clock = ["-c", STARTED, str(AHEAD_S * ahead), str(EXAMPLE)]
        words = [str(self.folder / "people.db"), "0", f"127.0.0.1:{self.port}", PUBLIC]
        return subprocess.Popen(
            [sys.executable, *clock, *words, self.token.text],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )

    def step(self, *, left: bool) -> None:
        """Start the example once, and end it."""
        there, ahead = left or self.chance.random() < 0.6, self.chance.random() < 0.3
        ahead = ahead and not left
        self.counts["starts"] += 1
        self.counts["away"] += not there
        self.counts["ahead"] += ahead
        if there:
            self.aggregator.listen(self.port, self.store)
        process = self.start(ahead=ahead)
        try:
            if left:
                self.until_answered(process)
            else:
                asked = self.ask() if there and self.store.population() else None
                self.sleep(process, self.chance.uniform(0, MOST_S))
                if asked is not None and asked.done():
                    self.close(asked)
            if process.poll() is not None:
                self.counts["crashes"] += 1
                print(process.communicate()[1], file=sys.stderr)
        finally:
            process.kill()
            process.communicate()
            self.counts["kills"] += 1
            self.aggregator.server.stop()

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
                aggregator=f"127.0.0.1:{self.port}",
                records=dict,
                schema=SCHEMA,
                policy=Policy(frozenset({bytes.fromhex(PUBLIC)}), life_nano_nats=8 * 10**9),
            )
            self.counts["repairs"] += client.repair_clock()

    @staticmethod
    def sleep(process: subprocess.Popen[str], seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end_s:
            time.sleep(0.01)

    def faults(self) -> list[str]:
        """Compare the store with the ledger."""
        found = [f"{self.counts['crashes']} processes ended"] if self.counts["crashes"] else []
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
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
