"""CM08, Lemma 1 and Corollary 2: the distance that one row moves a minimiser, at most."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_papers.curator.logistic import (
    LOGISTIC,
    Examples,
    HuberHinge,
    MarginLoss,
    ModifiedHuber,
    OutputPerturbation,
    minimise,
)
from askance_papers.reproduce.checks import spherical_noise
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting, dot_plot
from askance_simulation.randomness import SeededWords

NAME = "logistic-sensitivity"
LOSSES: tuple[MarginLoss, ...] = (LOGISTIC, HuberHinge(), ModifiedHuber())
EPSILON = Fraction(1, 2)
ATTAINED = 0.95  # of the bound: the worst pair found comes as near
_COUNT = 2000
_DATA = np.full(6, 0.2)  # every row of the data whose release is repeated
_INSIDE = 1 - 1e-12  # a norm of at most 1, despite rounding
_PRODUCTS, _SHORT, _ANGLES = (0.3, 1.0, 3.0), (1.0, 0.3, 0.1, 0.03), (1.2, 1.4, 1.5)
_ROUNDED = 1e-6  # relative; minimisers are found to a gradient of 1e-10


def reproduce(setting: Setting) -> Reproduction:
    """Search for the row that moves a minimiser furthest, and measure the noise that hides it."""
    rows: list[Row] = []
    for loss in LOSSES:
        rows += lemma_1(loss, setting)
        rows.append(corollary_2(loss, setting))
        setting.progress(loss.name)
    return Reproduction(
        name=NAME,
        source="CM08, Lemma 1, Corollary 2 and Theorem 1",
        statement=(
            "The minimisers of G and of G + g are at most g1/G2 apart: g1 bounds g's gradient, G2"
            " is G's least curvature. So replacing one of n rows of norm 1 moves the minimiser of"
            " the regularised mean loss by at most 2 kappa/(n lambda), kappa = 1 for the logistic"
            " loss."
        ),
        differs_from_print=(
            "Both are true; g need not be convex, and the loss need not be logistic: kappa bounds"
            " its slope. Theorem 1 adds noise of that scale with a Laplace length, which is not"
            " private for d > 1; a Gamma(d) length is, and that is what is measured."
        ),
        rows=tuple(rows),
        notes=(
            "'moved' and 'bound' are in units of 1/n. A row holds if moved <= bound, and if the"
            f" bound is attained where that is claimed: exactly by a linear g, to {ATTAINED:g} by"
            " the worst pair found.",
            "The noise of output perturbation: its stated scale times epsilon is the bound, and"
            " the lengths of drawn noise are Gamma(d) of that scale, in directions that are"
            " uniform, fresh and independent of the data's, by two-sided tests at 1e-6.",
        ),
        draw=lambda figure: dot_plot(
            figure,
            rows,
            lambda row: f"{row['statement']}, {row['loss']}: {row['case']}",
            {"bound": "bound", "moved": "moved"},
            "distance of minimisers, times n",
        ),
    )


def lemma_1(loss: MarginLoss, setting: Setting) -> Iterator[Row]:
    """Measure G plus a linear g, and G plus the loss of one row."""
    strength = 0.01
    rng = generator(setting.seed / NAME / loss.name)
    rows = _sphere(rng, _COUNT, 5)
    flat, linear = Examples(np.zeros((_COUNT, 5))), np.full(5, 0.7)
    moved = _apart(minimise(flat, strength, None, loss), minimise(flat, strength, linear, loss))
    bound = float(np.linalg.norm(linear)) / strength
    yield _row("Lemma 1", loss, "linear g", moved, bound, attained=1 - _ROUNDED)
    worst = 0.0
    for place in range(4 if setting.quick else 40):
        without = rows.copy()
        without[place] = 0
        one, other = (minimise(Examples(each), strength, None, loss) for each in (rows, without))
        worst = max(worst, _apart(one, other))
    yield _row("Lemma 1", loss, "random rows", worst, float(loss.slope_bound) / strength)


def corollary_2(loss: MarginLoss, setting: Setting) -> Row:
    """Find the pair of neighbours whose minimisers are furthest apart, beside the noise's scale."""
    # Two rows of nearly opposite directions that both pull with the whole slope, since all others
    # push w far along the second axis.
    best, strength = 0.0, 1.0
    for product in _PRODUCTS:
        for short in _SHORT:
            for angle in _ANGLES:
                pair = [
                    minimise(pulled(angle * side, short), product / _COUNT, None, loss)
                    for side in (1, -1)
                ]
                share = _apart(*pair) * product / _COUNT / (2 * float(loss.slope_bound))
                if share > best:
                    best, strength = share, product / _COUNT
    bound = 2 * float(loss.slope_bound) / strength
    mechanism = OutputPerturbation.of(EPSILON, Fraction(strength), loss)
    stated = mechanism.scale(_COUNT) * float(EPSILON) * _COUNT
    tight = bound * (1 - _ROUNDED) <= stated <= bound * (1 + 1e-3)
    noise = noise_of(mechanism, loss, strength, setting)
    beside = np.broadcast_to(_DATA, noise.shape)  # all rows of the data point there
    scale = bound / _COUNT / float(EPSILON)
    fits = spherical_noise(noise, noise.shape[1], scale, beside).possible
    row = _row("Corollary 2", loss, "worst pair found", best * bound, bound, attained=ATTAINED)
    return {**row, "noise": fits, "holds": row["holds"] and tight and fits}


def pulled(angle: float, short: float) -> Examples:
    """Make rows of norm `short` along the second axis, and one against them at an angle."""
    rows = np.zeros((_COUNT, 2))
    rows[:, 1] = short
    rows[-1] = np.sin(angle), -np.cos(angle)
    return Examples(rows * _INSIDE)


def noise_of(
    mechanism: OutputPerturbation, loss: MarginLoss, strength: float, setting: Setting
) -> NDArray[np.float64]:
    """Draw the noise of output perturbation, shape (draws, 6)."""
    data = Examples(np.tile(_DATA, (_COUNT, 1)))
    centre = minimise(data, strength, None, loss)
    words = SeededWords(setting.seed / NAME / loss.name / "noise")
    draws = 300 if setting.quick else 3000
    return np.array([mechanism.release(data, words) - centre for _ in range(draws)])


def _row(
    statement: str,
    loss: MarginLoss,
    case: str,
    moved: float,
    bound: float,
    attained: float = 0.0,
) -> Row:
    return {
        "statement": statement,
        "loss": loss.name,
        "case": case,
        "moved": moved,
        "bound": bound,
        "of bound": moved / bound,
        "noise": None,
        "holds": attained * bound <= moved <= bound * (1 + _ROUNDED),
    }


def _apart(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Compute a distance, times n."""
    return float(np.linalg.norm(one - other)) * _COUNT


def _sphere(rng: np.random.Generator, count: int, dimension: int) -> NDArray[np.float64]:
    points = rng.standard_normal((count, dimension))
    found: NDArray[np.float64] = points / np.linalg.norm(points, axis=1, keepdims=True) * _INSIDE
    return found
