"""Speed of each family of randomizers in columns, over the cost of its coins alone.

All users answer one question about a column in memory; a whole round is timed: levels, coins,
reports, tally and the Merkle root. Beside it the ceiling: as many coins generated in blocks that
stay in the cache, by as many threads, and nothing else. Both in turn, the best of each. Two parts
are timed apart as well: rounding, drawing and counting with coins that are there already, and the
hash of the Merkle leaves. What is left of the round is the query, and the interpreter's work per
block. Every case runs in a process of its own, with numba and with its import refused; `numpy` is
the latter.

    python benchmarks/kernels.py [--quick] [--json] [--workers W] [--only CASE ...] [--memory]

`--memory` asks 10^9 users, whose column repeats itself, and shows the most memory that was held.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from column_rounds import Took, answered, timed

from askance_aggregator.families import (
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    linear_hashing,
    random_codebook,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_aggregator.learners import frequency, mean, mean_vector
from askance_aggregator.queries import (
    EncodedColumns,
    category,
    encode_columns,
    predicate,
    real,
    signed,
    vector,
)
from askance_aggregator.studies.tallies import leaf, packed_what, packed_who
from askance_client.messages import rounding_coins
from askance_client.queries import Category, Integer, Query, QueryKind, Real, Schema
from askance_client.randomizers import COIN_SPACE, Channel, Randomizer, SubsetSelection
from askance_simulation.experiments.trials import peak_memory_mb
from askance_simulation.families.fused import LEAST_USERS, counter
from askance_simulation.families.rounding import rounding
from askance_simulation.populations import Population
from askance_simulation.populations.columns import narrowed
from askance_simulation.randomness import Keystream

REPEATS = 3
EPSILON = 10**9
CHUNK = 1 << 16
TOGETHER = 16  # chunks of a column that repeats itself: more than are looked at at once
BLOCK = 1 << 14  # words of the ceiling's blocks
DRAWN = 1 << 16  # words of a round's blocks
WORDS = {"full": 4 * 10**8, "quick": 2 * 10**7}  # coins per measurement


@dataclass(frozen=True, slots=True)
class Case:
    """A question and its randomizer.

    Args:
        schema: with the one field that is asked, or one per component.
        query: the question.
        randomizer: the family.
    """

    schema: Schema
    query: Query
    randomizer: Randomizer

    @property
    def words(self) -> int:
        """Number of coins per answer."""
        return self.randomizer.coins + rounding_coins(self.query, self.randomizer)


def _cells(count: int, randomizer: Randomizer) -> Case:
    schema = Schema("people", 1, cell=Category(tuple(map(str, range(count)))))
    return Case(schema, category(schema.cell), randomizer)


def _signed(values: int, randomizer: Randomizer) -> Case:
    schema = Schema("people", 1, cell=Category(tuple(map(str, range(2 * values + 1)))))
    return Case(schema, signed(schema.cell), randomizer)


def _ages(randomizer: Randomizer) -> Case:
    schema = Schema("people", 1, age=Integer(0, 100))
    return Case(schema, real(schema.age), randomizer)


def _vectors(count: int, randomizer: Randomizer) -> Case:
    schema = Schema("people", 1, **{f"x{place}": Real(-1, 1, 10) for place in range(count)})
    return Case(schema, vector([schema[f"x{place}"] for place in range(count)]), randomizer)


def _ladder(levels: int) -> Channel:
    """Return a table of `levels` levels and as many symbols, the own one likelier."""
    other = COIN_SPACE // (levels + 2)
    own = COIN_SPACE - (levels - 1) * other
    return Channel(
        tuple(tuple(own if x == y else other for y in range(levels)) for x in range(levels))
    )


def _predicate() -> Case:
    schema = Schema("people", 1, age=Integer(0, 100))
    return Case(schema, predicate(schema.age > 30), randomized_response(EPSILON))


CASES: dict[str, Callable[[], Case]] = {
    "predicate": _predicate,
    "mean, one bit": lambda: _ages(randomized_response(EPSILON)),
    "mean, table of 17": lambda: _ages(_ladder(17)),
    "k-ary, 16 cells": lambda: _cells(16, k_ary_response(16, 3 * EPSILON)),
    "k-ary, 300 cells": lambda: _cells(300, k_ary_response(300, 3 * EPSILON)),
    "hash, 1,024 cells": lambda: _cells(1024, linear_hashing(1024, EPSILON)),
    "hash, 16,384 cells": lambda: _cells(16_384, linear_hashing(16_384, EPSILON)),
    "Hadamard, 64 values": lambda: _signed(64, hadamard_sign(64, EPSILON)),
    "Hadamard, 1,024 values": lambda: _signed(1024, hadamard_sign(1024, EPSILON)),
    "4 of 16 cells": lambda: _cells(16, subset_selection(16, EPSILON)),
    "17 of 64 cells": lambda: _cells(64, subset_selection(64, EPSILON)),
    "48 of 128 cells": lambda: _cells(128, SubsetSelection(128, 48, COIN_SPACE // 2)),
    "13 of 1,024 cells": lambda: _cells(1024, SubsetSelection(1024, 13, COIN_SPACE // 2)),
    "signed sets of 16": lambda: _signed(16, signed_subset_selection(16, 2 * EPSILON)),
    "signed sets of 64": lambda: _signed(64, signed_subset_selection(64, 2 * EPSILON)),
    "sign patterns of 8": lambda: _vectors(8, hypercube_response(8, EPSILON)),
    "sign patterns of 64": lambda: _vectors(64, hypercube_response(64, EPSILON)),
    "sign patterns of 100": lambda: _vectors(100, hypercube_response(100, EPSILON)),
    "random codebook of 8": lambda: _vectors(8, random_codebook(8, 1, EPSILON)),
}


def _learner(case: Case) -> Any:
    """Return a learner that asks the same fields, which a study signs."""
    fields = [case.schema[name] for name in case.schema.fields]
    if case.query.kind is QueryKind.VECTOR:
        return mean_vector(case.schema)
    return (frequency if "cell" in case.schema.fields else mean)(fields[0])


def people_of(case: Case, users: int) -> Population:
    """Return users whose columns are given up to 16 chunks, and repeat themselves from there."""
    rng = np.random.default_rng(1)
    stored = min(users, TOGETHER * CHUNK)
    columns: dict[str, Any] = {}
    for name, field in case.schema.fields.items():
        kind = field.type
        grid = rng.integers(kind.low, kind.high + 1, stored)
        columns[name] = grid / (1 << kind.frac) if kind.frac else grid
        if isinstance(field, Category):
            columns[name] = np.array(field.labels)[grid]
    people = narrowed(case.schema, encode_columns(case.schema, columns))

    def of(start: int, stop: int) -> EncodedColumns:
        first = start % CHUNK
        return people.take(slice(first, first + stop - start))

    return Population("repeating", case.schema, users, of)


def _round(case: Case, population: Population, workers: int) -> Took:
    return answered(population, _learner(case), case.query, case.randomizer, workers)


def ceiling(words: int, workers: int) -> Took:
    """Draw as many coins, and nothing else."""

    def coins(worker: int) -> None:
        buffer = np.empty(BLOCK, np.uint64)
        stream = Keystream(bytes(16), worker << 40)
        for _ in range(words // workers // BLOCK):
            stream.fill(buffer)

    with ThreadPoolExecutor(workers) as threads:
        return timed(lambda: list(threads.map(coins, range(workers))))


def _best(work: Callable[[], object], prepare: Callable[[], object], times: int) -> float:
    """Return the processor's seconds of some work, the best of several rows of it."""
    best = float("inf")
    for _ in range(REPEATS):
        took = 0.0
        for _ in range(times):
            prepare()
            took += timed(work)[1]
        best = min(best, took / times)
    return best


