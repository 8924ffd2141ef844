"""Tests of users under local privacy: how often they err, what they find, how wide intervals are.

Three learners, with the randomizers that a plan chooses. Tallies are drawn by the randomizers' laws
for users drawn from a population. Each learner is run on five populations without an effect, and on
the same with the effect that it says to find with a chance of 80 %. A line has shares of studies:

- `p <= .05`, `p <= .01`: a true hypothesis is rejected; `found`: a false one, at .05.
- `z`: rejected by a z-test on the same estimates, whose deviation the studies themselves give.
- `finite`: rejected by the p-value that holds for every number of users (of a difference, of the
  first 100 studies).
- `open`: studies in which the asymptotic test is not determined.
- `missed`: intervals that do not hold the truth (stated: .0375, .05 with all others of the study).
- `width`: median half width of the interval over the normal law's; of Cramér's V the half width,
  and `error` its mean error.

    python benchmarks/association.py [--only PART...] [--draws 1000] [--null] [--jobs N] [--quick]

Exit code 1: an error is, beyond doubt, more frequent than is stated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, ndtri

from askance_aggregator.estimation import ReportsLaw, TalliedReports
from askance_aggregator.families import best_for
from askance_aggregator.learners import Answer, Question, association, correlation, difference
from askance_aggregator.learners.association import cramers_v
from askance_aggregator.learners.asymptotic import TOO_FEW, chance_of, detectable
from askance_aggregator.learners.difference import DIFFERENCE_PART, score_test
from askance_aggregator.planning import choices
from askance_aggregator.studies.study import Study
from askance_client.accounting import parse_epsilon
from askance_client.queries import Category, Real, Schema
from askance_client.randomizers import COIN_SPACE, HypercubeResponse
from askance_simulation.families import draw_tally

ALPHA = 0.05
FINITE = 100  # studies of a difference that are concluded in full; others have the test alone
DOUBT = 1e-4  # an error is more frequent than stated if so many are less likely than this
EPSILONS = ("0.5", "1", "2", "4", "8")
Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """Figures of one setting; counts are numbers of studies.

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
        by_z: rejections at .05 by a z-test on the same estimates.
        finite: share of rejections at .05 by a p-value that holds for every number of users.
        undetermined: studies without an asymptotic test.
        error: mean error of the estimates.
        detectable: median of the effects that the studies state to find with 80 %; None: none does.
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
    by_z: int | None = None
    finite: float | None = None
    undetermined: int | None = None
    error: float = 0.0
    detectable: float | None = None

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
        finite = None if self.finite is None else self.finite * self.draws
        counts = (
            *(self.rejected, self.strict, self.found),
            *(self.by_z, finite, self.undetermined, self.missed),
        )
        shown = " ".join(f"{'' if c is None else f'{c / self.draws:.3f}':>8}" for c in counts)
        sound = "" if self.sound else "  ABOVE"
        return (
            f"{self.test:<38} {self.epsilon:>4} {self.users:>8,} {shown} {self.width:>7.3f}"
            f" {self.error:>7.4f}{sound}"
        )


HEADS = ("p <= .05", "p <= .01", "found", "z", "finite", "open", "missed")


def with_law(law: ReportsLaw) -> Answer:
    """Make the answer that a study has from its reports."""
    return replace(law.at(law.alpha), law=law)


def associated(shape: tuple[int, int], v: float, skew: float = 0.0) -> Reals:
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
    name: str, table: Reals, epsilon: str, users: int, draws: int, missing: float = 0.05
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
    studies = []
    for counts in tallies:
        reports = TalliedReports(question, randomizer, counts, users)
        found = learner.conclude((with_law(ReportsLaw(question, (reports,), ALPHA)),))
        if found.test is None:
            raise TypeError(f"expected a test by {randomizer.name}, got none")
        v = found.v
        ends = (v.value, v.low, v.high)
        studies.append(_Study(found.test.p_value, *ends, None, found.detectable, False))
    true = cramers_v(law, (rows, columns))
    return _row(f"association {name}", epsilon, users, studies, true, has_z=False)


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
    studies = []
    for place, laws in enumerate(zip(*drawn, strict=True)):
        test = score_test(("a", "b"), laws) if place >= FINITE else TOO_FEW
        if isinstance(test, str):  # the statement for every number of users, too
            studies.append(_study_of(learner.conclude(tuple(map(with_law, laws)))))
        else:
            chance = chance_of(sqrt(test.statistic(0.0)))
            ends = test.interval(ALPHA * DIFFERENCE_PART, 1.0)
            estimate = test.two.ratio - test.one.ratio
            least = detectable(test.deviation, ALPHA)
            studies.append(_Study(chance, estimate, *ends, None, least, False))
    return _row(f"difference {name}", epsilon, users, studies, means[1] - means[0])


