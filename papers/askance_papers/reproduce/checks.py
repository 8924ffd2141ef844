"""Two-sided checks of claimed noise, rates and means: too small fails as too large does.

Rules of the module:

- A check compares measurements with a law that the caller states from the theorem, never with a
  number that the checked mechanism computes about itself.
- Every check rejects a correct mechanism with probability `ALPHA` at most (one in a million), all
  of its parts together. The laws are exact where the docstring does not say otherwise.
- A noise is reported as `NoiseCheck.ratio`: measured over claimed, 1 for a correct mechanism.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

ALPHA = 1e-6  # the chance that a correct mechanism is rejected

_WHOLE = 1e-6  # distance from a whole number that float arithmetic may leave


@dataclass(frozen=True, slots=True)
class NoiseCheck:
    """Comparison of a measured noise with the claimed one."""

    ratio: float
    possible: bool


def rate_agrees(count: int, trials: int, rate: float, alpha: float = ALPHA) -> bool:
    """Return whether `count` of `trials` independent events is possible at this rate.

    Both tails of the binomial law are tested, at alpha/2 each: the rate lies in the Clopper-Pearson
    interval of confidence 1 - alpha.
    """
    return rate_between(count, trials, rate, rate, alpha)


def rate_between(count: int, trials: int, least: float, most: float, alpha: float = ALPHA) -> bool:
    """Return whether `count` of `trials` independent events is possible at some rate of a range."""
    from scipy.stats import binom

    above, below = binom.sf(count - 1, trials, most), binom.cdf(count, trials, least)
    return bool(min(above, below) >= alpha / 2)


def rate_exceeded(count: int, trials: int, rate: float) -> bool:
    """Return whether `count` of `trials` events are more than chance explains at this rate.

    The upper tail alone is tested, at `ALPHA`: for rates that a theorem only bounds.
    """
    from scipy.stats import binom

    return bool(binom.sf(count - 1, trials, rate) < ALPHA)


def events_agree(count: int, chances: ArrayLike, alpha: float = ALPHA) -> bool:
    """Return whether `count` of independent events of known chances is possible.

    The law is that of a sum of Bernoulli variables (Poisson's binomial), convolved; both tails are
    tested, at alpha/2 each.
    """
    law = np.ones(1)
    for chance in np.asarray(chances, dtype=np.float64):
        law = np.convolve(law, (1 - chance, chance))
    return bool(min(law[count:].sum(), law[: count + 1].sum()) >= alpha / 2)


def gamma_agrees(total: float, shape: float, alpha: float = ALPHA) -> bool:
    """Return whether a total is possible for the Gamma law of this shape and scale 1.

    Sums of n exponential variables have shape n, sums of n squares of standard normal ones (halved)
    n/2, sums of n lengths of Gamma(d) have n d.
    """
    from scipy.stats import gamma

    return bool(min(gamma.sf(total, shape), gamma.cdf(total, shape)) >= alpha / 2)


def normal_agrees(score: float, alpha: float = ALPHA) -> bool:
    """Return whether a score is possible for the standard normal law; both sides are tested."""
    from scipy.stats import norm

    return bool(2 * norm.sf(abs(score)) >= alpha)


def normal_noise(errors: ArrayLike, deviations: ArrayLike) -> NoiseCheck:
    """Compare independent errors with normal laws of mean 0 and claimed standard deviations.

    Half of the false alarms are left to the sum of squares (chi-squared), half to the mean. For
    means of many bounded values the normal law is an approximation.
    `errors` are answers less the truth; `deviations` are the claimed ones, above 0, of a shape that
    broadcasts.

    Returns:
      The root of the mean square of errors in units of the deviations.
    """
    given, claimed = (np.asarray(each, dtype=np.float64) for each in (errors, deviations))
    scores = (given / claimed).ravel()
    squares = float(scores @ scores)
    centred = normal_agrees(float(scores.sum()) / sqrt(scores.size), ALPHA / 2)
    sized = gamma_agrees(squares / 2, scores.size / 2, ALPHA / 2)
    return NoiseCheck(sqrt(squares / scores.size), centred and sized)


def gamma_noise(lengths: ArrayLike, shape: float, scale: float) -> NoiseCheck:
    """Compare independent lengths with the Gamma law of a claimed shape and scale.

    `shape` is that of each length: d for a vector with density e^(-length/scale) in d dimensions, 1
    for the size of a Laplace variable. `scale` is in the unit of the lengths.

    Returns:
      The mean length over shape times scale.
    """
    units = np.asarray(lengths, dtype=np.float64).ravel() / scale
    total, whole = float(units.sum()), units.size * shape
    return NoiseCheck(total / whole, gamma_agrees(total, whole))


def lengths_agree(vectors: NDArray[np.float64], scale: float) -> bool:
    """Return whether vectors may have the density exp(-||v|| / scale), by Kolmogorov and Smirnov.

    Lengths are then Gamma(d, scale). All of their law is tested, where `gamma_noise` tests the mean
    and has more power against a wrong scale.
    `vectors` has the shape (draws, d).
    """
    from scipy.stats import kstest

    lengths = np.linalg.norm(vectors, axis=1)
    return bool(kstest(lengths, "gamma", args=(vectors.shape[1], 0, scale)).pvalue >= ALPHA)


def laplace_noise(draws: ArrayLike, scale: float) -> NoiseCheck:
    """Compare whole numbers with the discrete Laplace law, P[k] proportional to e^(-|k|/scale).

    The number of zeros is binomial, the sum of the other sizes negative binomial and the number of
    negative ones binomial given the others: three tests at a third of `ALPHA` each.
    A draw, in steps, that is not a whole number is impossible.

    Returns:
      The mean size over its expectation 2 q / (1 - q^2), q = e^(-1/scale).
    """
    from scipy.stats import nbinom

    given = np.asarray(draws, dtype=np.float64).ravel()
    whole = np.rint(given)
    sizes, q = np.abs(whole), exp(-1 / scale)
    other = int(np.count_nonzero(whole))
    beyond = int(sizes.sum()) - other
    tails = [1.0, 1.0]
    if other:
        tails = [nbinom.cdf(beyond, other, 1 - q), nbinom.sf(beyond - 1, other, 1 - q)]
    possible = (
        bool((np.abs(given - whole) < _WHOLE).all())
        and rate_agrees(given.size - other, given.size, (1 - q) / (1 + q), ALPHA / 3)
        and min(tails) >= ALPHA / 6
        and rate_agrees(int((whole < 0).sum()), other, 0.5, ALPHA / 3)
    )
    return NoiseCheck(float(sizes.mean()) * (1 - q * q) / (2 * q), bool(possible))


def bit_noise(
    answers: ArrayLike, shares: ArrayLike, users: ArrayLike, epsilon: float
) -> NoiseCheck:
    """Compare de-biased shares with those of randomized response on fresh users.

    Each user reports one bit, wrong with probability 1/(1 + e^epsilon); so a share's reports are
    binomial, in the normal approximation.
    """
    lie, true = 1 / (1 + exp(epsilon)), np.asarray(shares, dtype=np.float64)
    rates = lie + true * (1 - 2 * lie)
    deviations = np.sqrt(rates * (1 - rates) / np.asarray(users)) / (1 - 2 * lie)
    errors = np.asarray(answers, dtype=np.float64) - true
    return normal_noise(errors, np.broadcast_to(deviations, errors.shape))


def counts_agree(counts: Iterable[int], probabilities: Iterable[float]) -> bool:
    """Return whether counts of outcomes are possible for a claimed law.

    Each outcome's count is tested as a rate, at `ALPHA` over the number of outcomes.
    """
    seen, law = list(counts), list(probabilities)
    trials = sum(seen)
    return all(
        rate_agrees(count, trials, rate, ALPHA / len(law))
        for count, rate in zip(seen, law, strict=True)
    )


def close(measured: float | NDArray[np.float64], claimed: float, relative: float) -> bool:
    """Return whether a deterministic number is the claimed one, up to a relative difference."""
    return bool(np.all(np.abs(np.asarray(measured) - claimed) <= relative * abs(claimed)))
