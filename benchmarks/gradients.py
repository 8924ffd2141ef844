"""Models by gradients: many trials, with the noise of every answer drawn at once.

A trial is settled for its users as a study is, and then follows the learner's steps on numbers: a
round's gradient is the mean over users of its own, an even part of a random order of the records,
with residuals clipped as the learner does. A normal error of the planned variance (`n_variance`,
here of the random codebook) stands for one report per user; a part has hundreds of users at least,
and `adult.py`, `adult_hours.py` and the plain command run the same studies report by report.
"exact" is the learner itself with exact answers. tests/benchmarks compares both descents.

    python benchmarks/gradients.py shared/data [--only adult hours pima columns plans large]
        [--trials 20] [--json]

`shared/data` has adult.csv and pima_indians_diabetes.csv; without them nothing is
measured, and that is no failure.

- adult: accuracy by the seven fields of `adult.py`, held-out rows.
- hours: 1 - R^2 of hours_per_week by the columns of `adult_hours.py` (11 features) and by all
  seven fields and the label (25 features).
- pima: error of logistic regression, 10^5 users drawn from four fifths of the records; the split
  is another in every trial, and the same for scikit-learn. Bounds are usual ranges of such
  measurements, and not taken from the records; more is clamped.
- columns: all columns of Adult, schema inferred, settings by users and noise.
- plans: users that a plan asks for when no population is given, and the figure with 1/4 of them,
  all, and 4 times as many.
- large: logistic regression with 10^7 users; only if it is asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from adult import SCHEMA, adults, scikit_learn
from adult_hours import COLUMNS, TARGET
from gradient_descents import (
    CLASSIFIERS,
    LOSSES,
    Descent,
    Inputs,
    Numbers,
    features_and_inputs,
    limits,
)

import askance as ask
from askance_aggregator.learners import (
    Learner,
    huber_regression,
    linear_regression,
    linear_svm,
    logistic_regression,
    ridge_regression,
)
from askance_aggregator.learners.encodings import numbers_of
from askance_aggregator.learners.glm_gradients import Features
from askance_aggregator.learners.linear_classifiers import coordinates_of
from askance_aggregator.learners.rows import features_of, some_fields
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import plan_batch, rehearse
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.queries import Category, Integer, Label, Real, Schema
from askance_simulation.populations import people_of, read_file
from askance_simulation.randomness import Seed

ADULT = "adult.csv"
PIMA_FILE = "pima_indians_diabetes.csv"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
PIMA = Schema(
    "pima",
    1,
    pregnancies=Integer(0, 12),
    glucose=Integer(50, 200),
    blood_pressure=Integer(30, 110),
    skin_thickness=Integer(0, 60),
    insulin=Integer(0, 400),
    bmi=Real(15, 50),
    pedigree=Real(0, Fraction(3, 2)),
    age=Integer(18, 70),
    diabetes=Label(["0", "1"]),
)
WIDE = tuple(name for name in SCHEMA.fields if name != TARGET)


@dataclass(frozen=True, slots=True)
class Row:
    """A learner on users at an epsilon; `measure` is an error or an accuracy.

    Args:
        section: of the tables.
        learner: its name, and its columns where there are several choices.
        users: how many.
        epsilon: each user's whole budget.
        local: mean of the trials; deviation: their standard deviation, 0 of one.
        trials: how many.
        exact: the same learner with exact answers; None: not measured.
        scikit_learn: not private; None: not measured.
        constant: of a constant guess.
        rounds: how many; weights: how many with the fields that were chosen.
        planned: users that a plan without a population asks for.
    """

    section: str
    learner: str
    users: int
    epsilon: float
    local: float
    deviation: float
    trials: int
    exact: float | None
    scikit_learn: float | None
    constant: float
    rounds: int
    weights: int
    planned: int

    def __str__(self) -> str:
        known = [("exact", self.exact), ("scikit-learn", self.scikit_learn)]
        known += [("constant", self.constant)]
        beside = ", ".join(f"{name} {value:.4f}" for name, value in known if value is not None)
        figure = f"{self.local:.4f} +- {self.deviation / sqrt(self.trials):.4f}"
        return (
            f"{self.section}: {self.learner} {self.users:,} users, eps {self.epsilon:g}: {figure}"
            f" ({beside}); {self.weights} weights, {self.rounds} rounds, {self.trials} trials;"
            f" planned {self.planned:,}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A learner on records, judged on others.

    Args:
        section, name: of the row.
        learner: what is asked for.
        schema: of the records.
        target: the label or the outcome.
        columns: the fields that it may use.
        split: of a trial: records that users are drawn from, and those that judge.
        constant: figure of a constant guess.
        peer: scikit-learn's figure.
        accurate: the figure is the accuracy of a classifier, and not its error.
        resplit: whether trials have splits of their own.
    """

    section: str
    name: str
    learner: Learner[Any]
    schema: Schema
    target: str
    columns: Sequence[str]
    split: Callable[[int], tuple[EncodedColumns, EncodedColumns]]
    constant: float
    peer: float | None
    accurate: bool = False
    resplit: bool = False

    @cache  # noqa: B019  - tasks are few and live as long as the program
    def exact(self, trial: int) -> float:
        """Return the figure of the learner itself with the records' exact answers."""
        records, judges = self.split(trial)
        model = learn(self.learner, ExactOracle(self.schema, records))
        weights = np.asarray(model.weights)
        return self.figure(weights, self._inputs(self.columns, judges)[1])

    def figure(self, weights: Numbers, judges: Inputs) -> float:
        """Return the accuracy or the error of weights."""
        scores = judges.x @ weights
        if self.learner.name in CLASSIFIERS:
            right = float(((scores > 0) == (judges.outcome > 0)).mean())
            return right if self.accurate else 1 - right
        return float(np.square(scores - judges.outcome).mean() / judges.outcome.var())

    def row(self, epsilon: float, trials: int, users: int | None = None) -> Row:
        """Measure a row; users None: the records themselves."""
        study = ask.Study(self.learner, self.schema, epsilon=epsilon)
        size = self.split(0)[0].rows if users is None else users
        settled = study.settled(size)
        descent, columns = descent_of(settled, epsilon), _chosen(settled, self.columns)
        known = {trial: self._numbers(columns, trial) for trial in range(1)}
        figures = []
        for trial in range(trials):
            if self.resplit:
                known = {trial: self._numbers(columns, trial)}
            features, records, judges, rows = known[trial if self.resplit else 0]
            limit = limits(features, Fraction(settled.parameters["clip"]), rows)
            rng = np.random.default_rng([trial, size, round(epsilon * 1000)])
            order = rng.permutation(size) if users is None else rng.integers(rows.rows, size=size)
            figures.append(self.figure(descent.weights(records, limit, order, rng), judges))
        exact = [self.exact(trial) for trial in range(trials if self.resplit else 1)]
        return Row(
            self.section,
            self.name,
            size,
            epsilon,
            mean(figures),
            stdev(figures) if trials > 1 else 0.0,
            trials,
            mean(exact),
            self.peer,
            self.constant,
            descent.rounds,
            len(records.x[0]),
            study.plan().users_needed,
        )

    def _inputs(self, columns: Sequence[str], rows: EncodedColumns) -> tuple[Features, Inputs]:
        return features_and_inputs(self.learner.name, self.schema, self.target, columns, rows)

    def _numbers(
        self, columns: Sequence[str], trial: int
    ) -> tuple[Features, Inputs, Inputs, EncodedColumns]:
        rows, judges = self.split(trial)
        features, inputs = self._inputs(columns, rows)
        return features, inputs, self._inputs(columns, judges)[1], rows


