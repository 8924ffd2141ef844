"""The statements of *Privacy-preserving logistic regression*: they hold, and defects are seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from askance_aggregator.curator.logistic import (
    LOGISTIC,
    ObjectivePerturbation,
    OutputPerturbation,
    calibration,
    mechanisms,
    minimise,
)
from askance_aggregator.sampling import FloatDraws
from askance_simulation.randomness.seeds import Seed
from askance_simulation.reproduce import Effort, Setting, find
from askance_simulation.reproduce.cm08 import densities, losses, sensitivity, utility

QUICK = Setting(Effort.QUICK, Seed.of(1))
NAMES = ["logistic-sensitivity", "logistic-losses", "logistic-utility"]
Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    "name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])]
)
def test_it_holds(name: str) -> None:
    found = find(name).reproduce(QUICK)
    assert found.holds, [row for row in found.rows if row["holds"] is False]
    assert len({tuple(row) for row in found.rows}) == 1, "all rows have the same columns"
    json.dumps(found.to_json(), allow_nan=False)
    figure = Figure()
    found.draw(figure)
    assert figure.axes[0].lines


def _noise(factor: float) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        honest = mechanisms._noise
        patch.setattr(
            mechanisms,
            "_noise",
            lambda words, dimension, scale: honest(words, dimension, scale * factor),
        )

    return plant


def _laplace_length(patch: pytest.MonkeyPatch) -> None:
    """Draw the printed length."""
    patch.setattr(
        mechanisms,
        "_noise",
        lambda words, dimension, scale: (
            FloatDraws(words).expovariate(1 / scale) * FloatDraws(words).direction(dimension)
        ),
    )


def _no_change_of_variables(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calibration, "_factor", lambda *_: 0.0)


def _half_sensitivity(patch: pytest.MonkeyPatch) -> None:
    honest = OutputPerturbation.scale
    patch.setattr(OutputPerturbation, "scale", lambda self, count: honest(self, count) / 2)


def _minimum_moves_further(patch: pytest.MonkeyPatch) -> None:
    """Minimise with half the regularisation."""
    honest: Any = minimise
    patch.setattr(
        sensitivity,
        "minimise",
        lambda data, strength, *given: honest(data, strength / 2, *given),
    )


def _no_dimension(patch: pytest.MonkeyPatch) -> None:
    """Bound the length as in one dimension."""
    honest = utility.quantile
    patch.setattr(utility, "quantile", lambda _, *given: honest(1, *given))


DEFECTS: list[tuple[str, str, Plant]] = [
    ("logistic-sensitivity", "half the noise", _noise(0.5)),
    ("logistic-sensitivity", "twice the noise", _noise(2.0)),
    ("logistic-sensitivity", "half the sensitivity", _half_sensitivity),
    ("logistic-sensitivity", "half the regularisation", _minimum_moves_further),
    ("logistic-losses", "half the noise", _noise(0.5)),
    ("logistic-losses", "twice the noise", _noise(2.0)),
    ("logistic-losses", "the printed length", _laplace_length),
    ("logistic-losses", "no change of variables", _no_change_of_variables),
    ("logistic-utility", "half the noise", _noise(0.5)),
    ("logistic-utility", "twice the noise", _noise(2.0)),
    ("logistic-utility", "the printed bound", _no_dimension),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "defect", "plant"), DEFECTS, ids=[f"{one}: {two}" for one, two, _ in DEFECTS]
)
def test_a_planted_defect_turns_the_verdict(
    name: str, defect: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert not find(name).reproduce(QUICK).holds, defect


class TestLaws:
    def test_a_density_of_one_row_integrates_to_a_constant(self) -> None:
        """In one dimension, for any row: densities of neighbours have the same integral."""
        law = densities.TiltedLaw(LOGISTIC, 0.5, 2.0, laplace=False)
        axis = np.linspace(-60, 60, 240_001)[:, None]
        masses = [
            np.exp(law.log_densities(data, axis)).sum() * 0.0005
            for pair in densities.neighbours(1, 2)
            for data in pair
        ]
        assert masses == pytest.approx([masses[0]] * len(masses), rel=1e-4)

    def test_tilts_are_of_the_minimiser(self) -> None:
        data = sensitivity.pulled(1.2, 0.5)
        point = minimise(data, 0.01, np.array([3.0, -2.0]), LOGISTIC)
        law = densities.TiltedLaw(LOGISTIC, 0.01, 1.0, laplace=False)
        assert law.tilts(data, point[None])[0] == pytest.approx([3, -2], abs=1e-5)

    def test_half_the_scale_passes_epsilon(self) -> None:
        """The search finds it, for every loss."""
        for loss, kind in losses.CASES:
            mechanism = ObjectivePerturbation(losses.EPSILONS[1], losses.REGULARISATION, kind, loss)
            strength = float(losses.REGULARISATION) + mechanism.calibrated(4).added
            halved = densities.TiltedLaw(loss, strength, mechanism.scale(4) / 2, laplace=False)
            assert halved.worst_loss(2, 3) > float(losses.EPSILONS[1])


def test_theorem_4s_examples_grow_with_the_dimension() -> None:
    counts = [
        utility.Goal(dimension, losses.EPSILONS[0], 0.3).corrected_count()
        for dimension in (2, 8, 32)
    ]
    assert counts[2] / counts[1] == pytest.approx(4, rel=0.3)
    printed = {utility.Goal(d, losses.EPSILONS[0], 0.3).printed_count() for d in (2, 8, 32)}
    assert len(printed) == 1
