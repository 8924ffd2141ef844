"""Adult (census income): four classifiers in the local model beside scikit-learn and a curator.

A fifth of the rows, the same in every run, are held out: they belong to no user, and accuracy is
measured on them. All others are users; "resampled" populations draw them with replacement, to show
where the local model catches up. Every learner has the same encodings everywhere: bins and scales
follow from the schema below, which is public (the census's own categories, and bounds from common
knowledge; more is clamped), and not from users' values. The settings of trees and gradients follow
from users and noise (`glm_rules`). In the local model users are divided evenly over
all questions of all rounds, so each answers once, at the whole epsilon. The curator asks the same
questions, each of a part of the rows as large, and adds exact discrete Laplace draws (notes,
Theorem 7); "exact" has no draws and no parts.

    python benchmarks/adult.py shared/data/adult.csv [--quick] [--json] [--plot adult.png]
        [--users 0 1000000 10000000] [--epsilons 0.5 1 2 4 8] [--learners naive-bayes ...]
        [--trials 20] [--resampled-trials 20]

Users 0: the rows themselves. Without the file nothing is measured, and that is no failure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import askance as ask
from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    Learner,
    decision_tree,
    linear_svm,
    logistic_regression,
    naive_bayes,
)
from askance_aggregator.learners.encodings import cells
from askance_aggregator.learners.linear_classifiers import coordinates_of
from askance_aggregator.learners.rows import features_of
from askance_aggregator.oracles import ExactOracle, Oracle, learn
from askance_aggregator.oracles.central import laplace_of, step_of, totals
from askance_aggregator.planning import rehearse
from askance_aggregator.queries import EncodedColumns
from askance_client.queries import (
    Category,
    Integer,
    Label,
    Schema,
)
from askance_simulation.populations import Population, people_of, read_file
from askance_simulation.randomness import Seed, SeededWords

LABEL = "income"
HELD_OUT = Fraction(1, 5)
SEED = Seed.of(1994)
MARITAL = (
    "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated"
    " Widowed"
)
OCCUPATION = (
    "(missing) Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing"
    " Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv Prof-specialty"
    " Protective-serv Sales Tech-support Transport-moving"
)
SCHEMA = Schema(
    "adult",
    1,
    age=Integer(17, 90),
    education_num=Integer(1, 16),
    hours_per_week=Integer(1, 99),
    capital_gain=Integer(0, 10_000),
    marital_status=Category(MARITAL.split()),
    occupation=Category(OCCUPATION.split()),
    sex=Category(["Female", "Male"]),
    income=Label(["<=50K", ">50K"]),
)
FEATURES = features_of(SCHEMA, LABEL)
LEARNERS: dict[str, Callable[[], Learner[Any]]] = {
    "naive-bayes": lambda: naive_bayes(SCHEMA),
    "decision-tree": lambda: decision_tree(SCHEMA),
    "logistic-regression": lambda: logistic_regression(SCHEMA),
    "linear-svm": lambda: linear_svm(SCHEMA),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A learner on a population at an epsilon; accuracies are on the held-out rows.

    Args:
        learner: which.
        users: how many.
        epsilon: each user's whole budget.
        majority: of a hypothesis that knows the commoner class only.
        scikit_learn: not private, on the rows, with the same encodings.
        exact: this learner with the users' exact answers.
        central: this learner with a curator of this many rows, the mean of the trials; None: left
            out.
        local: the mean of the trials; least and most: the extremes.
        trials: how many; rounds, questions: the most that were asked.
        spent: the most that a user spent, and mean_spent the mean over users.
        seconds: of all local trials.
    """

    learner: str
    users: int
    epsilon: float
    majority: float
    scikit_learn: float
    exact: float
    central: float | None
    local: float
    least: float
    most: float
    trials: int
    rounds: int
    questions: int
    spent: float
    mean_spent: float
    seconds: float

    @property
    def beats_the_majority(self) -> bool:
        """Return whether it is better, on the mean, than the constant majority label."""
        return self.local > self.majority


_MISSED = Fraction(1, 20)  # the chance that an interval of one answer misses


class EvenCurator:
    """A curator who has this many rows and is asked this many questions: each takes an even part.

    Privacy: pure epsilon-DP, as `CentralOracle`: a row is in one part only.
    """

    def __init__(self, rows: EncodedColumns, epsilon: float, questions: int, seed: Seed) -> None:
        self._rows, self._size, self._used = rows, rows.rows // questions, 0
        self._epsilon, self._words = Fraction(str(epsilon)), SeededWords(seed)

    def answer(self, batch: Batch) -> Answers:
        """Answer each question by the next part.

        Intervals are joint, and for the rows at hand, as those of the local model are for
        its users.
        """
        answers = []
        for question in batch.questions:
            part = self._rows.take(slice(self._used, self._used + self._size))
            self._used += self._size
            mechanism = laplace_of(question, self._epsilon)
            counts = totals(question, part)
            unit = float(step_of(question)) / self._size
            values = (counts + mechanism.draws(self._words, len(counts))) * unit
            reach = float(mechanism.half_width(1 - _MISSED, len(counts))) * unit
            told = tuple(float(value) for value in values)
            answers.append(Answer(told, tuple(values - reach), tuple(values + reach)))
        return tuple(answers)


