"""A million enrolled devices on each store: rounds, indices, and the register's commands.

Measured on SQLite and on a local PostgreSQL, which shares the machine's cores, in one run:

- the seconds to enrol the devices, and the sizes of the tables and indices;
- opening a round: the seconds to plan a study and allocate its users, then until every user of its
  first round can be asked, and the memory that both take, of MASKED-PARITY and of a frequency;
- the register: a page of the list at its start, in its middle and of a tag; tags of 500 ids
  and of a tenth of the devices, and revocation and restoration of a tenth.

    python benchmarks/enrolled.py [--quick] [--devices 1000000] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.learners import Learner, find
from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.server.devices.hub import StudyCancelled
from askance_aggregator.store import SqliteLocation, SqliteStore, Store, store_location
from askance_aggregator.store.register import DeviceSelection
from askance_aggregator.studies.session import Session
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.queries import Category, Schema
from askance_simulation.populations.labelled_bits import masked_parity
from askance_simulation.randomness import Seed

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from tests.postgresql import PostgresqlServer  # noqa: E402 - a script is not run from the root

_AT_ONCE = 100_000
_SITES = 10  # a tag of each tenth of the devices
_IDS = 500
_PAGE = 100
_PAGES = 5
_PATIENCE_S = 300.0
_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
_TAGS = "INSERT INTO {} SELECT {}, ordinal FROM {}"
_SIZES = """
SELECT relname, pg_table_size(pg_class.oid), relkind = 'i' FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'askance' AND relkind IN ('r', 'i') AND pg_table_size(pg_class.oid) > 1e6
ORDER BY 2 DESC
"""


def device_id(ordinal: int) -> bytes:
    """Return the id of a device, 16 bytes."""
    return hashlib.sha256(b"device %d" % ordinal).digest()[:16]


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def resident_mb(key: str) -> float:
    """Return the resident memory of this process now (VmRSS) or at most (VmHWM), in 10^6 bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024 / 1e6
    raise RuntimeError(f"expected {key} in /proc/self/status, found none")


def enrol(store: Store, devices: int) -> None:
    """Enrol the devices, many per transaction."""
    for start in range(0, devices, _AT_ONCE):
        ordinals = range(start, min(start + _AT_ONCE, devices))
        store.enrol([(device_id(n), hashlib.sha256(b"%d" % n).digest()) for n in ordinals])


def learners(d: int) -> dict[str, tuple[Learner[Any], Schema]]:
    """Return the learners whose first round is opened: MASKED-PARITY of d bits, a frequency."""
    parity = masked_parity(1, Seed.of(0), d).schema
    people = Schema("people", 1, site=Category([f"s{n}" for n in range(16)]))
    return {
        "masked-parity": (find("masked-parity").build(parity, {}), parity),
        "frequency": (find("frequency").build(people, {"column": "site"}), people),
    }


def open_round(store: Store, learner: Learner[Any], schema: Schema) -> dict[str, float]:
    """Measure a study from its plan to the end of the opening of its first round."""
    study = Study(learner, schema, epsilon=1)
    signed = study.sign(_KEY, nonce=bytes(16), expires_unix_s=1 << 40)
    digest = digest_of(signed.study)
    store.add_study(digest, signed)
    with AggregatorServer.start(store) as server:
        planned: list[float] = []
        session: Session[Any] = Session(
            study=signed,
            learner=study.learner,
            fleet=server.fleet,
            log=store.log(digest),
            cohort_seed=digest,
            leaf_key=bytes(32),
            watch=lambda number, plan: planned.append(time.perf_counter()),
        )

        def run() -> None:
            with suppress(StudyCancelled):
                session.run()

        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = resident_mb("VmRSS")
        began = time.perf_counter()
        running = threading.Thread(target=run)
        running.start()
        while not server.fleet.progress(digest)[0]:
            if not running.is_alive() or time.perf_counter() - began > _PATIENCE_S:
                raise RuntimeError("expected a round to be opened, found none")
            time.sleep(0.001)
        opened = time.perf_counter()
        asked = server.fleet.progress(digest)[0]
        found = {
            "asked": asked,
            "plan_s": planned[0] - began,
            "open_s": opened - planned[0],
            "peak_mb": resident_mb("VmHWM") - before,
            "resident_mb": resident_mb("VmRSS"),
        }
        server.fleet.cancel(digest)
        running.join()
    return found


