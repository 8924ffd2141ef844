"""All columns of a file by the plain command: each learner beside the constant.

What is run is `askance simulate LEARNER --data FILE --label LABEL --epsilon E --fleet columns` with
nothing set: the fields, bins and rounds are those that the learner takes by itself. Regressions
have no label; they predict `--target`. Trials differ in coins, in the order of the users and in the
rows that are held out. `--against` compares with rows of an earlier run, and marks a cell (*) that
is worse by more than two standard errors of the difference.

    python benchmarks/all_columns.py shared/data/adult.csv [--label income]
        [--target hours_per_week] [--learners naive-bayes ...] [--epsilons 1 4] [--trials 20]
        [--users N] [--out rows.jsonl] [--against before.jsonl]

To measure another checkout, set PYTHONPATH to it. Without the file nothing is measured, and that is
no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter
from typing import Any

import askance as ask

CLASSIFIERS = (
    "naive-bayes",
    "perceptron",
    "decision-tree",
    "logistic-regression",
    "linear-svm",
)
REGRESSIONS = ("linear-regression", "ridge-regression", "huber-regression")
ALLOWED = 0.01  # above the constant's error


@dataclass(frozen=True, slots=True)
class Row:
    """A learner on all columns at an epsilon.

    Args:
        learner: its name.
        epsilon: each user's whole budget.
        users: how many.
        error: on rows that belong to no user, the mean of the trials.
        deviation: standard error of that mean; 0 of one trial.
        baseline: the constant's error, the mean of the trials.
        trials: how many.
        seconds: of all trials.
    """

    learner: str
    epsilon: float
    users: int
    error: float
    deviation: float
    baseline: float
    trials: int
    seconds: float

    @property
    def above(self) -> bool:
        """Return whether the mean error is above the constant's by more than is allowed."""
        return self.error > self.baseline + ALLOWED

    def worse_than(self, other: Row) -> bool:
        """Return whether the error is greater by more than two standard errors."""
        return self.error - other.error > 2 * sqrt(self.deviation**2 + other.deviation**2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a learner is above the constant's error, or worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="a file with a header line")
    parser.add_argument("--label", default="income", help="what classifiers predict")
    parser.add_argument("--target", default="hours_per_week", help="what regressions predict")
    parser.add_argument("--learners", nargs="+", default=[*CLASSIFIERS, *REGRESSIONS])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1, 4])
    parser.add_argument("--users", type=int, help="rows that are drawn; default: the file's own")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a row per line, as JSON, is appended")
    parser.add_argument("--against", type=Path, help="rows of another run")
    given = parser.parse_args(arguments)
    if not given.file.exists():
        print(f"{given.file} is not there: nothing is measured", file=sys.stderr)
        return 0
    before = {} if given.against is None else read(given.against)
    failed = False
    for row in measured(given):
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")
        earlier = before.get((row.learner, row.epsilon))
        print(line(row, earlier), flush=True)
        failed |= row.above or (earlier is not None and row.worse_than(earlier))
    return int(failed)


def measured(given: argparse.Namespace) -> Iterator[Row]:
    """Measure every learner at every epsilon."""
    for learner in given.learners:
        regression = learner in REGRESSIONS
        for epsilon in given.epsilons:
            chosen: dict[str, str] = {"target": given.target} if regression else {}
            named = ask.named(
                learner,
                data=given.file,
                label=None if regression else given.label,
                epsilon=str(epsilon),
                users=given.users,
                settings=chosen,
            )
            yield measure(named, epsilon, given.trials, given.seed)


def measure(named: Any, epsilon: float, trials: int, seed: int) -> Row:
    """Run the trials of one study."""
    began = perf_counter()
    result = ask.simulate(
        named.study, named.people, fleet="columns", seed=seed, trials=trials, workers=1
    )
    judged = [trial.assessment for trial in result.trials]
    errors = [one.error for one in judged if one.error is not None]
    baselines = [one.baseline for one in judged if one.baseline is not None]
    return Row(
        result.study.learner.name,
        epsilon,
        result.trials[0].population.size,
        mean(errors),
        stdev(errors) / sqrt(len(errors)) if len(errors) > 1 else 0.0,
        mean(baselines),
        trials,
        perf_counter() - began,
    )


def read(file: Path) -> dict[tuple[str, float], Row]:
    """Return the rows of an earlier run by learner and epsilon; the last of equals."""
    rows: Iterable[Row] = (Row(**json.loads(text)) for text in file.read_text().splitlines())
    return {(row.learner, row.epsilon): row for row in rows}


def line(row: Row, earlier: Row | None) -> str:
    """Format a row as one of a Markdown table."""
    told = "" if earlier is None else f" {earlier.error:.3f} +- {earlier.deviation:.3f} |"
    mark = "*" if earlier is not None and row.worse_than(earlier) else ""
    high = "!" if row.above else ""
    return (
        f"| {row.learner} | {row.epsilon:g} |{told} {row.error:.3f} +- {row.deviation:.3f}"
        f"{mark}{high} | {row.baseline:.3f} | {row.trials} | {row.seconds:.0f} s |"
    )


if __name__ == "__main__":
    raise SystemExit(main())