GRID = np.linspace(-1.0, 1.0, 41)


@dataclass(frozen=True, eq=False)
class Pair:
    """Laws of two numbers on `GRID` without a correlation, and a coupling that has one.

    Args:
        joint: without one, shape (41, 41).
        coupled: with the same laws of both numbers, and the greatest correlation.
        missing: share of users without one of the numbers.
    """

    joint: Reals
    coupled: Reals
    missing: float = 0.0

    def at(self, rho: float) -> Reals:
        """Return the mixture with this correlation."""
        return self.joint + rho / correlation_of(self.coupled) * (self.coupled - self.joint)


def correlation_of(joint: Reals) -> float:
    """Compute the correlation of a joint law on `GRID`."""
    x, y = joint.sum(axis=1), joint.sum(axis=0)
    means = x @ GRID, y @ GRID
    variances = x @ GRID**2 - means[0] ** 2, y @ GRID**2 - means[1] ** 2
    found = (GRID @ joint @ GRID - means[0] * means[1]) / np.sqrt(variances[0] * variances[1])
    return 0.0 if abs(found) < 1e-9 else float(found)


def independent(x: Reals, y: Reals, missing: float = 0.0) -> Pair:
    """Make two independent numbers of these laws."""
    return Pair(np.outer(x, y), _coupled(x, y), missing)


def _coupled(x: Reals, y: Reals) -> Reals:
    """Couple two laws so that both numbers rise together."""
    ends = [np.concatenate(([0.0], np.cumsum(law))) for law in (x, y)]
    lows = np.maximum.outer(ends[0][:-1], ends[1][:-1])
    return np.asarray(np.maximum(np.minimum.outer(ends[0][1:], ends[1][1:]) - lows, 0.0))


def normal(mean: float, deviation: float) -> Reals:
    """Make a normal law, what is beyond the grid at its ends."""
    from scipy.special import ndtr

    edges = np.concatenate(([-np.inf], (GRID[1:] + GRID[:-1]) / 2, [np.inf]))
    return np.asarray(np.diff(ndtr((edges - mean) / deviation)))


def points(**shares: float) -> Reals:
    """Make a law of few points, named by their places on the grid: p0, p20, p40."""
    law = np.zeros(len(GRID))
    for name, share in shares.items():
        law[int(name[1:])] = share
    return law


def square() -> Pair:
    """Make a number and its square, which have no correlation and are far from independent."""
    joint = np.zeros((41, 41))
    for place in range(0, 41, 4):
        joint[place, round(2 * 20 * GRID[place] ** 2)] = 1 / 11
    return Pair(joint, _coupled(joint.sum(axis=1), joint.sum(axis=0)))


PAIRS: dict[str, Callable[[], Pair]] = {
    "normal, deviation .4": lambda: independent(normal(0, 0.4), normal(0, 0.4)),
    "off centre, deviation .25": lambda: independent(normal(0.5, 0.25), normal(-0.4, 0.25)),
    "lattice, skewed": lambda: independent(
        points(p0=0.7, p20=0.2, p40=0.1), points(p0=0.9, p40=0.1)
    ),
    "a number and its square": square,
    "rising, .3 missing": lambda: independent(_falling(), _falling()[::-1], 0.3),
}


def _falling() -> Reals:
    law = np.exp(-3 * GRID)
    return np.asarray(law / law.sum())


