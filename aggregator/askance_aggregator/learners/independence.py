"""Independence of two columns, tested on noisy shares of their joint cells.

Shares are estimates with a known covariance, of the sample and of the randomizer together. Two
columns are independent if the table of their joint shares, without the users who lack a value, is
a product of two vectors: it has rank one.

- **Test.** The statistic is the least (y - u v^T)' S^-1 (y - u v^T) over all vectors u and v, y the
  raw shares and S their covariance under independence. It has asymptotically a chi-square law with
  (rows - 1)(columns - 1) degrees of freedom. Shares may be negative and cells empty: nothing is
  divided by a share. u and v are not held to be positive, so the statistic is never greater than
  with that restriction, and p-values never less.
- **Cramér's V.** sqrt(phi^2 / (min(rows, columns) - 1)), phi the length of the vector D of
  (p_ij - p_i p_j) / sqrt(p_i p_j). The interval inverts the law of the estimated D's length, by the
  delta method; the true D is taken to lie in the direction of the greatest variance. So the
  interval holds at V = 0 too, where the derivative of V itself vanishes.

Source: Gaboardi and Rogers 2018 (minimum chi-square with the covariance of private answers);
Guggenberger, Kleibergen, Mavroeidis and Chen 2012 (the same law bounds the statistic where the
vectors are barely identified). Deviations: the covariance is exact for each randomizer, and the
table has a cell for users without a value.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.shares import nearest_distribution

Reals = NDArray[np.float64]

Covariance = Callable[[Reals], Reals]
"""Covariance of all estimated shares, the missing one last, if users have these shares."""

_UPDATES = 3  # of the covariance at the fitted product; more change the statistic by less than 1 %
_STEPS = 500  # of the alternating fit, at most
_ENOUGH = 1e-10  # relative fall of the statistic that ends the fit
_FROM_ZERO = 3.0  # standard errors that a share is above zero before anything is divided by it
_NORMAL = np.linspace(-8.0, 8.0, 1601)  # the normal law beyond has 1e-15
_HALVINGS = 50
_LEAST_CHANCE = 1e-300  # a p-value is never 0


class IndependenceTest(NamedTuple):
    """Statistic, degrees of freedom, and the chance of one as great if columns are independent."""

    statistic: float
    degrees: int
    p_value: float


class Estimate(NamedTuple):
    """A value with its interval."""

    value: float
    low: float
    high: float


def independence_test(
    shares: Reals, shape: tuple[int, int], covariance: Covariance
) -> IndependenceTest:
    """Test whether two columns are independent.

    Args:
        shares: raw estimates, shape (rows * columns + 1,), the share of missing values last.
        shape: rows and columns, 2 or more each.
        covariance: of the estimates.
    """
    from askance_aggregator.special_functions import chdtrc

    table = shares[:-1].reshape(shape)
    null = _product_of(nearest_distribution(shares), shape)
    statistic = 0.0
    for _ in range(_UPDATES):
        inner = covariance(null)[:-1, :-1]
        inverse = np.asarray(np.linalg.pinv(inner, hermitian=True), dtype=np.float64)
        weights = inverse.reshape(*shape, *shape)
        starts = (_margins(null, shape), _leading(table))
        fits = [_nearest_product(table, weights, *start) for start in starts]
        statistic, fitted = min(fits, key=lambda fit: fit[0])
        raw = np.append(fitted.ravel(), shares[-1])
        null = _product_of(nearest_distribution(raw), shape)
    degrees = (shape[0] - 1) * (shape[1] - 1)
    return IndependenceTest(
        statistic, degrees, max(float(chdtrc(degrees, statistic)), _LEAST_CHANCE)
    )


def cramers_v(shares: Reals, shape: tuple[int, int]) -> float:
    """Compute Cramér's V of a distribution; 0 where a row or a column holds all users.

    Args:
        shares: not negative, shape (rows * columns + 1,), the share of missing values last.
        shape: rows and columns.
    """
    table = shares[:-1].reshape(shape)
    if table.sum() <= 0:
        return 0.0
    table = table / table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    used = expected > 0
    phi = float((np.square(table - expected)[used] / expected[used]).sum())
    return min(sqrt(phi / (min(shape) - 1)), 1.0)


def estimate_v(
    shares: Reals, shape: tuple[int, int], covariance: Covariance, alpha: float
) -> Estimate:
    """Estimate Cramér's V, with an interval that misses with a chance of about alpha.

    The square of the estimate is corrected for what noise adds to it, and cut at 0. V weighs rare
    rows and columns as much as frequent ones: if a row or a column is not above zero by three
    standard errors, the interval is 0 .. 1.

    Args:
        shares: raw estimates, shape (rows * columns + 1,), the share of missing values last.
        shape: rows and columns, 2 or more each.
        covariance: of the estimates.
        alpha: in (0, 1).
    """
    distribution = nearest_distribution(shares)
    inner = covariance(distribution)[:-1, :-1]
    if not _margins_stand(shares, shape, inner):
        return Estimate(cramers_v(distribution, shape), 0.0, 1.0)
    table = shares[:-1].reshape(shape)
    deviations, slope = _deviations(table)
    variances = np.maximum(np.linalg.eigvalsh(slope @ inner @ slope.T), 0.0)
    square = float(np.square(deviations).sum())
    scale = sqrt(min(shape) - 1)
    value = sqrt(max(square - float(variances.sum()), 0.0)) / scale
    low, high = _length_interval(square, variances, alpha)
    return Estimate(min(value, 1.0), min(low / scale, 1.0), min(high / scale, 1.0))


def _product_of(distribution: Reals, shape: tuple[int, int]) -> Reals:
    """Return the shares with the same margins and missing share under independence."""
    rows, columns = _margins(distribution, shape)
    return np.append(np.outer(rows, columns).ravel(), distribution[-1])


def _margins(distribution: Reals, shape: tuple[int, int]) -> tuple[Reals, Reals]:
    """Return rows' shares and columns' shares, the latter of sum 1."""
    table = distribution[:-1].reshape(shape)
    total = float(table.sum())
    columns = table.sum(axis=0) / total if total > 0 else np.full(shape[1], 1 / shape[1])
    return table.sum(axis=1), columns


def _leading(table: Reals) -> tuple[Reals, Reals]:
    """Return the vectors of the nearest product, all shares weighed alike."""
    left, sizes, right = np.linalg.svd(table)
    return left[:, 0] * sizes[0], right[0]


def _nearest_product(
    table: Reals, weights: Reals, rows: Reals, columns: Reals
) -> tuple[float, Reals]:
    """Minimize the weighted square of table - rows x columns, one vector after the other.

    Returns:
        The least square, and the product.
    """
    best, flat = np.inf, weights.reshape(table.size, table.size)
    for _ in range(_STEPS):
        rows = _best_factor(table, weights, columns)
        columns = _best_factor(table.T, weights.transpose(1, 0, 3, 2), rows)
        off = (table - np.outer(rows, columns)).ravel()
        square = float(off @ flat @ off)
        if not square < best * (1 - _ENOUGH):
            break
        best = square
    return min(best, square), np.outer(rows, columns)


def _best_factor(table: Reals, weights: Reals, other: Reals) -> Reals:
    """Return the best row factors for given column factors: a linear fit."""
    half = np.einsum("j,ijkl->ikl", other, weights)
    normal = half @ other
    target = np.einsum("ikl,kl->i", half, table)
    return np.asarray(np.linalg.lstsq(normal, target, rcond=None)[0])


def _margins_stand(shares: Reals, shape: tuple[int, int], covariance: Reals) -> bool:
    """Return whether every row and every column is above zero by some standard errors."""
    table, inner = shares[:-1].reshape(shape), covariance.reshape(*shape, *shape)
    margins = (
        (table.sum(axis=1), np.einsum("ijil->i", inner)),
        (table.sum(axis=0), np.einsum("ijkj->j", inner)),
    )
    return all(
        bool((sums > _FROM_ZERO * np.sqrt(np.maximum(variances, 0.0))).all())
        for sums, variances in margins
    )


def _deviations(table: Reals) -> tuple[Reals, Reals]:
    """Compute D, and its derivative by the shares.

    Returns:
        D, shape (rows * columns,), and the derivative, shape (rows * columns, rows * columns).
    """
    count, total = table.size, float(table.sum())
    part = table / total
    rows, columns = part.sum(axis=1), part.sum(axis=0)
    root = np.sqrt(np.outer(rows, columns))
    change = (np.eye(count) - part.reshape(-1, 1)) / total  # of the parts, by each share
    change = change.reshape(*table.shape, count)
    of_rows = change.sum(axis=1) / rows[:, None]
    of_columns = change.sum(axis=0) / columns[:, None]
    relative = (of_rows[:, None, :] + of_columns[None, :, :]) / 2
    slope = change / root[:, :, None] - (part / root + root)[:, :, None] * relative
    return (part / root - root).ravel(), slope.reshape(count, count)


def _length_interval(square: float, variances: Reals, alpha: float) -> tuple[float, float]:
    """Return the lengths of D for which a square as seen is no rare event on either side.

    Args:
        square: of the estimate's length.
        variances: of the estimate, along its principal directions, the greatest last.
        alpha: chance of a miss, half on each side.
    """
    if variances[-1] <= 0:
        return sqrt(square), sqrt(square)
    spread = sqrt(float(variances.sum()))
    most = sqrt(square) + 10 * spread
    usual = max(square, float(variances.sum()))  # a square below its mean at 0 is no evidence
    return (
        _length_at(square, 1 - alpha / 2, variances, most),
        _length_at(usual, alpha / 2, variances, most),
    )


def _length_at(square: float, chance: float, variances: Reals, most: float) -> float:
    """Return the length of D for which a smaller square has this chance, or 0."""
    low, high = 0.0, most
    if _smaller(square, low, variances) < chance:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = _smaller(square, middle, variances) >= chance
        low, high = (middle, high) if above else (low, middle)
    return (low + high) / 2


def _smaller(square: float, length: float, variances: Reals) -> float:
    """Approximate P[|D + noise|^2 <= square] for a D of this length.

    The direction of D, that of the greatest variance, is integrated; the square of the others' sum
    is taken as a scaled chi-square with its mean and variance (Satterthwaite).
    """
    from askance_aggregator.special_functions import gammainc, ndtr

    deviation, rest = sqrt(float(variances[-1])), variances[:-1]
    mean, second = float(rest.sum()), float(np.square(rest).sum())
    if second <= mean * mean * 1e-12 or mean <= float(variances[-1]) * 1e-9:
        root = sqrt(square)
        return float(ndtr((root - length) / deviation) - ndtr((-root - length) / deviation))
    left = np.maximum(square - np.square(length + deviation * _NORMAL), 0.0)
    inside = gammainc(mean * mean / (2 * second), left * mean / (2 * second))
    density = np.exp(-np.square(_NORMAL) / 2)
    return float((inside * density).sum() / density.sum())
