"""Two-sided checks of claimed noise, rates and means: too small fails as too large does.

Rules of the module:

- A check compares measurements with a law that the caller states from the theorem, never with a
  number that the checked mechanism computes about itself.
- Every check rejects a correct mechanism with probability `ALPHA` at most (one in a million), all
  of its parts together. The laws are exact where the docstring does not say otherwise.
- A noise is reported as `NoiseCheck.ratio`: measured over claimed, 1 for a correct mechanism.
- A noise has a sign, a direction and one draw per release: a noise of the right size that is
  nowhere negative, lies in a plane or is used twice protects nothing, and is found as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

ALPHA = 1e-6  # the chance that a correct mechanism is rejected

_FLOATS = 1e-9  # relative: what float arithmetic leaves of a formula
_ZERO = 1e-9  # of an error in standard deviations: no more than floats leave of none
_WHOLE = 1e-6  # distance from a whole number that float arithmetic may leave


@dataclass(frozen=True, slots=True)
class NoiseCheck:
    """Comparison of a measured noise with the claimed one."""

    ratio: float
    possible: bool


def rate_agrees(count: int, trials: int, rate: float, alpha: float = ALPHA) -> bool:
    """Return whether `count` of `trials` independent events is possible at this rate."""
    # Both tails of the binomial law are tested, at alpha/2 each: the rate lies in the
    # Clopper-Pearson interval of confidence 1 - alpha.
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
    """Return whether `count` of independent events of known chances is possible."""
    # The law is that of a sum of Bernoulli variables (Poisson's binomial), convolved; both tails
    # are tested, at alpha/2 each.
    law = np.ones(1)
    for chance in np.asarray(chances, dtype=np.float64):
        law = np.convolve(law, (1 - chance, chance))
    return bool(min(law[count:].sum(), law[: count + 1].sum()) >= alpha / 2)


def gamma_agrees(total: float, shape: float, alpha: float = ALPHA) -> bool:
    """Return whether a total is possible for the Gamma law of this shape and scale 1."""
    # Sums of n exponential variables have shape n, sums of n squares of standard normal ones
    # (halved) n/2, sums of n lengths of Gamma(d) have n d.
    from scipy.stats import gamma

    return bool(min(gamma.sf(total, shape), gamma.cdf(total, shape)) >= alpha / 2)


def normal_agrees(score: float, alpha: float = ALPHA) -> bool:
    """Return whether a score is possible for the standard normal law; both sides are tested."""
    from scipy.stats import norm

    return bool(2 * norm.sf(abs(score)) >= alpha)


def normal_noise(errors: ArrayLike, deviations: ArrayLike) -> NoiseCheck:
    """Compare independent errors with normal laws of mean 0 and claimed standard deviations.

    A third of the false alarms is left to each of the sum of squares (chi-squared), the mean, and
    the signs of errors that follow each other (`_fresh`; an error that is used twice agrees with
    itself). For means of many bounded values the normal law is an approximation.
    `errors` are answers less the truth, in the order of their draws; `deviations` are the claimed
    ones, above 0, of a shape that broadcasts.

    Returns:
      The root of the mean square of errors in units of the deviations.
    """
    given, claimed = (np.asarray(each, dtype=np.float64) for each in (errors, deviations))
    scores = (given / claimed).ravel()
    squares = float(scores @ scores)
    centred = normal_agrees(float(scores.sum()) / sqrt(scores.size), ALPHA / 3)
    sized = gamma_agrees(squares / 2, scores.size / 2, ALPHA / 3)
    return NoiseCheck(sqrt(squares / scores.size), centred and sized and _fresh(scores, ALPHA / 3))


def _fresh(scores: Floats, alpha: float) -> bool:
    """Return whether successive errors agree in sign as often as independent ones do."""
    # The share of such pairs is p^2 + (1 - p)^2, p the share of positive ones, a half or nearly so.
    # An error of 0, which means of few values have, has no sign.
    signed = np.abs(scores) > _ZERO
    share = float((scores[signed] > 0).mean()) if signed.any() else 0.5
    pairs = zip(_successive(scores > 0), _successive(signed), strict=True)
    return all(
        rate_agrees(
            int(np.count_nonzero((one == other) & first & second)),
            int(np.count_nonzero(first & second)),
            share**2 + (1 - share) ** 2,
            alpha / 2,
        )
        for (one, other), (first, second) in pairs
    )


def fair(events: ArrayLike, alpha: float = ALPHA) -> bool:
    """Return whether events are possible for independent fair coins, by their number."""
    found = np.asarray(events)
    return rate_agrees(int(np.count_nonzero(found)), found.size, 0.5, alpha)


def repeats_agree(draws: ArrayLike, repeat: float, alpha: float = ALPHA) -> bool:
    """Return whether draws that follow each other are equal with a claimed probability."""
    # The probability is the sum of the squares of the outcomes' probabilities where every draw is a
    # fresh one.
    return all(
        rate_agrees(int(np.count_nonzero(one == other)), one.size, repeat, alpha / 2)
        for one, other in _successive(np.asarray(draws).ravel())
    )


def _successive(draws: NDArray[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Pair each draw with the next: disjoint pairs from the first, and from the second on."""
    found = []
    for start in (0, 1):
        kept = draws[start : start + (len(draws) - start) // 2 * 2]
        found.append((kept[::2], kept[1::2]))
    return found


def law_agrees(values: Floats, alpha: float = ALPHA) -> bool:
    """Return whether independent numbers are possible for a continuous law.

    `values` are that law's distribution function at each of them: uniform, if it is the law.
    """
    above = np.sort(values) * values.size - np.arange(values.size)
    distance = float(np.maximum(above, 1 - above).max()) / values.size
    return distance <= chance_distance(values.size, alpha)


def chance_distance(count: int, alpha: float = ALPHA) -> float:
    """Bound the distance of a sample's distribution function from its law's, except with alpha."""
    # The bound holds for every size and every law (Dvoretzky, Kiefer, Wolfowitz; Massart 1990).
    return sqrt(log(2 / alpha) / (2 * count))


def spherical_noise(
    vectors: Floats, shape: float, scale: float, beside: Floats | None = None
) -> NoiseCheck:
    """Compare vectors with independent Gamma lengths in independent uniform directions.

    Args:
      vectors: in the order of their draws, shape (draws, d).
      shape: of a length's Gamma law.
      scale: of a length's Gamma law, in the unit of the vectors.
      beside: as in `directions_agree`.

    Returns:
      The mean length over shape times scale.
    """
    # A density proportional to e^(-||v|| / scale) in d dimensions has lengths of the shape d. The
    # false alarms are divided among the sum of the lengths, all of their law (Kolmogorov and
    # Smirnov), the directions (`directions_agree`), and coins that are fair if lengths are fresh
    # and independent of directions: whether a length is above the median of its law.
    from scipy.stats import gamma

    units = np.linalg.norm(vectors, axis=1) / scale
    total, whole, each = float(units.sum()), units.size * shape, ALPHA / 6
    above = units > gamma.median(shape)
    possible = (
        gamma_agrees(total, whole, each)
        and law_agrees(gamma.cdf(units, shape), each)
        and all(fair(one == other, each) for one, other in _successive(above))
        and fair(above == (vectors[:, 0] > 0), each)
        and directions_agree(vectors, beside, each)
    )
    return NoiseCheck(total / whole, possible)


def directions_agree(vectors: Floats, beside: Floats | None = None, alpha: float = ALPHA) -> bool:
    """Return whether vectors may have independent directions, uniform on the sphere.

    Args:
      vectors: none of them 0, in the order of their draws, shape (draws, d).
      beside: a direction per vector that does not depend on it, such as one of the data, of any
        length above 0, shape (draws, d); None: there is none.
      alpha: the chance that right directions are rejected, at most.
    """
    # The cosine c of a uniform direction with any other has (1 + c)/2 ~ Beta((d-1)/2, (d-1)/2), in
    # one dimension a fair sign. All of that law is tested (`law_agrees`) with each axis, with what
    # stands `beside` a vector, and with the next vector; besides, the signs of two neighbouring
    # coordinates agree half of the time. False alarms are divided evenly.
    from scipy.stats import beta

    units = _directions(vectors)
    cosines = [
        *units.T,
        *([] if beside is None else [(units * _directions(beside)).sum(axis=1)]),
        *((one * other).sum(axis=1) for one, other in _successive(units)),
    ]
    each, half = alpha / (len(cosines) + 1), (vectors.shape[1] - 1) / 2
    if not half:
        return all(fair(cosine > 0, each) for cosine in cosines)
    signs = vectors > 0
    return fair(signs[:, 1:] == signs[:, :-1], each) and all(
        law_agrees(beta.cdf((1 + cosine) / 2, half, half), each) for cosine in cosines
    )


def _directions(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def laplace_noise(draws: ArrayLike, scale: float) -> NoiseCheck:
    """Compare whole numbers with the discrete Laplace law, P[k] proportional to e^(-|k|/scale).

    Returns:
      The mean size over its expectation 2 q / (1 - q^2), q = e^(-1/scale).
    """
    # The number of zeros is binomial, the sum of the other sizes negative binomial, the number of
    # negative ones binomial given the others, and so is that of draws that equal the next one: four
    # tests at a quarter of `ALPHA` each. A draw, in steps, that is not a whole number is
    # impossible.
    from scipy.stats import nbinom

    given = np.asarray(draws, dtype=np.float64).ravel()
    whole = np.rint(given)
    sizes, q = np.abs(whole), exp(-1 / scale)
    other = int(np.count_nonzero(whole))
    beyond = int(sizes.sum()) - other
    tails = [1.0, 1.0]
    if other:
        tails = [nbinom.cdf(beyond, other, 1 - q), nbinom.sf(beyond - 1, other, 1 - q)]
    zero = (1 - q) / (1 + q)
    possible = (
        bool((np.abs(given - whole) < _WHOLE).all())
        and rate_agrees(given.size - other, given.size, zero, ALPHA / 4)
        and min(tails) >= ALPHA / 8
        and rate_agrees(int((whole < 0).sum()), other, 0.5, ALPHA / 4)
        and repeats_agree(whole, zero**2 * (1 + q * q) / (1 - q * q), ALPHA / 4)
    )
    return NoiseCheck(float(sizes.mean()) * (1 - q * q) / (2 * q), bool(possible))


def bit_noise(
    answers: ArrayLike, shares: ArrayLike, users: ArrayLike, epsilon: float
) -> NoiseCheck:
    """Compare de-biased shares with those of randomized response on fresh users."""
    # Each user reports one bit, wrong with probability 1/(1 + e^epsilon); so a share's reports are
    # binomial, in the normal approximation.
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


def least_within(count: int, failure: Callable[[int], float], allowed: float) -> bool:
    """Return whether a count is the least whose failure is allowed, by a formula that falls.

    One part in 10^9 is left to floats.
    """
    return failure(count) <= allowed * (1 + _FLOATS) < failure(count - 1) * (1 + 2 * _FLOATS)


def close(measured: float | NDArray[np.float64], claimed: float, relative: float) -> bool:
    """Return whether a deterministic number is the claimed one, up to a relative difference."""
    return bool(np.all(np.abs(np.asarray(measured) - claimed) <= relative * abs(claimed)))
