"""Tests of users under local privacy: how often they err, and how wide their intervals are.

Three learners, with the randomizers that a plan chooses. Tallies are drawn by the randomizers' laws
for users drawn from a population; correlations are simulated by columns of users.

- `association`: the share of tables without association that are rejected at level .05 and .01,
  the share of intervals of Cramér's V that hold it, and the share of true associations found.
- `difference`: the share of equal means that are rejected at .05, of intervals that hold the
  difference, and half the interval's width over that of the normal law.
- `correlation`: the same, with the width over that of the normal law by the delta method.

    python benchmarks/association.py [--only PART...] [--draws 400] [--quick]

Exit code 1: an error is, beyond doubt, more frequent than is stated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, ndtri

from askance_aggregator.estimation import ReportsLaw, TalliedReports
from askance_aggregator.families import best_for
from askance_aggregator.learners import Answer, NonAdaptive, association, correlation, difference
from askance_aggregator.learners.association import cramers_v
from askance_aggregator.planning import choices
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_aggregator.studies.study import Study
from askance_client.accounting import parse_epsilon
from askance_client.queries import Category, Real, Schema
from askance_simulation.experiments import simulate
from askance_simulation.families import draw_tally
from askance_simulation.populations import Population

ALPHA = 0.05
DOUBT = 1e-4  # an error is more frequent than stated if so many are less likely than this
EPSILONS = ("0.5", "1", "2", "4", "8")
Shares = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """Figures of one setting.

    Args:
        test: learner and population.
        epsilon: of each user.
        users: in all.
        draws: number of studies.
        rejected: of them, rejections at .05 of a true hypothesis; None: it is false.
        strict: the same at .01.
        found: rejections at .05 of a false hypothesis; None: it is true.
        missed: intervals that do not hold the truth.
        width: median half width; over the normal law's where that is stated.
    """

    test: str
    epsilon: str
    users: int
    draws: int
    rejected: int | None
    strict: int | None
    found: int | None
    missed: int
    width: float

    @property
    def sound(self) -> bool:
        """Return whether no error is, beyond doubt, more frequent than stated."""
        stated = [(self.missed, ALPHA), (self.rejected, ALPHA), (self.strict, 0.01)]
        return all(
            count is None or bdtrc(count - 1, self.draws, chance) > DOUBT
            for count, chance in stated
            if count is None or count > 0
        )

    def __str__(self) -> str:
        counts = (self.rejected, self.strict, self.found, self.missed)
        shown = " ".join(f"{'' if c is None else f'{c / self.draws:.3f}':>9}" for c in counts)
        sound = "" if self.sound else "  ABOVE"
        return (
            f"{self.test:<34} {self.epsilon:>5} {self.users:>9,} {shown} {self.width:>9.3f}{sound}"
        )


def with_law(law: ReportsLaw) -> Answer:
    """Make the answer that a study has from its reports."""
    return replace(law.at(law.alpha), law=law)


def associated(shape: tuple[int, int], v: float, skew: float = 0.0) -> Shares:
    """Make a joint table with this Cramér's V.

    Args:
        shape: rows and columns.
        v: 0 for independence.
        skew: 0 for even margins; else the first row and column have this share.
    """
    rows, columns = (
        np.array([skew or 1 / size, *[(1 - (skew or 1 / size)) / (size - 1)] * (size - 1)])
        for size in shape
    )
    table = np.outer(rows, columns)
    moved = np.zeros(shape)
    moved[:2, :2] = [[1, -1], [-1, 1]]
    if v > 0:
        unit = cramers_v(np.append((table + moved * table.min() / 2).ravel(), 0.0), shape)
        table = table + moved * table.min() / 2 * v / unit
    return table


def association_row(
    name: str, table: Shares, epsilon: str, users: int, draws: int, missing: float = 0.05
) -> Row:
    """Draw studies of the association in a table."""
    rows, columns = table.shape
    schema = Schema.of(
        "tables",
        1,
        {
            "a": Category([f"a{j}" for j in range(rows)]),
            "b": Category([f"b{j}" for j in range(columns)]),
        },
    )
    learner = association(schema, ["a", "b"])
    (question,) = learner.batch.questions
    randomizer = best_for(question.values, parse_epsilon(epsilon))
    law = np.append((1 - missing) * table.ravel(), missing)
    rng = np.random.default_rng(16)
    tallies = draw_tally(randomizer, rng.multinomial(users, law, size=draws), rng)
    true = cramers_v(law, (rows, columns))
    chances, widths, missed = [], [], 0
    for counts in tallies:
        reports = TalliedReports(question, randomizer, counts, users)
        found = learner.conclude((with_law(ReportsLaw(question, (reports,), ALPHA)),))
        if found.test is None:
            raise TypeError(f"expected a test by {randomizer.name}, got none")
        chances.append(found.test.p_value)
        widths.append((found.v.high - found.v.low) / 2)
        missed += not found.v.low - 1e-12 <= true <= found.v.high + 1e-12
    return _row(f"association {name}", epsilon, users, chances, missed, widths, true < 1e-9)


def difference_row(
    name: str, means: tuple[float, float], share: float, epsilon: str, users: int, draws: int
) -> Row:
    """Draw studies of two groups; means are on [0, 1], a third of users is in no group."""
    schema = Schema("groups", 1, x=Real(0, 1), group=Category(["a", "b", "none"]))
    learner = difference(schema, "x", "group", present="1/4")
    rng, nano = np.random.default_rng(17), parse_epsilon(epsilon)
    questions = learner.batch.questions
    shares, each = (share, 2 / 3 - share), users // 2
    drawn: list[list[ReportsLaw]] = []
    for question, mean, part in zip(questions, means, shares, strict=True):
        (choice,) = choices(question, nano, best_for)
        law = np.array([part * (1 - mean), part * mean, 1 - part])
        tallies = draw_tally(choice.randomizer, rng.multinomial(each, law, size=draws), rng)
        drawn.append(
            [
                ReportsLaw(
                    question,
                    (TalliedReports(question, choice.randomizer, counts, each, choice.decode),),
                    ALPHA / 2,
                )
                for counts in tallies
            ]
        )
    true, chances, ends, missed = means[1] - means[0], [], [], 0
    for laws in zip(*drawn, strict=True):
        found = learner.conclude(tuple(with_law(law) for law in laws))
        chances.append(1.0 if found.p_value is None else found.p_value)
        ends.append((found.estimate, (found.high - found.low) / 2))
        missed += not found.low <= true <= found.high
    estimates, widths = np.array(ends).T
    normal = -ndtri(ALPHA / 2) * float(estimates.std())
    return _row(f"difference {name}", epsilon, users, chances, missed, widths / normal, true == 0)


def _rows_of(columns: EncodedColumns, start: int, stop: int) -> EncodedColumns:
    return columns.take(slice(start, stop))


def correlation_row(rho: float, deviation: float, epsilon: str, users: int, draws: int) -> Row:
    """Simulate studies of two numbers, normal and cut at their bounds, with this correlation."""
    schema = Schema("numbers", 1, x=Real(-1, 1), y=Real(-1, 1))
    learner: NonAdaptive[Any] = correlation(schema, ["x", "y"])
    study = Study(learner, schema, epsilon=epsilon)
    chances, ends, missed, errors = [], [], 0, []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        z = rng.standard_normal((2, users)) * deviation
        x, y = z[0], rho * z[0] + sqrt(1 - rho * rho) * z[1]
        columns = encode_columns(schema, {"x": x.clip(-1, 1), "y": y.clip(-1, 1)})
        people = Population("normal", schema, users, partial(_rows_of, columns))
        found = simulate(study, people, fleet="columns", seed=draw).hypothesis
        true = float(np.corrcoef(x.clip(-1, 1), y.clip(-1, 1))[0, 1])
        chances.append(1.0 if found.p_value is None else found.p_value)
        ends.append((found.high - found.low) / 2)
        errors.append(found.estimate - true)
        missed += not found.low <= true <= found.high
    normal = -ndtri(ALPHA / 2) * float(np.std(errors))
    name = f"correlation {rho:g}, deviation {deviation:g}"
    return _row(name, epsilon, users, chances, missed, np.array(ends) / normal, rho == 0)


def _row(
    name: str,
    epsilon: str,
    users: int,
    chances: Sequence[float],
    missed: int,
    widths: Any,
    holds: bool,
) -> Row:
    below = [sum(chance <= level for chance in chances) for level in (ALPHA, 0.01)]
    return Row(
        name,
        epsilon,
        users,
        len(chances),
        below[0] if holds else None,
        below[1] if holds else None,
        None if holds else below[0],
        missed,
        float(np.median(widths)),
    )


def association_rows(draws: int, epsilons: Sequence[str]) -> Iterator[Row]:
    """Measure tables without and with an association."""
    tables = {
        "2 x 2, V 0": associated((2, 2), 0),
        "2 x 2, V 0, margins .1": associated((2, 2), 0, 0.1),
        "4 x 5, V 0": associated((4, 5), 0),
        "4 x 5, V 0, margins .05": associated((4, 5), 0, 0.05),
        "2 x 2, V .2": associated((2, 2), 0.2),
        "4 x 5, V .2": associated((4, 5), 0.2),
    }
    for name, table in tables.items():
        for epsilon in epsilons:
            for users in (2_000, 50_000):
                yield association_row(name, table, epsilon, users, draws)


def difference_rows(draws: int, epsilons: Sequence[str]) -> Iterator[Row]:
    """Measure groups with equal and with unequal means."""
    pairs = {
        "0, a third each": ((0.5, 0.5), 1 / 3),
        "0, groups .1 and .57": ((0.2, 0.2), 0.1),
        ".1, a third each": ((0.45, 0.55), 1 / 3),
    }
    for name, (means, share) in pairs.items():
        for epsilon in epsilons:
            yield difference_row(name, means, share, epsilon, 50_000, draws)


def correlation_rows(draws: int, epsilons: Sequence[str]) -> Iterator[Row]:
    """Measure numbers without and with a correlation."""
    for rho in (0.0, 0.6):
        for epsilon in epsilons:
            yield correlation_row(rho, 0.4, epsilon, 100_000, draws)


PARTS = {
    "association": association_rows,
    "difference": difference_rows,
    "correlation": correlation_rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--epsilons", nargs="+", default=EPSILONS)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="6 draws at epsilon 1")
    given = parser.parse_args(arguments)
    draws, epsilons = (6, ("1",)) if given.quick else (given.draws, given.epsilons)
    heads = ("p <= .05", "p <= .01", "found", "missed", "width")
    print(f"{'test':<34} {'eps':>5} {'users':>9} {' '.join(f'{head:>9}' for head in heads)}")
    sound = True
    for row in (row for part in given.only for row in PARTS[part](draws, epsilons)):
        print(row, flush=True)
        sound &= row.sound
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
