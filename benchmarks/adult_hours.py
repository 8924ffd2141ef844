"""Adult (census income): regressions of the hours worked per week in the local model.

The rows, users and held-out rows are those of `adult.py`. The features are age, education_num,
capital_gain, marital_status (six: one per label but the first), sex and income (one each): twelve
weights with the intercept. The figure is the mean squared error on held-out rows over that of their
mean outcome, 1 - R^2; scikit-learn's is that of least squares on the same features.

    python benchmarks/adult_hours.py shared/data/adult.csv [--json] [--users 0 1000000]
        [--epsilons 1 4] [--trials 5] [--learners linear-regression ...]

Users 0: the rows themselves. Without the file nothing is measured, and that is no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import numpy as np
from adult import SCHEMA, adults

import askance as ask
from askance_aggregator.learners import (
    Learner,
    huber_regression,
    linear_regression,
    ridge_regression,
)
from askance_aggregator.learners.encodings import numbers_of
from askance_aggregator.learners.rows import some_fields
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.queries import EncodedColumns

TARGET = "hours_per_week"
COLUMNS = ("age", "education_num", "capital_gain", "marital_status", "sex", "income")
LEARNERS: dict[str, Callable[[], Learner[Any]]] = {
    "linear-regression": lambda: linear_regression(SCHEMA, TARGET, COLUMNS),
    "ridge-regression": lambda: ridge_regression(SCHEMA, TARGET, COLUMNS),
    "huber-regression": lambda: huber_regression(SCHEMA, TARGET, COLUMNS),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A learner on a population at an epsilon; errors are 1 - R^2 on the held-out rows.

    Args:
        learner: its name.
        users: how many.
        epsilon: each user's whole budget.
        scikit_learn: not private, least squares on the rows.
        exact: this learner with the users' exact answers.
        local: mean of the trials; deviation: their standard deviation, 0 of one.
        rounds: how many.
        seconds: of all local trials.
    """

    learner: str
    users: int
    epsilon: float
    scikit_learn: float
    exact: float
    local: float
    deviation: float
    rounds: int
    seconds: float


def error(hypothesis: Any, rows: EncodedColumns) -> float:
    """Return the mean squared error over the outcome's variance."""
    truth = np.asarray(rows.values[TARGET], dtype=np.float64)
    return float(np.square(hypothesis.predict(rows) - truth).mean() / truth.var())


def scikit_learn(people: EncodedColumns, unseen: EncodedColumns) -> float:
    """Fit least squares on the same features, not private."""
    from sklearn.linear_model import LinearRegression

    numbers = numbers_of(some_fields(SCHEMA, COLUMNS))

    def features(rows: EncodedColumns) -> Any:
        return np.stack([number.of(rows) for number in numbers], axis=1)

    model = LinearRegression().fit(features(people), people.values[TARGET])
    truth = np.asarray(unseen.values[TARGET], dtype=np.float64)
    return float(np.square(model.predict(features(unseen)) - truth).mean() / truth.var())


def measure(
    path: Path,
    names: Sequence[str],
    users: Sequence[int],
    epsilons: Sequence[float],
    trials: int,
) -> Iterator[Row]:
    """Generate a row per learner, population and epsilon."""
    people = adults(path, 0)
    if people.unseen is None:
        raise SystemExit("expected rows that are held out, found none: the file is too short")
    rows, unseen = people.columns(0, people.size), people.unseen(1 << 20)
    least = scikit_learn(rows, unseen)
    for name in names:
        exact = error(learn(LEARNERS[name](), ExactOracle(SCHEMA, rows)), unseen)
        for size in users:
            crowd = adults(path, size)
            for epsilon in epsilons:
                began = perf_counter()
                study = ask.Study(LEARNERS[name](), SCHEMA, epsilon=epsilon)
                run = ask.simulate(study, crowd, fleet="columns", seed=1, trials=trials)
                found = [error(trial.outcome.hypothesis, unseen) for trial in run.trials]
                yield Row(
                    name,
                    crowd.size,
                    epsilon,
                    least,
                    exact,
                    mean(found),
                    stdev(found) if trials > 1 else 0.0,
                    run.trials[0].outcome.rounds,
                    perf_counter() - began,
                )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="adult.csv, with a header line")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--users", type=int, nargs="+", default=[0], metavar="N")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 4], metavar="E")
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--trials", type=int, default=5, metavar="T", help="per figure (5)")
    given = parser.parse_args(arguments)
    if not given.data.exists():
        print("Adult was left out: there is no such file" if not given.json else '{"rows": []}')
        return 0
    table = []
    for row in measure(given.data, given.learners, given.users, given.epsilons, given.trials):
        table.append(asdict(row))
        shown = f"{row.learner} {row.users:,} users, eps {row.epsilon:g}: {row.local:.3f}"
        note = (
            f"+- {row.deviation:.3f} (exact {row.exact:.3f}, scikit-learn {row.scikit_learn:.3f})"
        )
        print(shown, note, f"{row.rounds} rounds", file=sys.stderr if given.json else sys.stdout)
    if given.json:
        print(json.dumps({"rows": table}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
