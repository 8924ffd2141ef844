"""Measured errors of synopsis generators beside their bounds, and the exponents they grow with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Event, EventCounts, ZeroConcentrated
from askance_aggregator.sampling import Words
from askance_papers.curator.synopsis import BoostingPlan, QuerySet, Schedule, boost, tight_plan
from askance_papers.reproduce.checks import counts_agree, normal_noise, rate_exceeded
from askance_papers.reproduce.drv10.claim_iv_2 import figure_1_law
from askance_papers.reproduce.reproduction import Row, Setting, dot_plot
from askance_simulation.randomness import SeededWords

Floats = NDArray[np.float64]

DELTA = Fraction(1, 10**6)
BETA = 0.1  # of failures that a bound allows
_NEAR = 0.35  # of an exponent, twice that of boosted errors
_NOISES = 40  # batches of answers of which the noise is measured
_SPENT = 0.99  # of epsilon, at least: what is not spent was noise for nothing


@dataclass(frozen=True, slots=True)
class ReleaseErrors:
    """Errors of several releases at one number of records and one epsilon.

    Args:
      each: one per release.
      bound: what they are at most, except with probability `BETA`; None where there is none
        below 1.
      events: of one release.
      noise: whether the noise of the answers has the claimed variance.
    """

    statement: str
    case: str
    n: int
    epsilon: Fraction
    each: tuple[float, ...]
    bound: float | None
    events: tuple[Event, ...]
    noise: bool

    @property
    def mean(self) -> float:
        """Mean error."""
        return float(np.mean(self.each))

    def row(self) -> Row:
        """Compare with the bound and with the budget."""
        cost = ZeroConcentrated().epsilon(EventCounts.of(self.events), DELTA)
        share = cost / float(self.epsilon)
        above = 0 if self.bound is None else sum(each > self.bound for each in self.each)
        within = not rate_exceeded(above, len(self.each), BETA)
        return {
            "statement": self.statement,
            "case": self.case,
            "n": self.n,
            "epsilon": float(self.epsilon),
            "error": self.mean,
            "bound": self.bound,
            "above": above,
            "trials": len(self.each),
            "of epsilon": share,
            "noise": self.noise,
            "exponent": None,
            "claimed": None,
            "holds": within and _SPENT <= share <= 1 and self.noise,
        }


Measure = Callable[[int, Fraction, Setting], ReleaseErrors]
"""Measurement of several releases of n records at one epsilon."""


def release_rows(
    base: Measure,
    boosted: Measure,
    sizes: Sequence[int],
    epsilons: Sequence[Fraction],
    setting: Setting,
) -> list[Row]:
    """Measure a base generator and its boosting, with the exponents of both.

    All sizes are measured with the first epsilon, and all epsilons with the last size.
    """
    found: tuple[list[ReleaseErrors], list[ReleaseErrors]] = ([], [])
    for n, epsilon in _settings(sizes, epsilons):
        for errors, measure in zip(found, (base, boosted), strict=True):
            errors.append(measure(n, epsilon, setting))
            setting.progress(f"{errors[-1].statement}, n = {n}, epsilon = {float(epsilon):g}")
    return [
        *measured_rows(found[0], sizes, epsilons, _NEAR),
        *measured_rows(found[1], sizes, epsilons, 2 * _NEAR),
        weighed_row(found[1][0].statement, setting),
    ]


@dataclass(slots=True)
class WrongAnswers:
    """Base generator that errs by the same in every round, and records what it was asked."""

    errors: NDArray[np.int64]
    asked: list[int]
    events: tuple[Event, ...] = ()

    def generate(self, chosen: NDArray[np.int64], words: Words) -> tuple[None, Floats]:
        """Return the wrong answers about all queries, in units."""
        self.asked += chosen.tolist()
        return None, self.errors.astype(np.float64)


def weighed_row(statement: str, setting: Setting) -> Row:
    """Boost one sampled query a round, and compare what is asked with Figure 1's distributions."""
    errors = np.array([0, 1, 2, 4, 6, 9, 12, 20])
    schedule = Schedule(3, 1, 2, 10, Fraction(1))
    words = SeededWords(setting.seed / statement / "weights")
    generator = WrongAnswers(errors, [])
    for _ in range(500 if setting.quick else 5000):
        boost(np.zeros_like(errors), generator, schedule, words)
    asked = np.reshape(generator.asked, (-1, schedule.rounds))
    fits = all(
        counts_agree(
            np.bincount(chosen, minlength=len(errors)), figure_1_law(errors, schedule, rounds)
        )
        for rounds, chosen in enumerate(asked.T)
    )
    return _blank(statement, "what is asked") | {"trials": len(asked), "noise": fits, "holds": fits}