def descent_of(settled: Learner[Any], epsilon: float) -> Descent:
    """Return the descent of a learner whose settings are known; it must conclude its model."""
    chosen = settled.parameters
    if chosen["decide"] != "model":
        raise SystemExit(f"expected a learner that concludes its model, found {chosen['decide']}")
    planned = plan_batch(rehearse(settled)[0], round(epsilon * 10**9), 0.01)
    return Descent(
        LOSSES[settled.name],
        int(chosen["rounds"]),
        float(Fraction(chosen["rate"])),
        float(Fraction(chosen["clip"])),
        float(Fraction(chosen.get("penalty", "0"))),
        planned.n_variance,
    )


def _chosen(settled: Learner[Any], columns: Sequence[str]) -> list[str]:
    named = settled.parameters.get("columns")
    return (
        list(columns) if named is None else [name for name in columns if name in named.split(",")]
    )


def of_adult(path: Path, learners: Sequence[str]) -> Iterator[Task]:
    """Generate the classifiers on the seven fields."""
    people = adults(path, 0)
    rows, unseen = people.columns(0, people.size), _unseen(people)
    share = float(np.mean(unseen.values["income"]))
    made = {"logistic-regression": logistic_regression, "linear-svm": linear_svm}
    for name in learners:
        yield Task(
            "adult",
            name,
            made[name](SCHEMA),
            SCHEMA,
            "income",
            [field for field in SCHEMA.fields if field != "income"],
            lambda trial: (rows, unseen),
            max(share, 1 - share),
            scikit_learn(name, rows, unseen),
            accurate=True,
        )


