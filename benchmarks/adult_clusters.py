"""Adult (census income): clusters, mixtures and principal components of its six numbers.

The held-out rows are those of `adult.py`, a fifth; all others are users, or are drawn from with
replacement. The numbers are scaled by public bounds. Figures, on the held-out rows:

- k-means (3 centres): the variance that stays within clusters, over that about the mean.
- Gaussian mixture (2 components): the variance of the round bell that is as likely as the mixture,
  over that of the likeliest one: exp(2 / d x (log-likelihood of the one - that of the mixture)). It
  is what expectation-maximisation makes smaller. In parentheses the variance within components.
- PCA (2 components): the part of the variance that the best directions hold beyond these.

scikit-learn's are of the same rows, not private; its mixture is spherical.

    python benchmarks/adult_clusters.py shared/data/adult.csv [--json] [--users 0 1000000]
        [--epsilons 0.5 1 2 4 8] [--trials 3] [--learners k-means ...] [--law]

--law draws answers at once (`drawn_answers`), in place of a report per user: a million users take
seconds. Users 0: the rows themselves. Without the file nothing is measured, and that is no
failure.
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
from adult import HELD_OUT, SEED
from drawn_answers import BETA, DrawnAnswers
from numpy.typing import NDArray

import askance as ask
from askance_aggregator.learners import (
    Learner,
    gaussian_mixture,
    k_means,
    principal_components,
)
from askance_aggregator.learners.centres import scaled_rows
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import rehearse, settled
from askance_aggregator.queries import EncodedColumns
from askance_client.queries import Integer, Schema
from askance_simulation.populations import Population, people_of, read_file

SCHEMA = Schema(
    "adult-numbers",
    1,
    age=Integer(17, 90),
    fnlwgt=Integer(0, 1_500_000),
    education_num=Integer(1, 16),
    capital_gain=Integer(0, 99_999),
    capital_loss=Integer(0, 4_356),
    hours_per_week=Integer(1, 99),
)
LEARNERS: dict[str, Callable[[], Learner[Any]]] = {
    "k-means": lambda: k_means(SCHEMA, k=3),
    "gaussian-mixture": lambda: gaussian_mixture(SCHEMA, k=2),
    "pca": lambda: principal_components(SCHEMA, components=2),
}
Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """A learner on a population at an epsilon; figures on the held-out rows.

    Args:
        learner: its name.
        users: how many.
        epsilon: each user's whole budget.
        scikit_learn: not private, on the rows.
        exact: this learner with the users' exact answers.
        local: mean of the trials; deviation: their standard deviation, 0 of one.
        within: of a mixture the variance within components, mean of the trials; else as `local`.
        trials: how many.
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
    within: float
    trials: int
    rounds: int
    seconds: float


def within(points: Points, centres: Points, places: NDArray[np.int64]) -> float:
    """Return the variance within clusters over that about the mean."""
    inner = np.square(points - centres[places]).mean()
    return float(inner / np.square(points - points.mean(axis=0)).mean())


def likelihood(points: Points, weights: Points, means: Points, variances: Points) -> float:
    """Return the variance of a round bell as likely as the mixture, over that of the best one."""
    d = points.shape[1]
    squares = ((points[:, None] - means) ** 2).sum(axis=2)
    logs = np.log(weights) - d / 2 * np.log(variances) - squares / (2 * variances)
    most = logs.max(axis=1)
    reached = (most + np.log(np.exp(logs - most[:, None]).sum(axis=1))).mean()
    best = -d / 2 * np.log(np.square(points - points.mean(axis=0)).mean()) - d / 2
    return float(np.exp(2 / d * (best - reached)))


def lost(points: Points, axes: Points) -> float:
    """Return the part of the variance that the best directions hold beyond these."""
    covariance = np.cov(points.T, bias=True)
    best = np.linalg.eigvalsh(covariance)[-len(axes) :].sum()
    return float((best - np.trace(axes @ covariance @ axes.T)) / np.trace(covariance))


def figures(hypothesis: Any, points: Points, rows: Any) -> tuple[float, float]:
    """Return the figure of a hypothesis, and the variance within its components or that again."""
    if hasattr(hypothesis, "components"):
        found = lost(points, hypothesis.components_)
        return found, found
    spread = within(points, np.array(hypothesis.centres), hypothesis.predict(rows))
    if not hasattr(hypothesis, "weights"):
        return spread, spread
    parts = (hypothesis.weights, hypothesis.means, hypothesis.variances)
    return likelihood(points, *map(np.array, parts)), spread