def correlation_row(name: str, rho: float, epsilon: str, users: int, draws: int) -> Row:
    """Draw studies of two numbers with this correlation."""
    pair = PAIRS[name]()
    joint = pair.at(rho)
    schema = Schema("numbers", 1, x=Real(-1, 1), y=Real(-1, 1))
    learner = correlation(schema, ["x", "y"])
    (question,) = learner.batch.questions
    groups = Study(learner, schema, epsilon=epsilon).plan(users).rounds[0].groups
    rng, start, drawn = np.random.default_rng(18), 0, []
    for group in groups:
        block = Question(group.query)
        law = report_law(group.randomizer, joint, pair.missing, start)
        counts = rng.multinomial(group.users, law, size=draws) @ _signs(block.values)
        drawn.append(
            [TalliedReports(block, group.randomizer, each, group.users) for each in counts]
        )
        start += block.values
    laws = (ReportsLaw(question, reports, ALPHA) for reports in zip(*drawn, strict=True))
    studies = [_study_of(learner.conclude((with_law(law),))) for law in laws]
    return _row(f"correlation {name}", epsilon, users, studies, correlation_of(joint))


def report_law(randomizer: Any, joint: Reals, missing: float, start: int) -> Reals:
    """Compute the law of the reported patterns of a block of components, shape (patterns,).

    A user's components are rounded to signs by independent coins; a report is a pattern at a
    distance from the own one.
    """
    if not isinstance(randomizer, HypercubeResponse):
        raise TypeError(f"expected sign patterns, got {randomizer.name}")
    x, y = (axis.ravel() for axis in np.meshgrid(GRID, GRID, indexing="ij"))
    components = np.stack([x, y, 2 * x * x - 1, 2 * y * y - 1, x * y, np.ones_like(x)])
    own = components[start : start + randomizer.components]
    signs = 2 * _signs(randomizer.components) - 1
    with_both = np.prod((1 + signs[:, :, None] * own) / 2, axis=1) @ joint.ravel()
    patterns = (1 - missing) * with_both + missing / len(signs)
    distances = np.abs(signs[:, None] - signs).sum(axis=2) // 2
    near = randomizer.threshold / COIN_SPACE
    far = (1 - near) / max(len(signs) - randomizer.near, 1)
    chances = np.where(distances <= randomizer.radius, near / randomizer.near, far)
    law = patterns @ chances
    return np.asarray(law / law.sum())


@lru_cache
def _signs(components: int) -> NDArray[np.int64]:
    """List all patterns, 1 for +, shape (patterns, components)."""
    numbers = np.arange(1 << components)
    return numbers[:, None] >> np.arange(components)[::-1] & 1


@dataclass(frozen=True)
class _Study:
    chance: float
    estimate: float
    low: float
    high: float
    finite: float | None
    detectable: float | None
    undetermined: bool


def _study_of(found: Any) -> _Study:
    """Read a hypothesis that has an asymptotic test and one for every number of users."""
    every, own = found.every_size, found.p_value
    chance = 1.0 if own is None else own
    plain = own if every is None else every.p_value
    ends = (found.estimate, found.low, found.high)
    return _Study(chance, *ends, plain, found.detectable, every is None)


def _row(
    name: str,
    epsilon: str,
    users: int,
    studies: Sequence[_Study],
    true: float,
    has_z: bool = True,
) -> Row:
    holds = abs(true) < 1e-9
    below = [sum(one.chance <= level for one in studies) for level in (ALPHA, 0.01)]
    estimates = np.array([one.estimate for one in studies])
    halves = np.array([(one.high - one.low) / 2 for one in studies])
    normal_half = -ndtri(ALPHA / 2) * float(estimates.std())
    stated = [one.detectable for one in studies if one.detectable is not None]
    finite = [one.finite for one in studies if one.finite is not None]
    return Row(
        name,
        epsilon,
        users,
        len(studies),
        below[0] if holds else None,
        below[1] if holds else None,
        None if holds else below[0],
        sum(not one.low - 1e-12 <= true <= one.high + 1e-12 for one in studies),
        float(np.median(halves)) / (normal_half if has_z and normal_half > 0 else 1.0),
        by_z=int((np.abs(estimates) >= normal_half).sum()) if has_z else None,
        finite=sum(chance <= ALPHA for chance in finite) / len(finite) if finite else None,
        undetermined=sum(one.undetermined for one in studies) if has_z else None,
        error=float(np.abs(estimates - true).mean()),
        detectable=float(np.median(stated)) if 2 * len(stated) > len(studies) else None,
    )


