"""Adult with all columns, by the plain command: learners beside a constant guess.

Every figure is of the command that a person would type, with no setting but epsilon:

    askance simulate LEARNER --data adult.csv --label income --epsilon E --fleet columns

The schema is inferred from the file, the fields are chosen by users and noise, and a fifth of the
rows is held out. An error is that of the learner: wrong labels for classifiers, 1 - R^2 for
regressions (of the label, as 0 and 1, by the six numbers). A figure holds if its mean is at most
the constant's error + .01.

    python benchmarks/adult_columns.py shared/data/adult.csv [--json] [--learners ...]
        [--epsilons 1 4] [--trials 20]

Without the file nothing is measured, and that is no failure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from time import perf_counter

LEARNERS = (
    "logistic-regression",
    "linear-svm",
    "linear-regression",
    "ridge-regression",
    "huber-regression",
)
SLACK = 0.01  # over the constant's error


@dataclass(frozen=True, slots=True)
class Row:
    """A learner at an epsilon.

    Args:
        learner: its name.
        epsilon: each user's whole budget.
        users: how many.
        constant: error of a constant guess.
        error: mean of the trials; deviation: their standard deviation, 0 of one.
        most: the greatest.
        trials: how many.
        rounds: of a trial.
        seconds: of the command.
    """

    learner: str
    epsilon: float
    users: int
    constant: float
    error: float
    deviation: float
    most: float
    trials: int
    rounds: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Return whether the mean is at most the constant's error and the slack."""
        return self.error <= self.constant + SLACK

    def __str__(self) -> str:
        spread = self.deviation / sqrt(self.trials)
        shown = f"{self.learner} eps {self.epsilon:g}: {self.error:.4f} +- {spread:.4f}"
        rest = f"constant {self.constant:.4f}, worst {self.most:.4f}, {self.rounds} rounds"
        return f"{shown} ({rest}, {self.trials} trials){'' if self.holds else ': does not hold'}"


def row(data: Path, learner: str, epsilon: float, trials: int) -> Row:
    """Run the command and read its trials."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trials.jsonl"
        command = [sys.executable, "-m", "askance", "simulate", learner, "--data", str(data)]
        command += ["--label", "income", "--epsilon", f"{epsilon:g}", "--fleet", "columns"]
        command += ["--trials", str(trials), "--out", str(out), "--json"]
        began = perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = perf_counter() - began
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
        told = json.loads(done.stdout)
        errors = [json.loads(line)["error"] for line in out.read_text().splitlines()]
    return Row(
        learner,
        epsilon,
        told["users"],
        told["baseline"],
        mean(errors),
        stdev(errors) if trials > 1 else 0.0,
        max(errors),
        trials,
        told["rounds"],
        seconds,
    )


def measure(
    data: Path, learners: Sequence[str], epsilons: Sequence[float], trials: int
) -> Iterator[Row]:
    """Generate a row per epsilon and learner."""
    for epsilon in epsilons:
        for learner in learners:
            yield row(data, learner, epsilon, trials)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="adult.csv, with a header line")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), metavar="NAME")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 4], metavar="E")
    parser.add_argument("--trials", type=int, default=20, metavar="T", help="per figure (20)")
    given = parser.parse_args(arguments)
    if not given.data.exists():
        print("Adult was left out: there is no such file" if not given.json else '{"rows": []}')
        return 0
    table = []
    for measured in measure(given.data, given.learners, given.epsilons, given.trials):
        table.append(measured)
        print(measured, file=sys.stderr if given.json else sys.stdout, flush=True)
    if given.json:
        rows = [{**asdict(each), "holds": each.holds} for each in table]
        print(json.dumps({"rows": rows}))
    return 0 if all(each.holds for each in table) else 1


if __name__ == "__main__":
    sys.exit(main())
