"""DRV10, Claim IV.2: neighbours' distributions over queries, after t rounds, by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_papers.curator import synopsis
from askance_papers.reproduce.checks import counts_agree
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting, dot_plot
from askance_simulation.randomness import SeededWords

NAME = "claim-iv.2"
RECORDS, ROUNDS = 40, (1, 3, 8)
SLACKS = (4, 12)  # mu, in units of rho
ACCURATE = 3  # lambda, in the same units
ATTAINED = 0.97  # of 4 alpha t rho/mu: what opposed queries reach
_ROUNDED = 1e-9


@dataclass(frozen=True, slots=True)
class ReleasedAnswers:
    """Queries, records, and the answers that were released about them.

    Args:
      errors: of a round's answers, in units, signed; shape (size,).
    """

    name: str
    family: synopsis.QueryFamily
    counts: NDArray[np.int64]
    errors: NDArray[np.int64]
    attains: bool


def reproduce(setting: Setting) -> Reproduction:
    """Enumerate the ratios over all neighbours of a data set, and draw queries."""
    rows = []
    for case in cases(setting):
        for slack in SLACKS:
            for rounds in ROUNDS:
                rows.append(measured(case, slack, rounds, setting))
        setting.progress(case.name)
    return Reproduction(
        name=NAME,
        source="DRV10, Claim IV.2",
        statement=(
            "After t of T rounds with the same released answers, neighbours' distributions over"
            " queries are within e^(4 alpha T rho/mu) of each other."
        ),
        differs_from_print=(
            "True, and less is: t stands in place of T. The log-ratios of one pair have a range of"
            " at most 4 alpha t rho/mu too, which is what the tight accounting charges."
        ),
        rows=tuple(rows),
        notes=(
            f"{RECORDS} records; every neighbour of the data set is enumerated. A row holds if no"
            " log-ratio and no range passes the charge of a draw after t rounds, if opposed"
            f" queries reach {ATTAINED:g} of it, and if drawn queries have the enumerated"
            " distribution (chi-square, two-sided, at 1e-6).",
        ),
        draw=lambda figure: dot_plot(
            figure,
            rows,
            lambda row: f"{row['queries']}, mu = {row['mu / rho']} rho, t = {row['t']}",
            {"4 alpha t rho/mu": "bound", "log-ratio": "worst log-ratio", "range": "worst range"},
            "nats",
        ),
    )


def cases(setting: Setting) -> tuple[ReleasedAnswers, ...]:
    """Make opposed queries, whose errors move against each other, and random ones."""
    opposed = np.zeros((200, 2))
    opposed[:199, 0] = opposed[199, 1] = 1  # a record's move raises one and lowers all others
    half = np.array([RECORDS // 2, RECORDS // 2])
    signs = np.full(200, ACCURATE + 2)
    rng = generator(setting.seed / NAME)
    random = (rng.random((60, 4)) < 0.5).astype(np.float64)
    return (
        ReleasedAnswers(
            "opposed", synopsis.MatrixQueries(synopsis.Universe((2,)), opposed), half, signs, True
        ),
        ReleasedAnswers(
            "random",
            synopsis.MatrixQueries(synopsis.Universe((2, 2)), random),
            np.array([17, 11, 8, 4]),
            rng.integers(-9, 10, 60),
            False,
        ),
    )


def measured(case: ReleasedAnswers, slack: int, rounds: int, setting: Setting) -> Row:
    """Enumerate one data set's neighbours after some rounds."""
    schedule = synopsis.Schedule(rounds + 1, 50, ACCURATE, slack, Fraction(1, RECORDS))
    plan = synopsis.BoostingPlan(
        "tight", synopsis.QuerySet.counting(case.family, RECORDS), schedule, Fraction(1, 100)
    )
    bound = float(plan.draw_range(rounds))
    own = after(case, case.counts, schedule, rounds)
    ours, worst, widest = own.log_probabilities(), 0.0, 0.0
    for neighbour in neighbours(case.counts):
        ratio = ours - after(case, neighbour, schedule, rounds).log_probabilities()
        worst = max(worst, float(np.abs(ratio).max()))
        widest = max(widest, float(ratio.max() - ratio.min()))
    draws = 4000 if setting.quick else 40_000
    words = SeededWords(setting.seed / NAME / f"{case.name} {slack} {rounds}")
    drawn = np.bincount(own.draw(words, draws), minlength=case.family.size)
    fits = counts_agree(drawn, figure_1_law(case.errors, schedule, rounds))
    below = worst <= bound * (1 + _ROUNDED) and widest <= bound * (1 + _ROUNDED)
    reached = not case.attains or min(worst, widest) >= ATTAINED * bound
    return {
        "queries": case.name,
        "mu / rho": slack,
        "t": rounds,
        "log-ratio": worst,
        "range": widest,
        "4 alpha t rho/mu": bound,
        "of bound": worst / bound if bound else None,
        "drawn": fits,
        "holds": below and reached and fits,
    }


def after(
    case: ReleasedAnswers, counts: NDArray[np.int64], schedule: synopsis.Schedule, rounds: int
) -> synopsis.QueryWeights:
    """Reweight by answers that were released about the case's own records."""
    truth = case.family.counts(synopsis.Histogram(case.family.universe, counts))
    released = (
        case.family.counts(synopsis.Histogram(case.family.universe, case.counts)) + case.errors
    )
    weights = synopsis.QueryWeights(case.family.size, schedule)
    for _ in range(rounds):
        weights.reweight(np.abs(truth - released))
    return weights


def figure_1_law(
    errors: NDArray[np.int64], schedule: synopsis.Schedule, rounds: int
) -> NDArray[np.float64]:
    """Compute Figure 1's distribution over queries after rounds with these errors, by its formulas.

    `errors` are signed, in units, shape (size,), and the same in every round.
    """
    alpha = np.log(5) / 2
    each = np.clip(1 - 2 * (np.abs(errors) - schedule.accurate) / schedule.slack, -1, 1)
    found = np.exp(-alpha * rounds * each)
    return np.asarray(found / found.sum())


def neighbours(counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return every histogram that differs in one record."""
    found = []
    for left in np.flatnonzero(counts):
        for entered in range(len(counts)):
            if entered != left:
                moved = counts.copy()
                moved[left] -= 1
                moved[entered] += 1
                found.append(moved)
    return found
