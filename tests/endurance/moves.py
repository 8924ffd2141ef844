"""A store moved from SQLite to PostgreSQL and back: seconds, memory, and kill -9 on the way.

The command is the operator's, `askance aggregator migrate --to`, as a process of its own. First a
large store is moved there and back; the tables' digests that both runs print have to be equal, but
for the audit log, to which each run adds. Then a smaller one is moved to and fro, and killed at
random moments. After each kill exactly one of the two stores may open, with all that was put into
it, or none if the source was marked already; the same command, killed again or not, has to finish.

Moments between the two marks are a few milliseconds, which chance does not hit. So more moves, in
both directions, are killed there: a program around the command stops it at one of `BETWEEN`, says
so, and is killed. Before the source's mark is durable the source has to open, afterwards none; a
move of the marked source to another target has to be refused; and the command has to finish.

    python tests/endurance/moves.py [--quick] [--devices 100000] [--studies 50] [--reports 20000]
      [--points 20] [--between 12] [--seed 0] [--json]

It exits 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from stores import ROOT  # noqa: F401 - finds the tests' packages

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.process.home import AggregatorHome
from askance_aggregator.store import (
    Conclusion,
    PostgresqlLocation,
    SqliteLocation,
    SqliteStore,
    Store,
    StoredReport,
    StoreLocation,
    StudyState,
    store_location,
)
from askance_client.addresses import Address
from askance_client.errors import StoreError
from askance_client.messages import SignedStudy
from tests.postgresql import PostgresqlServer

ASKANCE = [sys.executable, "-c", "import sys; from askance.cli import main; sys.exit(main())"]
# The command, which stops for ever at the moment that its first word names, and says so.
STOPPING = """
import sys, threading
from askance_aggregator.store import moves
moment, write = sys.argv.pop(1), moves.write_mark

def stop_at(reached):
    if reached == moment:
        print("stopped", flush=True)
        threading.Event().wait()

def write_and_stop(execute, mark):
    part = "opens" if mark is None else "closes" if not mark.unfinished else "begins"
    stop_at(f"{part}: before")
    write(execute, mark)
    stop_at(f"{part}: within")

moves.write_mark = write_and_stop
from askance.cli import main
sys.exit(main())
"""
BETWEEN = {  # within the transactions of the marks; what opens after a kill there
    "closes: within": "source",
    "opens: before": "none",
    "opens: within": "none",
}
BATCH = 4096
KILLED = (5_000, 10, 5_000)  # devices, studies and reports of the store that is killed
LEAST_S = 0.3  # before a kill: the interpreter starts


@dataclass
class Figures:
    """Figures of a run."""

    devices: int
    studies: int
    reports: int
    there_s: float = 0.0
    back_s: float = 0.0
    there_mb: float = 0.0
    back_mb: float = 0.0
    kills: int = 0
    ended_before: int = 0
    opened: dict[str, int] = field(default_factory=lambda: {"source": 0, "target": 0, "none": 0})
    between: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BETWEEN, 0))


def request_of(study: int) -> bytes:
    """Return the digest of a study's request."""
    return hashlib.sha256(b"request %d" % study).digest()


def fill(store: Store, devices: int, studies: int, reports: int, seed: int) -> None:
    """Put devices and studies into a store, each study with reports; every second one has ended."""
    rng = random.Random(seed)
    store.enrol((b"device %d" % n, hashlib.sha256(b"%d" % n).digest()) for n in range(devices))
    for study in range(studies):
        digest = hashlib.sha256(b"study %d" % study).digest()
        store.add_study(digest, SignedStudy(rng.randbytes(300), b"key", rng.randbytes(64)))
        log = store.log(digest)
        for line in range(20):
            log.append(json.dumps({"kind": "line", "number": line, "text": "Größe" * 20}))
        store.open_round(digest, 0, [request_of(study)], None)
        users = rng.sample(range(devices), min(reports, devices))
        for start in range(0, len(users), BATCH):
            store.accept(
                [
                    StoredReport(request_of(study), user, rng.randbytes(40), study + 1)
                    for user in users[start : start + BATCH]
                ]
            )
        if study % 2:
            store.conclude(digest, Conclusion(StudyState.DONE, "done", "", '{"a": 1}', 9))