def _settings(sizes: Sequence[int], epsilons: Sequence[Fraction]) -> Iterator[tuple[int, Fraction]]:
    yield from ((n, epsilons[0]) for n in sizes)
    yield from ((sizes[-1], epsilon) for epsilon in epsilons[1:])


def noise_agrees(draw_noise: Callable[[], NDArray[np.floating[Any]]], deviation: float) -> bool:
    """Return whether the noise of answers has the claimed deviation, from both sides."""
    return normal_noise([draw_noise() for _ in range(_NOISES)], deviation).possible


def bound_of(plan: BoostingPlan) -> float | None:
    """Return the bound of a plan's errors; None where it is 1 or more and says nothing."""
    bound = float(plan.schedule.bound)
    return bound if bound < 1 else None


def draw_errors(figure: Any, rows: Sequence[Row]) -> None:
    """Draw the mean errors beside their bounds."""
    dot_plot(
        figure,
        [row for row in rows if row["error"] is not None],
        lambda row: f"{row['statement']}, n = {row['n']:,}, ε = {row['epsilon']:g}",
        {"bound": "bound (none above 1)", "error": "mean error"},
        "error of an answer between 0 and 1",
    )


def exponent_row(
    statement: str, case: str, xs: Sequence[float], ys: Sequence[float], claimed: float, by: float
) -> Row:
    """Fit y = c x^a by least squares of logarithms; holds if a is within `by` of the claimed."""
    found = float(np.polyfit(np.log(xs), np.log(ys), 1)[0])
    holds = abs(found - claimed) <= by
    return _blank(statement, case) | {"exponent": found, "claimed": claimed, "holds": holds}


def _blank(statement: str, case: str) -> dict[str, Any]:
    return {
        "statement": statement,
        "case": case,
        "n": None,
        "epsilon": None,
        "error": None,
        "bound": None,
        "above": None,
        "trials": None,
        "of epsilon": None,
        "noise": None,
        "exponent": None,
        "claimed": None,
        "holds": None,
    }


def measured_rows(
    found: Sequence[ReleaseErrors], sizes: Sequence[int], epsilons: Sequence[Fraction], by: float
) -> list[Row]:
    """Make the rows of one statement: each error, and its exponents in n and in epsilon.

    `found` has the errors at all sizes with the first epsilon, and at all epsilons with the last
    size; `by` is how far an exponent may be from -1.
    """
    statement = found[0].statement
    by_size = [one.mean for one in found if one.epsilon == epsilons[0]]
    by_epsilon = [one.mean for one in found if one.n == sizes[-1]]
    floats = [float(epsilon) for epsilon in epsilons]
    return [
        *(one.row() for one in found),
        exponent_row(statement, "error by n", sizes, by_size, -1.0, by),
        exponent_row(statement, "error by epsilon", floats, by_epsilon, -1.0, by),
    ]


def slack_row(statement: str, case: str, samples: Callable[[float], int], claimed: float) -> Row:
    """Fit the exponent in ln |Q| of boosting's mu, from plans at the same n."""
    logs, slacks = [], []
    for power in (2, 4, 8, 16, 32):
        spread = power * log(10)
        plan = tight_plan(QuerySet(10**power, Fraction(1, 10**9), 1), 1, DELTA, samples(spread))
        logs.append(spread)
        slacks.append(float(plan.schedule.slack))
    return exponent_row(statement, case, logs, slacks, claimed, 0.05)