def of_hours(path: Path) -> Iterator[Task]:
    """Generate linear regression of the hours, by few columns and by all."""
    from sklearn.linear_model import LinearRegression

    people = adults(path, 0)
    rows, unseen = people.columns(0, people.size), _unseen(people)
    for columns in (COLUMNS, WIDE):
        numbers = numbers_of(some_fields(SCHEMA, columns))

        def features(part: EncodedColumns, numbers: Any = numbers) -> Any:
            return np.stack([number.of(part) for number in numbers], axis=1)

        fitted = LinearRegression().fit(features(rows), rows.values[TARGET])
        truth = np.asarray(unseen.values[TARGET], dtype=np.float64)
        least = np.square(fitted.predict(features(unseen)) - truth).mean() / truth.var()
        yield Task(
            "hours",
            f"linear-regression by {len(numbers)} columns",
            linear_regression(SCHEMA, TARGET, columns),
            SCHEMA,
            TARGET,
            [field for field in SCHEMA.fields if field in columns],
            lambda trial: (rows, unseen),
            1.0,
            float(least),
        )


def of_pima(path: Path, trials: int) -> Iterator[Task]:
    """Generate logistic regression on Pima, with another split in every trial."""
    from sklearn.linear_model import LogisticRegression

    table = np.genfromtxt(path, delimiter=",", names=True)
    names = list(PIMA.fields)
    label = names[-1]

    @cache
    def split(trial: int) -> tuple[EncodedColumns, EncodedColumns]:
        order = np.random.default_rng(1000 + trial).permutation(len(table))
        parts = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]
        first, last = (encode_columns(PIMA, _columns(table[part], names)) for part in parts)
        return first, last

    coordinates = coordinates_of(features_of(PIMA, label))

    def inputs(rows: EncodedColumns) -> Any:
        return np.concatenate([item.values(rows) for item in coordinates], axis=1)

    peers, constants = [], []
    for trial in range(trials):
        rows, judges = split(trial)
        fitted = LogisticRegression(max_iter=2000).fit(inputs(rows), rows.values[label])
        peers.append(1 - fitted.score(inputs(judges), judges.values[label]))
        constants.append(float(np.mean(judges.values[label])))
    yield Task(
        "pima",
        "logistic-regression",
        logistic_regression(PIMA),
        PIMA,
        label,
        names[:-1],
        split,
        mean(constants),
        mean(peers),
        resplit=True,
    )


