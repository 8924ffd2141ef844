"""Lower bound on the users of any randomizers, for comparison with a plan.

Le Cam's method. Take two populations, both within the question's promise, whose values are 2 tau
apart. An estimator that is within less than tau in both, with probability 1 - beta each,
distinguishes them with errors that sum to at most 2 beta. What one user's report can contribute to
that is limited by eps.

**Two records.** If both populations consist of two records only, every eps-local report is a
function of Warner's randomized response and further coins (Kairouz, Oh and Viswanath 2017), so n
reports reveal no more than n coins of bias pi_0 or pi_1. With their Bhattacharyya coefficient B,
1 - 2 beta <= total variation <= sqrt(1 - B^(2n)), so

    n >= ln(1 / (4 beta (1 - beta))) / (2 ln(1/B)).

**Total variation t.** In general the reports' distributions are (1-t) C + t A_i with C, A_0, A_1
mixtures of rows, within e = e^eps of each other. At a report with u = min(A_0, A_1) and
|A_0 - A_1| = x u, both are at least u ((1-t)(1+x)/e + t), and (M_0 - M_1) ln(M_0/M_1) is at most
(M_0 - M_1)^2 over the lesser: t^2 x^2 u / ((1-t)(1+x)/e + t). With sum of (2 + x) u = 2 that is
greatest, in sum, at x = e - 1 everywhere, so the two divergences KL sum to at most
2 t^2 (e-1)^2 / (e+1). By Bretagnolle and Huber, 2 beta >= exp(-n D)/2 for D their mean: for users
whose randomizers are fixed before the question is answered,

    n >= ln(1 / (4 beta)) / D,      D = t^2 (e-1)^2 / (e+1).
"""

from __future__ import annotations

from math import ceil, exp, log, log1p, sqrt

from askance_aggregator.learners import Question, SampleMean
from askance_client.queries import QueryKind

_LARGE_NATS = 50.0  # past it e^eps is as good as infinite


def least_users(question: Question, tau: float, nats: float, beta: float) -> int:
    """Fewer users than this answer no value within tau, whatever the randomizers.

    Args:
        question: its kind and its promise.
        tau: the tolerance, in real units.
        nats: epsilon, each user's budget for the question.
        beta: the probability of failure allowed, for one value.

    Returns:
        At least 0; 0 where a constant would do (no two values are 2 tau apart). 0 of the mean of a
        sample too: users at hand with different means need not be as hard to distinguish as two
        populations are, so nothing is claimed.
    """
    if beta >= 0.25 or isinstance(question.aim, SampleMean):
        return 0
    mass = 1.0 if question.cell_mass is None else float(question.cell_mass)
    nats = min(nats, _LARGE_NATS)
    if question.query.kind is QueryKind.SIGNED:
        return _signed_users(tau, mass, nats, beta)
    if question.query.kind in (QueryKind.REAL, QueryKind.VECTOR):
        tau, mass = tau / float(question.spread), 1.0
    if 2 * tau > mass:
        return 0
    high = min(mass, 0.5 + tau)
    return _two_record_users(high, 2 * tau, nats, beta)


def _signed_users(tau: float, mass: float, nats: float, beta: float) -> int:
    """The best of: all users in the pair, one cell of it or none, and both cells or none."""
    if tau > mass:
        return 0
    # The pair's masses are (mass +- tau)/2 in one population and exchanged in the other.
    gain = exp(nats) - 1
    users = ceil(log(1 / (4 * beta)) / (tau * tau * gain * gain / (gain + 2)))
    if mass >= 1:
        users = max(users, _two_record_users((1 + tau) / 2, tau, nats, beta))
    if 2 * tau <= mass:
        high = min(mass, 0.5 + tau)
        users = max(users, _two_record_users(high, 2 * tau, nats, beta))
    return users


def _two_record_users(share: float, gap: float, nats: float, beta: float) -> int:
    """For two populations of which one has this share of a record, the other `gap` less of it."""
    # 1 - B is half the squared Hellinger distance:
    # (sqrt(a) - sqrt(b))^2 = (a - b)^2 / (sqrt(a) + sqrt(b))^2, which does not cancel however small
    # the gap.
    lie = 1 / (exp(nats) + 1)
    one, two = (lie + part * (1 - 2 * lie) for part in (max(share - gap, 0.0), share))
    between = (gap * (1 - 2 * lie)) ** 2
    yes, no = sqrt(one) + sqrt(two), sqrt(1 - one) + sqrt(1 - two)
    apart = between * (1 / yes**2 + 1 / no**2) / 2
    if apart >= 1:
        return 1
    return ceil(log(1 / (4 * beta * (1 - beta))) / (-2 * log1p(-apart)))
