"""Repeated studies of drifting values: coverage of the joint intervals, charges, and reuse.

    python benchmarks/epochs.py --trials 200

Users have one of two labels. Between two epochs each of them changes to "yes" with probability .1
and back with .05. A trial asks four epochs; an epoch is covered if all its intervals contain the
true shares, and a trial if all its epochs are.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import frequency
from askance_aggregator.queries import EncodedColumns
from askance_aggregator.studies.study import Study
from askance_client.queries import Category, Schema
from askance_simulation.experiments import EpochSeries, simulate_epochs
from askance_simulation.populations import Population

SCHEMA = Schema("answers", 1, answer=Category(("yes", "no")))
START, COMES, GOES = 0.25, 0.10, 0.05
EVERY_DAYS = 7

People = Callable[[int], Population]


def labels(users: int, epochs: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw every user's label in every epoch: 0 is yes."""
    draws = np.random.default_rng(seed)
    now = np.where(draws.random(users) < START, 0, 1)
    found = [now]
    for _ in range(1, epochs):
        chance = np.where(now == 1, COMES, GOES)
        now = np.where(draws.random(users) < chance, 1 - now, now)
        found.append(now)
    return [each.astype(np.int64) for each in found]


def people_of(answers: list[NDArray[np.int64]]) -> People:
    """Return the users' records by epoch."""

    def people(epoch: int) -> Population:
        values = answers[epoch]

        def columns(start: int, stop: int) -> EncodedColumns:
            present = np.ones(stop - start, np.bool_)
            return EncodedColumns({"answer": values[start:stop]}, {"answer": present}, stop - start)

        return Population(f"drifting answers, epoch {epoch}", SCHEMA, len(values), columns)

    return people


def study_of(epsilon: str) -> Study:
    """Return the study of an epoch."""
    return Study(frequency(SCHEMA.answer), SCHEMA, epsilon=epsilon)


def covered(series: EpochSeries, answers: list[NDArray[np.int64]]) -> list[bool]:
    """Return for each epoch whether all its intervals contain the true shares."""
    found = []
    for epoch, values in zip(series.epochs, answers, strict=True):
        truth = {"yes": float(np.mean(values == 0)), "no": float(np.mean(values == 1))}
        found.append(all(row.low <= truth[row.name] <= row.high for row in epoch.rows))
    return found


def main() -> None:
    """Print coverage per epoch and over all, and the charges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--users", type=int, default=150)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--epsilon", default="1")
    given = parser.parse_args()
    study = study_of(given.epsilon)
    by_epoch, whole, reused, wrong = [0] * given.epochs, 0, 0, 0
    widths = []
    for trial in range(given.trials):
        answers = labels(given.users, given.epochs, trial)
        series = simulate_epochs(
            study, people_of(answers), every_days=EVERY_DAYS, epochs=given.epochs, seed=trial
        )
        held = covered(series, answers)
        by_epoch = [count + one for count, one in zip(by_epoch, held, strict=True)]
        whole += all(held)
        reused += sum(epoch.outcome.reused for epoch in series.epochs)
        for ledger in series.ledgers.values():
            wrong += sum(1 for _ in ledger.history()) != given.epochs
        widths += [row.high - row.low for epoch in series.epochs for row in epoch.rows]
    trials = given.trials
    shares = ", ".join(f"{count / trials:.3f}" for count in by_epoch)
    print(f"{trials} trials of {given.epochs} epochs, {given.users} users, epsilon {given.epsilon}")
    print(f"covered per epoch: {shares}; all epochs of a trial: {whole / trials:.3f}")
    print(f"mean width of an interval: {np.mean(widths):.3f}")
    print(f"reused answers: {reused}; users without one fresh charge per epoch: {wrong}")


if __name__ == "__main__":
    main()