def of_columns(path: Path) -> Iterator[Task]:
    """Generate all learners on all columns, the regressions on all numbers."""
    people = people_of(read_file(path), Seed.of(0), label="income", held_out=Fraction(1, 5))
    schema = people.schema
    rows, unseen = people.columns(0, people.size), _unseen(people)
    share = float(np.mean(unseen.values["income"]))

    kinds = {name: kind for name, kind in schema.fields.items() if name != "income"}
    numbers = [name for name, kind in kinds.items() if not isinstance(kind, Category)]
    constant = min(share, 1 - share)
    fields = [field for field in schema.fields if field != "income"]
    made: list[tuple[Learner[Any], Sequence[str], float]] = [
        (logistic_regression(schema), fields, constant),
        (linear_svm(schema), fields, constant),
        (linear_regression(schema, columns=numbers), numbers, 1.0),
        (ridge_regression(schema, columns=numbers), numbers, 1.0),
        (huber_regression(schema, columns=numbers), numbers, 1.0),
    ]
    for learner, columns, least in made:
        yield Task(
            "columns",
            learner.name,
            learner,
            schema,
            "income",
            columns,
            lambda trial: (rows, unseen),
            least,
            None,
        )


def adult(data: Path, trials: int) -> Iterator[Row]:
    """Generate the rows of the seven fields."""
    for task in of_adult(data / ADULT, CLASSIFIERS):
        yield from (task.row(epsilon, trials) for epsilon in EPSILONS)
    for task in of_adult(data / ADULT, CLASSIFIERS[:1]):
        yield from (task.row(epsilon, trials, 10**6) for epsilon in EPSILONS[:3])


def hours(data: Path, trials: int) -> Iterator[Row]:
    """Generate the rows of the hours per week."""
    for task in of_hours(data / ADULT):
        for users in (None, 10**6):
            yield from (task.row(epsilon, trials, users) for epsilon in (1.0, 4.0))


def pima(data: Path, trials: int) -> Iterator[Row]:
    """Generate the rows of Pima."""
    for task in of_pima(data / PIMA_FILE, trials):
        yield from (task.row(epsilon, trials, 10**5) for epsilon in EPSILONS)


def columns(data: Path, trials: int) -> Iterator[Row]:
    """Generate the rows of all columns."""
    for task in of_columns(data / ADULT):
        yield from (task.row(epsilon, trials) for epsilon in (1.0, 4.0))


def plans(data: Path, trials: int) -> Iterator[Row]:
    """Generate rows with a quarter, one and four times the users of a plan."""
    for task in (*of_adult(data / ADULT, CLASSIFIERS[:1]), *of_hours(data / ADULT)):
        for epsilon in (1.0, 4.0):
            study = ask.Study(task.learner, SCHEMA, epsilon=epsilon)
            wanted = study.plan().users_needed
            sizes = (wanted // 4, wanted, 4 * wanted)
            yield from (task.row(epsilon, trials, size) for size in sizes)


def large(data: Path, trials: int) -> Iterator[Row]:
    """Generate the row of 10^7 users."""
    for task in of_adult(data / ADULT, CLASSIFIERS[:1]):
        yield task.row(1.0, trials, 10**7)


def _columns(table: Any, names: Sequence[str]) -> dict[str, Any]:
    columns: dict[str, Any] = {name: table[name].tolist() for name in names[:-1]}
    for name, kind in PIMA.fields.items():
        if isinstance(kind, Integer):
            columns[name] = table[name].astype(int).tolist()
    columns[names[-1]] = [str(int(value)) for value in table[names[-1]]]
    return columns


def _unseen(people: Any) -> EncodedColumns:
    if people.unseen is None:
        raise SystemExit("expected rows that are held out, found none: the file is too short")
    unseen: EncodedColumns = people.unseen(1 << 20)
    return unseen


SECTIONS: dict[str, Callable[[Path, int], Iterator[Row]]] = {
    "adult": adult,
    "hours": hours,
    "pima": pima,
    "columns": columns,
    "plans": plans,
    "large": large,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="folder of the data files")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS)[:5])
    parser.add_argument("--trials", type=int, default=20, metavar="T", help="per figure (20)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    given = parser.parse_args(arguments)
    if not all((given.data / name).exists() for name in (ADULT, PIMA_FILE)):
        print('{"rows": []}' if given.json else "all was left out: the data files are not there")
        return 0
    table = []
    for name in given.only:
        for row in SECTIONS[name](given.data, given.trials):
            table.append(asdict(row))
            print(row, file=sys.stderr if given.json else sys.stdout, flush=True)
    if given.json:
        print(json.dumps({"rows": table}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
