"""Comparison of one answer per user about all epochs with fresh answers in every epoch.

    python benchmarks/trend.py [--quick] [--trials 16] [--users 2000] [--epsilon 1]

Users have a bit per epoch that changes k times, at random epochs; the first is 1 with chance 1/4.
Every user spends epsilon in all, by

- trend: one answer about all epochs, for at most k changes;
- users split: one fresh answer about the bit of one epoch, T groups of users;
- budget split: T fresh answers, each with epsilon / T;
- planned: fresh answers to a few epochs each, as the planner divides users and budget.

n MSE is users times the mean squared error of an epoch's share, over epochs and trials, against the
share of the same users. The other tables are by formula: the number of changes below which `trend`
wins, and codes and schemes that were considered for it (ADR 46).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import exp, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import CodebookFamily, random_codebook
from askance_aggregator.learners import (
    Allocation,
    Answers,
    Batch,
    Learner,
    Question,
    non_adaptive,
    trend,
)
from askance_aggregator.learners.trend import DiscountedChanges
from askance_aggregator.queries import predicate
from askance_aggregator.studies.study import Study
from askance_client.queries import Schema
from askance_simulation.experiments import run_trial
from askance_simulation.populations import Population, paths
from askance_simulation.randomness import Seed

CHANGES: tuple[int, ...] = (0, 1, 3, 10)
EPOCHS: tuple[int, ...] = (16, 64)
Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Estimated share of every epoch."""

    estimates: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]


@non_adaptive("fresh", version=1)
def fresh(
    schema: Schema, allocation: str | None = None
) -> tuple[Batch, Callable[[Answers], Shares]]:
    """Ask for the bit of every epoch by a question of its own."""
    questions = [Question(predicate(schema[name] == 1)) for name in schema.fields]

    def conclude(answers: Answers) -> Shares:
        rows = [(answer.value, answer.low, answer.high) for answer in answers]
        return Shares(*map(tuple, zip(*rows, strict=True)))

    return Batch(questions, None if allocation is None else Allocation(allocation)), conclude


@dataclass(frozen=True)
class Row:
    """Figures of a way to ask, over trials.

    Args:
        way: its name.
        scaled: n MSE.
        error: its standard error, by the trials.
        covered: part of the trials whose intervals all hold the share of the users at hand.
        width: mean width of an interval.
        loss: most nats that a user spent, by the reports.
        seconds: of a trial.
    """

    way: str
    scaled: float
    error: float
    covered: float
    width: float
    loss: float
    seconds: float


def ways(schema: Schema, changes: int) -> Iterator[tuple[str, Learner[Any]]]:
    """Generate the ways to ask."""
    yield "trend", trend(schema, changes=changes)
    yield "users split", fresh(schema, "fresh")
    yield "budget split", fresh(schema, "split")
    yield "planned", fresh(schema)


def shares_of(people: Population) -> Reals:
    """Compute the share of ones in every epoch."""
    columns = people.columns(0, people.size)
    return np.array([np.asarray(columns.values[name]).mean() for name in people.schema.fields])


def measured(epochs: int, changes: int, given: argparse.Namespace) -> Iterator[Row]:
    """Measure every way on the same users."""
    schema = paths(1, Seed.of(0), epochs, changes).schema
    for way, learner in ways(schema, changes):
        study = Study(learner, schema, epsilon=given.epsilon)
        squares, widths, covered, loss = [], [], 0, 0
        began = time.perf_counter()
        for trial in range(given.trials):
            people = paths(given.users, Seed.of(trial) / "people", epochs, changes)
            truth = shares_of(people)
            outcome = run_trial(study, people, fleet="columns", seed=Seed.of(trial)).outcome
            found = outcome.hypothesis
            lows, highs = np.array(found.lows), np.array(found.highs)
            squares.append(np.square(np.array(found.estimates) - truth).mean())
            widths.append((highs - lows).mean())
            covered += bool(((lows <= truth) & (truth <= highs)).all())
            loss = max(loss, outcome.spending.max_spent)
        each = (time.perf_counter() - began) / given.trials
        scaled = given.users * np.array(squares)
        yield Row(
            way,
            float(scaled.mean()),
            float(scaled.std(ddof=1) / sqrt(given.trials)),
            covered / given.trials,
            float(np.mean(widths)),
            loss / 1e9,
            each,
        )


