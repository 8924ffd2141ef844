"""Defects for the reproductions of *Boosting and Differential Privacy*."""

from __future__ import annotations

from fractions import Fraction

from tests.papers.reproduce.planted.defect import (
    CURATOR,
    REPRODUCE,
    Defect,
    Defects,
    argument_times,
    times,
)

_UNCHARGED = Defect(
    "draws that are not charged",
    f"{CURATOR}.synopsis.accounting:BoostingPlan.sampling_events",
    lambda honest: lambda plan: (),
)
_SEARCH_VARIANCE = f"{CURATOR}.synopsis.small_databases:NoisySearchGenerator.variance"
_GAUSSIAN = f"{CURATOR}.synopsis.boosting:discrete_gaussian"
_COMPOSITION = "askance_aggregator.composition"

DEFECTS: Defects = {
    "lemma-iii.2": (
        Defect(
            "draws at half of the rate",
            f"{REPRODUCE}.drv10.lemma_iii_2:exponential_draws",
            argument_times(2, Fraction(1, 2)),
        ),
        Defect(
            "Laplace draws of half the scale",
            f"{REPRODUCE}.drv10.lemma_iii_2:discrete_laplace",
            argument_times(1, Fraction(1, 2)),
        ),
        Defect(
            "Laplace draws of twice the scale",
            f"{REPRODUCE}.drv10.lemma_iii_2:discrete_laplace",
            argument_times(1, Fraction(2)),
        ),
    ),
    "theorem-iii.3": (
        Defect(
            "an optimum lower by one in a thousand",
            f"{_COMPOSITION}:Optimal.epsilon",
            times(0.999),
        ),
        Defect(
            "an optimum higher by one in a thousand",
            f"{_COMPOSITION}:Optimal.epsilon",
            times(1.001),
        ),
        Defect("half of the advanced bound", f"{_COMPOSITION}:Advanced.epsilon", times(0.5)),
        Defect("four fifths of the sum", f"{_COMPOSITION}:Sum.epsilon", times(0.8)),
        Defect(
            "responses at half of epsilon",
            f"{REPRODUCE}.drv10.theorem_iii_3:exponential_draws",
            argument_times(2, Fraction(1, 2)),
        ),
        Defect(
            "deltas that are not summed",
            f"{_COMPOSITION}.events:EventCounts.sum_of_deltas",
            lambda honest: lambda totals: Fraction(0),
        ),
    ),
    "claim-iv.2": (
        Defect(
            "weights by twice the errors",
            f"{CURATOR}.synopsis.boosting:QueryWeights.reweight",
            argument_times(1, 2),
        ),
        Defect(
            "half of alpha",
            f"{CURATOR}.synopsis.boosting:TWO_ALPHA",
            lambda honest: honest / 2,
        ),
        Defect(
            "half of the charge",
            f"{CURATOR}.synopsis.accounting:BoostingPlan.draw_range",
            times(Fraction(1, 2)),
        ),
        Defect(
            "draws at half of the rate",
            f"{CURATOR}.synopsis.boosting:exponential_draws",
            argument_times(2, Fraction(1, 2)),
        ),
    ),
    "lemma-v.1": (
        Defect(
            "seven tenths of the samples",
            f"{REPRODUCE}.drv10.lemma_v_1:queries_for",
            lambda honest: lambda *given: round(honest(*given) * 0.7),
        ),
        Defect(
            "seven fifths of the samples",
            f"{REPRODUCE}.drv10.lemma_v_1:queries_for",
            lambda honest: lambda *given: round(honest(*given) * 1.4),
        ),
    ),
    "theorem-v.2": (
        Defect("a quarter of the variance", _SEARCH_VARIANCE, times(Fraction(1, 4))),
        Defect("four times the variance", _SEARCH_VARIANCE, times(4)),
        _UNCHARGED,
    ),
    "theorem-v.3": (
        Defect("a quarter of the variance", _GAUSSIAN, argument_times(1, Fraction(1, 4))),
        _UNCHARGED,
    ),
    "composition": (
        Defect(
            "an optimum lower by one in ten thousand",
            "askance_aggregator.composition:Optimal.epsilon",
            times(1 - 1e-4),
        ),
        Defect(
            "zCDP a tenth too high",
            "askance_aggregator.composition:ZeroConcentrated.epsilon",
            times(1.1),
        ),
    ),
    "boosting": (
        Defect(
            "a sixteenth of the Gaussian variance in boosting",
            f"{CURATOR}.synopsis.boosting:discrete_gaussian",
            argument_times(1, Fraction(1, 16)),
        ),
        Defect(
            "half of the noise of Laplace answers",
            f"{CURATOR}.synopsis.independent:discrete_laplace",
            argument_times(1, Fraction(1, 2)),
        ),
        Defect(
            "half of MWEM's noise",
            f"{CURATOR}.synopsis.mwem:discrete_laplace",
            argument_times(1, Fraction(1, 2)),
        ),
    ),
}
