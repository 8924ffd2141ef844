"""Errors of cells' shares and of signed values: our designs beside theory and the optimum.

Variances are exact, of the integers that a device is sent, and of the raw estimates: about the
users at hand, averaged over cells (or signed values), where they are the same for every truth.
Measured figures are n x the squared error of the same, from every user's own report
(`families.draw`), counted and decoded as an aggregator does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, sqrt, tanh

import numpy as np
from numpy.typing import NDArray
from peers.measuring import cells, shares

from askance_aggregator.estimation import estimate
from askance_aggregator.families import best_for, family_of, signed_for
from askance_aggregator.learners import Batch, Question
from askance_aggregator.learners.shares import nearest_distribution
from askance_aggregator.planning import n_variance, plan_batch, randomizer_text
from askance_aggregator.queries import signed
from askance_client.queries import Integer, Schema
from askance_client.randomizers import Randomizer
from askance_simulation.families import draw

NAT = 10**9
USERS = 10_000
LEAST = 15  # repetitions: a standard error of fewer is no good
MASS = 2  # no signed value has more than twice an even share: promised where a plan may use it
_WORDS_AT_ONCE = 1 << 23  # coins: bounds memory

Floats = NDArray[np.float64]
Levels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FrequencyRow:
    """Errors of our design for the shares of k cells at one epsilon.

    Args:
        design: the randomizer.
        report_bytes: of one user's report.
        exact: n x variance, averaged over cells.
        optimum: subset selection's at its best size; no pure randomizer of this kind has less.
        many: 4 e^eps / (e^eps - 1)^2, of optimised unary encoding and of hashing when k is large.
        n_mse: as measured, n users in each of the repetitions; with its standard error.
        bias: the mean signed error of an empty cell; with its own.
        projected_n_mse: of the nearest point of the simplex, which is biased and nearer.
        projected_bias: likewise.
    """

    eps: float
    k: int
    design: str
    report_bytes: int
    exact: float
    optimum: float
    many: float
    n: int
    repetitions: int
    n_mse: float
    n_mse_se: float
    bias: float
    bias_se: float
    projected_n_mse: float
    projected_bias: float
    projected_bias_se: float


@dataclass(frozen=True, slots=True)
class SignedRow:
    """Errors of one randomizer for d disjoint signed values, all users at one of them.

    Args:
        planned: whether the planner chooses it for answers within 1 / (2 d), for any users.
        promised: whether it does if no value has more than MASS / d of the users.
        exact: n x variance, averaged over values.
        duchi: C^2 - 1/d, what one sign has.
        large: 8 / (e^eps - 1), a signed set's second moment when d is large.
    """

    eps: float
    d: int
    randomizer: str
    planned: bool
    promised: bool
    exact: float
    duchi: float
    large: float
    n: int
    repetitions: int
    n_mse: float
    n_mse_se: float
    bias: float
    bias_se: float


def optimum(k: int, eps: float) -> float:
    """Compute n x variance of subset selection, averaged over cells, at the best whole size.

    A set of s cells has the own one with chance p = s e / (s e + k - s), e = e^eps, and another one
    with chance q = (s - p) / (k - 1); n x variance is, averaged over cells,
    (p (1 - p) + (k - 1) q (1 - q)) / (k (p - q)^2).
    """
    size = np.arange(1, k)
    own = size * exp(eps) / (size * exp(eps) + k - size)
    other = (size - own) / (k - 1)
    spread = own * (1 - own) + (k - 1) * other * (1 - other)
    return float((spread / (k * (own - other) ** 2)).min())


def frequency_rows(
    epsilons: Sequence[float], sizes: Sequence[int], repetitions: int
) -> Iterator[FrequencyRow]:
    """Measure each number of cells at each epsilon.

    Args:
        epsilons: nats.
        sizes: numbers of cells.
        repetitions: for 64 cells; fewer for more, which average more.
    """
    for k in sizes:
        values = cells(USERS, k)
        truth = shares(values, k)
        times = max(repetitions * 64 // k, LEAST)
        for eps in epsilons:
            design = best_for(k, round(eps * NAT))
            rng = np.random.default_rng([k, round(eps * 100)])
            raw, nearest = [], []
            for _ in range(times):
                counts = _tally(design, values, rng)
                found = family_of(design).frequencies(counts, USERS)
                raw.append([float(share) for share in found])
                nearest.append(nearest_distribution(raw[-1]))
            errors, nearer = np.array(raw) - truth, np.array(nearest) - truth
            n_mse, n_mse_se = _mean_and_se(USERS * np.square(errors).mean(axis=1))
            bias, bias_se = _mean_and_se(errors[:, truth == 0].mean(axis=1))
            nearer_bias, nearer_bias_se = _mean_and_se(nearer[:, truth == 0].mean(axis=1))
            yield FrequencyRow(
                eps=eps,
                k=k,
                design=randomizer_text(design),
                report_bytes=design.width,
                exact=float(family_of(design).frequency_variance()),
                optimum=optimum(k, eps),
                many=4 * exp(eps) / (exp(eps) - 1) ** 2,
                n=USERS,
                repetitions=times,
                n_mse=n_mse,
                n_mse_se=n_mse_se,
                bias=bias,
                bias_se=bias_se,
                projected_n_mse=float(USERS * np.square(nearer).mean()),
                projected_bias=nearer_bias,
                projected_bias_se=nearer_bias_se,
            )


def signed_rows(
    epsilons: Sequence[float], sizes: Sequence[int], repetitions: int
) -> Iterator[SignedRow]:
    """Measure every family at each number of values and epsilon."""
    for d in sizes:
        schema = Schema("signed values", 1, cell=Integer(0, 2 * d))
        query, tau = signed(schema["cell"]), Fraction(1, 2 * d)
        asked = Question(query, tau), Question(query, tau, Fraction(MASS, d))
        for eps in epsilons:
            nano = round(eps * NAT)
            plans = [plan_batch(Batch([question]), nano, 0.01 / d) for question in asked]
            for place, randomizer in enumerate((best_for(2 * d + 1, nano), *signed_for(d, nano))):
                taken = [randomizer == plan.groups[0].randomizer for plan in plans]
                rng = np.random.default_rng([d, round(eps * 100), place])
                yield _signed_row(asked[0], eps, randomizer, taken, repetitions, rng)


def _signed_row(
    question: Question,
    eps: float,
    randomizer: Randomizer,
    taken: Sequence[bool],
    repetitions: int,
    rng: np.random.Generator,
) -> SignedRow:
    d = question.values
    levels = rng.integers(0, 2 * d, USERS)
    each = np.bincount(levels, minlength=2 * d)
    truth = (each[0::2] - each[1::2]) / USERS
    errors = (
        np.array(
            [
                estimate(question, randomizer, _tally(randomizer, levels, rng), USERS, 0.05).values
                for _ in range(repetitions)
            ]
        )
        - truth
    )
    n_mse, n_mse_se = _mean_and_se(USERS * np.square(errors).mean(axis=1))
    bias, bias_se = _mean_and_se(errors.mean(axis=1))
    return SignedRow(
        eps=eps,
        d=d,
        randomizer=randomizer_text(randomizer),
        planned=taken[0],
        promised=taken[1],
        exact=float(n_variance(question, randomizer)),
        duchi=1 / tanh(eps / 2) ** 2 - 1 / d,
        large=8 / (exp(eps) - 1),
        n=USERS,
        repetitions=repetitions,
        n_mse=n_mse,
        n_mse_se=n_mse_se,
        bias=bias,
        bias_se=bias_se,
    )


def _tally(randomizer: Randomizer, levels: Levels, rng: np.random.Generator) -> NDArray[np.int64]:
    """Count one report per user."""
    counts = family_of(randomizer).tally(np.zeros((0, randomizer.width), np.uint8))
    step = max(_WORDS_AT_ONCE // randomizer.coins, 1)
    for start in range(0, len(levels), step):
        some = levels[start : start + step]
        coins = rng.integers(0, 1 << 64, (len(some), randomizer.coins), dtype=np.uint64)
        counts = counts + family_of(randomizer).tally(draw(randomizer, some, coins))
    return counts


def _mean_and_se(each: Floats) -> tuple[float, float]:
    return float(each.mean()), float(each.std(ddof=1)) / sqrt(len(each))
