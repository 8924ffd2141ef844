"""Choice of the randomizer for a histogram, and of candidates for shares and signed values."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import exp, log

from askance_aggregator.families.channel import randomized_response
from askance_aggregator.families.family import family_of
from askance_aggregator.families.hadamard_sign import hadamard_sign
from askance_aggregator.families.k_ary import k_ary_response
from askance_aggregator.families.linear_hashing import linear_hashing
from askance_aggregator.families.signed_subset_selection import signed_subset_selection
from askance_aggregator.families.subset_selection import fitting_set, subset_selection
from askance_aggregator.numbers import plain_arguments
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.randomizers import KaryResponse, LinearHashing, Randomizer, SubsetSelection

SET_CELLS = 400  # up to here a set's bitmap has 50 bytes and its coins are few, whatever eps
SET_MEMBERS = 64  # beyond: a set of no more, and only for a gain that is worth its bytes
SET_GAIN = Fraction(103, 100)
_CHANCE = 0.01
_GREATEST = 40.0  # nats: beyond it e^eps is as good as infinite
SIGNED_SET_VALUES = 1024  # a signed set takes up to a coin a value


@plain_arguments
@lru_cache(maxsize=256)
def best_for(levels: int, nano: int) -> Randomizer:
    """The randomizer with the least variance for the shares of `levels` cells, at a fair price.

    Two levels get randomized response. More get k-ary response or subset selection, whichever has
    the lesser conditional variance averaged over cells; a tie goes to k-ary response, whose reports
    are smaller. A set of one cell is a k-ary response but for the rounding of its integers.

    A set of k cells takes up to k / 8 bytes and about k / (e^eps + 1) coins. Beyond 400 cells
    linear hashing stands in its place, with two coins and at most six bytes, for up to 3 % more
    variance; where k is small for e^eps it has more than that, and a set of at most 64 members is
    kept.

    Utility: n x variance over subset selection's at its best size is 1 up to 400 cells and at most
        1.033 from 401 to 2^20 (the worst: 401 cells at eps 1.04, between the moduli 3 and 5).

    Args:
        levels: 2..2^20.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: levels or nano is out of range, or 64-bit coins cannot express nano.

    Example:
        >>> ask.best_for(16, 10**9).parameters
        (16, 4, 8768971294881393529)
    """
    if levels == 2:
        return randomized_response(nano)
    response = k_ary_response(levels, nano)
    subset = subset_selection(levels, nano)
    if levels > SET_CELLS:
        return _best_of_many(response, subset, linear_hashing(levels, nano))
    if subset.size == 1 or _variance(response) <= _variance(subset):
        return response
    return subset


def _best_of_many(
    response: KaryResponse, subset: SubsetSelection, hashed: LinearHashing
) -> Randomizer:
    # An epsilon below cells^2 / 2^64 may be too small for k-ary response to tell anything.
    small = min(response, hashed, key=_variance) if response.own > response.other else hashed
    worth = _variance(subset) * SET_GAIN < _variance(small)
    return subset if worth and 1 < subset.size <= SET_MEMBERS else small


@lru_cache(maxsize=256)
def shares_for(levels: int, nano: int) -> tuple[Randomizer, ...]:
    """The randomizers that may keep all shares of a category together, beside `best_for`.

    Args:
        levels: 2..2^20.
        nano: > 0, nano-nats.

    Returns:
        None or one, of at most 64 members.
    """
    # `best_for` has the least variance averaged over cells, most of which have a small share.
    # Whether any share is off is decided by the worst shares, a half of all users at each of two
    # cells, say, and a set of more cells says more of a large share. Here is that with the least of
    # the worst errors of j equal shares, j = 1, 2, 4 and so on, and of no share, by the normal law;
    # the planner compares what it needs.
    if levels <= 2:
        return ()
    ratio = exp(min(nano / NANO_NATS_PER_NAT, _GREATEST))
    sizes = range(1, min(SET_MEMBERS, levels // 2) + 1)
    size = min(sizes, key=lambda size: _worst_error(levels, size, ratio))
    return (k_ary_response(levels, nano) if size == 1 else fitting_set(levels, size, nano),)


def _worst_error(cells: int, size: int, ratio: float) -> float:
    """Return the worst n x squared error of a share, at a chance of an error of about 1 %."""
    own = size * ratio / (size * ratio + cells - size)
    other = (own * (size - 1) + (1 - own) * size) / (cells - 1)
    equal = [(1 / j, j) for j in (1 << place for place in range(cells.bit_length()))]
    errors = []
    for share, count in ((0.0, cells), *equal):
        s = other + share * (own - other)
        errors.append(s * (1 - s) * log(count / _CHANCE) / (own - other) ** 2)
    return max(errors)


def signed_for(values: int, nano: int) -> tuple[Randomizer, ...]:
    """The randomizers made for disjoint signed values, beside `best_for` of their cells.

    Args:
        values: 1..32767.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: values or nano is out of range, or 64-bit coins cannot express nano.
    """
    # The best one depends on eps, on how many values there are and on how many users are at none:
    # the planner compares what they need.
    sign = hadamard_sign(values, nano)
    return (sign, signed_subset_selection(values, nano)) if values <= SIGNED_SET_VALUES else (sign,)


def _variance(randomizer: Randomizer) -> Fraction:
    return family_of(randomizer).frequency_variance()