def law_of_trend(epochs: int, changes: float, epsilon: float) -> float:
    """Compute n times the variance of an epoch's share, users drawn anew (c N / 4)."""
    if changes == 0:
        return law_of_a_bit(epsilon)
    code = DiscountedChanges.of(epochs, Fraction(changes))
    square = float(np.square(code.weights[-1]).sum()) * float(code.length) ** 2
    book = CodebookFamily(random_codebook(epochs, 1 << 20, round(epsilon * 10**9)))
    return square * book.variance_along(1 / square) / 4


def law_of_a_bit(epsilon: float) -> float:
    """Compute n times the greatest variance of a share asked by randomized response: C^2 / 4."""
    return ((exp(epsilon) + 1) / (exp(epsilon) - 1)) ** 2 / 4


def law_of_fresh(epochs: int, epsilon: float) -> tuple[float, int]:
    """Compute the same for fresh answers to so many epochs per user that it is least."""
    return min((epochs / m * law_of_a_bit(epsilon / m), m) for m in range(1, epochs + 1))


def crossing(epochs: int, epsilon: float) -> int:
    """Return the greatest whole number of changes at which `trend` has the lesser law; -1: none."""
    least = law_of_fresh(epochs, epsilon)[0]
    wins = [k for k in range(epochs) if law_of_trend(epochs, k, epsilon) < least]
    return max(wins, default=-1)


def one_dyadic_interval(epochs: int, epsilon: float) -> float:
    """Compute the law of one answer about the change over one random dyadic interval.

    The share of epoch t is the sum of the changes over the dyadic intervals that its binary digits
    name. An interval of 2^h epochs is in the sum for 2^h epochs, and users are divided over the
    intervals as is best on average over epochs. Changes are -1, 0 and 1: C^2 per answer.
    """
    used = [2.0**h / epochs for h in range(round(log2(epochs))) for _ in range(epochs >> h + 1)]
    return 4 * law_of_a_bit(epsilon) * sum(map(sqrt, [*used, 1 / epochs])) ** 2


def one_level(epochs: int, changes: int, epsilon: float) -> float:
    """Compute the law of answers about all intervals of one level, one change of k kept.

    The first value counts as a change, so that k + 1 are possible; a user keeps one, at random, and
    answers a fair coin about all other intervals: the loss of all answers together is epsilon.
    Levels are divided over users as is best on average over epochs.
    """
    used = [0.5] * round(log2(epochs)) + [1 / epochs]
    scale = (changes + 1) ** 2
    return 4 * law_of_a_bit(epsilon) * scale * sum(map(sqrt, used)) ** 2


def least_square(paths_: Reals, squares: list[Reals], steps: int = 400) -> float:
    """Compute N of the best code among those whose |y|^2 is a weighted sum of quadratic forms.

    Args:
        paths_: of -1 and 1, all that are allowed, shape (paths, T).
        squares: forms that add up to the unit matrix, each a projection.
        steps: of the method of Frank and Wolfe.

    Returns:
        Mean over epochs, by duality a lower bound: (sum over forms of sqrt(rank x mean))^2 / T for
        the distribution of paths that was found.
    """
    energies = np.array([np.einsum("ij,jk,ik->i", paths_, form, paths_) for form in squares]).T
    ranks = np.array([np.trace(form) for form in squares])
    mix = np.full(len(paths_), 1 / len(paths_))
    for step in range(steps):
        weights = np.sqrt(ranks / np.maximum(mix @ energies, 1e-12))
        worst, part = int(np.argmax(energies @ weights)), 2 / (step + 20)
        mix *= 1 - part
        mix[worst] += part
    return float(np.sqrt(ranks * (mix @ energies)).sum() ** 2 / paths_.shape[1])


