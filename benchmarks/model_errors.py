"""Errors of every learner that makes a model, by epsilon and users, on data sets of scikit-learn.

Users are draws of a set's rows with replacement, and errors are over these rows: what is measured
is the price of privacy, and not what a model of few rows says of others. Bounds are those of the
set's values, rounded outward: a schema's would be public. A trial is settled and planned as a study
is, and runs the learner on answers drawn at once (`drawn_answers`); with `--reports` it runs report
by report. Learners of two classes tell the last class of iris and wine from the others, benign
tumours from malignant, and odd digits from even.

Errors are those of `askance simulate --list`: of principal components the variance lost, of
regressions 1 - R^2, which is a mean squared error over a variance, of clusters the variance within,
of classifiers wrong labels. Beside each stand that of the learner with exact answers, of
scikit-learn, and of the constant guess. A trial's draws are the same at every epsilon and number of
users.

    python benchmarks/model_errors.py [--quick] [--jobs 16] [--sets iris ...] [--learners pca ...]
        [--epsilons 1 2 4 8] [--users 10000 100000 1000000] [--trials 20] [--reports] [--json]

At the end stands the test that no error rises. For each learner and set, neighbouring epsilons at
the same users, and neighbouring numbers of users at the same epsilon, are compared by the paired
trials: a rise fails if it is above 5 % of the error, and beyond the one-sided quantile of Student's
law at 1 % over the number of all comparisons. Trees and k-means are greedy: their rises are listed
and fail nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import pairwise
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from drawn_answers import learned
from numpy.typing import NDArray

import askance as ask
from askance_aggregator.learners import Clusters, GaussianMixture, Learner, find
from askance_aggregator.learners.assessments import Assessment, assess
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.errors import PlanRefused
from askance_client.queries import Field, Label, Real, Schema
from askance_simulation.populations import Population

EPSILONS, USERS, TRIALS = (1, 2, 4, 8), (10**4, 10**5, 10**6), 20
GREEDY = ("decision-tree", "k-means")
CLASSIFIERS = (
    "naive-bayes",
    "decision-tree",
    "logistic-regression",
    "linear-svm",
    "random-features",
)
TWO_CLASSES = ("logistic-regression", "linear-svm", "random-features")
REGRESSIONS = ("linear-regression", "ridge-regression", "huber-regression")
SHAPES = ("pca", "k-means", "gaussian-mixture")
SETS = {
    "iris": (*SHAPES, *CLASSIFIERS),
    "wine": (*SHAPES, *CLASSIFIERS),
    "cancer": (*SHAPES, *CLASSIFIERS),
    "digits": (*SHAPES, *CLASSIFIERS),
    "diabetes": (*SHAPES, *REGRESSIONS),
}
"""Learners of each set."""
CLUSTERS = {"digits": 10}  # of k-means; 3 of others
MOST_COLUMNS = 16  # of clusters: those of the greatest spread
LEAST_RISE = 0.05  # of an error
FAMILY = 0.01
Points = NDArray[np.float64]


class Task(NamedTuple):
    """A learner on a set."""

    set: str
    learner: str


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """Rows that users are drawn from."""

    schema: Schema
    rows: EncodedColumns

    def assessed(self, hypothesis: Any, learner: Learner[Any]) -> Assessment:
        """Judge a hypothesis by the rows."""
        people = Population(
            self.schema.name,
            self.schema,
            self.rows.rows,
            lambda start, stop: self.rows.take(slice(start, stop)),
            unseen=lambda most: self.rows,
        )
        return assess(hypothesis, learner, people)


@dataclass(frozen=True, slots=True)
class Row:
    """A learner at an epsilon with so many users.

    Args:
        exact: its error with exact answers.
        scikit_learn: error of scikit-learn's model.
        constant: error of the constant guess.
        errors: by trial; empty: the plan was refused.
    """

    set: str
    learner: str
    epsilon: int
    users: int
    exact: float | None
    scikit_learn: float | None
    constant: float | None
    errors: tuple[float, ...]


class Rise(NamedTuple):
    """Comparison of two rows: the second has more users, or a greater epsilon."""

    less: Row
    more: Row

    @property
    def rise(self) -> float:
        """Mean of the paired differences."""
        return mean(self._differences)

    @property
    def deviations(self) -> float:
        """The rise in its standard errors; infinite where every trial rises alike."""
        spread = stdev(self._differences) / len(self._differences) ** 0.5
        return self.rise / spread if spread else float("inf") if self.rise > 0 else 0.0

    def fails(self, limit: float) -> bool:
        """Return whether it is beyond so many standard errors, and not small."""
        return self.deviations > limit and self.rise > LEAST_RISE * mean(self.less.errors)

    @property
    def _differences(self) -> list[float]:
        return [more - less for less, more in zip(self.less.errors, self.more.errors, strict=True)]

    def __str__(self) -> str:
        less, more = self
        return (
            f"{more.set} {more.learner}: epsilon {less.epsilon} -> {more.epsilon},"
            f" {less.users:,} -> {more.users:,} users: {mean(less.errors):.4f} ->"
            f" {mean(more.errors):.4f} ({self.deviations:.1f} standard errors)"
        )


def comparisons(rows: Sequence[Row]) -> Iterator[Rise]:
    """Generate the neighbours along epsilon and along users."""
    known = {(row.set, row.learner, row.epsilon, row.users): row for row in rows if row.errors}
    tasks = dict.fromkeys((row.set, row.learner) for row in rows)
    epsilons = sorted({row.epsilon for row in rows})
    users = sorted({row.users for row in rows})
    for task in tasks:
        for count in users:
            along = [known.get((*task, epsilon, count)) for epsilon in epsilons]
            yield from (Rise(one, two) for one, two in pairwise(along) if one and two)
        for epsilon in epsilons:
            along = [known.get((*task, epsilon, count)) for count in users]
            yield from (Rise(one, two) for one, two in pairwise(along) if one and two)


def limit_of(count: int, trials: int) -> float:
    """Return the standard errors that none of so many comparisons passes but for 1 %."""
    from scipy.stats import t

    return float(t.ppf(1 - FAMILY / max(count, 1), trials - 1))


@cache
def law_of(task: Task) -> Law:
    """Return the rows of a task."""
    from sklearn import datasets

    data = getattr(datasets, f"load_{ {'cancer': 'breast_cancer'}.get(task.set, task.set) }")()
    values, target = np.asarray(data.data, float), np.asarray(data.target)
    values = values[:, values.max(axis=0) > values.min(axis=0)]
    if task.learner in ("k-means", "gaussian-mixture"):
        spread = values.std(axis=0) / np.ptp(values, axis=0)
        values = values[:, np.sort(np.argsort(-spread)[:MOST_COLUMNS])]
    fields: dict[str, Field] = {}
    columns: dict[str, Any] = {}
    for place, column in enumerate(values.T):
        fields[f"x{place}"], columns[f"x{place}"] = _bounded(column), column
    if task.learner in REGRESSIONS:
        fields["y"], columns["y"] = _bounded(target), target.astype(float)
    elif task.learner in CLASSIFIERS:
        classes = _classes(task, target)
        fields["y"], columns["y"] = Label(sorted(set(classes.tolist()))), classes
    schema = Schema.of(task.set, 1, fields)
    return Law(schema, encode_columns(schema, columns))


def _classes(task: Task, target: NDArray[Any]) -> NDArray[np.str_]:
    if task.learner not in TWO_CLASSES and task.set != "digits":
        return np.asarray([str(each) for each in target])
    if task.set == "digits":
        return np.where(target % 2 == 1, "odd", "even")
    return np.where(target == target.max(), "last", "first")


def _bounded(column: NDArray[Any]) -> Real:
    """Return a field whose bounds have two digits of the column's range."""
    low, high = float(column.min()), float(column.max())
    step = 10.0 ** (np.floor(np.log10(high - low)) - 1)
    return Real(float(np.floor(low / step) * step), float(np.ceil(high / step) * step))


