"""Speed of the columns fleet, over the cost of its coins alone, and its growth with users.

Three parts; ratios are within one run, since figures of a noisy machine mean little by themselves:

- predicate: every user answers one predicate about a column that is given. Beside it the ceiling:
  the same coins generated and compared into buffers made before, by as many threads, and nothing
  else. Both in turn, the best of each; also by the processor's time, without other processes.
- masked-parity: a trial with d = 64 at epsilon 1 and its planned size, all in all.
- growth: the predicate again, from 10^4 to 10^9 users, each size in a process of its own, with the
  most memory that it held; the users' column repeats itself, so that none need be stored.

    python benchmarks/columns.py [--quick] [--json] [--workers W] [--plot FILE.png]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from column_rounds import Took, answered, timed

from askance_aggregator.families import randomized_response
from askance_aggregator.learners import mean
from askance_aggregator.queries import EncodedColumns, encode_columns, predicate
from askance_client.queries import Integer, Schema
from askance_simulation.cores import cores
from askance_simulation.experiments import named, simulate
from askance_simulation.experiments.trials import peak_memory_mb
from askance_simulation.populations import Population
from askance_simulation.randomness import Keystream, Seed

REPEATS = 7
EPSILON = 10**9
CHUNK = 1 << 16
BLOCK = 1 << 14
SCHEMA = Schema("people", 1, age=Integer(0, 100))


def given(users: int) -> Population:
    """Return users whose ages are an array in memory."""
    return Population.from_columns(SCHEMA, {"age": np.arange(users) % 101})


def repeating(users: int) -> Population:
    """Return users whose ages repeat themselves every 2^16."""
    together = 16  # chunks, more than are ever looked at at once
    people = encode_columns(SCHEMA, {"age": np.arange(together * CHUNK) % CHUNK % 101})

    def columns(start: int, stop: int) -> EncodedColumns:
        first = start % CHUNK
        return people.take(slice(first, first + stop - start))

    return Population("repeating", SCHEMA, users, columns)


def predicate_answered(population: Population, workers: int) -> Took:
    """Answer one predicate by all users: whether they are over 30."""
    question, randomizer = predicate(SCHEMA.age > 30), randomized_response(EPSILON)
    return answered(population, mean(SCHEMA.age), question, randomizer, workers)


def ceiling(users: int, workers: int) -> Took:
    """Draw as many coins, and compare each once."""

    def coins(worker: int) -> None:
        words, found = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.bool_)
        edge = np.uint64(1 << 62)
        for start in range(worker * CHUNK, users, workers * CHUNK):
            stream = Keystream(bytes(16), start)
            for _ in range(CHUNK // BLOCK):
                stream.fill(words)
                np.greater_equal(words, edge, out=found)

    with ThreadPoolExecutor(workers) as threads:
        return timed(lambda: list(threads.map(coins, range(workers))))


def predicate_speed(users: int, workers: int) -> dict[str, Any]:
    """Measure answers and coins per second, in turn; the best of each."""
    population = given(users)
    answers, coins = [], []
    for _ in range(REPEATS):
        coins.append(ceiling(users, workers))
        answers.append(predicate_answered(population, workers))
    told: dict[str, Any] = {"users": users, "workers": workers, "best_of": REPEATS}
    for clock, name in enumerate(("wall", "processor")):
        ours, most = (users / min(took[clock] for took in those) for those in (answers, coins))
        told[name] = {"answers_per_s": ours, "ceiling_per_s": most, "ratio": ours / most}
    return told


def masked_parity() -> dict[str, Any]:
    """Run a whole trial, at as many users as its plan asks for."""
    settings = {"d": "64"}
    plain = named("masked-parity", epsilon="1", users=1, settings=settings)
    users = plain.study(plain.people(Seed.of(0))).plan().users_needed
    chosen = named("masked-parity", epsilon="1", users=users, settings=settings)
    done = simulate(chosen.study, chosen.people, fleet="columns")
    return {"users": users, "seconds": done.seconds, "successes": done.successes}


def growth(largest: int, workers: int) -> list[dict[str, Any]]:
    """Measure the seconds and memory at 10^4, 10^5, ... users."""
    rows = []
    for power in range(4, largest + 1):
        command = [sys.executable, __file__, "--one", str(10**power), "--workers", str(workers)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(said))
    return rows


def one_size(users: int, workers: int) -> dict[str, Any]:
    """Measure one row of `growth`, for a process of its own."""
    population = repeating(users)
    predicate_answered(repeating(CHUNK), workers)  # what is done once a process
    wall, processor = predicate_answered(population, workers)
    return {
        "users": users,
        "seconds": wall,
        "processor_s": processor,
        "peak_memory_mb": peak_memory_mb(),
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and memory against users."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    seconds, memory = figure.subplots(1, 2)
    users = [row["users"] for row in rows]
    seconds.loglog(users, [row["seconds"] for row in rows], "o-", label="measured")
    last = rows[-1]
    line = [last["seconds"] * one / last["users"] for one in users]
    seconds.loglog(users, line, "--", color="grey", label="in proportion to the last")
    seconds.set(xlabel="users", ylabel="seconds", title="One predicate, all users asked")
    seconds.legend()
    held = [row["peak_memory_mb"] for row in rows]
    memory.semilogx(users, held, "o-")
    memory.set(xlabel="users", ylabel="most memory held, MB", title="Memory")
    memory.set_ylim(0, 1.1 * max(held))
    figure.savefig(path, dpi=120)


def _show(told: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=100)
    speed = told["predicate"]
    table = Table(title=f"One predicate, {speed['users']:,} users, {speed['workers']} threads")
    for column in ("by the", "answers/s", "ceiling/s", "ratio"):
        table.add_column(column, justify="right")
    for name in ("wall", "processor"):
        one = speed[name]
        figures = (f"{one['answers_per_s']:,.0f}", f"{one['ceiling_per_s']:,.0f}")
        table.add_row(name, *figures, f"{one['ratio']:.2f}")
    console.print(table)
    parity = told["masked_parity"]
    console.print(f"MASKED-PARITY, d = 64: {parity['users']:,} users in {parity['seconds']:.2f} s")
    table = Table(title="Growth")
    for column in ("users", "seconds", "processor s", "MB", "users/s"):
        table.add_column(column, justify="right")
    for row in told["growth"]:
        table.add_row(
            f"{row['users']:,}",
            f"{row['seconds']:.4f}",
            f"{row['processor_s']:.4f}",
            f"{row['peak_memory_mb']:.0f}",
            f"{row['users'] / row['seconds']:,.0f}",
        )
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="up to 10^7 users instead of 10^9")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--workers", type=int, default=cores(), metavar="W", help="threads")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="growth as a picture")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given_ = parser.parse_args(arguments)
    if given_.one is not None:
        print(json.dumps(one_size(given_.one, given_.workers)))
        return 0
    grown = growth(7 if given_.quick else 9, given_.workers)  # first: memory held is inherited
    told: dict[str, Any] = {
        "predicate": predicate_speed(10**7 if given_.quick else 4 * 10**7, given_.workers),
        "masked_parity": masked_parity(),
        "growth": grown,
    }
    if given_.plot is not None:
        draw(told["growth"], given_.plot)
    if given_.json:
        print(json.dumps(told))
    else:
        _show(told)
    return 0 if told["masked_parity"]["successes"] == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