def best_of_all(paths_: Reals, steps: int = 400) -> float:
    """Compute the same over all linear codes: (trace of the root of E[x x^T])^2 / T."""
    mix = np.full(len(paths_), 1 / len(paths_))
    for step in range(steps):
        values, vectors = np.linalg.eigh((paths_.T * mix) @ paths_)
        roots = np.sqrt(np.maximum(values, 1e-12))
        coded = paths_ @ (vectors / np.sqrt(roots))
        worst, part = int(np.argmax(np.square(coded).sum(axis=1))), 2 / (step + 20)
        mix *= 1 - part
        mix[worst] += part
    return float(roots.sum() ** 2 / paths_.shape[1])


def codes_for_one_change(epochs: int) -> tuple[float, float, float]:
    """Compute N for one change of the discounted changes, of dyadic averages and of the best."""
    steps = np.array([np.where(np.arange(epochs) < t, -1.0, 1.0) for t in range(epochs)])
    averages = [
        np.kron(np.eye(epochs >> h), np.full((1 << h, 1 << h), 0.5**h))
        for h in range(round(log2(epochs)) + 1)
    ]
    levels = [finer - coarser for finer, coarser in pairwise(averages)]
    dyadic = least_square(steps, [*levels, averages[-1]])
    code = DiscountedChanges.of(epochs, Fraction(1))
    own = float(np.square(code.weights).sum(axis=1).mean()) * float(code.length) ** 2
    return own, dyadic, best_of_all(steps)


def main(arguments: list[str] | None = None) -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 epochs, k = 0 and 1, few trials")
    parser.add_argument("--trials", type=int, default=16, help="2 or more")
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--epsilon", default="1")
    given = parser.parse_args(arguments)
    epochs, changes = EPOCHS, CHANGES
    if given.quick:
        epochs, changes = (8,), (0, 1)
        given.trials, given.users = min(given.trials, 2), min(given.users, 500)
    print(f"{given.users} users, epsilon {given.epsilon} in all, {given.trials} trials")
    print("   T   k  way             n MSE    +-    law  covered  width   nats  s/trial")
    for size in epochs:
        for count in changes:
            laws = {"trend": law_of_trend(size, count, float(given.epsilon))}
            for row in measured(size, count, given):
                law = f"{laws[row.way]:5.1f}" if row.way in laws else "     "
                print(
                    f"{size:4} {count:3}  {row.way:13} {row.scaled:7.1f} {row.error:6.1f} {law}"
                    f"  {row.covered:7.2f}  {row.width:.3f}  {row.loss:.3f}  {row.seconds:7.2f}",
                    flush=True,
                )
    print("\nby formula: the greatest k at which trend has less variance than the best fresh split")
    print("   T  epsilon  n var, fresh (epochs per user)  trend at k = 0, 1, 3, 10   wins to k =")
    for size in epochs:
        for epsilon in (0.5, 1.0, 2.0, 4.0):
            least, each = law_of_fresh(size, epsilon)
            own = "  ".join(f"{law_of_trend(size, k, epsilon):6.2f}" for k in (0, 1, 3, 10))
            print(
                f"{size:4}  {epsilon:7}  {least:12.2f} ({each:2})                {own}"
                f"   {crossing(size, epsilon):4}"
            )
    print("\nfor one change: N of codes, and n var at epsilon 1 of what was considered")
    print("   T  discounted  dyadic averages  best linear code | one interval  one level  trend")
    for size in epochs:
        discounted, dyadic, best = codes_for_one_change(size)
        print(
            f"{size:4}  {discounted:10.2f}  {dyadic:15.2f}  {best:16.2f} |"
            f" {one_dyadic_interval(size, 1.0):12.1f}  {one_level(size, 1, 1.0):9.1f}"
            f"  {law_of_trend(size, 1, 1.0):5.1f}"
        )


if __name__ == "__main__":
    main()