def adults(path: Path, users: int) -> Population:
    """Return the users: all rows that are not held out, or a sample of them."""
    return people_of(read_file(path), SEED, schema=SCHEMA, size=users or None, held_out=HELD_OUT)


def accuracy(hypothesis: Any, rows: EncodedColumns) -> float:
    """Return the share of rows that are labelled rightly."""
    truth = hypothesis.classes_[rows.values[LABEL]]
    return float((hypothesis.predict(rows) == truth).mean())


def scikit_learn(name: str, people: EncodedColumns, unseen: EncodedColumns) -> float:
    """Fit the same kind of classifier, not private, on the same encodings."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.svm import LinearSVC
    from sklearn.tree import DecisionTreeClassifier

    binned = [part for field in FEATURES.fields for part in cells(SCHEMA, field)]

    def in_cells(rows: EncodedColumns) -> NDArray[np.float64]:
        return np.stack([part.of(rows) for part in binned], axis=1).astype(np.float64)

    def one_hot(rows: EncodedColumns) -> NDArray[np.float64]:
        columns = [
            part.of(rows)[:, None] if part.edges else part.of(rows)[:, None] == np.arange(len(part))
            for part in binned
        ]
        return np.concatenate(columns, axis=1).astype(np.float64)

    def scaled(rows: EncodedColumns) -> NDArray[np.float64]:
        return np.concatenate([item.values(rows) for item in coordinates_of(FEATURES)], axis=1)

    models: dict[str, tuple[Any, Callable[[EncodedColumns], NDArray[np.float64]]]] = {
        "naive-bayes": (CategoricalNB(min_categories=[len(part) for part in binned]), in_cells),
        "decision-tree": (DecisionTreeClassifier(criterion="entropy", max_depth=6), one_hot),
        "logistic-regression": (LogisticRegression(max_iter=2000), scaled),
        "linear-svm": (LinearSVC(dual=False), scaled),
    }
    model, encode = models[name]
    model.fit(encode(people), people.values[LABEL])
    return float(model.score(encode(unseen), unseen.values[LABEL]))


def measure(
    path: Path,
    names: Sequence[str],
    users: Sequence[int],
    epsilons: Sequence[float],
    trials: int,
    resampled_trials: int = 1,
) -> Iterator[Row]:
    """Generate a row per population, learner and epsilon, over all trials of the users."""
    people = adults(path, 0)
    rows, unseen = people.columns(0, people.size), _unseen(people)
    label = np.asarray(unseen.values[LABEL])
    majority = float(max((label == 0).mean(), (label == 1).mean()))
    known = {
        name: (
            scikit_learn(name, rows, unseen),
            accuracy(learn(LEARNERS[name](), ExactOracle(SCHEMA, rows)), unseen),
        )
        for name in names
    }
    for size in users:
        crowd = adults(path, size)
        for name in names:
            for epsilon in epsilons:
                repeats = trials if size == 0 else resampled_trials
                yield _row(name, crowd, epsilon, majority, known[name], repeats)


def _row(
    name: str,
    crowd: Population,
    epsilon: float,
    majority: float,
    known: tuple[float, float],
    trials: int,
) -> Row:
    learner, unseen = LEARNERS[name](), _unseen(crowd)
    study = ask.Study(learner, SCHEMA, epsilon=epsilon)
    began = perf_counter()
    run = ask.simulate(study, crowd, fleet="columns", seed=1, trials=trials)
    seconds = perf_counter() - began
    found = [accuracy(trial.outcome.hypothesis, unseen) for trial in run.trials]
    outcomes = [trial.outcome for trial in run.trials]
    return Row(
        learner=name,
        users=crowd.size,
        epsilon=epsilon,
        majority=majority,
        scikit_learn=known[0],
        exact=known[1],
        central=_central(study.settled(crowd.size), crowd, epsilon, trials),
        local=mean(found),
        least=min(found),
        most=max(found),
        trials=trials,
        rounds=max(outcome.rounds for outcome in outcomes),
        questions=max(outcome.queries for outcome in outcomes),
        spent=run.epsilon_spent.max,
        mean_spent=run.epsilon_spent.mean,
        seconds=seconds,
    )


MOST_ROWS = 1_000_000  # that a curator holds at once


def _central(learner: Learner[Any], crowd: Population, epsilon: float, trials: int) -> float | None:
    if crowd.size > MOST_ROWS:
        return None
    questions = sum(len(batch.questions) for batch in rehearse(learner))
    rows, unseen, found = crowd.columns(0, crowd.size), _unseen(crowd), []
    for trial in range(trials):
        seed = SEED / "central" / trial
        order = np.random.default_rng(trial).permutation(crowd.size)
        curator: Oracle = EvenCurator(rows.take(order), epsilon, questions, seed)
        found.append(accuracy(learn(learner, curator), unseen))
    return mean(found)


def _unseen(people: Population) -> EncodedColumns:
    if people.unseen is None:
        raise SystemExit("expected rows that are held out, found none: the file is too short")
    return people.unseen(1 << 20)


def draw(table: Sequence[Row], path: Path) -> None:
    """Draw accuracy against epsilon, one panel per population."""
    from matplotlib.figure import Figure

    sizes = sorted({row.users for row in table})
    figure = Figure(figsize=(4.2 * len(sizes), 4.2), layout="constrained")
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for axes, size in zip(panels, sizes, strict=True):
        for place, name in enumerate(dict.fromkeys(row.learner for row in table)):
            rows = [row for row in table if row.users == size and row.learner == name]
            eps, colour = [row.epsilon for row in rows], f"C{place}"
            axes.plot(eps, [row.local for row in rows], "o-", color=colour, label=name)
            central = [np.nan if row.central is None else row.central for row in rows]
            axes.plot(eps, central, "--", color=colour, alpha=0.6)
            for row in rows[:1]:
                axes.axhline(row.scikit_learn, color=colour, linestyle=":", linewidth=1)
        axes.axhline(table[0].majority, color="black", linewidth=1)
        axes.set(xscale="log", xlabel="epsilon a user", title=f"{size:,} users")
        axes.set_xticks(sorted({row.epsilon for row in table}))
        axes.set_xticklabels([f"{eps:g}" for eps in sorted({row.epsilon for row in table})])
        axes.minorticks_off()
    panels[0].set_ylabel("accuracy on held-out people")
    panels[0].legend(loc="lower right", frameon=False)
    figure.suptitle(
        "Adult: local (solid), a curator (dashed), not private (dotted), majority (black)"
    )
    figure.savefig(path, dpi=120)


def _show(table: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(
        title=f"Adult: accuracy on held-out people; the majority is {table[0].majority:.1%}"
    )
    heads = (
        "learner",
        "users",
        "eps",
        "scikit-learn",
        "exact",
        "curator",
        "local",
        "least .. most",
    )
    for head in (*heads, "rounds", "spent", "mean", "s", ""):
        shown.add_column(head, justify="left" if head in ("learner", "") else "right")
    for row in table:
        shown.add_row(
            row.learner,
            f"{row.users:,}",
            f"{row.epsilon:g}",
            f"{row.scikit_learn:.1%}",
            f"{row.exact:.1%}",
            "" if row.central is None else f"{row.central:.1%}",
            f"{row.local:.1%}",
            f"{row.least:.1%} .. {row.most:.1%}",
            f"{row.rounds}",
            f"{row.spent:g}",
            f"{row.mean_spent:.3g}",
            f"{row.seconds:.0f}",
            "" if row.beats_the_majority else "does not beat the majority",
        )
    Console(width=150).print(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="adult.csv, with a header line")
    parser.add_argument("--quick", action="store_true", help="the people, at epsilon 1 and 8, once")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture: .png or .svg")
    parser.add_argument("--users", type=int, nargs="+", default=[0, 1_000_000], metavar="N")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1, 2, 4, 8], metavar="E")
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--trials", type=int, default=5, metavar="T", help="of the people (5)")
    parser.add_argument(
        "--resampled-trials", type=int, default=1, metavar="T", help="of a larger population (1)"
    )
    given = parser.parse_args(arguments)
    if not given.data.exists():
        print(
            json.dumps({"rows": []}) if given.json else "Adult was left out: there is no such file"
        )
        return 0
    users, epsilons, trials = given.users, given.epsilons, given.trials
    if given.quick:
        users, epsilons, trials = [0], [1.0, 8.0], 1
    table = []
    resampled = given.resampled_trials
    for row in measure(given.data, given.learners, users, epsilons, trials, resampled):
        table.append(row)
        print(f"{row.learner} {row.users:,} {row.epsilon:g}: {row.local:.3f}", file=sys.stderr)
    if given.plot is not None:
        draw(table, given.plot)
    if given.json:
        rows = [{**asdict(row), "beats_the_majority": row.beats_the_majority} for row in table]
        print(json.dumps({"rows": rows}))
    else:
        _show(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
