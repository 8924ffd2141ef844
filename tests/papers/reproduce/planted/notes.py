"""Defects for the reproductions of the lecture notes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from tests.papers.reproduce.planted.defect import (
    HALF_SENSITIVITY,
    ORACLES,
    QUIET_TALLIES,
    REPRODUCE,
    Defect,
    Defects,
    argument_times,
    times,
)


def _quarter_of_the_variance(honest: Any) -> Any:
    """Move every mean half way to one half of its range's upper end."""

    def expectations(question: Any, rows: Any, *others: Any) -> Any:
        middle = sum(question.bounds) / 2
        return [middle + (value - middle) / 2 for value in honest(question, rows, *others)]

    return expectations


def _one_minus_eta(honest: Any) -> Any:
    """Divide by 1 - eta instead of 1 - 2 eta."""

    def answer(oracle: Any, question: Any) -> Any:
        found, eta = honest(oracle, question), float(oracle._eta)
        factor = (1 - 2 * eta) / (1 - eta)
        return replace(found, values=tuple(value * factor for value in found.values))

    return answer


_LONG_DRAWS = Defect(
    "Laplace draws twice as large",
    "askance_aggregator.oracles.laplace:discrete_laplace",
    argument_times(1, Fraction(2)),
)

DEFECTS: Defects = {
    "theorem-3": (
        Defect(
            "Laplace draws a tenth smaller",
            "askance_aggregator.oracles.laplace:discrete_laplace",
            argument_times(1, Fraction(9, 10)),
        ),
        Defect(
            "Laplace draws a tenth larger",
            "askance_aggregator.oracles.laplace:discrete_laplace",
            argument_times(1, Fraction(11, 10)),
        ),
        HALF_SENSITIVITY,
    ),
    "theorem-5": (
        QUIET_TALLIES,
        Defect(
            "a plan for beta = .95",
            f"{REPRODUCE}.notes.theorem_5:plan",
            lambda honest: lambda learner, nano, _: honest(learner, nano, 0.95),
        ),
    ),
    "theorem-6": (
        Defect(
            "a quarter of the sample's variance",
            f"{ORACLES}.empirical:expectations",
            _quarter_of_the_variance,
        ),
        Defect("half as many examples", f"{ORACLES}.empirical:log", times(0.5)),
    ),
    "theorem-7": (HALF_SENSITIVITY, _LONG_DRAWS),
    "theorem-8": (
        Defect(
            "1 - eta for 1 - 2 eta",
            f"{ORACLES}.noise:ClassificationNoiseOracle._answer",
            _one_minus_eta,
        ),
        Defect("half as many examples", f"{ORACLES}.noise:log", times(0.5)),
    ),
    "local-vs-central": (HALF_SENSITIVITY, QUIET_TALLIES),
}
