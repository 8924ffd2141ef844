"""Waves: numbers of users at which a round is examined, and the error that each look may spend.

A round in W waves asks its users in W parts, cut at prefixes that are fixed before any user is
asked. After each part but the last the answer is looked at, with an interval of that look's own
share of the error; if it is exact enough, the rest is not asked. The last look is the planned size,
for its share. By the union bound over looks the stated error is kept, whatever the data and however
the looks depend on each other.

**Prefixes** are halves: n, n/2, n/4, ..., upward. **Shares**: three quarters for the last look, for
it sizes the round, and the rest evenly for those before. That is what a round that does not end
early loses by its looks: 1.08 times the users at beta = .01 a value, 1.04 at .0005; with equal
shares in four waves it would be 1.37 and 1.21, and a round that does end early would not end much
earlier. A confidence sequence holds at every n, more than is needed: at beta = .01, Robbins'
normal mixture at its best for n is 4.1, 3.8, 3.6 and 3.6 deviations wide at the four looks, these
shares 3.3, 3.3, 3.3 and 2.7.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from askance_aggregator.planning.tails import Tail

_LAST = Fraction(3, 4)


def shares(waves: int) -> tuple[Fraction, ...]:
    """Split the error over the looks; the shares sum to 1."""
    if waves == 1:
        return (Fraction(1),)
    return (*[(1 - _LAST) / (waves - 1)] * (waves - 1), _LAST)


def prefixes(users: int, waves: int) -> tuple[int, ...]:
    """Compute how many of a group's users have been asked by the end of each wave.

    Of at least 2^waves users every wave asks one.
    """
    return tuple(-(-users // (1 << (waves - 1 - wave))) for wave in range(waves))


def can_end_early(tail: Tail, tau: float, users: int, waves: int, beta: float) -> bool:
    """Return whether some population would probably be done at the last look but one."""
    # By the normal law, for the population with the least variance. Where the randomizer's variance
    # is most of it (eps below 3 or so), no look ends anything, and none is worth a share of beta.
    # It is a question of users only: the error is kept either way.
    from askance_aggregator.special_functions import ndtri

    half = prefixes(users, waves)[-2]
    deviations = -float(ndtri(beta * float(shares(waves)[-2]) / 2))
    return deviations * sqrt(tail.least_variance() / half) < tau