def content(location: StoreLocation, studies: int) -> str | None:
    """Return a digest of what a store has, by its own operations; None: it does not open."""
    try:
        with closing(location.open()) as store:
            sha = hashlib.sha256(f"{store.population()} {store.listing.count()}".encode())
            for digest, signed in store.studies().items():
                sha.update(digest + signed.study + "".join(store.log(digest).lines()).encode())
            for study in range(studies):
                for ordinal, data in store.reports(request_of(study)):
                    sha.update(b"%d" % ordinal + data)
            return sha.hexdigest()
    except StoreError:
        return None


class Mover:
    """A folder of an aggregator whose store is moved."""

    def __init__(self, folder: Path, sizes: tuple[int, int, int], seed: int) -> None:
        home = AggregatorHome.create(
            folder, listen=Address("127.0.0.1", 0), hosts=(), now_s=system_now_s()
        )
        self._configuration = home.configuration
        self.studies = sizes[1]
        self.location: StoreLocation = SqliteLocation(folder / "store.sqlite")
        with closing(SqliteStore.open(folder / "store.sqlite")) as store:
            fill(store, *sizes, seed)
        self.expected = content(self.location, self.studies)

    def start(
        self, target: StoreLocation, program: Sequence[str] = ASKANCE
    ) -> subprocess.Popen[str]:
        """Start the command that moves the store there."""
        words = ["aggregator", "migrate", "--config", str(self._configuration), "--json"]
        words += ["--store", str(self.location), "--to", str(target)]
        pipe = subprocess.PIPE
        return subprocess.Popen([*program, *words], stdout=pipe, stderr=pipe, text=True)

    def move(self, target: StoreLocation) -> tuple[dict[str, str], float, float]:
        """Move the store to its end; return tables' digests, seconds and the peak in MB."""
        started = time.monotonic()
        process = self.start(target)
        assert process.stdout is not None
        assert process.stderr is not None
        printed, failed = process.stdout.read(), process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise AssertionError(f"migrate --to {target}: {process.returncode}: {failed}")
        self.location = target
        tables = json.loads(printed)["tables"]
        digests = {name: table["digest"] for name, table in tables.items() if name != "audit"}
        return digests, time.monotonic() - started, used.ru_maxrss / 1024


def expect(holds: bool, what: str) -> None:
    """Stop where something does not hold."""
    if not holds:
        raise AssertionError(what)


def kill(mover: Mover, targets: list[StoreLocation], points: int, seed: int, seen: Figures) -> None:
    """Move a store to and fro, killed at random moments, until so many kills have hit."""
    rng = random.Random(seed)
    usual_s = 2.0
    while seen.kills < points:
        target = targets[-1]
        process = mover.start(target)
        try:
            process.wait(rng.uniform(LEAST_S, usual_s))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            seen.kills += 1
            found = content(mover.location, mover.studies), content(target, mover.studies)
            expect(None in found, "expected one store that opens, found two")
            which = "source" if found[0] else "target" if found[1] else "none"
            seen.opened[which] += 1
            expect({*found} <= {None, mover.expected}, f"the {which} is not whole after a kill")
            if which != "target":
                if seen.kills % 4 == 0:  # until then it is started again only to be killed again
                    _, usual_s, _ = mover.move(target)
                    targets.pop()
                continue
        else:
            expect(process.returncode == 0, "the move failed")
            seen.ended_before += 1
        mover.location = target
        targets.pop()
        expect(content(target, mover.studies) == mover.expected, "the moved store is not equal")


