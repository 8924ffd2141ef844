"""Theorem V.2's generator: noise of the stated variance, and the database that fits it best."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from askance_aggregator.composition import Concentrated
from askance_papers.curator.synopsis import (
    Histogram,
    LowSensitivityQueries,
    NoisySearchGenerator,
    Universe,
    boosted_search,
    tight_plan,
)
from askance_simulation.randomness import SeededWords

BITS, N = Universe((2,)), 60
ALPHA = 1e-6
RHO = Fraction(1, 8)


def larger(databases: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute the first share, the larger share, and half of their distance."""
    shares = databases / databases.sum(axis=1, keepdims=True)
    distance = np.abs(shares[:, 0] - shares[:, 1]) / 2
    return np.stack([shares[:, 0], shares.max(axis=1), distance], axis=1)


def made(rho: Fraction = RHO) -> tuple[NoisySearchGenerator, NDArray[np.int64], float]:
    queries = LowSensitivityQueries(BITS, N, Fraction(1, N), larger)
    truth = queries.truth(Histogram(BITS, np.array([45, 15])))
    return NoisySearchGenerator(queries, truth, N, rho), truth, float(queries.query_set.unit)


def test_noise_has_the_variance_of_its_event(words: Callable[[str], SeededWords]) -> None:
    """K rho^2/(2 rho') for k answers: half of it and twice as much are outside the interval."""
    generator, truth, unit = made()
    assert generator.events == (Concentrated(RHO),)
    chosen, drawn = np.array([0, 2]), words("noise")
    noise = np.concatenate([generator.noisy(chosen, drawn) - truth[chosen] for _ in range(500)])
    claimed = 2 / N**2 / (2 * float(RHO))
    statistic = float((noise * unit) @ (noise * unit)) / claimed
    low, high = chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], noise.size)
    assert low <= statistic <= high
    assert not low <= statistic / 2 <= high
    assert not low <= statistic * 2 <= high


def test_little_noise_finds_the_data(words: Callable[[str], SeededWords]) -> None:
    generator, truth, unit = made(Fraction(10**6))
    synopsis, answers = generator.generate(np.arange(3), words("little"))
    assert synopsis.weights == pytest.approx([0.75, 0.25])
    assert answers == pytest.approx(truth * unit)


def test_the_synopsis_fits_noisy_answers_as_well_as_the_data_do(
    words: Callable[[str], SeededWords], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data are a candidate, so the least greatest distance is at most theirs."""
    generator, truth, unit = made()
    for place in range(20):
        noisy = generator.noisy(np.arange(3), words(f"fit {place}"))
        monkeypatch.setattr(generator, "noisy", lambda *_, noisy=noisy: noisy)
        _, answers = generator.generate(np.arange(3), words("unused"))
        found = np.abs(answers / unit - noisy).max()
        assert found <= np.abs(truth - noisy).max() + 1e-6
        monkeypatch.undo()


def test_boosting_runs_on_it(words: Callable[[str], SeededWords]) -> None:
    queries = LowSensitivityQueries(BITS, N, Fraction(1, N), larger)
    histogram = Histogram(BITS, np.array([45, 15]))
    plan = tight_plan(queries.query_set, 60, "1e-6", samples=3)
    found, events = boosted_search(
        histogram, queries, N, plan, words("boosted"), NoisySearchGenerator
    )
    truth = queries.truth(histogram) * float(queries.query_set.unit)
    assert np.abs(found.answers - truth).max() < 0.1
    assert events[: plan.schedule.rounds] == (Concentrated(plan.answer_rho),) * plan.schedule.rounds