def draw_seconds(case: Case) -> float:
    """Measure rounding, drawing and counting per user, with coins that are in the cache."""
    query, randomizer = case.query, case.randomizer
    users = max(1 << 12, DRAWN // case.words)
    words, stream = np.empty((users, case.words), np.uint64), Keystream(bytes(16), 0)
    of_many = query.kind is QueryKind.VECTOR
    shape = (users, len(case.schema.fields)) if of_many else (users,)
    values = np.random.default_rng(2).integers(query.low, query.high + 1, shape).astype(np.int16)
    ours, round_ = counter(randomizer, LEAST_USERS), rounding(LEAST_USERS)
    levels = 2 if of_many else randomizer.levels

    def draw() -> None:
        found: Any = values
        if rounding_coins(query, randomizer):
            found = round_(values, query.low, query.high, levels, words)
        ours.draw(found, words)

    return _best(draw, lambda: stream.fill(words), 20) / users


def hash_seconds(randomizer: Randomizer) -> float:
    """Measure the hash of a leaf per user."""
    shape = (CHUNK, randomizer.width)
    symbols = np.random.default_rng(3).integers(0, 2, shape, dtype=np.uint8)
    who = packed_who(np.ones(CHUNK, np.bool_))
    what = packed_what(randomizer, symbols)
    return _best(lambda: leaf(bytes(32), 0, who, what), lambda: None, 20) / CHUNK


def measure(name: str, words: int, workers: int) -> dict[str, Any]:
    """Measure answers and coins per second of one case, in turn; the best of each."""
    case = CASES[name]()
    users = max(10**6, words // case.words)
    population = people_of(case, users)
    _round(case, people_of(case, 10**6), workers)  # what is done once per process
    answers, coins = [], []
    for _ in range(REPEATS):
        coins.append(ceiling(users * case.words, workers))
        answers.append(_round(case, population, workers))
    row: dict[str, Any] = {"users": users, "words": case.words, "workers": workers}
    for clock, unit in enumerate(("wall", "processor")):
        ours, most = (users / min(took[clock] for took in those) for those in (answers, coins))
        row[unit] = {"answers_per_s": ours, "ceiling_per_s": most, "ratio": ours / most}
    hashed, total = hash_seconds(case.randomizer), 1 / row["processor"]["answers_per_s"]
    row["processor"]["ratio_without_hash"] = row["processor"]["ratio"] * total / (total - hashed)
    row["draw_s"], row["hash_s"] = draw_seconds(case), hashed
    return row


def memory(name: str, workers: int) -> dict[str, Any]:
    """Ask 10^9 users, and measure the seconds and the most memory held."""
    case = CASES[name]()
    wall, processor = _round(case, people_of(case, 10**9), workers)
    return {"seconds": wall, "processor_s": processor, "peak_memory_mb": peak_memory_mb()}


def in_process(name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run one case in a process of its own."""
    command = [sys.executable, __file__, "--one", name, *arguments]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def _show(rows: dict[str, dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Whole rounds: nanoseconds of the processor per user, and their parts")
    names = ("case", "words", "numpy", "numba", "coins", "draw", "hash", "rest", "ratio")
    for column in (*names, "no hash", "times"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for name, row in rows.items():
        plain, fast = row["numpy"]["processor"], row["numba"]["processor"]
        whole, coins = 1e9 / fast["answers_per_s"], 1e9 / fast["ceiling_per_s"]
        drawn, hashed = 1e9 * row["numba"]["draw_s"], 1e9 * row["numba"]["hash_s"]
        parts = (coins, drawn, hashed, whole - coins - drawn - hashed)
        table.add_row(
            name,
            str(row["numba"]["words"]),
            f"{1e9 / plain['answers_per_s']:.2f}",
            f"{whole:.2f}",
            *(f"{part:.2f}" for part in parts),
            f"{fast['ratio']:.2f}",
            f"{fast['ratio_without_hash']:.2f}",
            f"{fast['answers_per_s'] / plain['answers_per_s']:.1f}",
        )
    Console(width=110).print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a twentieth of the coins")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--workers", type=int, default=1, metavar="W", help="threads (default: 1)")
    parser.add_argument("--only", action="append", choices=CASES, metavar="CASE")
    parser.add_argument("--memory", action="store_true", help="10^9 users of each case, memory")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--without-numba", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    words = WORDS["quick" if given.quick else "full"]
    if given.one is not None:
        if given.without_numba:
            sys.modules["numba"] = None  # type: ignore[assignment]  # its import fails
        done = (
            memory(given.one, given.workers)
            if given.memory
            else measure(given.one, words, given.workers)
        )
        print(json.dumps(done))
        return 0
    passed = ["--workers", str(given.workers)]
    passed += [flag for flag, on in (("--quick", given.quick), ("--memory", given.memory)) if on]
    rows = {
        name: {
            "numpy": in_process(name, [*passed, "--without-numba"]),
            "numba": in_process(name, passed),
        }
        for name in given.only or CASES
    }
    if given.json or given.memory:
        print(json.dumps(rows))
    else:
        _show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
