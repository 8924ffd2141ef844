"""Defects for the reproductions of *Privacy-preserving logistic regression*."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from askance_aggregator.sampling import FloatDraws
from tests.papers.reproduce.planted.defect import (
    CURATOR,
    REPRODUCE,
    Defect,
    Defects,
    argument_times,
    times,
)


def _noise_epsilon_doubled(honest: Any) -> Any:
    def calibrate(*given: Any) -> Any:
        found = honest(*given)
        return replace(found, noise_epsilon=2 * found.noise_epsilon)

    return calibrate


def _laplace_length(_: Any) -> Any:
    """Draw the printed length."""

    def noise(words: Any, dimension: int, scale: float) -> Any:
        draws = FloatDraws(words)
        return draws.expovariate(1 / scale) * draws.direction(dimension)

    return noise


def _one_dimension(honest: Any) -> Any:
    return lambda dimension, *given: honest(1, *given)


_MECHANISMS = f"{CURATOR}.logistic.mechanisms"
_HALF_OUTPUT_NOISE = Defect(
    "half of the output noise", f"{_MECHANISMS}:OutputPerturbation.scale", times(0.5)
)
_LOGISTIC = (
    _HALF_OUTPUT_NOISE,
    Defect("half of the objective noise", f"{_MECHANISMS}:calibrate", _noise_epsilon_doubled),
)
_NOISE = (
    Defect("half of the noise", f"{_MECHANISMS}:_noise", argument_times(2, 0.5)),
    Defect("twice the noise", f"{_MECHANISMS}:_noise", argument_times(2, 2.0)),
)

DEFECTS: Defects = {
    "logistic-sensitivity": (
        *_NOISE,
        _HALF_OUTPUT_NOISE,
        Defect(
            "half of the regularisation",
            f"{REPRODUCE}.cm08.sensitivity:minimise",
            argument_times(1, 0.5),
        ),
    ),
    "logistic-losses": (
        *_NOISE,
        Defect("the printed length", f"{_MECHANISMS}:_noise", _laplace_length),
        Defect(
            "no change of variables",
            f"{_MECHANISMS}:_factor",
            lambda honest: lambda *given: 0.0,
        ),
    ),
    "logistic-utility": (
        *_NOISE,
        Defect(
            "a bound for one dimension",
            f"{REPRODUCE}.cm08.utility:quantile",
            _one_dimension,
        ),
    ),
    "logistic-figure-1": _LOGISTIC,
    "logistic-figure-2": _LOGISTIC,
    "logistic-figure-3": _LOGISTIC,
    "logistic-figure-4": _LOGISTIC,
}
