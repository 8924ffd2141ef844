"""DRV10, Lemma III.2: the expected privacy loss of a pure release."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import exp, tanh

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved
from askance_aggregator.sampling import discrete_laplace
from askance_papers.curator.synopsis.sampling import exponential_draws
from askance_papers.reproduce.checks import counts_agree, repeats_agree
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting, dot_plot
from askance_simulation.randomness import SeededWords

NAME = "lemma-iii.2"
EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
_WIDEST = 60.0  # nats: beyond it a Laplace value has no mass in a float
_ROUNDED = 1e-9

Law = NDArray[np.float64]


def reproduce(setting: Setting) -> Reproduction:
    """Enumerate expected losses of neighbours' laws, and draw from the mechanisms."""
    rows: list[Row] = []
    for epsilon in EPSILONS:
        rows += enumerated(epsilon, setting)
        setting.progress(f"epsilon = {float(epsilon):g}")
    return Reproduction(
        name=NAME,
        source="DRV10, Lemma III.2",
        statement=(
            "If two laws are within e^eps of each other everywhere, in both directions, the"
            " expected log-ratio (their KL divergence) is at most eps (e^eps - 1)."
        ),
        differs_from_print=(
            "True, and not the least: eps (e^eps - 1)/(e^eps + 1) = eps tanh(eps/2) bounds it too,"
            " and randomized response attains that; for small eps it is half as much."
        ),
        rows=tuple(rows),
        notes=(
            "Divergences are sums over all outputs. A row holds if the greatest log-ratio is eps"
            " (of random laws and of the exponential mechanism on six candidates: at most), the"
            " divergence at most the lesser bound, and for randomized response equal to it. 'drawn'"
            " says whether draws of the mechanism fit the law: numbers of outcomes, and of draws"
            " that equal the next one (binomial, two-sided, at 1e-6 each).",
        ),
        draw=lambda figure: dot_plot(
            figure,
            rows,
            lambda row: f"epsilon {row['epsilon']:g}, {row['mechanism']}",
            {
                "eps tanh(eps/2)": "least bound",
                "divergence": "enumerated",
                "eps (e^eps - 1)": "as printed",
            },
            "nats",
        ),
    )


def enumerated(epsilon: Fraction, setting: Setting) -> Iterator[Row]:
    """Generate the rows of one epsilon."""
    words = SeededWords(setting.seed / NAME / str(epsilon))
    draws = 4000 if setting.quick else 40_000
    one, other = exponential_laws(np.array([0, 1]), np.array([1, 0]), epsilon)
    response = exponential_draws(words, np.array([1, 0]), epsilon, draws)
    fits = _fits(response, other)
    yield _row("randomized response", epsilon, one, other, fits, attained=True)

    scores = np.array([3, 1, 0, 2, 2, 0])
    moved = np.array([2, 2, 1, 1, 3, 1])  # by a sensitivity of 1
    one, other = exponential_laws(scores, moved, epsilon / 2)
    choice = exponential_draws(words, scores, epsilon / 2, draws)
    fits = _fits(choice, one)
    yield _row("exponential mechanism", epsilon, one, other, fits, pure=False)

    one, other = laplace_laws(epsilon)
    noise = discrete_laplace(words, 1 / epsilon, draws)
    half = len(one) // 2
    fits = _fits(np.clip(noise, -half, half) + half, one)
    yield _row("discrete Laplace", epsilon, one, other, fits)

    rng = generator(setting.seed / NAME / "laws" / str(epsilon))
    pairs = [random_laws(rng, epsilon) for _ in range(500 if setting.quick else 20_000)]
    worst = max(pairs, key=lambda pair: divergence(*pair))
    yield _row("random laws, the worst", epsilon, *worst, None, pure=False)


def _fits(draws: NDArray[np.int64], law: Law) -> bool:
    """Return whether independent draws of a law may be these: their numbers and repetitions."""
    counts = np.bincount(draws, minlength=len(law))
    return counts_agree(counts, law) and repeats_agree(draws, float(law @ law))


def exponential_laws(
    scores: NDArray[np.int64], moved: NDArray[np.int64], rate: Fraction
) -> tuple[Law, Law]:
    """Compute P(i) proportional to e^(rate score_i), of both scores."""
    one, other = (np.exp(float(rate) * (each - each.max())) for each in (scores, moved))
    return one / one.sum(), other / other.sum()


def laplace_laws(epsilon: Fraction) -> tuple[Law, Law]:
    """Compute the laws of 0 and of 1 plus discrete Laplace noise of scale 1/eps, cut far out."""
    reach = int(_WIDEST / float(epsilon)) + 2
    values = np.arange(-reach, reach + 1)
    one, other = (np.exp(-float(epsilon) * np.abs(values - mean)) for mean in (0, 1))
    return one / one.sum(), other / one.sum()


def random_laws(rng: np.random.Generator, epsilon: Fraction) -> tuple[Law, Law]:
    """Draw a law of up to 8 outputs and one within e^eps of it, alike at the ends."""
    # Ratios are e^+-eps or between, scaled so that both sum to 1 where that leaves them within
    # e^eps.
    size = int(rng.integers(2, 9))
    law = rng.dirichlet(np.full(size, 0.5)) + 1e-12
    law /= law.sum()
    bound = float(epsilon)
    ratios = rng.choice([-bound, bound, 0.0], size) + rng.uniform(-0.1, 0.1, size) * bound

    def factors(shift: float) -> Law:
        return np.asarray(np.exp(np.clip(ratios + shift, -bound, bound)))

    # A shift of the log-ratios, cut to +-eps, that sums to 1.
    _, high = halved(lambda shift: float(law @ factors(shift)) >= 1, -3 * bound, 3 * bound, 60)
    other = law * factors(high)
    return law, other / other.sum()


def divergence(one: Law, other: Law) -> float:
    """Compute D(one || other) in nats."""
    return float(one @ (np.log(one) - np.log(other)))


def _row(
    mechanism: str,
    epsilon: Fraction,
    one: Law,
    other: Law,
    drawn: bool | None,
    *,
    attained: bool = False,
    pure: bool = True,
) -> Row:
    stated = float(epsilon)
    worst = float(np.abs(np.log(one) - np.log(other)).max())
    found = max(divergence(one, other), divergence(other, one))
    least, printed = stated * tanh(stated / 2), stated * (exp(stated) - 1)
    slack = 1 + _ROUNDED
    exact = worst <= stated * slack and (not pure or worst >= stated / slack)
    below = found <= least * slack <= printed * slack
    tight = not attained or found >= least / slack
    return {
        "mechanism": mechanism,
        "epsilon": stated,
        "log-ratio": worst,
        "divergence": found,
        "eps tanh(eps/2)": least,
        "eps (e^eps - 1)": printed,
        "drawn": drawn,
        "holds": exact and below and tight and drawn is not False,
    }
