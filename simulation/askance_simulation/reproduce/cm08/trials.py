"""Test errors of private logistic regression: printed, corrected, and without privacy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.curator.logistic import (
    Examples,
    LogisticCalibration,
    ObjectivePerturbation,
    OutputPerturbation,
    minimise,
)
from askance_aggregator.sampling import Words
from askance_simulation.randomness.seeds import Seed
from askance_simulation.randomness.words import SeededWords
from askance_simulation.reproduce.cm08.data import Split
from askance_simulation.reproduce.cm08.printed import PrintedObjective, PrintedOutput


class Version(StrEnum):
    """Algorithm of a trial."""

    STANDARD = "standard"  # no privacy
    PRINTED = "printed"  # not private
    CORRECTED = "corrected"
    CORRECTED_JMLR = "corrected, jmlr"
    CORRECTED_JOINT = "corrected, joint"


_CALIBRATIONS = {
    Version.CORRECTED: LogisticCalibration.RANK_ONE,
    Version.CORRECTED_JMLR: LogisticCalibration.JMLR,
    Version.CORRECTED_JOINT: LogisticCalibration.JOINT,
}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Algorithm of a figure: one of its lines.

    Args:
      mechanism: "output" (the paper's sensitivity method) or "objective" (its new method); "none"
        without privacy.
      epsilon: as stated; None without privacy.
    """

    version: Version
    mechanism: str
    epsilon: str | None

    @property
    def private(self) -> bool:
        """Return whether the algorithm is epsilon-differentially private."""
        return self.version not in (Version.STANDARD, Version.PRINTED)

    def release(self, examples: Examples, regularisation: str, words: Words) -> NDArray[np.float64]:
        """Return the coefficients that are learnt, shape (d,)."""
        if self.epsilon is None:
            return minimise(examples, float(regularisation))
        if self.version is Version.PRINTED:
            printed = PrintedOutput if self.mechanism == "output" else PrintedObjective
            return printed(float(self.epsilon), float(regularisation)).release(examples, words)
        budget, strength = Fraction(self.epsilon), Fraction(regularisation)
        if self.mechanism == "output":
            return OutputPerturbation(budget, strength).release(examples, words)
        calibration = _CALIBRATIONS[self.version]
        return ObjectivePerturbation(budget, strength, calibration).release(examples, words)


STANDARD = Algorithm(Version.STANDARD, "none", None)


def pair(version: Version, epsilon: str) -> tuple[Algorithm, Algorithm]:
    """Return output and objective perturbation."""
    return Algorithm(version, "output", epsilon), Algorithm(version, "objective", epsilon)


@dataclass(frozen=True, slots=True)
class Errors:
    """Test errors of several runs.

    Args:
      each: shape (runs,).
    """

    each: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Mean error of the runs."""
        return float(self.each.mean())

    @property
    def deviation(self) -> float:
        """The standard deviation of a run."""
        return float(self.each.std(ddof=1))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over the runs."""
        return self.deviation / math.sqrt(len(self.each))


def measure(
    algorithm: Algorithm,
    regularisation: str,
    splits: Iterable[Split],
    restarts: int,
    seed: Seed,
) -> Errors:
    """Return the errors of `restarts` runs a split (of one, where there is no chance)."""
    words = SeededWords(seed / f"{algorithm.version} {algorithm.mechanism} {algorithm.epsilon}")
    runs = restarts if algorithm.epsilon is not None else 1
    return Errors(
        np.array(
            [
                share_wrong(algorithm.release(train, regularisation, words), test)
                for train, test in splits
                for _ in range(runs)
            ]
        )
    )


def share_wrong(point: NDArray[np.float64], test: Examples) -> float:
    """Return the share of rows that lie on the wrong side, or on neither."""
    return float((test.signed @ point <= 0).mean())


def exceeds(one: Errors, other: Errors, by: float) -> bool:
    """Return whether a mean is more than `by` standard errors above another."""
    spread = float(np.hypot(one.standard_error, other.standard_error))
    return one.mean - other.mean > by * spread
