"""Models by gradients: many trials, with the noise of every answer drawn at once.

A trial runs the learner as a study would: settled for its users, each question asked of users of
its own, an even part of a random order of the records. The mean of their exact answers gets a
normal error of the planned variance (`n_variance`, here of the random codebook) in place of one
report per user; a part has hundreds of users at least, and `adult.py`, `adult_hours.py` and
`adult_columns.py` run the same studies report by report. A trial of 10^6 users takes seconds.

    python benchmarks/gradients.py shared/data [--only adult hours pima columns plans large]
        [--trials 20] [--json]

`shared/data` has adult.csv and pima_indians_diabetes.csv; without them nothing is
measured, and that is no failure.

- adult: accuracy by the seven fields of `adult.py`, held-out rows.
- hours: 1 - R^2 of hours_per_week by the columns of `adult_hours.py` (11 features) and by all
  seven fields and the label (25 features).
- pima: error of logistic regression, 10^5 users drawn from four fifths of the records; the split
  is another in every trial, and the same for scikit-learn.
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
from adult import SCHEMA, accuracy, adults, scikit_learn
from adult_hours import COLUMNS, TARGET, error

import askance as ask
from askance_aggregator.curator.oracle import step_of, totals
from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    Learner,
    huber_regression,
    linear_regression,
    linear_svm,
    logistic_regression,
    ridge_regression,
)
from askance_aggregator.learners.encodings import numbers_of
from askance_aggregator.learners.linear_classifiers import coordinates_of
from askance_aggregator.learners.rows import features_of
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import plan_batch, rehearse
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.queries import Integer, Label, Real, Schema
from askance_simulation.populations import people_of, read_file
from askance_simulation.randomness.seeds import Seed

ADULT = "adult.csv"
PIMA_FILE = "pima_indians_diabetes.csv"
CLASSIFIERS = ("logistic-regression", "linear-svm")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_BETA = 0.01
PIMA = Schema(
    "pima",
    1,
    pregnancies=Integer(0, 20),
    glucose=Integer(0, 200),
    blood_pressure=Integer(0, 140),
    skin_thickness=Integer(0, 100),
    insulin=Integer(0, 900),
    bmi=Real(0, 70),
    pedigree=Real(0, Fraction(5, 2)),
    age=Integer(18, 90),
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
        rounds: how many, and decide: the decision before any user is asked.
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
    decide: str
    planned: int

    def __str__(self) -> str:
        known = [("exact", self.exact), ("scikit-learn", self.scikit_learn)]
        known += [("constant", self.constant)]
        beside = ", ".join(f"{name} {value:.4f}" for name, value in known if value is not None)
        figure = f"{self.local:.4f} +- {self.deviation / sqrt(self.trials):.4f}"
        return (
            f"{self.section}: {self.learner} {self.users:,} users, eps {self.epsilon:g}: {figure}"
            f" ({beside}); {self.decide}, {self.rounds} rounds, {self.trials} trials;"
            f" planned {self.planned:,}"
        )


class NormalParts:
    """Oracle of the mean over parts of the users, each asked once, with a normal error.

    Args:
        rows: the users' records, in the order in which they are asked.
        epsilon: each user's whole budget.
        questions: of the whole study.
        rng: of the errors.
    """

    def __init__(
        self, rows: EncodedColumns, epsilon: float, questions: int, rng: np.random.Generator
    ) -> None:
        self._rows, self._size, self._used = rows, rows.rows // questions, 0
        self._epsilon, self._rng = epsilon, rng
        self._variances: dict[tuple[Any, ...], float] = {}

    def answer(self, batch: Batch) -> Answers:
        """Answer each question by the next part."""
        answers = []
        for question in batch.questions:
            part = self._rows.take(slice(self._used, self._used + self._size))
            self._used += self._size
            key = (question.query.kind, question.values, question.length)
            if key not in self._variances:
                made = plan_batch(Batch([question]), round(self._epsilon * 10**9), _BETA)
                self._variances[key] = made.n_variance
            exact = totals(question, part) * float(step_of(question)) / self._size
            spread = sqrt(self._variances[key] / self._size)
            values = tuple((exact + self._rng.normal(0, spread, len(exact))).tolist())
            answers.append(Answer(values, values, values))
        return tuple(answers)


Figure = Callable[[Any, EncodedColumns], float]


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A learner on records, judged on others.

    Args:
        section, name: of the row.
        learner: what is asked for.
        schema: of the records.
        split: of a trial: records that users are drawn from, and those that judge.
        figure: of a hypothesis on records.
        constant: figure of a constant guess.
        peer: scikit-learn's figure.
        resplit: whether trials have splits of their own.
    """

    section: str
    name: str
    learner: Learner[Any]
    schema: Schema
    split: Callable[[int], tuple[EncodedColumns, EncodedColumns]]
    figure: Figure
    constant: float
    peer: float | None
    resplit: bool = False

    @cache  # noqa: B019  - tasks are few and live as long as the program
    def exact(self, trial: int) -> float:
        """Return the figure with the records' exact answers."""
        records, judges = self.split(trial)
        return self.figure(learn(self.learner, ExactOracle(self.schema, records)), judges)

    def row(self, epsilon: float, trials: int, users: int | None = None) -> Row:
        """Measure a row; users None: the records themselves."""
        study = ask.Study(self.learner, self.schema, epsilon=epsilon)
        size = self.split(0)[0].rows if users is None else users
        settled = study.settled(size)
        questions = sum(len(batch.questions) for batch in rehearse(settled))
        figures = []
        for trial in range(trials):
            records, judges = self.split(trial)
            rng = np.random.default_rng([trial, size, round(epsilon * 1000)])
            drawn = (
                rng.permutation(size) if users is None else rng.integers(records.rows, size=size)
            )
            oracle = NormalParts(records.take(drawn), epsilon, questions, rng)
            figures.append(self.figure(learn(settled, oracle), judges))
        return Row(
            self.section,
            self.name,
            size,
            epsilon,
            mean(figures),
            stdev(figures) if trials > 1 else 0.0,
            trials,
            mean(self.exact(trial) for trial in range(trials if self.resplit else 1)),
            self.peer,
            self.constant,
            questions,
            settled.parameters["decide"],
            study.plan().users_needed,
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
            lambda trial: (rows, unseen),
            accuracy,
            max(share, 1 - share),
            scikit_learn(name, rows, unseen),
        )


