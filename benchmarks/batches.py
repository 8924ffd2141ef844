"""Batches of unequal kinds: the planner's cohorts beside equal groups, by exact tails.

Each batch is asked of all rows of Adult but the held-out fifth, with open tolerances. "Equal" is a
group of users for each question, all of one size, at the whole epsilon; "planned" is what the
planner does. Shown are the users for a twentieth of the range, and the widest tolerance of an
answer of these users, of all values together at 95 %. No user is asked, so there is no seed.

    python benchmarks/batches.py shared/data/adult.csv [--epsilons 0.5 1 2 4 8]

Without the file nothing is measured, and that is no failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import askance as ask
from askance_aggregator.learners import Allocation, Batch, Question, marginals, naive_bayes
from askance_aggregator.planning import plan_batch, tail_of
from askance_aggregator.planning.plans import RoundPlan
from askance_aggregator.queries import category
from askance_client.queries import Category, Schema
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed

NANO = 10**9
MISS = 0.05  # of all intervals of a batch together
SIX = ["age", "education_num", "marital_status", "sex", "race", "relationship"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Plan and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="Adult, with a header line")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1, 2, 4, 8])
    given = parser.parse_args(arguments)
    if not given.file.exists():
        print(f"{given.file} is not there: nothing is measured", file=sys.stderr)
        return 0
    made = ask.named("naive-bayes", data=given.file, label="income", epsilon=1).people
    people = made if isinstance(made, Population) else made(Seed.of(0))
    for name, batch in batches(people.schema):
        for epsilon in given.epsilons:
            print(line(name, batch, epsilon, people.size), flush=True)
    return 0


def batches(schema: Schema) -> Iterator[tuple[str, Batch]]:
    """Yield the batches by name."""
    yield "naive Bayes, 15 questions of 3 to 85 cells", naive_bayes(schema, "income").batch
    yield "15 tables of two of 6 fields, 9 to 43 cells", marginals(schema, SIX).batch
    names = [name for name, kind in schema.fields.items() if isinstance(kind, Category)]
    asked = Batch(Question(category(schema[name])) for name in names)
    yield f"shares of {len(names)} fields of 2 to 42 labels", asked


def line(name: str, batch: Batch, epsilon: float, users: int) -> str:
    """Format a row of a Markdown table."""
    nano, miss = int(epsilon * NANO), MISS / batch.values
    planned = plan_batch(batch, nano, miss, users)
    fresh = plan_batch(Batch(batch.questions, Allocation.FRESH), nano, miss, users)
    equal = widest(batch, fresh, miss, users // len(batch.questions))
    least = min(planned.options.values())
    return (
        f"| {name} | {epsilon:g} | {planned.allocation} | {planned.options[Allocation.FRESH]:,}"
        f" | {planned.options[Allocation.SPLIT]:,} | {least:,} | {equal:.4f}"
        f" | {widest(batch, planned, miss):.4f} |"
    )


def widest(batch: Batch, planned: RoundPlan, miss: float, users: int | None = None) -> float:
    """Return the widest tolerance of an answer; `users`: of each group, in place of its own."""
    return max(
        tail_of(batch.questions[group.question], group.randomizer, group.decode).tolerance(
            group.users if users is None else users, miss
        )
        for group in planned.groups
    )


if __name__ == "__main__":
    raise SystemExit(main())
