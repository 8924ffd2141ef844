"""The cost of the ledger's mark: answers per second and latency of a gateway's members.

    python benchmarks/ledger.py [--members 2000] [--rounds 4] [--delay-ms 0]

As in a gateway, members' devices share one ledger file, one examiner and 32 threads that wait for
the disk, and each answers a new question per round. Rounds with the mark (commit, mark, send) and
without it (commit, send: as before the mark was there) take turns in one run, each kind on a ledger
file of its own in the same folder. `--delay-ms` adds a wait to every sync, of either file, for a
slow disk.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_client import durable_files
from askance_client.codec import digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import LedgerFile
from askance_client.ledger import mark as mark_module
from askance_client.ledger.marked import MarkedFile
from askance_client.messages import Request, SignedStudy, StudyTerms
from askance_client.queries import Integer, Schema
from askance_client.randomizers import SystemCoins

THREADS = 32
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SCHEMA = Schema("person", 1, age=Integer(0, 1_000))
NOW_S = 1_790_000_000
COST = 10**8


class SlowConnection:
    """A connection whose commits take longer."""

    def __init__(self, connection: sqlite3.Connection, delay_s: float) -> None:
        self._connection, self._delay_s = connection, delay_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        """Execute a statement; a commit takes longer."""
        found = self._connection.execute(statement, *parameters)
        if statement == "COMMIT":
            time.sleep(self._delay_s)
        return found


@contextmanager
def disk(file: LedgerFile, delay_s: float, *, marked: bool) -> Iterator[None]:
    """A disk that is slower by a delay, and a ledger with or without its mark."""
    raw = file._file.file
    connection, flush = raw.connection, durable_files.flush

    def slow(descriptor: int) -> None:
        flush(descriptor)
        time.sleep(delay_s)

    if delay_s:
        raw.connection = SlowConnection(connection, delay_s)  # type: ignore[assignment]
    try:
        with mock.patch.object(mark_module, "flush", slow if delay_s else flush):
            if marked:
                yield
            else:
                with mock.patch.object(MarkedFile, "_settle", return_value=None):
                    yield
    finally:
        raw.connection = connection


def signed_study() -> SignedStudy:
    """A study with a budget that no round uses up."""
    terms = StudyTerms(
        bytes(16),
        "bench",
        1,
        (),
        SCHEMA,
        10**12,
        NOW_S + 10**6,
        "measured",
        fields=tuple(SCHEMA.fields),
    )
    return sign_study(terms, KEY)


def devices(file: LedgerFile, members: int, study: SignedStudy) -> list[Device]:
    """The devices of a gateway."""
    policy = Policy(frozenset({study.public_key}), 10**12)
    examiner, coins, record = Examiner(4096), SystemCoins(), SCHEMA.encode({"age": 30})
    made = [
        Device(
            schema=SCHEMA,
            record=record,
            policy=policy,
            ledger=file.ledger(str(number), number.to_bytes(16, "big")),
            coins=coins,
            now_s=lambda: NOW_S,
            examiner=examiner,
        )
        for number in range(members)
    ]
    for device in made:
        device.introduce(study)
    return made


def answer_all(asked: list[Device], payload: bytes) -> tuple[float, list[float]]:
    """Let all answer one request; the seconds in all, and of each answer."""

    def answer(device: Device) -> float:
        began = time.perf_counter()
        device.answer(payload)
        return time.perf_counter() - began

    with ThreadPoolExecutor(THREADS) as pool:
        began = time.perf_counter()
        taken = list(pool.map(answer, asked))
        return time.perf_counter() - began, taken


def main() -> None:
    """Run the benchmark and print a table of rates and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=4, help="of each kind")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="added to every sync")
    options = parser.parse_args()
    study = signed_study()
    seconds: dict[bool, float] = {False: 0.0, True: 0.0}
    taken: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        files = {marked: LedgerFile.create(Path(folder) / f"{marked}") for marked in seconds}
        asked = {marked: devices(files[marked], options.members, study) for marked in seconds}
        for round_ in range(options.rounds):
            query, randomizer = predicate(SCHEMA["age"] < round_ + 1), randomized_response(COST)
            digest = digest_of(study.study)
            payload = encode_request(Request(digest, round_, 0, query, randomizer))
            for marked in (False, True) if round_ % 2 else (True, False):
                with disk(files[marked], options.delay_ms / 1000, marked=marked):
                    spent, each = answer_all(asked[marked], payload)
                seconds[marked] += spent
                taken[marked] += each
        for file in files.values():
            file.close()
    print("| | answers per second | p50 ms | p99 ms |\n|---|---|---|---|")
    for marked, name in ((False, "commit, send"), (True, "commit, mark, send")):
        rate = len(taken[marked]) / seconds[marked]
        cuts = statistics.quantiles(taken[marked], n=100)
        print(f"| {name} | {rate:,.0f} | {1e3 * cuts[49]:.1f} | {1e3 * cuts[98]:.1f} |")


if __name__ == "__main__":
    main()