def learner_of(task: Task) -> Learner[Any]:
    """Return the learner of a task, with the settings that users and noise give."""
    settings = {"k": str(CLUSTERS.get(task.set, 3))} if task.learner == "k-means" else {}
    return find(task.learner).build(law_of(task).schema, settings)


@cache
def references(task: Task) -> tuple[float | None, float | None, float | None]:
    """Return the errors with exact answers, of scikit-learn, and of the constant guess."""
    law, learner = law_of(task), learner_of(task)
    exact = learn(learner, ExactOracle(law.schema, law.rows))
    found = law.assessed(exact, learner)
    return found.error, scikit_learn(task, exact), found.baseline


def scikit_learn(task: Task, exact: Any) -> float | None:
    """Return the error of scikit-learn's model of the same rows and scales."""
    law = law_of(task)
    if task.learner == "pca":
        return 0.0  # the best directions, by the measure
    if task.learner in SHAPES:
        return law.assessed(_clusters(task, exact), learner_of(task)).error
    from sklearn import linear_model, naive_bayes, svm, tree

    model = {
        "naive-bayes": naive_bayes.GaussianNB,
        "decision-tree": partial(tree.DecisionTreeClassifier, max_depth=6, random_state=0),
        "logistic-regression": partial(linear_model.LogisticRegression, max_iter=10_000),
        "random-features": partial(svm.SVC, C=1.0),
        "linear-svm": partial(svm.LinearSVC, max_iter=100_000, random_state=0),
        "linear-regression": linear_model.LinearRegression,
        "ridge-regression": partial(linear_model.Ridge, alpha=0.1),
        "huber-regression": partial(linear_model.HuberRegressor, max_iter=10_000),
    }[task.learner]()
    people, truth = _table(law.rows), np.asarray(law.rows.values["y"])
    scaled = (people - people.min(axis=0)) / np.ptp(people, axis=0)
    predicted = model.fit(scaled, truth).predict(scaled)
    if task.learner in CLASSIFIERS:
        return float((predicted != truth).mean())
    return float(np.square(predicted - truth).mean() / truth.var())