def kill_between(
    mover: Mover, target: StoreLocation, other: StoreLocation, moment: str, seen: Figures
) -> None:
    """Kill a move at a named moment beside the marks, and finish it."""
    process = mover.start(target, (sys.executable, "-c", STOPPING, moment))
    assert process.stdout is not None
    try:
        expect(process.stdout.readline() == "stopped\n", f"expected a move to come to {moment}")
    finally:
        process.kill()
        process.communicate()
    found = content(mover.location, mover.studies), content(target, mover.studies)
    which = "source" if found[0] else "target" if found[1] else "none"
    expect(None in found, f"{moment}: expected one store that opens, found two")
    expect(which == BETWEEN[moment], f"{moment}: expected {BETWEEN[moment]} to open, found {which}")
    expect({*found} <= {None, mover.expected}, f"{moment}: the {which} is not whole after a kill")
    if which == "none":
        _, failed = (refused := mover.start(other)).communicate()
        expect(refused.returncode != 0 and "was moved to" in failed, f"{moment}: {failed}")
    mover.move(target)
    expect(content(target, mover.studies) == mover.expected, "the moved store is not equal")
    seen.between[moment] += 1


def main() -> int:
    """Move, kill, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 devices, 4 studies, 4 kills")
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--studies", type=int, default=50)
    parser.add_argument("--reports", type=int, default=20_000, help="of each study")
    parser.add_argument("--points", type=int, default=20, help="kills")
    parser.add_argument("--between", type=int, default=12, help="kills beside the two marks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes = (given.devices, given.studies, given.reports)
    points, between = given.points, given.between
    if given.quick:
        sizes, points, between = (2_000, 4, 1_000), 4, 6
    seen = Figures(sizes[0], sizes[1], sizes[1] * min(sizes[0], sizes[2]))
    with PostgresqlServer.running() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def database() -> StoreLocation:
            made = store_location(server.new_database())
            assert isinstance(made, PostgresqlLocation)
            return made

        large = Mover(folder / "large", sizes, given.seed)
        there, seen.there_s, seen.there_mb = large.move(database())
        back, seen.back_s, seen.back_mb = large.move(SqliteLocation(folder / "back.sqlite"))
        expect(there == back, "the digests there and back differ")
        expect(content(large.location, large.studies) == large.expected, "the content differs")
        small = Mover(folder / "small", KILLED if not given.quick else sizes, given.seed)
        targets: list[StoreLocation] = []
        for number in range(4 * points):
            targets += [database() if number % 2 else SqliteLocation(folder / f"to-{number}")]
        kill(small, targets, points, given.seed, seen)
        for number in range(between):
            new: list[StoreLocation]
            if isinstance(small.location, PostgresqlLocation):
                new = [SqliteLocation(folder / f"between-{number}-{one}") for one in "ab"]
            else:
                new = [database(), database()]
            # Three moments and two directions: each moment in each of them.
            kill_between(small, new[0], new[1], [*BETWEEN][number // 2 % len(BETWEEN)], seen)
    if given.json:
        print(json.dumps(asdict(seen)))
        return 0
    print(f"{seen.devices:,} devices, {seen.studies} studies, {seen.reports:,} reports")
    print(f"to PostgreSQL {seen.there_s:.1f} s, {seen.there_mb:.0f} MB at most; equal digests")
    print(f"back to SQLite {seen.back_s:.1f} s, {seen.back_mb:.0f} MB at most; equal digests")
    print(
        f"{seen.kills} kills: the source opened after {seen.opened['source']}, the target after"
        f" {seen.opened['target']}, none after {seen.opened['none']}; no store lacked anything;"
        f" {seen.ended_before} moves ended before their kill"
    )
    moments = ", ".join(f"{count} at {moment!r}" for moment, count in seen.between.items())
    print(f"killed beside the two marks: {moments}; each was then finished by the same command")
    return 0


if __name__ == "__main__":
    sys.exit(main())
