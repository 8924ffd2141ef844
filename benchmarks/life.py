"""Deletion, backup and restoration of a study's reports on SQLite and on a local PostgreSQL.

A study of one request has N reports of R bytes. Measured on each store: the time of a backup and of
its restoration, then of the deletion of the reports, and meanwhile the latency of a batch of 100
reports to another study, which a writer stores one after the other. PostgreSQL shares the cores of
the machine with the writer.

    python benchmarks/life.py [--quick] [--reports 1000000] [--bytes 40] [--only sqlite] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from askance_aggregator.server.studies import Collector, KeepLimits
from askance_aggregator.store import (
    Conclusion,
    SqliteLocation,
    SqliteStore,
    Store,
    StoredReport,
    StoreLocation,
    StudyState,
    open_backup,
    store_location,
)
from askance_client.messages import SignedStudy

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from tests.postgresql import PostgresqlServer  # noqa: E402 - a script is not run from the root

STORES = ("sqlite", "postgresql")
_ENDED, _OPEN = bytes([1]) * 32, bytes([2]) * 32
_AT_ONCE = 10_000
_BATCH = 100
_PAUSE_S = 0.02  # between two batches


def fill(store: Store, reports: int, size: int) -> None:
    """Store two studies, of which one has ended with so many reports."""
    for digest in (_ENDED, _OPEN):
        store.add_study(digest, SignedStudy(digest, b"a key", b"a signature"))
        store.open_round(digest, 0, [digest], None)
    for start in range(0, reports, _AT_ONCE):
        ordinals = range(start, min(start + _AT_ONCE, reports))
        store.accept([StoredReport(_ENDED, n, n.to_bytes(size, "little")) for n in ordinals])
    store.conclude(_ENDED, Conclusion(StudyState.DONE, "done", "", "{}"))


@contextmanager
def latencies(store: Store) -> Iterator[list[float]]:
    """Store batches to the open study during the block; the milliseconds that each took."""
    found: list[float] = []
    stopping = threading.Event()

    def write() -> None:
        first = 0
        while not stopping.is_set():
            batch = [StoredReport(_OPEN, first + n, bytes(40)) for n in range(_BATCH)]
            start = time.perf_counter()
            store.accept(batch)
            found.append(1000 * (time.perf_counter() - start))
            first += _BATCH
            time.sleep(_PAUSE_S)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield found
    finally:
        stopping.set()
        thread.join()


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def quantiles(milliseconds: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile, and the greatest."""
    middle, high = np.percentile(milliseconds, [50, 99])
    return {"median": float(middle), "p99": float(high), "max": max(milliseconds)}


def measure_store(
    location: StoreLocation, other: StoreLocation, folder: Path, reports: int, size: int
) -> dict[str, Any]:
    """Measure one store.

    Args:
      location: of an empty store.
      other: of none, to restore into.
      folder: of the backup.
      reports: of the study.
      size: of a report, in bytes.
    """
    backup = folder / "backup"
    with closing(location.open()) as store:
        fill_s = timed(lambda: fill(store, reports, size))
        before = store.size_bytes()
        with latencies(store) as quiet:
            time.sleep(1)
        with latencies(store) as during_backup:
            backup_s = timed(lambda: store.back_up(backup, 1))
        collector = Collector(store, KeepLimits(), lambda: 1, threading.Event().wait)
        store.retention.delete_reports(_ENDED, 1)
        with latencies(store) as during_deletion:
            deletion_s = timed(collector.collect)
        with open_backup(backup) as opened:
            restoration_s = timed(lambda: other.restore(opened, 2))
        with closing(other.open()) as restored:
            found = sum(1 for _ in restored.reports(_ENDED))
    if found != reports:
        raise RuntimeError(f"expected {reports} restored reports, got {found}")
    return {
        "fill_s": fill_s,
        "store_bytes": before,
        "backup_bytes": backup.stat().st_size,
        "backup_s": backup_s,
        "restoration_s": restoration_s,
        "deletion_s": deletion_s,
        "batch_ms": quantiles(quiet),
        "batch_ms_during_backup": quantiles(during_backup),
        "batch_ms_during_deletion": quantiles(during_deletion),
    }


def measure(reports: int, size: int, stores: Sequence[str] = STORES) -> dict[str, Any]:
    """Measure stores by their names."""
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    found |= {"reports": reports, "report_bytes": size}
    if "sqlite" in stores:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            SqliteStore.create(place / "store").close()
            ours, other = SqliteLocation(place / "store"), SqliteLocation(place / "other")
            found["sqlite"] = measure_store(ours, other, place, reports, size)
    if "postgresql" not in stores:
        return found
    with (
        tempfile.TemporaryDirectory() as folder,
        PostgresqlServer.running({"shared_buffers": "256MB"}) as server,
    ):
        here, there = (store_location(server.new_database()) for _ in range(2))
        here.migrate()
        found["postgresql"] = measure_store(here, there, Path(folder), reports, size)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all")
    parser.add_argument("--reports", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--bytes", type=int, default=40, metavar="R", help="of a report")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", choices=STORES, help="measure this store alone")
    arguments = parser.parse_args(argv)
    reports = 20_000 if arguments.quick else arguments.reports
    stores = STORES if arguments.only is None else (arguments.only,)
    told = measure(reports, arguments.bytes, stores)
    if arguments.json:
        print(json.dumps(told))
        return 0
    print(f"{told['reports']:,} reports of {told['report_bytes']} bytes, {told['cores']} cores,")
    print(f"load {told['load']:.1f}")
    for kind in stores:
        one = told[kind]
        print(
            f"{kind:>10}: store {one['store_bytes'] / 1e6:.0f} MB; backup {one['backup_s']:.1f} s,"
            f" {one['backup_bytes'] / 1e6:.0f} MB; restoration {one['restoration_s']:.1f} s;"
            f" deletion {one['deletion_s']:.2f} s"
        )
        for name in ("batch_ms", "batch_ms_during_backup", "batch_ms_during_deletion"):
            ms = one[name]
            print(
                f"{'':>12}{name}: median {ms['median']:.1f}, p99 {ms['p99']:.1f},"
                f" at most {ms['max']:.1f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