def _clusters(task: Task, exact: Any) -> Clusters | GaussianMixture:
    from sklearn import cluster, mixture

    points, k = exact.points(law_of(task).rows), len(exact.centres)
    if task.learner == "k-means":
        means = cluster.KMeans(k, n_init=10, random_state=0).fit(points).cluster_centers_
        return Clusters(exact.schema, tuple(map(tuple, means.tolist())), (1 / k,) * k)
    bells = mixture.GaussianMixture(
        k, covariance_type="spherical", n_init=3, random_state=0, reg_covar=2.0**-9
    ).fit(points)
    weights = bells.weights_ / bells.weights_.sum()
    return GaussianMixture(
        exact.schema,
        tuple(weights.tolist()),
        tuple(map(tuple, bells.means_.tolist())),
        tuple(bells.covariances_.tolist()),
    )


def _table(rows: EncodedColumns) -> Points:
    names = [name for name in rows.values if name != "y"]
    return np.stack([np.asarray(rows.values[name], float) for name in names], axis=1)


def measured(task: Task, epsilon: int, users: int, trials: int, *, reports: bool = False) -> Row:
    """Measure a learner at an epsilon with so many users."""
    run = _by_reports if reports else _drawn
    try:
        errors = tuple(run(task, epsilon, users, trial) for trial in range(trials))
    except PlanRefused:
        errors = ()
    return Row(*task, epsilon, users, *references(task), errors)


def _drawn(task: Task, epsilon: int, users: int, trial: int) -> float:
    law, learner = law_of(task), learner_of(task)
    seed = (sorted(SETS).index(task.set), trial)
    found = learned(learner, law.schema, law.rows, epsilon=epsilon, users=users, seed=seed)
    return law.assessed(found, learner).error or 0.0


def _by_reports(task: Task, epsilon: int, users: int, trial: int) -> float:
    law, learner = law_of(task), learner_of(task)
    drawn = np.random.default_rng(trial).integers(0, law.rows.rows, users)
    people = Population(
        task.set, law.schema, users, lambda start, stop: law.rows.take(drawn[start:stop])
    )
    run = ask.simulate(learner, people, epsilon=epsilon, fleet="columns", seed=trial)
    return law.assessed(run.trials[0].outcome.hypothesis, learner).error or 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if an error rises."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="iris and diabetes, 3 trials")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=None)
    parser.add_argument("--learners", nargs="+", default=None)
    parser.add_argument("--epsilons", nargs="+", type=int, default=None)
    parser.add_argument("--users", nargs="+", type=int, default=None)
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--reports", action="store_true", help="one report per user")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if given.trials is not None and given.trials < 2:
        parser.error("--trials: expected 2 or more, for a standard error")
    quick = given.quick
    sets = given.sets or (("iris", "diabetes") if quick else tuple(SETS))
    epsilons = given.epsilons or ((1, 4) if quick else EPSILONS)
    users = given.users or ((10**4, 10**5) if quick else USERS)
    trials = given.trials or (3 if quick else TRIALS)
    cells = [
        (Task(name, learner), epsilon, count, trials)
        for name in sets
        for learner in SETS[name]
        if given.learners is None or learner in given.learners
        for epsilon in epsilons
        for count in users
    ]
    work: Callable[..., Row] = partial(measured, reports=given.reports)
    if given.jobs > 1:
        with ProcessPoolExecutor(given.jobs) as pool:
            rows = list(pool.map(work, *zip(*cells, strict=True)))
    else:
        rows = [work(*cell) for cell in cells]
    compared = list(comparisons(rows))
    limit = limit_of(len(compared), trials)
    risen = [each for each in compared if each.fails(limit)]
    failed = [each for each in risen if each.more.learner not in GREEDY]
    if given.json:
        print(json.dumps({"rows": list(map(asdict, rows)), "risen": list(map(str, risen))}))
    else:
        print(table(rows))
        print(f"{len(compared)} comparisons, {limit:.2f} standard errors at {FAMILY:.0%} of all:")
        print("\n".join(map(str, risen)) or "no error rises")
    return 1 if failed else 0


def table(rows: Sequence[Row]) -> str:
    """Return the rows in Markdown: a line per learner, set and number of users."""
    epsilons = sorted({row.epsilon for row in rows})
    heads = ["set", "learner", "users", *(f"eps {epsilon}" for epsilon in epsilons)]
    heads += ["exact", "scikit-learn", "constant"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    known = {(row.set, row.learner, row.users, row.epsilon): row for row in rows}
    for set_, learner, users in dict.fromkeys((row.set, row.learner, row.users) for row in rows):
        own = [known[set_, learner, users, epsilon] for epsilon in epsilons]
        cells = [_shown(mean(row.errors)) if row.errors else "refused" for row in own]
        others = (own[0].exact, own[0].scikit_learn, own[0].constant)
        cells += ["" if other is None else _shown(other) for other in others]
        lines.append(f"| {' | '.join([set_, learner, f'{users:,}', *cells])} |")
    return "\n".join(lines)


def _shown(error: float) -> str:
    return f"{error:.5f}" if error < 0.01 else f"{error:.3f}"


if __name__ == "__main__":
    sys.exit(main())