def register(store: Store, devices: int) -> dict[str, float]:
    """Measure the commands of the register, in milliseconds."""
    of = store.register
    middle = devices // 2
    ids = tuple(device_id(n) for n in range(middle, middle + min(_IDS, middle)))
    site = DeviceSelection(tags=("site=3",))
    both = ("site=3", "kind=new")

    def pages(tags: Sequence[str], after: int) -> Callable[[], object]:
        return lambda: [of.devices(tags, after, _PAGE) for _ in range(_PAGES)]

    steps: dict[str, Callable[[], object]] = {
        "tag of ids": lambda: of.tag(DeviceSelection(ids=ids), add=["kind=new"]),
        "page, first": pages((), -1),
        "page, middle": pages((), middle),
        "page of a tag": pages(("site=3",), middle),
        "page of two tags": pages(both, -1),
        "counts": of.count,
        "tag of a tenth": lambda: of.tag(site, add=["v2"]),
        "another value of a tenth": lambda: of.tag(site, add=["site=30"]),
        "revocation of a tenth": lambda: of.revoke(DeviceSelection(tags=("v2",))),
        "changes": lambda: of.changes(0),
        "counts after": of.count,
        "restoration of a tenth": lambda: of.restore(DeviceSelection(tags=("v2",))),
        "revocation of one": lambda: of.revoke(DeviceSelection(ids=ids[:1])),
    }
    found = {name: 1000 * timed(step) for name, step in steps.items()}
    return {name: ms / (_PAGES if name.startswith("page") else 1) for name, ms in found.items()}


def measure_store(
    store: Store, devices: int, d: int, run: Callable[[str], object], prefix: str
) -> dict[str, Any]:
    """Measure an empty store.

    Args:
      store: it.
      devices: number of them.
      d: bits of MASKED-PARITY.
      run: runs a statement on the store, beside it.
      prefix: of the names of its tables.
    """
    found: dict[str, Any] = {"enrol_s": timed(lambda: enrol(store, devices))}
    tag = f"'site=' || (ordinal % {_SITES})"
    run(_TAGS.format(f"{prefix}device_tags", tag, f"{prefix}devices"))
    found["store_bytes"] = store.size_bytes()
    found["rounds"] = {
        name: open_round(store, learner, schema) for name, (learner, schema) in learners(d).items()
    }
    found["register_ms"] = register(store, devices)
    return found


def measure(devices: int, d: int) -> dict[str, Any]:
    """Measure both stores."""
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    found["devices"] = devices
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        SqliteStore.create(path).close()

        def run(statement: str) -> None:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(statement)

        with closing(SqliteLocation(path).open()) as store:
            found["sqlite"] = measure_store(store, devices, d, run, "")
    with PostgresqlServer.running({"shared_buffers": "256MB"}) as server:
        location = store_location(server.new_database())
        location.migrate()
        with closing(location.open()) as store:
            found["postgresql"] = measure_store(
                store, devices, d, lambda statement: server.execute(statement, "d1"), "askance."
            )
        found["postgresql"]["sizes_mb"] = {
            name: size / 1e6 for name, size, _ in server.execute(_SIZES, "d1")
        }
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all")
    parser.add_argument("--devices", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    told = measure(20_000, 8) if arguments.quick else measure(arguments.devices, 32)
    if arguments.json:
        print(json.dumps(told))
        return 0
    print(f"{told['devices']:,} devices, {told['cores']} cores, load {told['load']:.1f}")
    for kind in ("sqlite", "postgresql"):
        one = told[kind]
        print(f"{kind}: enrolled in {one['enrol_s']:.1f} s, {one['store_bytes'] / 1e6:.0f} MB")
        for name, opened in one["rounds"].items():
            print(
                f"  {name}: {opened['asked']:,} users, plan {opened['plan_s']:.2f} s, round"
                f" {opened['open_s']:.2f} s, {opened['peak_mb']:.0f} MB more at most,"
                f" {opened['resident_mb']:.0f} MB resident"
            )
        for name, ms in one["register_ms"].items():
            print(f"  {name}: {ms:,.1f} ms")
    for name, size in told["postgresql"]["sizes_mb"].items():
        print(f"  {name}: {size:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