def scikit_learn(name: str, people: Points, unseen: Points) -> float:
    """Fit scikit-learn's model to all rows, not private."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    if name == "pca":
        return lost(unseen, PCA(2).fit(people).components_)
    if name == "k-means":
        model = KMeans(3, n_init=10, random_state=0).fit(people)
        return within(unseen, model.cluster_centers_, model.predict(unseen))
    mixture = GaussianMixture(2, covariance_type="spherical", n_init=3, random_state=0).fit(people)
    return likelihood(unseen, mixture.weights_, mixture.means_, mixture.covariances_)


def adults(path: Path, users: int) -> Population:
    """Return the rows, or a number of users drawn from them."""
    return people_of(read_file(path), SEED, schema=SCHEMA, size=users or None, held_out=HELD_OUT)


def by_law(
    learner: Learner[Any], rows: EncodedColumns, users: int, epsilon: float, trial: int
) -> tuple[Any, int]:
    """Run a learner on answers of the normal law; return its hypothesis and number of rounds."""
    nano_nats = round(epsilon * 10**9)
    chosen = settled(learner, nano_nats, BETA, users)
    oracle = DrawnAnswers(chosen, SCHEMA, rows, nano_nats, users, (trial,))
    return learn(chosen, oracle), len(rehearse(chosen))


def measure(
    path: Path,
    names: Sequence[str],
    users: Sequence[int],
    epsilons: Sequence[float],
    trials: int,
    law: bool = False,
) -> Iterator[Row]:
    """Generate a row per learner, population and epsilon."""
    people = adults(path, 0)
    if people.unseen is None:
        raise SystemExit("expected rows that are held out, found none: the file is too short")
    rows, unseen = people.columns(0, people.size), people.unseen(1 << 20)
    points = scaled_rows(SCHEMA, unseen)
    for name in names:
        least = scikit_learn(name, scaled_rows(SCHEMA, rows), points)
        exact, _ = figures(learn(LEARNERS[name](), ExactOracle(SCHEMA, rows)), points, unseen)
        for size in users:
            crowd = adults(path, size)
            for epsilon in epsilons:
                began = perf_counter()
                runs = _runs(LEARNERS[name](), crowd, rows if law else None, epsilon, trials)
                found = [figures(hypothesis, points, unseen) for hypothesis, _ in runs]
                local, inner = zip(*found, strict=True)
                yield Row(
                    name,
                    crowd.size,
                    epsilon,
                    least,
                    exact,
                    mean(local),
                    stdev(local) if trials > 1 else 0.0,
                    mean(inner),
                    trials,
                    runs[0][1],
                    perf_counter() - began,
                )


def _runs(
    learner: Learner[Any],
    crowd: Population,
    rows: EncodedColumns | None,
    epsilon: float,
    trials: int,
) -> list[tuple[Any, int]]:
    """Return hypotheses and numbers of rounds: of reports, or by the normal law about rows."""
    if rows is not None:
        return [by_law(learner, rows, crowd.size, epsilon, trial) for trial in range(trials)]
    study = ask.Study(learner, SCHEMA, epsilon=epsilon)
    run = ask.simulate(study, crowd, fleet="columns", seed=1, trials=trials)
    return [(trial.outcome.hypothesis, trial.outcome.rounds) for trial in run.trials]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="adult.csv, with a header line")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--users", type=int, nargs="+", default=[0], metavar="N")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 4], metavar="E")
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--trials", type=int, default=3, metavar="T", help="per figure (3)")
    parser.add_argument("--law", action="store_true", help="normal draws in place of reports")
    given = parser.parse_args(arguments)
    if not given.data.exists():
        print("Adult was left out: there is no such file" if not given.json else '{"rows": []}')
        return 0
    table = []
    chosen = (given.learners, given.users, given.epsilons, given.trials, given.law)
    for row in measure(given.data, *chosen):
        table.append(asdict(row))
        shown = f"{row.learner} {row.users:,} users, eps {row.epsilon:g}: {row.local:.4f}"
        note = f"+- {row.deviation:.4f} (within {row.within:.3f}, exact {row.exact:.4f},"
        note += f" scikit-learn {row.scikit_learn:.4f}, {row.trials} trials)"
        time = f"{row.rounds} rounds, {row.seconds:.0f} s"
        print(shown, note, time, file=sys.stderr if given.json else sys.stdout, flush=True)
    if given.json:
        print(json.dumps({"rows": table}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