TABLES = {
    "2 x 2": ((2, 2), 0.0),
    "2 x 2, margins .1": ((2, 2), 0.1),
    "3 x 3, margins .2": ((3, 3), 0.2),
    "4 x 5": ((4, 5), 0.0),
    "4 x 5, margins .05": ((4, 5), 0.05),
}
GROUPS = {
    "a third each": (0.5, 1 / 3),
    "groups .1 and .57": (0.2, 0.1),
    "a third each, mean .02": (0.02, 1 / 3),
    "all at the low end": (0.0, 1 / 3),
    "groups .2 and .47, mean .9": (0.9, 0.2),
}

Measure = Callable[[float], Row]
"""Measurement of a population with an effect of this size."""


def association_measures(epsilon: str, draws: int) -> Iterator[tuple[str, Measure]]:
    """List the tables; 50,000 users."""
    for name, (shape, skew) in TABLES.items():

        def measure(v: float, name: str = name, shape: Any = shape, skew: float = skew) -> Row:
            table = associated(shape, v, skew)
            return association_row(f"{name}, V {v:.3g}", table, epsilon, 50_000, draws)

        yield name, measure


def difference_measures(epsilon: str, draws: int) -> Iterator[tuple[str, Measure]]:
    """List the groups; 50,000 users."""
    for name, (mean, share) in GROUPS.items():

        def measure(gap: float, name: str = name, mean: float = mean, share: float = share) -> Row:
            first = min(mean, 1 - gap)
            means = (first, first + gap)
            return difference_row(f"{name}, {gap:.3g}", means, share, epsilon, 50_000, draws)

        yield name, measure


def correlation_measures(epsilon: str, draws: int) -> Iterator[tuple[str, Measure]]:
    """List the pairs of numbers; 100,000 users."""
    for name in PAIRS:

        def measure(rho: float, name: str = name) -> Row:
            row = correlation_row(name, rho, epsilon, 100_000, draws)
            return replace(row, test=f"{row.test}, {rho:.3g}")

        yield name, measure


PARTS = {
    "association": association_measures,
    "difference": difference_measures,
    "correlation": correlation_measures,
}


def rows_of(part: str, epsilon: str, name: str, draws: int) -> list[Row]:
    """Measure a population without an effect, and with the one that is stated to be found."""
    measure = dict(PARTS[part](epsilon, draws))[name]
    null = measure(0.0)
    if null.detectable is None:
        return [null]
    try:
        return [null, measure(null.detectable)]
    except ValueError:  # no such population: a share would be below 0
        return [null]


def null_rows(part: str, epsilon: str, name: str, draws: int) -> list[Row]:
    """Measure a population without an effect alone."""
    return [dict(PARTS[part](epsilon, draws))[name](0.0)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--epsilons", nargs="+", default=EPSILONS)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--quick", action="store_true", help="6 draws at epsilon 2")
    parser.add_argument(
        "--null",
        dest="measure",
        action="store_const",
        const=null_rows,
        default=rows_of,
        help="populations without an effect alone",
    )
    given = parser.parse_args(arguments)
    draws, epsilons = (6, ("2",)) if given.quick else (given.draws, given.epsilons)
    heads = " ".join(f"{head:>8}" for head in HEADS)
    print(f"{'test':<38} {'eps':>4} {'users':>8} {heads} {'width':>7} {'error':>7}")
    settings = [
        (part, epsilon, name)
        for part in given.only
        for epsilon in epsilons
        for name, _ in PARTS[part](epsilon, draws)
    ]
    sound = True
    for rows in _measured(settings, partial(_run, given.measure, draws), given.jobs):
        for row in rows:
            print(row, flush=True)
            sound &= row.sound
    return 0 if sound else 1


def _measured(
    settings: Sequence[tuple[str, str, str]],
    run: Callable[[tuple[str, str, str]], list[Row]],
    jobs: int,
) -> Iterator[list[Row]]:
    if jobs == 1:
        yield from map(run, settings)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run, settings)


def _run(
    measure: Callable[[str, str, str, int], list[Row]], draws: int, setting: tuple[str, str, str]
) -> list[Row]:
    part, epsilon, name = setting
    return measure(part, epsilon, name, draws)


if __name__ == "__main__":
    sys.exit(main())