def of_hours(path: Path) -> Iterator[Task]:
    """Generate linear regression of the hours, by few columns and by all."""
    from sklearn.linear_model import LinearRegression

    from askance_aggregator.learners.rows import some_fields

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
            lambda trial: (rows, unseen),
            error,
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
        split,
        lambda hypothesis, rows: 1 - _accuracy(hypothesis, rows, label),
        mean(constants),
        mean(peers),
        resplit=True,
    )


def of_columns(path: Path) -> Iterator[Task]:
    """Generate all learners on all columns, as the plain command sets them up."""
    people = people_of(read_file(path), Seed.of(0), label="income", held_out=Fraction(1, 5))
    schema = people.schema
    rows, unseen = people.columns(0, people.size), _unseen(people)
    share = float(np.mean(unseen.values["income"]))

    def wrong(hypothesis: Any, part: EncodedColumns) -> float:
        return 1 - _accuracy(hypothesis, part, "income")

    def unexplained(hypothesis: Any, part: EncodedColumns) -> float:
        truth = np.asarray(part.values["income"], dtype=np.float64)
        return float(np.square(hypothesis.predict(part) - truth).mean() / truth.var())

    made: dict[str, tuple[Learner[Any], Figure, float]] = {
        "logistic-regression": (logistic_regression(schema), wrong, min(share, 1 - share)),
        "linear-svm": (linear_svm(schema), wrong, min(share, 1 - share)),
        "linear-regression": (linear_regression(schema), unexplained, 1.0),
        "ridge-regression": (ridge_regression(schema), unexplained, 1.0),
        "huber-regression": (huber_regression(schema), unexplained, 1.0),
    }
    for name, (learner, figure, constant) in made.items():
        yield Task(
            "columns",
            name,
            learner,
            schema,
            lambda trial: (rows, unseen),
            figure,
            constant,
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


def _accuracy(hypothesis: Any, rows: EncodedColumns, label: str) -> float:
    truth = hypothesis.classes_[rows.values[label]]
    return float((hypothesis.predict(rows) == truth).mean())


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
