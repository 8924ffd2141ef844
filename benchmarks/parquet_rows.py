"""A CSV file repeated to many rows of Parquet: studies of it, and pandas that reads the same file.

Each run is a process of its own, of which the wall clock, the processor time and the peak of memory
are taken. The file has dictionaries of texts and row groups of 2^20 rows; it is made once, and kept
where it is put.

    python benchmarks/parquet_rows.py adult.csv FOLDER [--rows N] [--only frequency] [--json]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

GROUP = 1 << 20
SIMULATE = ("-m", "askance", "simulate")
ENDING = ("--epsilon", "1", "--fleet", "columns", "--json")
PANDAS = "import pandas, sys; frame = pandas.read_parquet(sys.argv[1], columns={columns});{then}"
WORK = {
    "frequency": (*SIMULATE, "frequency", "--set", "column={column}", "--data", "{file}", *ENDING),
    "naive Bayes": (*SIMULATE, "naive-bayes", "--label", "{label}", "--data", "{file}", *ENDING),
    "inference": ("-c", "import askance, sys; askance.read(sys.argv[1])", "{file}"),
    "pandas, one column, shares": (
        "-c",
        PANDAS.format(
            columns="[sys.argv[2]]", then=" print(frame[sys.argv[2]].value_counts(normalize=True))"
        ),
        "{file}",
        "{column}",
    ),
    "pandas, all columns": ("-c", PANDAS.format(columns="None", then=""), "{file}"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """Cost of one process.

    Args:
      answers_per_second: as the study's result says; None: no study.
    """

    name: str
    wall_s: float
    processor_s: float
    peak_mb: float
    answers_per_second: float | None = None
    digest: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the file, run what is asked for on it, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("csv", type=Path, help="records, with a header line")
    parser.add_argument("folder", type=Path, help="where the Parquet file is put")
    parser.add_argument("--rows", type=int, default=100_000_000, metavar="N")
    parser.add_argument("--column", default="education", help="of the frequencies")
    parser.add_argument("--label", default="income", help="to be predicted")
    parser.add_argument("--only", action="append", choices=list(WORK), help="run this alone")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    file = repeated(given.csv, given.folder, given.rows)
    words = {"file": str(file), "column": given.column, "label": given.label}
    runs = []
    for name in given.only or WORK:
        runs.append(run(name, [word.format(**words) for word in WORK[name]]))
        if not given.json:
            print(_line(runs[-1]), flush=True)
    if given.json:
        size = file.stat().st_size
        found = {"rows": given.rows, "file_mb": size / 1e6, "runs": [asdict(one) for one in runs]}
        print(json.dumps(found))
    return 0


def repeated(csv: Path, folder: Path, rows: int) -> Path:
    """Return the file with a CSV file's records, again and again; made unless it is there."""
    target = folder / f"{csv.stem}-{rows}.parquet"
    if not target.exists():  # in a process of its own, so that this one stays small
        making = multiprocessing.get_context("spawn").Process(
            target=write, args=(csv, target, rows)
        )
        making.start()
        making.join()
    return target


def write(csv: Path, target: Path, rows: int) -> None:
    """Write the Parquet file."""
    import pyarrow
    from pyarrow import csv as reader
    from pyarrow import parquet

    read = reader.read_csv(csv)
    columns = {
        name: column.dictionary_encode() if pyarrow.types.is_string(column.type) else column
        for name, column in zip(read.column_names, read.columns, strict=True)
    }
    once = pyarrow.table(columns).unify_dictionaries()
    many = pyarrow.concat_tables([once] * (GROUP // len(once) + 2)).combine_chunks()
    unfinished = target.with_suffix(".unfinished")
    with parquet.ParquetWriter(unfinished, many.schema, compression="zstd") as writer:
        for start in range(0, rows, GROUP):
            part = many.slice(start % len(once), min(GROUP, rows - start))
            writer.write_table(part, row_group_size=GROUP)
    unfinished.rename(target)


def run(name: str, words: Sequence[str]) -> Run:
    """Run Python with these words and return what it cost."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    if status:
        raise SystemExit(f"{name}: expected success, got the status {status}")
    result = json.loads(printed) if words[1] == "askance" else {}
    return Run(
        name,
        wall,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1024,
        result.get("answers_per_second"),
        result.get("transcript"),
    )


def _line(one: Run) -> str:
    speed = "" if one.answers_per_second is None else f"{one.answers_per_second / 1e6:8.1f} M/s"
    costs = f"{one.wall_s:8.1f} s {one.processor_s:8.1f} s of processor {one.peak_mb:8.0f} MB"
    return f"{one.name:28} {costs} {speed}"


if __name__ == "__main__":
    sys.exit(main())
