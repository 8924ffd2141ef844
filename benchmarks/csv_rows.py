"""A CSV file of flights: processor time of reading it, beside pandas and polars.

The file is made, the same on every machine, and has the shape of the data set nycflights13: 336,776
rows of 19 columns, of which six have the text NA. Each reader is a process of its own, which reads
the file once, so that all is imported, and then several times; the least processor time counts.
Ours read, infer the schema and put one column on the grid, with pyarrow and without it, and the
records of both are compared.

    python benchmarks/csv_rows.py [--rows N] [--repeats N] [--only pandas] [--tree FOLDER] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 336_776
COLUMNS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
    "sched_arr_time", "arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time",
    "distance", "hour", "minute", "time_hour",
)  # fmt: skip
CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX", "FL", "AS", "F9", "YV")
ORIGINS = ("EWR", "JFK", "LGA")
READERS = ("pandas", "polars", "askance", "askance, without pyarrow")
_MINUTES = 24 * 60
_TREES = ("", "aggregator", "simulation", "client", "protos", "papers")  # of a source tree


@dataclass(frozen=True, slots=True)
class Reading:
    """Cost of reading the file once.

    Args:
      wall_s: of the reading that took the least processor time.
      grid: digest of schema and records on the grid; empty: not one of ours.
    """

    name: str
    processor_s: float
    wall_s: float
    grid: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the file, read it by each reader and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, metavar="N")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="readings per reader")
    parser.add_argument("--only", action="append", choices=READERS, help="this reader alone")
    parser.add_argument("--tree", type=Path, help="source tree of ours, to compare with")
    parser.add_argument("--quick", action="store_true", help="10,000 rows, read once")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    rows, repeats = (10_000, 1) if given.quick else (given.rows, given.repeats)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flights.csv"
        write(file, rows)
        size = file.stat().st_size
        readings = [measured(name, file, repeats, given.tree) for name in given.only or READERS]
    if len({one.grid for one in readings if one.grid}) > 1:
        raise SystemExit("expected the same records with and without pyarrow, got others")
    if given.json:
        print(json.dumps({"rows": rows, "bytes": size, "readings": [*map(asdict, readings)]}))
        return 0
    print(f"{rows:,} rows of {len(COLUMNS)} columns, {size / 1e6:.1f} MB")
    first = readings[0]
    for one in readings:
        times = one.processor_s / first.processor_s
        print(
            f"{one.name:26} {one.processor_s:7.2f} s of processor {one.wall_s:7.2f} s"
            f" {times:7.1f} x {first.name}"
        )
    return 0


def write(file: Path, rows: int) -> None:
    """Write the file."""
    with file.open("w", newline="", encoding="utf-8") as opened:
        opened.write(",".join(COLUMNS) + "\n")
        for row in _rows(rows):
            opened.write(",".join(map(str, row)) + "\n")


def _rows(rows: int) -> Iterator[Sequence[object]]:
    draw = random.Random(13)
    tails = [f"N{draw.randrange(100, 999)}{'ABCDEFGHJK'[draw.randrange(10)]}" for _ in range(4044)]
    places = [f"{chr(65 + place % 26)}{chr(65 + place // 26)}X" for place in range(105)]
    lengths = [draw.randrange(17, 4984) for _ in range(214)]
    for row in range(rows):
        day = row * 365 // rows
        month, of_month = day // 31 + 1, day % 31 + 1
        hour, minute = draw.randrange(5, 24), draw.randrange(60)
        late, air = int(draw.expovariate(0.08)) - 10, draw.randrange(20, 690)
        planned, gone = hour * 60 + minute, draw.random() < 0.0245
        flown = [_clock(planned + late), late, _clock(planned + late + air), late - 8, air]
        left, delay, came, missed, aloft = ["NA"] * 5 if gone else flown
        tail = "NA" if gone and draw.random() < 0.3 else draw.choice(tails)
        yield (
            2013, month, of_month, left, _clock(planned), delay, came, _clock(planned + air + 20),
            missed, draw.choice(CARRIERS), draw.randrange(1, 3845), tail, draw.choice(ORIGINS),
            draw.choice(places), aloft, draw.choice(lengths), hour, minute,
            f"2013-{month:02}-{of_month:02}T{hour:02}:00:00Z",
        )  # fmt: skip


def _clock(minutes: int) -> int:
    """Write minutes after midnight as 517 for 05:17."""
    return minutes // 60 % 24 * 100 + minutes % 60


def measured(name: str, file: Path, repeats: int, tree: Path | None) -> Reading:
    """Read the file in a process of its own."""
    words = [sys.executable, str(Path(__file__)), "read", name, str(file), str(repeats)]
    words += [] if tree is None else [str(tree.resolve())]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
    return Reading(**json.loads(done.stdout))


def read(name: str, file: Path, repeats: int) -> Reading:
    """Import what a reader needs, read the file several times and return the cheapest reading."""
    work, grid = _reader(name, file)
    work()
    costs = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        costs.append((time.process_time() - processor, time.perf_counter() - wall))
    processor_s, wall_s = min(costs)
    return Reading(name, processor_s, wall_s, grid())


def _reader(name: str, file: Path) -> tuple[Callable[[], Any], Callable[[], str]]:
    """Return what reads the file by a reader, and what then has the digest of the grid."""
    if name == "pandas":
        pandas = import_module("pandas")
        return lambda: pandas.read_csv(file), str
    if name == "polars":
        polars = import_module("polars")
        return lambda: polars.read_csv(file, null_values="NA"), str
    if name.endswith("without pyarrow"):
        sys.modules["pyarrow"] = None  # type: ignore[assignment]  # it cannot be imported then
    import askance as ask

    def work() -> None:
        people = ask.read(file)
        _ = people.columns(0, people.size).values["carrier"]

    def grid() -> str:
        people = ask.read(file)
        columns, digest = people.columns(0, people.size), hashlib.sha256(people.schema.digest)
        for name in people.schema.fields:
            digest.update(np.asarray(columns.values[name], np.int64).tobytes())
            digest.update(columns.present[name].tobytes())
        return digest.hexdigest()

    return work, grid


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        _name, _file, _repeats, *_tree = sys.argv[2:]
        sys.path[:0] = [str(Path(folder, part)) for folder in _tree for part in _TREES]
        print(json.dumps(asdict(read(_name, Path(_file), int(_repeats)))))
        sys.exit(0)
    sys.exit(main())
