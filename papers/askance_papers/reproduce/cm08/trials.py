"""Test errors of private logistic regression: printed, corrected, and without privacy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import expm1, log1p

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling import Words
from askance_papers.curator.logistic import (
    Examples,
    LogisticCalibration,
    ObjectivePerturbation,
    OutputPerturbation,
    minimise,
)
from askance_papers.reproduce.checks import NoiseCheck, directions_agree, spherical_noise
from askance_papers.reproduce.cm08.data import Split
from askance_papers.reproduce.cm08.printed import PrintedObjective, PrintedOutput
from askance_simulation.randomness import Seed, SeededWords

Floats = NDArray[np.float64]

_CURVATURE = 0.25  # of log(1 + e^-m), at most


@dataclass(frozen=True, slots=True)
class ClaimedNoise:
    """Law of a noise vector's length, and the loss that it stands in.

    Args:
      shape: of the length's Gamma law: d where the algorithm is private, 1 as printed.
      scale: of the length's Gamma law, in the unit of what is perturbed.
      strength: regularisation of the loss that is minimised.
    """

    shape: float
    scale: float
    strength: float


def output_noise(epsilon: float, count: int, regularisation: float, dimension: int) -> ClaimedNoise:
    """Return the noise of Algorithm 1: scale 2 / (n lambda epsilon), the sensitivity over epsilon.

    `dimension` is the Gamma shape of the length: d, or 1 as printed.
    """
    return ClaimedNoise(dimension, 2 / (count * regularisation * epsilon), regularisation)


def printed_objective_noise(epsilon: float, regularisation: float) -> ClaimedNoise:
    """Return the tilt of Algorithm 2 as printed: an exponential length of scale 2/epsilon."""
    return ClaimedNoise(1, 2 / epsilon, regularisation)


def rank_one_noise(
    epsilon: float, count: int, regularisation: float, dimension: int
) -> ClaimedNoise:
    """Return the tilt where one factor 1 + 1/(4 n strength) is paid for, by epsilon/2 at most."""
    least = _CURVATURE / (count * expm1(epsilon / 2))
    strength = max(regularisation, least)
    left = epsilon - log1p(_CURVATURE / (count * strength))
    return ClaimedNoise(dimension, 2 / left, strength)


def jmlr_noise(epsilon: float, count: int, regularisation: float, dimension: int) -> ClaimedNoise:
    """Return the tilt of Chaudhuri, Monteleoni, Sarwate (JMLR 2011), Algorithm 2."""
    left = epsilon - 2 * log1p(_CURVATURE / (count * regularisation))
    if left > 0:
        return ClaimedNoise(dimension, 2 / left, regularisation)
    strength = _CURVATURE / (count * expm1(epsilon / 4))
    return ClaimedNoise(dimension, 4 / epsilon, strength)


def joint_noise(epsilon: float, count: int, regularisation: float, dimension: int) -> ClaimedNoise:
    """Return the tilt of scale 2/epsilon, beside a regularisation of 2/(n epsilon) or more."""
    return ClaimedNoise(dimension, 2 / epsilon, max(regularisation, 2 / (count * epsilon)))


def drawn_tilt(released: Floats, examples: Examples, strength: float) -> Floats:
    """Return the only tilt whose minimiser is the release, shape (d,)."""
    missing = np.exp(-np.logaddexp(0.0, examples.signed @ released))
    found: Floats = examples.signed.T @ missing - examples.count * strength * released
    return found


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
_TILTS = {
    Version.CORRECTED: rank_one_noise,
    Version.CORRECTED_JMLR: jmlr_noise,
    Version.CORRECTED_JOINT: joint_noise,
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

    def release(self, examples: Examples, regularisation: str, words: Words) -> Floats:
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

    def claimed(self, examples: Examples, regularisation: str) -> ClaimedNoise | None:
        """Return the law that the noise of a release is claimed to have; None: there is none."""
        if self.epsilon is None:
            return None
        epsilon, strength = float(self.epsilon), float(regularisation)
        if self.mechanism == "output":
            shape = 1 if self.version is Version.PRINTED else examples.dimension
            return output_noise(epsilon, examples.count, strength, shape)
        if self.version is Version.PRINTED:
            return printed_objective_noise(epsilon, strength)
        return _TILTS[self.version](epsilon, examples.count, strength, examples.dimension)


STANDARD = Algorithm(Version.STANDARD, "none", None)


def pair(version: Version, epsilon: str) -> tuple[Algorithm, Algorithm]:
    """Return output and objective perturbation."""
    return Algorithm(version, "output", epsilon), Algorithm(version, "objective", epsilon)


@dataclass(frozen=True, slots=True)
class Errors:
    """Test errors of several runs, and their noise.

    Args:
      each: shape (runs,).
      noise: of the runs beside the claimed law; None: there is no noise.
      drawn: noise of each run, in units of its claimed scale, shape (runs, d).
      beside: minimisers without noise, shape (runs, d).
    """

    each: Floats
    noise: NoiseCheck | None = None
    drawn: Floats | None = None
    beside: Floats | None = None

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
    errors, drawn, beside, shape = [], [], [], 0.0
    for train, test in splits:
        claimed = algorithm.claimed(train, regularisation)
        least = None if claimed is None else minimise(train, claimed.strength)
        for _ in range(runs):
            point = algorithm.release(train, regularisation, words)
            errors.append(share_wrong(point, test))
            if claimed is not None and least is not None:
                output = algorithm.mechanism == "output"
                noise = point - least if output else drawn_tilt(point, train, claimed.strength)
                drawn.append(noise / claimed.scale)
                beside.append(least)
                shape = claimed.shape
    if not drawn:
        return Errors(np.array(errors))
    vectors, least_ones = np.array(drawn), np.array(beside)
    noise_found = spherical_noise(vectors, shape, 1.0, least_ones)
    return Errors(np.array(errors), noise_found, vectors, least_ones)


def noises_agree(measured: Iterable[Errors]) -> bool:
    """Return whether the noises of one data set's runs, all together, have uniform directions.

    A row's few runs are found out by little less than a common direction.
    """
    pairs = [
        (errors.drawn, errors.beside)
        for errors in measured
        if errors.drawn is not None and errors.beside is not None
    ]
    drawn, beside = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return directions_agree(drawn, beside)


def share_wrong(point: Floats, test: Examples) -> float:
    """Return the share of rows that lie on the wrong side, or on neither."""
    return float((test.signed @ point <= 0).mean())


def exceeds(one: Errors, other: Errors, by: float) -> bool:
    """Return whether a mean is more than `by` standard errors above another."""
    spread = float(np.hypot(one.standard_error, other.standard_error))
    return one.mean - other.mean > by * spread
